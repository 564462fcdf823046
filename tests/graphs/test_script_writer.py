"""The script writer the plain way: a page of any kind to its script, and the text of every failure (A-04)."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from tests.fixtures.openai_wire import WireServer, openai_wire
from tests.fixtures.web_pages import PAGES, Answer, WebPages, five_megabytes, truth_of, web_pages
from tests.nodes.model_at import calling, model_at
from tests.nodes.script.writing import framed, script
from toolweave.config.outbound_allow import allowed_targets
from toolweave.config.script_job import ScriptJob
from toolweave.config.script_settings import ScriptSettings
from toolweave.errors import FetchFailed, StageFailed
from toolweave.graphs.script_writer import ScriptGraph, build_script_writer
from toolweave.nodes.script.fetching.fetch_plain import PlainFetch
from toolweave.nodes.script.state import ReadJob

ARTICLES = sorted(
    path.name for path in PAGES.iterdir() if path.suffix != ".json" and path.with_suffix(".truth.json").exists()
)
HTML = {"content-type": "text/html; charset=utf-8"}
THREAD: RunnableConfig = {"configurable": {"thread_id": "one"}}
MIN_SHARE = 0.95


@pytest.fixture
def site(running_site: WebPages, wire: WireServer) -> WebPages:
    """Return the reset site and reset the model: one serves every page, the other always writes the same script."""
    running_site.forget()
    wire.requests.clear()
    wire.turns[:], wire.repeat = [calling(script())], True
    return running_site


@pytest.fixture(scope="module")
def plain_fetch() -> PlainFetch:
    return PlainFetch(allowed_targets("127.0.0.1"), trust=httpx.create_ssl_context())


@pytest.fixture(scope="module")
def model(wire: WireServer) -> BaseChatModel:
    return model_at(wire)


@pytest.fixture
def writer(model: BaseChatModel, plain_fetch: PlainFetch) -> ScriptGraph:
    return writer_of(model, plain_fetch)


def writer_of(model: BaseChatModel, fetch: PlainFetch, read_job: ReadJob = ScriptJob) -> ScriptGraph:
    return build_script_writer(model=model, fetch=fetch, read_job=read_job, checkpointer=InMemorySaver())


@dataclass(frozen=True)
class Job:
    """What came of a page, and the article as the model was shown it."""

    answer: dict[str, Any]
    article: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def jobs(plain_fetch: PlainFetch) -> AsyncIterator[dict[str, Job]]:
    """Write the scripts of all pages, four at once."""
    few = asyncio.Semaphore(4)
    with web_pages() as site, openai_wire([calling(script())], repeat=True) as wire:
        graph = writer_of(model_at(wire), plain_fetch)

        async def written(name: str) -> Any:
            async with few:
                config: RunnableConfig = {"configurable": {"thread_id": name}}
                return await graph.ainvoke({"url": site.page(name)}, config)

        answers = await asyncio.gather(*map(written, ARTICLES))
        shown = [framed(request.messages[1]["content"]) for request in wire.requests]
    articles = {text.partition("\n")[0].removeprefix("# "): text for text in shown}
    assert len(articles) == len(shown) == len(ARTICLES) >= 12
    yield {name: Job(answer, articles[truth_of(name)["title"]]) for name, answer in zip(ARTICLES, answers, strict=True)}


@pytest.mark.requirement("A-04")
@pytest.mark.parametrize("name", ARTICLES)
async def test_the_model_gets_the_article_of_a_page_of_any_kind(jobs: dict[str, Job], name: str) -> None:
    job, truth = jobs[name], truth_of(name)
    shown = plain(job.article)

    missing = [text for text in truth["article"] if plain(text) not in shown]
    assert len(missing) <= (1 - MIN_SHARE) * len(truth["article"]), missing
    assert [text for text in truth["navigation"] if plain(text) in shown] == []
    assert [image for image in truth["images"] if f"![{image['alt']}]({image['caption']})" not in job.article] == []
    assert (job.answer["source"]["title"], job.answer["source"]["language"]) == (truth["title"], truth["language"])
    assert job.answer["script"]["title"] == script()["title"]
    assert job.answer["metadata"]["usage"]["calls"] == {"write": 1}
    assert job.answer.keys() == {"script", "source", "metadata"}


def plain(text: str) -> str:
    return " ".join(re.sub(r"[*`]|^#+ ", "", text.replace("|", " "), flags=re.MULTILINE).split())


@pytest.mark.requirement("A-04")
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/pages/shell.html", "if scripts load its text, which are not run here, let an agent fetch it"),
        ("/pages/paywall.html", "for subscribers only (isAccessibleForFree is false). Use the URL"),
        ("/pages/teaser.html", "shows only the beginning of an article that is for subscribers. Use the URL"),
        ("/nothing", "or almost no text. Use the URL of the article itself"),
        ("/manual", "is application/pdf, not a page of text. Use the URL"),
        ("/huge", "larger than 10485760 bytes. Check the URL"),
        ("/loop", "redirects more than 5 times. Check the URL"),
        ("/private/x", "does not allow programs to fetch it. Use another URL, or ask the site's owner."),
        ("/inside", "are refused"),
        ("/broken", "broke off: "),
        ("/status/503", "503 Service Unavailable. Check the URL, try again later"),
    ],
)
async def test_a_page_without_an_article_ends_the_run_with_advice(
    site: WebPages, writer: ScriptGraph, wire: WireServer, path: str, text: str
) -> None:
    site.robots = "User-agent: *\nDisallow: /private/"
    site.answers["/nothing"] = Answer(b"", HTML)
    site.answers["/manual"] = Answer(b"%PDF-1.7 ...", {"content-type": "application/pdf"})
    site.answers["/inside"] = Answer(headers={"location": "http://10.0.0.1/admin"}, status=302)

    with pytest.raises(FetchFailed) as raised:
        await writer.ainvoke({"url": f"{site.url}{path}"}, THREAD)

    assert f"The page {site.url}{path}" in str(raised.value)
    assert text in str(raised.value)
    await nothing_was_written(writer, wire)


async def nothing_was_written(graph: ScriptGraph, wire: WireServer) -> None:
    state = (await graph.aget_state(THREAD)).values
    assert {state.get(name) for name in ("page", "source", "draft", "script")} == {None}
    assert wire.requests == []


async def test_a_page_that_never_comes_ends_the_run(site: WebPages, wire: WireServer, model: BaseChatModel) -> None:
    graph = writer_of(model, PlainFetch(allowed_targets("127.0.0.1"), seconds=0.5))

    with pytest.raises(FetchFailed, match=r"/slow was not fetched within 0\.5 s\. Check the URL"):
        await graph.ainvoke({"url": f"{site.url}/slow"}, THREAD)

    await nothing_was_written(graph, wire)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "url is required"),
        ({"url": None}, "url is required"),
        ({"url": ""}, "url must have 1 or more characters"),
        ({"url": 5}, "url must be a string"),
        ({"url": "site.example/x"}, "url must be the URL of a page, such as https://example.org/"),
        ({"url": "http://site.example/a b"}, "url must be the URL of a page, such as https://example.org/"),
        ({"url": "http://someone:hunter2@site.example/x"}, "url must not contain credentials"),
        ({"url": "file:///etc/passwd"}, "url must be the URL of a page, such as https://example.org/"),
        ({"url": "http://site.example/" + "a" * 9_000}, "url must have 8192 or fewer characters"),
        ({"url": "http://site.example/", "language": "x" * 200}, "language must have 100 or fewer characters"),
        ({"url": 1, "language": 2}, "url must be a string; language must be a string"),
    ],
)
async def test_invalid_input_is_refused_before_any_file_or_page_is_read(
    model: BaseChatModel, given: Any, text: str
) -> None:
    def never() -> ScriptJob:
        raise AssertionError("the job's files are not read")

    graph = build_script_writer(model=model, read_job=never)
    job: Any = {"language": None, **given}

    with pytest.raises(StageFailed) as raised:
        await graph.ainvoke(job)

    assert str(raised.value).startswith("The script cannot be started: ")
    assert text in str(raised.value)
    assert "hunter2" not in str(raised.value)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://169.254.169.254/latest/meta-data?token=hunter2", "are refused"),
        ("http://127.0.0.1:1/?password=hunter2", "TOOLWEAVE_OUTBOUND_ALLOW"),
    ],
)
async def test_an_address_that_the_policy_refuses_gets_no_request_and_its_secret_is_not_shown(
    wire: WireServer, model: BaseChatModel, url: str, text: str
) -> None:
    wire.requests.clear()
    graph = build_script_writer(model=model, read_job=ScriptJob)
    events: list[Any] = []

    async def followed() -> None:
        async for event in graph.astream({"url": url}, stream_mode="custom"):
            events.append(event)  # noqa: PERF401 - those before the failure count

    with pytest.raises(FetchFailed) as raised:
        await followed()

    assert events
    assert text in str(raised.value)
    assert "hunter2" not in f"{raised.value} {events}"
    assert wire.requests == []


async def test_a_threads_next_run_has_nothing_of_the_last_one(
    site: WebPages, writer: ScriptGraph, wire: WireServer
) -> None:
    site.answers["/gone"] = Answer(status=404)
    await writer.ainvoke({"url": site.page("letter.txt"), "language": "Portuguese"}, THREAD)
    with pytest.raises(FetchFailed):
        await writer.ainvoke({"url": f"{site.url}/gone"}, THREAD)
    failed = (await writer.aget_state(THREAD)).values
    answer = await writer.ainvoke({"url": site.page("notes.md")}, THREAD)

    assert {failed.get(name) for name in ("page", "source", "draft", "notes", "script")} == {None}
    assert failed["metadata"]["usage"]["calls"] == {}
    assert answer["source"]["title"] == truth_of("notes.md")["title"]
    assert answer["metadata"]["usage"]["calls"] == {"write": 1}
    first, last = (str(request.messages) for request in wire.requests)
    assert "Portuguese" in first
    assert "Portuguese" not in last


@pytest.mark.requirement("A-04")
async def test_progress_goes_up_from_nothing_to_a_hundred_and_names_the_page(
    site: WebPages, writer: ScriptGraph
) -> None:
    stream = writer.astream({"url": site.page("letter.txt")}, THREAD, stream_mode=["custom", "updates"])
    parts = [part async for part in stream]

    events: list[Any] = [value for mode, value in parts if mode == "custom"]
    percents = [event["progress"] for event in events]
    assert [name for mode, value in parts if mode == "updates" for name in value] == [
        *("begin", "fetch_page", "write", "validate")
    ]
    assert percents == sorted(percents)
    assert (percents[0], percents[-1]) == (0, 100)
    assert {event["type"] for event in events} == {"progress"}
    shown = {event["message"].partition(" ")[0]: event for event in events}
    assert (shown["Fetching"]["progress"], shown["Fetched"]["progress"]) == (2, 40)
    assert site.page("letter.txt") in shown["Fetching"]["message"]


@pytest.mark.slow
async def test_an_article_of_five_megabytes_is_shown_to_a_model_that_can_read_it(
    site: WebPages, wire: WireServer, model: BaseChatModel, plain_fetch: PlainFetch
) -> None:
    site.answers["/long"] = Answer(five_megabytes(), HTML)
    wire.turns[:] = [calling(script(sections=8))]
    job = ScriptJob(ScriptSettings(article_tokens=2_000_000))

    answer = await writer_of(model, plain_fetch, lambda: job).ainvoke({"url": f"{site.url}/long"}, THREAD)

    assert answer["source"]["title"] == "A very long count"
    assert "Sentence 79999 of the count" in wire.requests[0].messages[1]["content"]


def test_the_drawing_is_a_line_with_two_ways_to_fetch(writer: ScriptGraph) -> None:
    edges = {(edge.source, edge.target): edge.data for edge in writer.get_graph().edges}

    assert edges == {
        ("__start__", "begin"): None,
        ("begin", "fetch_page"): "http",
        ("begin", "fetch_with_agent"): "agent",
        ("fetch_page", "write"): None,
        ("fetch_with_agent", "write"): None,
        ("write", "validate"): None,
        ("validate", "__end__"): None,
    }


def test_its_input_and_output_are_described(writer: ScriptGraph) -> None:
    input_schema, output_schema = writer.get_input_jsonschema(), writer.get_output_jsonschema()

    assert input_schema["required"] == ["url"]
    assert set(input_schema["properties"]) == {"url", "language"}
    assert input_schema["properties"]["language"]["default"] is None
    assert [name for name, field in input_schema["properties"].items() if not field.get("description")] == []
    assert set(output_schema["properties"]) == {"script", "source", "metadata"}
