"""AgentLoop opening its own MCP connections (A-02, A-07): real servers as real subprocesses."""

import sys
from pathlib import Path

import pytest
from langchain_core.messages import ToolMessage

from tests.fixtures.logged import logged
from tests.fixtures.scripted_model import ScriptedModel, calling
from toolweave import AgentLoop
from toolweave.config.mcp import McpConfig, McpServerConfig
from toolweave.errors import ServerUnavailable

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
