"""The PostgreSQL that tests run ends with the tests, even if they are killed."""

import os
import select
import subprocess
import sys

import pytest

BOUND_S = 60

# Starts a server, prints its process id, and waits to be killed.
STARTS_ONE = """
import signal
from tests.fixtures.postgres import postgres_server
with postgres_server() as server:
    print(server.pid, flush=True)
    signal.pause()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the end of a process that is not a child")
def test_the_server_ends_with_the_process_that_started_it_even_when_that_is_killed() -> None:
    line = (sys.executable, "-c", STARTS_ONE)
    with subprocess.Popen(line, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        server = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
    ended, _, _ = select.select([server], [], [], BOUND_S)
    os.close(server)
    assert ended, "the server outlived the process that started it"
