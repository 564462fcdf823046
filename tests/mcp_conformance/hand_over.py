"""Hand the URL that a client scenario is served at to the test, with the context of the client, and exit with its code.

The suite starts `python hand_over.py PORT URL`. The client itself is in the test's process, which has long loaded
what it needs: one of its own would take two seconds to start for each scenario.
"""

import json
import os
import socket
import sys

scenario = {"url": sys.argv[2], "context": json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))}
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as test:
    test.sendall(json.dumps(scenario).encode() + b"\n")
    sys.exit(int(test.makefile(encoding="utf-8").readline() or 1))
