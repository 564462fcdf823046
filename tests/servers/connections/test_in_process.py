"""The core server in the same process is a server like any other: its calls, its failures, its health."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.messages import AIMessage

from tests.fixtures.scripted_model import ScriptedModel
from tests.servers.connections.peers import BOUND_S, QUICK, call, connection, plane_of, until
from toolweave.config.mcp import McpServerConfig, load_mcp_config, served_mcp_config
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError
from toolweave.graphs import AgentLoop
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane
from toolweave.servers.connections.redaction import Redaction

HERE = Path(__file__)
URL = "postgresql+psycopg://reader:a-password-of-17@db.example.org/app"


def core(**settings: Any) -> McpServerConfig:
    here = Settings(file_roots=(str(HERE.parent),), **settings)
    return McpServerConfig(name="core", transport="in_process", builtin="core", settings=here, timeout_s=BOUND_S)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane() -> AsyncIterator[ToolPlane]:
    async with plane_of(core()) as opened:
        yield opened


async def test_its_tools_can_be_called_from_any_event_loop(plane: ToolPlane) -> None:
    assert len(await plane.tools()) == 5
    read = await call(plane, "read_file", server="core", path=str(HERE))
    assert read.structuredContent is not None
    assert read.structuredContent["data"]["content"].startswith('"""The core server')
    elsewhere = await asyncio.to_thread(asyncio.run, call(plane, "read_file", server="core", path=str(HERE)))
    assert (elsewhere.structuredContent or {})["data"] == read.structuredContent["data"]
    refused = await call(plane, "read_file", server="core", path="/etc/passwd")
    assert refused.isError
    assert "root:" not in str(refused)
    [summary] = plane.summaries()
    assert (summary["transport"], summary["state"]) == ("in_process", "ready")
    details = plane.details("core")
    assert details is not None
    assert details["target"] == "core, in this process"


async def test_a_lost_session_is_opened_again_and_the_next_call_succeeds(plane: ToolPlane) -> None:
    connection(plane, "core")._monitor.mark_lost("the server inside has failed")
    await until(plane, "down", name="core")
    assert plane.health()["core"]["last_error"] == "the server inside has failed"
    await until(plane, "ready", name="core")
    assert not (await call(plane, "read_file", server="core", path=str(HERE))).isError
    assert (await plane.reconnect("core"))["state"] == "ready"


async def test_a_server_that_cannot_be_opened_is_down_with_the_reason() -> None:
    wrong = core(file_ignore=("a\\",))
    async with open_tool_plane([wrong], timing=QUICK) as plane:
        await until(plane, "down", name="core")
        health = plane.health()["core"]
        assert health["state"] == "down"
        assert "TOOLWEAVE_FILE_IGNORE" in (health["last_error"] or "")


async def test_a_call_cancelled_at_any_moment_leaves_the_session_usable(plane: ToolPlane) -> None:
    session, outcomes = connection(plane, "core")._session, set()
    for turns in range(160):
        # It is refused at once: nothing but the turns of the event loop decides how far it gets.
        calling = asyncio.create_task(
            call(plane, "check_job_status", server="core", endpoint="http://a.example.org", job_id="1")
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        outcomes.add("answered" if calling.done() else "left")
        calling.cancel()
        await asyncio.wait({calling})
    assert outcomes == {"answered", "left"}
    assert not (await call(plane, "read_file", server="core", path=str(HERE))).isError
    assert connection(plane, "core")._session is session


async def test_an_agent_loop_uses_it() -> None:
    arguments = {"path": str(HERE), "max_lines": 1}
    first = AIMessage("", tool_calls=[{"name": "core_read_file", "args": arguments, "id": "1"}])
    model = ScriptedModel(turns=[first, AIMessage("done")])
    assert await AgentLoop([core()], model).run("Read the file.") == "done"


def written(folder: Path, entry: dict[str, Any]) -> Path:
    path = folder / "mcp.jsonc"
    path.write_text(json.dumps({"mcpServers": {"core": entry}}), encoding="utf-8")
    return path


def test_an_entry_of_the_configuration_gets_the_settings_of_the_process(tmp_path: Path) -> None:
    path = written(tmp_path, {"builtin": "core", "timeout_s": 7, "prefix": ""})
    settings = Settings(mcp_config=path, data_dir=tmp_path, query_database_url=URL)
    [served] = served_mcp_config(settings, {}).servers
    assert (served.transport, served.builtin, served.settings, served.timeout_s) == ("in_process", "core", settings, 7)
    [embedded] = load_mcp_config(path, {"TOOLWEAVE_QUERY_DATABASE_URL": URL}).servers
    assert embedded.settings is not None
    assert embedded.settings.query_database_url == URL
    assert "a-password-of-17" not in repr(embedded)
    assert "a-password-of-17" not in Redaction(embedded).sanitize(f"cannot connect to {URL}")


def test_with_invalid_settings_it_is_misconfigured(tmp_path: Path) -> None:
    [server] = load_mcp_config(written(tmp_path, {"builtin": "core"}), {"TOOLWEAVE_PORT": "many"}).servers
    assert "TOOLWEAVE_PORT" in (server.misconfigured or "")


@pytest.mark.parametrize(
    ("further", "message"),
    [
        ({"command": "python"}, "command does not go with builtin"),
        ({"url": "http://127.0.0.1:1/mcp"}, "url does not go with builtin"),
        ({"env": {"A": "b"}}, "env does not go with builtin"),
        ({"headers": {"A": "b"}}, "headers does not go with builtin"),
        ({"type": "http"}, "type does not go with builtin"),
        ({"builtin": "todo"}, "builtin must be 'core'"),
    ],
)
def test_keys_for_another_process_are_refused(further: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_mcp_config(written(tmp_path, {"builtin": "core", **further}), {})
    assert message in str(refused.value)
