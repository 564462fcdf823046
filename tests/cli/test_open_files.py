"""A server raises its limit of open files at the start; errors at the limit name it and what to do."""

import json
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.command import MCP_SERVER, write_mcp_file
from tests.fixtures.app_server import AppProcess
from tests.fixtures.forked_python import REAL_PYTHON
from toolweave.files import MAX_OPEN_FILES

GRAPH = """
import os
from typing import TypedDict
from langgraph.graph import START, StateGraph

class Opened(TypedDict, total=False):
    how: str

def open_one(state: Opened) -> Opened:
    if state["how"] == "wrapped":
        try:
            open(os.devnull)
        except OSError as error:
            raise RuntimeError("the notes cannot be read") from error
    open(os.devnull).close()
    return state

graph = StateGraph(Opened).add_node(open_one).add_edge(START, "open_one").compile()
"""
SOFT = 256

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are Linux's")


@contextmanager
def soft_limit(most: int) -> Iterator[None]:
    """Let processes that are started in the block inherit a low limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def process(tmp_path: Path) -> Iterator[AppProcess]:
    """Give a server with one graph that opens a file, beside our own routes and one MCP server."""
    (tmp_path / "graph.py").write_text(GRAPH, encoding="utf-8")
    (tmp_path / "langgraph.json").write_text(
        json.dumps({"graphs": {"opens": "./graph.py:graph"}, "http": {"app": "toolweave.api.app:app"}}),
        encoding="utf-8",
    )
    peer = {"command": sys.executable, "args": [str(MCP_SERVER)]}
    env = {"TOOLWEAVE_MODEL": "offline", **write_mcp_file(tmp_path, {"peer": peer})}
    started = AppProcess(tmp_path / "langgraph.json", tmp_path / "data", env, python=REAL_PYTHON)
    yield started
    started.close()


def wait_for_run(http: httpx.Client, how: str) -> Any:
    return http.post("/runs/wait", json={"assistant_id": "opens", "input": {"how": how}}).json()


def test_a_server_raises_its_limit_of_open_files_but_not_beyond_what_it_can_use(process: AppProcess) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with soft_limit(SOFT):
        process.start()
    most = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (most, hard)


@pytest.mark.slow
def test_out_of_files_a_run_and_an_mcp_server_name_the_limit_and_what_to_do(process: AppProcess) -> None:
    process.start()
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    # The connection is open before: later ones would not be accepted.
    with httpx.Client(base_url=process.url, timeout=40) as http:
        # And what a run imports has been imported.
        assert wait_for_run(http, "wrapped") == {"how": "wrapped"}
        assert http.post("/servers/peer/reconnect").json()["state"] == "ready"
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, hard))
        for how, kind in (("bare", "OSError"), ("wrapped", "RuntimeError")):
            failed = wait_for_run(http, how)["__error__"]
            assert failed["error"] == kind
            assert "may have 3 files and connections open at once (RLIMIT_NOFILE). Raise the limit" in failed["message"]
        lost = http.post("/servers/peer/reconnect").json()
        assert (lost["state"], "RLIMIT_NOFILE" in lost["last_error"]) == ("down", True)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (hard, hard))
        assert wait_for_run(http, "bare") == {"how": "bare"}
        assert http.post("/servers/peer/reconnect").json()["state"] == "ready"
