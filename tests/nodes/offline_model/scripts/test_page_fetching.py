"""The offline model fetches the page of a script with whatever tool takes its URL (A-04)."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from tests.graphs.script_agent import BEES, fetching, job_with
from toolweave.graphs.script_writer import build_script_writer
from toolweave.nodes.offline_model.model import OfflineChatModel
from toolweave.nodes.script.fetching.pages_from_tools import FETCH_PROMPT, FETCH_TASK

PAGE = "https://example.com/blog/bees_(insects)?a=1&b=2."
CONTENT = "# Bees\n\nBees fly far on a warm day and bring home what the flowers give."
URL: dict[str, Any] = {"url": {"type": "string", "format": "uri"}}
TEXT: dict[str, Any] = {"type": "string"}


def tool(name: str, properties: dict[str, Any], *required: str, does: str = "") -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": does, "parameters": parameters}}


SCRAPE = tool(
    "firecrawl_firecrawl_scrape",
    {
        **URL,
        "formats": {"type": "array", "items": {"type": "string", "enum": ["markdown", "html"]}},
        "onlyMainContent": {"type": "boolean"},
        "waitFor": {"type": "number"},
    },
    "url",
    does="Scrape content from a single URL with advanced options.",
)
MAP = tool("firecrawl_firecrawl_map", URL, "url", does="Map a website to discover all its URLs.")
CRAWL_STATUS = tool("firecrawl_check_crawl_status", {"id": TEXT}, "id", does="Check a crawl.")
SEARCH = tool("brave_web_search", {"query": TEXT}, "query", does="Search the web.")
FETCH = tool("fetch", {**URL, "max_length": {"type": "integer"}, "start_index": {"type": "integer"}}, "url")


def dialogue(tools: list[dict[str, Any]], *answers: tuple[str, str]) -> list[AIMessage]:
    """List the replies of the model, while its calls get these results: ("success" or "error", text)."""
    messages: list[BaseMessage] = [SystemMessage(FETCH_PROMPT), HumanMessage(FETCH_TASK.format(url=PAGE))]
    bound = OfflineChatModel().bind_tools(tools)
    replies = []
    for status, text in (*answers, ("success", "")):
        answer = bound.invoke(messages)
        replies.append(answer)
        if not answer.tool_calls:
            break
        result = ToolMessage(text, tool_call_id=str(answer.tool_calls[0]["id"]), status=status)
        messages += [answer, result]
    return replies


def calls(replies: list[AIMessage]) -> list[tuple[str, dict[str, Any]]]:
    return [(call["name"], call["args"]) for message in replies for call in message.tool_calls]


def test_the_tool_that_fetches_is_chosen_filled_and_called_once() -> None:
    replies = dialogue([SEARCH, MAP, CRAWL_STATUS, SCRAPE], ("success", CONTENT))

    assert calls(replies) == [("firecrawl_firecrawl_scrape", {"url": PAGE})]
    assert replies[-1].text == "firecrawl_firecrawl_scrape has fetched the page.\n(offline model)"


@pytest.mark.parametrize(
    ("other", "arguments"),
    [
        (tool("tavily_extract", {"urls": {"type": "array", "items": TEXT}}, "urls"), {"urls": [PAGE]}),
        (tool("crawl", {**URL, "depth": {"type": "integer", "minimum": 1}}, "url", "depth"), {"url": PAGE, "depth": 1}),
        (tool("x_get", {"address": {**TEXT, "format": "uri"}}, "address"), {"address": PAGE}),
    ],
)  # fmt: skip
def test_a_fetching_tool_is_recognised_by_its_schema(other: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert calls(dialogue([SEARCH, MAP, other], ("success", CONTENT))) == [(other["function"]["name"], arguments)]


@pytest.mark.parametrize("failed", [("error", "Error: 500"), ("success", ""), ("success", '{"error": "blocked"}')])
def test_another_tool_is_tried_when_one_failed_or_gave_nothing(failed: tuple[str, str]) -> None:
    replies = dialogue([SCRAPE, FETCH], failed, ("success", CONTENT))

    assert [name for name, _ in calls(replies)] == ["firecrawl_firecrawl_scrape", "fetch"]
    assert replies[-1].text.startswith("fetch has fetched the page.")


def test_the_answer_says_why_no_tool_fetched_the_page() -> None:
    replies = dialogue([SCRAPE, FETCH], ("error", "Error: out of credits"), ("success", ""))
    without = dialogue([SEARCH, MAP])

    assert len(calls(replies)) == 2
    assert "I could not fetch" in replies[-1].text
    assert "out of credits; fetch: it returned no content" in replies[-1].text
    assert calls(without) == []
    assert "None of my tools accepts the URL of a page" in without[-1].text


async def test_an_agent_of_the_offline_model_makes_a_script_with_a_job_s_servers() -> None:
    job = job_with(fetching("web", "search", "fetch"))

    made = await build_script_writer(model=OfflineChatModel(), read_job=lambda: job).ainvoke({"url": BEES})

    assert made["metadata"]["usage"]["calls"] == {"fetch": 2, "write": 1}
    assert made["script"]["title"] == "Bees"
    assert "They live in hollow trees." in str(made["script"]["sections"])
