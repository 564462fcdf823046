"""The agent's way over the served API: a person approves its tools, and it outlives its server (A-04, S-05, S-07)."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from tests.fixtures.app_server import OURS, AppProcess
from tests.fixtures.openai_wire import WireServer, WireTurn
from tests.graphs.script_agent import BEES, DONE, FETCHING, WRITES, asks

BOUND_S = 60.0
READS = asks(("web_read", {"url": BEES}))


# The graph's own tests hold the same for a graph that is embedded; this starts a server twice.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("job")


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


@pytest.fixture(scope="module")
def process(wire: WireServer, folder: Path) -> Iterator[AppProcess]:
    (folder / "served.jsonc").write_text('{"mcpServers": {}}', encoding="utf-8")
    web = {"command": sys.executable, "args": [FETCHING, "--record", str(folder / "calls")], "approve": ["read"]}
    (folder / "mcp.jsonc").write_text(json.dumps({"mcpServers": {"web": web}}), encoding="utf-8")
    env = {
        "OPENAI_BASE_URL": wire.base_url,
        "TOOLWEAVE_MODEL": "m",
        "TOOLWEAVE_MCP_CONFIG": str(folder / "served.jsonc"),
        "MCP_CONFIG_PATH": str(folder / "mcp.jsonc"),
    }
    with AppProcess(OURS, folder / "data", env) as process:
        yield process


async def test_a_person_approves_the_agents_call_and_the_job_goes_on_in_another_run(
    process: AppProcess, wire: WireServer, folder: Path
) -> None:
    wire.turns[:] = [READS, DONE, WRITES]
    async with get_client(url=process.url, api_key=None) as client:
        thread = await client.threads.create()
        await client.runs.wait(thread["thread_id"], "script_writer", input={"url": BEES})
        asked: Any = await client.threads.get(thread["thread_id"])
        before = lines_of(folder / "calls")
        stream = client.runs.stream(
            thread["thread_id"],
            "script_writer",
            command={"resume": "approve"},
            stream_mode=["updates", "custom"],
            stream_subgraphs=True,
        )
        parts = [part async for part in stream]
        ended: Any = (await client.threads.get_state(thread["thread_id"]))["values"]

    assert asked["status"] == "interrupted"
    [[interrupt]] = asked["interrupts"].values()
    assert interrupt["value"][0]["action_request"] == {"action": "web_read", "args": {"url": BEES}}
    assert before == []
    assert lines_of(folder / "calls") == [{"tool": "read", "url": BEES}]
    assert ended["script"]["title"] == "Bees"
    inner = [name for part in parts if part.event.startswith("updates|fetch_with_agent:") for name in part.data]
    assert inner == ["approve", "tools", "call_model"]
    told = [part.data["progress"] for part in parts if part.event == "custom"]
    assert (told == sorted(told), told[-1]) == (True, 100.0)
    logged = [line["record"]["extra"] for line in lines_of(folder / "data" / "logs" / "mcp.jsonl")]
    assert [(call["server"], call["tool"], call["outcome"]) for call in logged] == [("web", "read", "ok")]


async def test_a_killed_server_calls_no_tool_again_that_has_answered(
    process: AppProcess, wire: WireServer, folder: Path
) -> None:
    before = lines_of(folder / "calls")
    fetches = asks(("web_scrape", {"url": BEES}))
    wire.turns[:] = [fetches, WireTurn(text="It is", silent_after=1)]
    wire.requests.clear()
    async with get_client(url=process.url, api_key=None) as client:
        thread_id = (await client.threads.create())["thread_id"]
        run_id = (await client.runs.create(thread_id, "script_writer", input={"url": BEES}))["run_id"]
        async with asyncio.timeout(BOUND_S):
            while "tool" not in await kinds_of_messages(client, thread_id):
                pass
    wire.turns[:] = [DONE, WRITES]
    await asyncio.to_thread(process.kill)
    await asyncio.to_thread(process.start)
    async with get_client(url=process.url, api_key=None) as client, asyncio.timeout(BOUND_S):
        values: Any = await client.runs.join(thread_id, run_id)

    assert values["script"]["title"] == "Bees"
    assert lines_of(folder / "calls") == [*before, {"tool": "scrape", "url": BEES}]


async def kinds_of_messages(client: Any, thread_id: str) -> list[str]:
    """Give the kinds of messages that the agent's loop has in its last checkpoint."""
    state = await client.threads.get_state(thread_id, subgraphs=True)
    loops = [task["state"] for task in state["tasks"] if task.get("state")]
    return [message["type"] for loop in loops for message in (loop.get("values") or {}).get("messages", ())]
