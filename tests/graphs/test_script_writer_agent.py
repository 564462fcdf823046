"""An agent fetches the page with the tools of the job's own MCP servers (A-04, A-07)."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.messages import AIMessage, BaseMessage

from tests.fixtures.fetching_server import BEES as SENTENCE
from tests.fixtures.fetching_server import long_lines
from tests.fixtures.logged import logged
from tests.fixtures.scripted_model import ScriptedModel
from tests.fixtures.scripted_model import calling as scripted_call
from tests.fixtures.web_pages import truth_of
from tests.graphs.script_agent import BEES, DONE, Agent, absent, asks, fetching, job_with, opened_once
from tests.nodes.script.reading import articles, left_out, standing_around
from tests.nodes.script.writing import script
from toolweave.graphs.script_writer import AgentFetch, build_script_writer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def web() -> AsyncIterator[AgentFetch]:
    async with opened_once(fetching()) as opened:
        yield opened


@pytest.mark.requirement("A-04")
async def test_the_result_of_the_tool_that_an_agent_calls_becomes_the_script(agent: Agent) -> None:
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
    assert job.state["metadata"]["usage"]["calls"] == {"fetch": 2, "write": 1}


@pytest.mark.requirement("A-07")
@pytest.mark.requirement("A-04")
async def test_tools_of_all_servers_are_offered_and_called_one_after_the_other(agent: Agent) -> None:
    servers = [fetching("brave", "search"), fetching("firecrawl", "scrape", "fetch")]

    job = await agent.run(
        servers,
        asks(("brave_search", {"query": "bees site.example"})),
        asks(("firecrawl_scrape", {"url": BEES})),
        DONE,
        url="https://site.example/a-page-that-moved",
    )

    assert job.requests[0].tool_names == ["brave_search", "firecrawl_fetch", "firecrawl_scrape"]
    assert [message["role"] for message in job.requests[2].messages] == [
        *("system", "user", "assistant", "tool", "assistant", "tool")
    ]
    assert job.page["text"].count(SENTENCE) == 2
    assert "About bees" not in job.page["text"]
    assert job.page["final_url"] == BEES


@pytest.mark.requirement("A-07")
async def test_a_server_that_is_down_is_reported_and_the_others_do_the_work(agent: Agent) -> None:
    with logged() as lines:
        servers = [absent("brave"), fetching(), fetching("unwanted", enabled=False)]
        job = await agent.run(servers, asks(("web_read", {"url": BEES})), DONE)

    assert SENTENCE in job.page["text"]
    assert any("the agent works without some MCP servers: brave is down" in message for message in lines)
    assert (2.0, "Connecting to brave, web") in job.progress


async def test_the_agents_steps_are_progress_events_and_updates_of_a_subgraph(agent: Agent, web: AgentFetch) -> None:
    job = await agent.run([], asks(("web_read", {"url": f"{BEES}?a=1"})), DONE, agent=web)

    percents = [percent for percent, _ in job.progress]
    assert percents == sorted(percents)
    assert (percents[0], percents[-1]) == (0.0, 100.0)
    messages = [message for percent, message in job.progress if 2 <= percent <= 40]
    assert messages[0] == "Connecting to web"
    assert "Calling web_read for https://site.example/bees" in messages
    assert messages[-2:] == ["Fetched “Bees”", "Writing the script"]
    inner = [name for namespace, update in job.updates if namespace for name in update]
    assert inner == ["accept_input", "call_model", "tools", "call_model"]
    assert {namespace[0].partition(":")[0] for namespace, _ in job.updates if namespace} == {"fetch_with_agent"}


def test_the_loop_is_drawn_inside_the_script_writer(agent: Agent) -> None:
    drawn = agent.graph(fetching()).get_graph(xray=True)

    assert {"fetch_page", "fetch_with_agent:call_model", "fetch_with_agent:tools", "write"} <= set(drawn.nodes)


@pytest.mark.requirement("D-7")
async def test_content_that_is_too_long_for_the_model_is_whole_in_the_page(agent: Agent, web: AgentFetch) -> None:
    url = "https://site.example/long"

    job = await agent.run([], asks(("web_scrape", {"url": url})), DONE, url=url, agent=web, until="fetch_with_agent")

    lines = [line for line in job.page["text"].splitlines() if line]
    assert lines == ["# Long", *long_lines()]
    shown = job.requests[1].messages[-1]["content"]
    assert len(shown) < 41_000
    assert "The whole result is kept for the next steps" in shown
    assert job.requests[1].tool_names == job.requests[0].tool_names


async def test_a_page_that_comes_in_parts_is_put_together(agent: Agent, web: AgentFetch) -> None:
    url = "https://site.example/notes.md"
    parts = [asks(("web_fetch", {"url": url, "max_length": 150, "start_index": start})) for start in (0, 300, 150, 300)]

    job = await agent.run([], *parts, DONE, url=url, agent=web, until="fetch_with_agent")

    assert left_out(job.page, "notes.md") == []  # type: ignore[arg-type]
    assert "<error>" not in job.page["text"]
    assert "Contents of" not in job.page["text"]


@pytest.mark.requirement("A-04")
async def test_pages_of_all_kinds_keep_their_sentences_and_nothing_else(agent: Agent, web: AgentFetch) -> None:
    assert len(articles()) >= 12
    for name in articles():
        url = f"https://site.example/pages/{name}"
        job = await agent.run([], asks(("web_read", {"url": url})), DONE, url=url, agent=web, until="fetch_with_agent")
        page: Any = job.page
        missing = left_out(page, name)
        assert len(missing) <= 0.05 * len(truth_of(name)["article"]), (name, missing)
        assert standing_around(page, name) == [], name


@pytest.mark.requirement("A-05")
async def test_two_jobs_at_once_have_the_tools_of_their_own_servers_only() -> None:
    both_ask = asyncio.Event()
    offered: dict[str, list[list[str]]] = {}

    def answer(prompt: list[BaseMessage]) -> AIMessage:
        tools = model.offered[-1]
        if tools == ["write_script"]:
            return scripted_call(("write_script", script()))
        url = prompt[1].text.rpartition(" ")[2]
        offered.setdefault(url, []).append(tools)
        if len(offered) == 2:
            both_ask.set()
        return AIMessage("It is there.") if prompt[-1].type == "tool" else scripted_call((tools[0], {"url": url}))

    model = ScriptedModel(turns=[answer], gate=both_ask)
    # Each job is read twice, the last time by the node, whichever comes first; the last one popped is the first.
    jobs = [job_with(fetching(name, "read")) for name in ("west", "east", "east", "east")]
    graph = build_script_writer(model=model, read_job=jobs.pop)
    urls = [BEES, "https://site.example/news.html"]

    async with asyncio.timeout(60):
        ended = await asyncio.gather(*(graph.ainvoke({"url": url}) for url in urls))

    assert [answer["source"]["url"] for answer in ended] == urls
    assert sorted(offered[url][0] for url in urls) == [["east_read"], ["west_read"]]
    assert [offered[url][1] for url in urls] == [offered[url][0] for url in urls]
