"""With its MCP servers absent, killed or failing, the application stays up and claims no success (T-06)."""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.routes.conftest import chat, named, serve_ours, wait_for_health
from tests.api.routes.lifespans import MISBEHAVING
from tests.fixtures.app_server import AppProcess
from tests.fixtures.mcp_server import todo_over

FAULTY = str(Path(__file__).parents[2] / "fixtures" / "faulty_todo_server.py")
NO_DATABASE = "Unable to access todo database. Please try again later."
BOUND_S = 60.0
Json = dict[str, Any]


@contextmanager
def serving(folder: Path, servers: Json) -> Iterator[AppProcess]:
    """Serve our application with these MCP servers."""
    path = folder / "mcp.jsonc"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    env = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_MCP_CONFIG": str(path)}
    with serve_ours(folder / "data", env) as process:
        yield process


def todo(mode: Path, **entry: Any) -> Json:
    """Give the entry of a todo server that fails as a file says."""
    env = {"TOOLWEAVE_TODO_DATABASE_URL": "{env:TOOLWEAVE_TODO_DATABASE_URL}"}
    return {"command": sys.executable, "args": [FAULTY, str(mode)], "env": env, "prefix": "", **entry}


def peer(*include: str) -> Json:
    return {"command": sys.executable, "args": [MISBEHAVING], "tools": {"include": list(include)}}


def servers_of(process: AppProcess) -> Json:
    servers: Json = httpx.get(f"{process.url}/health", timeout=60).json()["servers"]
    return servers


def wait_for(process: AppProcess, wanted: Callable[[Json], bool]) -> Json:
    """Ask /health until its servers are as wanted, bounded."""
    deadline = time.monotonic() + BOUND_S
    while not wanted(servers := servers_of(process)):
        assert time.monotonic() < deadline, servers
    return servers


def answer_of(process: AppProcess, message: str = "Add a task to buy milk") -> str:
    name, data = chat(process, message=message, assistant_id="todo_agent")[-1]
    assert name == "message"
    return str(data["content"])


def critical_lines(process: AppProcess) -> list[str]:
    return [line for line in process.logs().splitlines() if " CRITICAL " in line]


@pytest.mark.requirement("T-06")
async def test_a_remote_todo_server_that_comes_later_has_its_tools_without_a_restart(tmp_path: Path) -> None:
    async with todo_over("http", tmp_path) as remote:
        await remote.terminate()
        with serving(tmp_path, {"todo": {"url": remote.url, "prefix": ""}}) as process:
            wait_for_health(process, "degraded")
            assert answer_of(process) == f"No MCP tools available. {NO_DATABASE}"
            await remote.start()
            wait_for_health(process, "ok")
            assert "Created" in answer_of(process)
    assert len(critical_lines(process)) == 1


@pytest.fixture(scope="module")
def partly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AppProcess, Path]]:
    """Our application with a server, a todo server that is not installed before a file is there, and a disabled one."""
    folder = tmp_path_factory.mktemp("partly")
    servers = {
        "other": peer("echo", "pid"),
        "todo": todo(folder / "mode"),
        "off": {"command": "never-run", "enabled": False},
    }
    with serving(folder, servers) as process:
        yield process, folder / "mode"


@pytest.mark.requirement("T-06")
def test_without_the_todo_tools_the_rest_is_up_and_chat_and_health_say_so(partly: tuple[AppProcess, Path]) -> None:
    process, _ = partly
    health = wait_for_health(process, "degraded")
    assert health["detail"] == "MCP servers not ready: todo (down)"
    assert "is not installed" in health["servers"]["todo"]["last_error"]
    assert httpx.get(f"{process.url}/health/ready", timeout=60).status_code == 200
    assert answer_of(process) == NO_DATABASE
    process.wait_for_log(" CRITICAL ")
    (line,) = critical_lines(process)
    assert NO_DATABASE in line


