"""A fetch by an agent continues where it stopped: after an approval, and after a run that broke off (A-04, S-07)."""

import json
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.fixtures.openai_wire import WireTurn
from tests.graphs.gated_tools import THREAD
from tests.graphs.script_agent import BEES, DONE, WRITES, Agent, asks, fetching, job_with
from toolweave.config.script_job import ScriptJob
from toolweave.errors import ConfigError, FetchFailed
from toolweave.graphs.script_writer import build_script_writer

READS = asks(("web_read", {"url": BEES}))


def recorded(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()] if record.exists() else []


async def test_a_tool_call_waits_for_approval_and_then_the_job_continues(agent: Agent, tmp_path: Path) -> None:
    record = tmp_path / "calls"
    graph = agent.graph(fetching(record=record, approve=("read",)), checkpointer=InMemorySaver())
    agent.server.turns[:] = [READS, DONE, WRITES]

    paused = await graph.ainvoke({"url": BEES}, THREAD)
    before = recorded(record)
    answer = await graph.ainvoke(Command(resume="approve"), THREAD)

    [request] = paused["__interrupt__"][0].value
    assert request["action_request"] == {"action": "web_read", "args": {"url": BEES}}
    assert before == []
    assert recorded(record) == [{"tool": "read", "url": BEES}]
    assert answer["script"]["title"] == "Bees"


async def test_after_a_break_in_the_loop_no_tool_is_called_again(agent: Agent, tmp_path: Path) -> None:
    record = tmp_path / "calls"
    graph = agent.graph(fetching(record=record), checkpointer=InMemorySaver())
    agent.server.turns[:] = [READS, WireTurn(status=500)]
    with pytest.raises(FetchFailed):
        await graph.ainvoke({"url": BEES}, THREAD)
    agent.server.turns[:] = [DONE, WRITES]

    answer = await graph.ainvoke(None, THREAD)

    assert recorded(record) == [{"tool": "read", "url": BEES}]
    assert answer["script"]["title"] == "Bees"
    assert answer["metadata"]["usage"]["calls"] == {"fetch": 2, "write": 1}


async def test_after_a_break_behind_the_loop_the_model_gets_no_second_request(agent: Agent, tmp_path: Path) -> None:
    record = tmp_path / "calls"
    graph = agent.graph(fetching(record=record), checkpointer=InMemorySaver())
    agent.server.turns[:] = [asks(("web_read", {"url": "https://site.example/short"})), DONE]
    with pytest.raises(FetchFailed, match="contain no page text"):
        await graph.ainvoke({"url": BEES}, THREAD)
    agent.server.turns[:] = []
    agent.server.requests.clear()

    with pytest.raises(FetchFailed, match="contain no page text"):
        await graph.ainvoke(None, THREAD)

    assert agent.server.requests == []
    assert len(recorded(record)) == 1


@pytest.mark.requirement("A-05")
async def test_a_job_whose_mcp_file_is_gone_fails_and_fetches_no_other_way(agent: Agent) -> None:
    jobs = [job_with(fetching()), ScriptJob()]
    graph = build_script_writer(model=agent.model, read_job=lambda: jobs.pop(0))
    agent.server.requests.clear()

    with pytest.raises(ConfigError, match=r"MCP_CONFIG_PATH: the job started with MCP servers, but now no MCP file"):
        await graph.ainvoke({"url": BEES})

    assert agent.server.requests == []
