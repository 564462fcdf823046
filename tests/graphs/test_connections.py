"""AgentLoop opening its own MCP connections (A-02, A-07): real servers as real subprocesses."""

import asyncio
import gc
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from tests.fixtures.forked_python import REAL_PYTHON
from tests.fixtures.logged import logged
from tests.fixtures.scripted_model import ScriptedModel, calling
from toolweave import AgentLoop
from toolweave.config.mcp import McpConfig, McpServerConfig
from toolweave.errors import ServerUnavailable
from toolweave.graphs import build_agent_loop

DEAD = McpServerConfig(name="dead", transport="stdio", command="/nonexistent/program")
SILENT = McpServerConfig(
    name="silent", transport="stdio", command=sys.executable, args=("-c", "import sys; sys.stdin.read()")
)


@pytest.mark.requirement("A-02", "A-07")
async def test_tools_of_all_servers_that_answer_are_used_and_the_others_are_reported(tmp_path: Path) -> None:
    todo = McpServerConfig(
        name="todo",
        transport="stdio",
        command=sys.executable,
        args=("-m", "toolweave.servers.todo"),
        env={"TOOLWEAVE_TODO_DATABASE_URL": f"sqlite+aiosqlite:///{tmp_path / 'todo.db'}"},
        timeout_s=60,
    )
    model = ScriptedModel(turns=[calling(("todo_create_todo", {"title": "Buy milk"})), "Added."])
    with logged(filter="toolweave.graphs") as lines:
        answer = await AgentLoop({"todo": todo, "dead": DEAD, "silent": SILENT}, model).run("Add a task to buy milk")

    assert answer == "Added."
    assert "todo_create_todo" in model.offered[0]
    result = model.prompts[1][-1]
    assert isinstance(result, ToolMessage)
    assert result.status == "success"
    assert "Buy milk" in result.text
    assert len(lines) == 1
    assert "dead is down" in lines[0]
    assert "silent is connecting" in lines[0]
    assert "todo" not in lines[0]


@pytest.mark.requirement("A-07")
async def test_without_any_tool_the_run_fails_naming_servers_and_reasons() -> None:
    disabled = McpServerConfig(name="off", transport="stdio", command="/nonexistent/program", enabled=False)
    model = ScriptedModel(turns=["never"])

    with pytest.raises(ServerUnavailable, match=r"dead is down \(.*/nonexistent/program") as failure:
        await AgentLoop([DEAD, disabled], model).run("anything")

    assert failure.value.server == "dead, off"
    assert model.prompts == []


async def test_a_run_without_a_configured_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServerUnavailable, match="None is enabled"):
        await AgentLoop(McpConfig(servers=(), path=tmp_path), ScriptedModel(turns=["never"])).run("anything")


PID_SERVER = """
import os
from mcp.server.fastmcp import FastMCP

server = FastMCP("pid")

@server.tool()
def pid() -> int:
    return os.getpid()

server.run()
"""
PID_ENTRY = {"command": REAL_PYTHON, "args": ["-c", PID_SERVER], "timeout_s": 60}
MAX_WAIT_S = 60


def pid_model() -> ScriptedModel:
    return ScriptedModel(turns=[calling(("p_pid", {})), "done", calling(("p_pid", {}, "2")), "done"])


def pid_in(result: Any) -> int:
    return int(next(message.text for message in result["messages"] if isinstance(message, ToolMessage)))


@pytest.mark.requirement("U-05")
def test_a_graph_connects_once_for_all_its_runs_and_disconnects_when_it_is_deleted() -> None:
    graph: Any = build_agent_loop(tools={"p": PID_ENTRY}, model=pid_model())
    pid = pid_in(graph.invoke({"messages": [("user", "go")]}))
    process = os.pidfd_open(pid)
    try:
        assert pid_in(asyncio.run(graph.ainvoke({"messages": [("user", "go")]}))) == pid

        del graph
        # The time limits of the calls hold the graph until they have passed.
        for _ in range(MAX_WAIT_S):
            gc.collect()
            if select.select([process], [], [], 1)[0]:
                break
        else:
            pytest.fail("the server of a deleted graph still runs")
    finally:
        os.close(process)


LEAVING = """
import sys
from toolweave.graphs import build_agent_loop
from tests.graphs.test_connections import PID_ENTRY, pid_in, pid_model
graph = build_agent_loop(tools={"mcpServers": {"p": PID_ENTRY}}, model=pid_model())
print(pid_in(graph.invoke({"messages": [("user", "go")]})))
"""


@pytest.mark.requirement("U-05")
def test_a_program_that_ends_leaves_no_server_and_no_warning_behind() -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::EncodingWarning", "-c", LEAVING],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=MAX_WAIT_S,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert not Path(f"/proc/{ended.stdout.strip()}").exists()


FORKED = """
import os, warnings
from toolweave.graphs import build_agent_loop
from tests.graphs.test_connections import PID_ENTRY, pid_in, pid_model
graph = build_agent_loop(tools={"p": PID_ENTRY}, model=pid_model())
pid = pid_in(graph.invoke({"messages": [("user", "go")]}))
warnings.simplefilter("ignore", DeprecationWarning)
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
assert (pid_in(graph.invoke({"messages": [("user", "go")]})) == pid) == bool(child)
"""


@pytest.mark.requirement("U-05")
def test_a_forked_process_has_connections_of_its_own_and_leaves_its_parents() -> None:
    command = [sys.executable, "-W", "ignore::EncodingWarning", "-c", FORKED]
    ended = subprocess.run(command, stderr=subprocess.PIPE, encoding="utf-8", timeout=MAX_WAIT_S, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.requirement("U-05")
def test_a_graph_whose_servers_are_down_says_so_and_tries_again() -> None:
    graph: Any = build_agent_loop(tools=[DEAD], model=ScriptedModel(turns=["never"]))

    for _ in range(2):
        with pytest.raises(ServerUnavailable, match="dead is down"):
            graph.invoke({"messages": [("user", "go")]})