def test_a_todo_server_that_is_installed_later_is_connected_by_a_reconnect(partly: tuple[AppProcess, Path]) -> None:
    process, mode = partly
    mode.write_text("good", encoding="utf-8")
    answer = httpx.post(f"{process.url}/servers/todo/reconnect", timeout=BOUND_S)
    assert (answer.json()["state"], answer.json()["tools"]) == ("ready", 5)
    assert wait_for_health(process, "ok")["servers"]["off"]["state"] == "disabled"
    assert "Created" in answer_of(process)


@pytest.mark.requirement("T-06")
def test_a_killed_server_is_reported_down_and_reconnects_by_itself_while_the_others_stay(
    partly: tuple[AppProcess, Path],
) -> None:
    process, _ = partly
    before = servers_of(process)
    (child,) = children_of(process.pid, MISBEHAVING)
    os.kill(child, signal.SIGKILL)
    dead = wait_for(process, lambda servers: servers["other"]["state"] != "ready")
    assert (dead["other"]["state"], dead["other"]["tools"]) == ("down", 0)
    back = wait_for(process, lambda servers: servers["other"]["state"] == "ready")
    assert (back["other"]["tools"], back["todo"]) == (2, before["todo"])
    assert children_of(process.pid, MISBEHAVING) != [child]


CLAIM = re.compile(
    r"\b(?:created|added|updated|changed|deleted|removed|marked|completed|done|found|here (?:is|are)|you have)\b",
    re.IGNORECASE,
)
REQUESTS = (
    "Add a task to call Bob",
    "What are my active tasks?",
    "Mark buy milk as done",
    "Delete the milk task",
    "Search for milk",
)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AppProcess, Path]]:
    """Our application with a todo server that knows one todo and fails as a file says."""
    folder = tmp_path_factory.mktemp("faulty")
    mode = folder / "mode"
    mode.write_text("good", encoding="utf-8")
    entry = todo(mode, timeout_s=5, breaker={"failures": 1_000})
    with serving(folder, {"todo": entry}) as process:
        wait_for_health(process, "ok")
        assert CLAIM.search(answer_of(process))
        yield process, mode


@pytest.mark.parametrize(
    ("mode", "requests"),
    [("error", REQUESTS), ("rpc_error", REQUESTS), ("wrong_shape", REQUESTS), ("silent", REQUESTS[:3])],
)
@pytest.mark.requirement("T-06")
def test_no_message_claims_success_without_a_successful_tool_result(
    faulty: tuple[AppProcess, Path], mode: str, requests: tuple[str, ...]
) -> None:
    process, file = faulty
    file.write_text(mode, encoding="utf-8")
    for request in requests:
        events = chat(process, message=request)
        assert {result["status"] for result in named(events, "tool_result")} == {"error"}
        name, data = events[-1]
        assert (name, CLAIM.findall(data["content"])) == ("message", []), data
        assert data["content"].startswith("I could not ")


def test_a_change_that_fails_after_a_search_that_did_not_is_no_success(faulty: tuple[AppProcess, Path]) -> None:
    process, file = faulty
    file.write_text("error update_todo delete_todo", encoding="utf-8")
    for request, verb in (("Mark buy milk as done", "update"), ("Delete the milk task", "delete")):
        events = chat(process, message=request)
        assert [result["status"] for result in named(events, "tool_result")] == ["success", "error"]
        assert events[-1][1]["content"] == f"I could not {verb} the todo: the disk is full.\n(offline model)"
    file.write_text("good", encoding="utf-8")
    assert "Buy milk" in answer_of(process, "What are my active tasks?")


def test_a_call_whose_server_dies_is_no_success(faulty: tuple[AppProcess, Path]) -> None:
    process, file = faulty
    file.write_text("gone", encoding="utf-8")
    answer = answer_of(process)
    file.write_text("good", encoding="utf-8")
    assert "may or may not have been carried out" in answer
    assert CLAIM.findall(answer) == []
    wait_for_health(process, "ok")
    assert "Created" in answer_of(process)


def children_of(parent: int, containing: str) -> list[int]:
    """Return the children of a process whose command line contains a text."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
    return [int(pid) for pid in children if containing in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")]
