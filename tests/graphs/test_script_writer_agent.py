"""An agent fetches the page with the tools of the job's own MCP servers (A-04, A-07)."""

import json
from collections.abc import Iterator

import pytest

from tests.fixtures.fetching_server import BEES as SENTENCE
from tests.fixtures.openai_wire import openai_wire
from tests.graphs.script_agent import BEES, DONE, Agent, asks, fetching


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    with openai_wire([]) as server:
        yield Agent(server)


async def test_an_agent_chooses_a_tool_and_what_it_returns_becomes_the_script(agent: Agent) -> None:
    job = await agent.run([fetching("firecrawl", "scrape")], asks(("firecrawl_scrape", {"url": BEES})), DONE)

    assert job.failure is None
    assert job.state["script"]["title"] == "Bees"
    assert job.page["text"].count(SENTENCE) == 2
    assert job.state["source"] == {
        "url": BEES,
        "title": "A title of metadata",
        "site": "site.example",
        "language": "en",
    }
    assert job.requests[0].tool_names == ["firecrawl_scrape"]
    assert BEES in json.dumps(job.requests[0].messages[-1])
    assert SENTENCE in job.requests[2].messages[-1]["content"]
