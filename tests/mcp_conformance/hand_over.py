"""Hand the URL that a client scenario is served at to the test, and exit as it says.

The suite starts `python hand_over.py PORT URL`. The client itself is in the test's process, which has long loaded
what it needs: one of its own would take two seconds to start for each scenario.
"""

import socket
import sys

with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as test:
    test.sendall(f"{sys.argv[2]}\n".encode())
    sys.exit(int(test.makefile(encoding="utf-8").readline() or 1))
