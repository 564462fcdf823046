"""A fetch by an agent that brings no content fails the run, and says which servers and tools were the reason (A-04)."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.fixtures.openai_wire import WireCall, WireTurn
from tests.graphs.script_agent import BEES, DONE, Agent, absent, asks, fetching, opened_once
from toolweave.errors import FetchFailed
from toolweave.graphs.script_writer import AgentFetch


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def web() -> AsyncIterator[AgentFetch]:
    async with opened_once(fetching(), max_iterations=3) as opened:
        yield opened


def reading(page: str, tool: str = "web_read") -> WireTurn:
    return asks((tool, {"url": f"https://site.example/{page}"}))


@pytest.mark.requirement("A-04")
@pytest.mark.parametrize(
    ("turns", "reason"),
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
        ([asks(("web_read", {"url": BEES}), finish_reason="length"), DONE], "finish_reason length"),
        ([reading("bees"), WireTurn(status=500)], "MCP servers: web is ready"),
        ([reading("paywall.html"), DONE], "for subscribers only"),
    ],
)
async def test_without_content_the_run_fails_and_says_why(
    agent: Agent, web: AgentFetch, turns: list[WireTurn], reason: str
) -> None:
    job = await agent.run([], *turns, agent=web)

    assert isinstance(job.failure, FetchFailed)
    assert job.error.startswith("The page https://site.example/bees was not fetched by the agent: ")
    assert "MCP servers: web is ready." in job.error
    with pytest.raises(FetchFailed, match=reason):
        raise job.failure
    assert not [update for _, update in job.updates if "write" in update]


@pytest.mark.requirement("A-04")
async def test_at_the_iteration_limit_the_run_fails_with_the_number_and_the_errors_of_the_tools(
    agent: Agent, web: AgentFetch
) -> None:
    job = await agent.run([], *[reading("missing")] * 3, agent=web)

    assert "reached its iteration limit: 3 model calls" in job.error
    assert "web_read: Failed to fetch https://site.example/missing - status code 404" in job.error
    assert len(job.requests) == 3
    assert isinstance(job.failure, FetchFailed)
    assert [call["stage"] for call in job.failure.model_usage] == ["fetch"] * 3


@pytest.mark.requirement("A-04")
async def test_when_no_server_is_there_each_is_named_with_its_error_and_the_model_gets_no_request(agent: Agent) -> None:
    job = await agent.run([absent("brave"), absent("firecrawl")])

    assert isinstance(job.failure, FetchFailed)
    assert "No MCP server offers a tool." in job.error
    for name in ("brave", "firecrawl"):
        assert f"{name} is down (" in job.error
    assert job.requests == []


async def test_a_failure_shows_no_secret_of_a_url_or_of_an_error(agent: Agent, web: AgentFetch) -> None:
    url = "https://site.example/missing?token=abcdef123456"
    turn = asks(("web_read", {"url": url.replace("//", "//me:pass@")}))

    job = await agent.run([], turn, DONE, url=url, agent=web)

    assert "web_read: Failed to fetch" in job.error
    assert "abcdef123456" not in job.error
    assert "pass@" not in job.error
    progress = " ".join(message for _, message in job.progress)
    assert "Calling web_read for https://site.example/missing" in progress
    assert "abcdef123456" not in progress
