"""The program starts or explains why not, and never outlives its parent."""

import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.forked_python import REAL_PYTHON
from tests.fixtures.mcp_server import todo_environment
from toolweave.config.settings import Settings
from toolweave.servers.todo.database import database_url

BOUND_S = 60
PROGRAM = (sys.executable, "-m", "toolweave.servers.todo")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, **todo_environment(folder)}


def message(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


def test_the_database_is_in_the_data_folder_unless_set(tmp_path: Path) -> None:
    assert database_url(Settings(data_dir=tmp_path)) == f"sqlite+aiosqlite:///{tmp_path}/todo.db"
    assert database_url(Settings(todo_database_url="sqlite:///x.db")) == "sqlite:///x.db"


@pytest.mark.requirement("T-13")
def test_a_newer_schema_ends_the_program_with_one_paragraph(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "todo.db")) as file, file:
        file.execute("CREATE TABLE todo_schema_version (version INTEGER NOT NULL)")
        file.execute("INSERT INTO todo_schema_version VALUES (99)")
    (tmp_path / "todo.db").chmod(0o600)
    ended = subprocess.run(
        PROGRAM, env=environment(tmp_path), input=b"", capture_output=True, timeout=BOUND_S, check=False
    )
    assert ended.returncode == 1
    assert ended.stdout == b""
    (line,) = ended.stderr.decode().splitlines()
    assert str(tmp_path / "todo.db") in line
    assert "schema 99" in line
    assert "Upgrade" in line


@pytest.mark.requirement("T-09")
def test_lines_that_are_no_requests_are_survived_and_the_end_of_stdin_ends_the_program(tmp_path: Path) -> None:
    server = subprocess.Popen(
        PROGRAM, env=environment(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        server.stdin.write(message(INITIALIZE) + message(INITIALIZED))
        # Half a surrogate pair is no JSON text.
        server.stdin.write(b'{"x": "\\ud800"}\nnonsense\n\xff\xfe\n\n[]\n{}\n')
        server.stdin.write(message({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))
        server.stdin.flush()
        answers = (json.loads(line) for line in server.stdout)
        assert next(answer for answer in answers if answer.get("id") == 2)["result"]["tools"]
        server.stdin.close()
        assert server.wait(BOUND_S) == 0
        assert server.stdout.read() == b""


@pytest.mark.requirement("T-09")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals the death of a parent")
def test_the_program_dies_with_its_parent_though_its_stdin_stays_open(tmp_path: Path) -> None:
    starts_it = "import signal, subprocess, sys; subprocess.Popen(sys.argv[1:]); signal.pause()"
    parent = subprocess.Popen(
        (REAL_PYTHON, "-c", starts_it, REAL_PYTHON, *PROGRAM[1:]),
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent:
        parent.stdin.write(message(INITIALIZE))
        parent.stdin.flush()
        assert json.loads(parent.stdout.readline())["id"] == 1
        parent.send_signal(signal.SIGKILL)
        parent.wait(BOUND_S)
        # Parent and server share stdout: it ends when the last of them has.
        readable, _, _ = select.select([parent.stdout], [], [], BOUND_S)
        assert readable, "the server outlived its parent"
        assert parent.stdout.read() == b""
