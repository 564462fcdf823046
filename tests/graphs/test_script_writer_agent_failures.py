"""A fetch by an agent that brings no content fails the run, and says which servers and tools were the reason (A-04)."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.fixtures.openai_wire import WireCall, WireTurn
from tests.graphs.script_agent import BEES, DONE, Agent, absent, asks, fetching, kept_open
from toolweave.config.mcp import McpServerConfig
from toolweave.errors import FetchFailed
from toolweave.graphs.script_writer import AgentFetch


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def web() -> AsyncIterator[AgentFetch]:
    async with kept_open(fetching(), max_iterations=3) as opened:
        yield opened


def reading(page: str, tool: str = "web_read") -> WireTurn:
    return asks((tool, {"url": f"https://site.example/{page}"}))


@pytest.mark.requirement("A-04")
@pytest.mark.parametrize(
    ("turns", "told"),
    [
        ([WireTurn(text="I know that page: bees are nice.")], "The model called no tool. It said: I know that page"),
        (
            [reading("missing"), DONE],
            "No tool call succeeded. MCP servers: web is ready. Failed calls: web_read: Failed",
        ),
        ([asks(("web_readd", {"url": BEES})), DONE], "No tool call succeeded. .*There is no tool 'web_readd'"),
        ([WireTurn(calls=(WireCall("web_read", '{"url'),)), DONE], "The arguments are not a JSON object"),
        ([reading("empty"), DONE], "The tools returned nothing"),
        ([reading("short"), DONE], "contain no page text"),
        ([asks(("web_search", {"query": "bees"})), DONE], "contain no page text"),
        ([reading("bees"), WireTurn(text="It is", finish_reason="length")], "finish_reason length"),
        ([reading("bees"), WireTurn(text="It is", finish_reason="content_filter")], "finish_reason content_filter"),
        ([asks(("web_read", {"url": BEES}), finish_reason="length"), DONE], "finish_reason length"),
        ([reading("bees"), WireTurn(status=500)], "MCP servers: web is ready"),
        ([reading("paywall.html"), DONE], "for subscribers only"),
    ],
)
async def test_without_content_the_run_fails_and_says_why(
    agent: Agent, web: AgentFetch, turns: list[WireTurn], told: str
) -> None:
    job = await agent.run([], *turns, agent=web)

    assert isinstance(job.failure, FetchFailed)
    assert job.said.startswith("The page https://site.example/bees was not fetched by the agent: ")
    assert "MCP servers: web is ready." in job.said
    with pytest.raises(FetchFailed, match=told):
        raise job.failure
    assert not [update for _, update in job.updates if "write" in update]


@pytest.mark.requirement("A-04")
async def test_at_the_iteration_limit_the_run_fails_with_the_number_and_the_errors_of_the_tools(
    agent: Agent, web: AgentFetch
) -> None:
    job = await agent.run([], *[reading("missing")] * 3, agent=web)

    assert "reached its iteration limit: 3 model calls" in job.said
    assert "web_read: Failed to fetch https://site.example/missing - status code 404" in job.said
    assert len(job.requests) == 3
    assert isinstance(job.failure, FetchFailed)
    assert [call["stage"] for call in job.failure.model_usage] == ["fetch"] * 3


@pytest.mark.requirement("A-04")
@pytest.mark.parametrize(
    "servers",
    [[absent("brave")], [absent("brave"), absent("firecrawl")]],
)
async def test_when_no_server_is_there_each_is_named_with_its_error_and_no_model_is_asked(
    agent: Agent, servers: list[McpServerConfig]
) -> None:
    job = await agent.run(servers)

    assert isinstance(job.failure, FetchFailed)
    assert "No MCP server offers a tool." in job.said
    for server in servers:
        assert f"{server.name} is down (" in job.said
    assert job.requests == []


async def test_a_server_that_is_down_is_named_among_the_reasons(agent: Agent) -> None:
    job = await agent.run([absent("brave"), fetching()], reading("missing"), DONE)

    assert "MCP servers: brave is down (" in job.said
    assert "; web is ready." in job.said


async def test_a_failure_shows_neither_what_a_url_nor_what_an_error_keeps_secret(agent: Agent, web: AgentFetch) -> None:
    url = "https://site.example/missing?token=abcdef123456"
    asked = asks(("web_read", {"url": url.replace("//", "//me:pass@")}))

    job = await agent.run([], asked, DONE, url=url, agent=web)

    assert "web_read: Failed to fetch" in job.said
    assert "abcdef123456" not in job.said
    assert "pass@" not in job.said
    told = " ".join(message for _, message in job.progress)
    assert "Calling web_read for https://site.example/missing" in told
    assert "abcdef123456" not in told
