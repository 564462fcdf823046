"""Which of an agent's tool results is the page, in which form, and without the text that tools add (A-04)."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from tests.fixtures.web_pages import PAGES
from toolweave.errors import FetchFailed
from toolweave.nodes.script.fetching.pages_from_tools import WHOLE_KEY, PageDocument, page_candidates, page_from_results

URL = "https://site.example/bees"
TEXT = "# Bees\n\nBees are small. They fly far on a warm day and bring home what the flowers give them."
OTHER = "# Wasps\n\nWasps are thin. They fly fast on a hot day and bring home what they have found on your table."
LONG = "\n".join(f"Sentence {number} of the page says that the count goes on and on." for number in range(40))

STRUCTURED = {"structured_content": {"result": {"markdown": TEXT, "title": "T"}}}
RAW = "Content type text/plain cannot be simplified to markdown, but here is the raw content:\n"
MORE = "\n\n<error>Content truncated. Call the fetch tool with a start_index of 9 to get more content.</error>"

Call = tuple[dict[str, Any], Any]


def dialogue(*calls: Call, tool: str = "web_fetch", status: Any = "success") -> list[AnyMessage]:
    """Write the dialogue of an agent that made these calls: arguments, and a message's content or whole message."""
    messages: list[AnyMessage] = [HumanMessage(f"Fetch {URL}")]
    for place, (arguments, answer) in enumerate(calls):
        name = arguments.pop("tool", tool)
        messages.append(
            AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"c{place}", "type": "tool_call"}])
        )
        more = answer if isinstance(answer, dict) else {"content": answer}
        messages.append(ToolMessage(**{"name": name, "tool_call_id": f"c{place}", "status": status, **more}))
    return [*messages, AIMessage(f"The page says: {LONG}")]


def first(*calls: Call, url: str = URL) -> PageDocument:
    return page_candidates(url, dialogue(*calls))[0]


def finds_no_page(*calls: Call) -> bool:
    return not page_candidates(URL, dialogue(*calls))


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        (TEXT, ""),
        (json.dumps({"markdown": TEXT, "metadata": {"title": "T", "sourceURL": "https://x.example/b"}}), "T"),
        (json.dumps({"data": {"markdown": TEXT, "html": "<p>no</p>", "metadata": {"title": "T"}}}), "T"),
        (json.dumps({"results": [{"url": URL, "raw_content": TEXT, "title": "T"}], "failed_results": []}), "T"),
        (json.dumps({"title": "T", "content": TEXT, "url": "javascript:alert(1)"}), "T"),
        (json.dumps(TEXT), ""),
        (json.dumps({"markdown": "", "content": TEXT, "title": 7}), ""),
        ([{"type": "text", "text": TEXT}, {"type": "image", "base64": "AAAA", "mime_type": "image/png"}], ""),
        ({"content": "Done.", "artifact": STRUCTURED}, "T"),
        (f"{RAW}Contents of {URL}:\n{TEXT}", ""),
        (f"{TEXT}{MORE}", ""),
        (f"{TEXT}\n[image, 12 bytes, too much to show]\n", ""),
        (f"[resource logo, https://x.example/l.png of type image/png, not shown]\n{TEXT}", ""),
    ],
)
def test_a_page_is_found_in_each_form_that_tools_give(answer: Any, title: str) -> None:
    found = first(({"url": URL}, answer))

    assert found.body.strip() == TEXT
    assert (found.is_html, found.title, found.url) == (False, title, URL)


def test_a_result_that_was_cut_for_the_model_is_used_whole() -> None:
    cut = f"{TEXT[:30]}\n\n[The answer was cut: 30 of its {len(TEXT)} characters are shown. The whole is kept.]"

    whole = first(({"url": URL}, {"content": cut, "artifact": {WHOLE_KEY: {"text": TEXT}}}))

    assert whole.body == TEXT


@pytest.mark.parametrize(
    "answer",
    [
        "",
        f"Contents of {URL}:\n<error>Page failed to be simplified from HTML</error>",
        json.dumps({"web": [{"url": URL, "title": "Bees", "description": TEXT * 5}]}),
        json.dumps({"links": [f"https://site.example/{number}" for number in range(100)]}),
        "[" * 100_000,
        "<!-- -->" * 500,
        '{"a": ' * 900 + "1" + "}" * 900,
        [{"type": "image", "base64": "AAAA", "mime_type": "image/png"}],
    ],
)
def test_a_result_without_text_of_a_page_is_no_page(answer: Any) -> None:
    assert finds_no_page(({"url": URL}, answer))


def test_failed_calls_and_our_own_tools_give_no_page() -> None:
    assert page_candidates(URL, dialogue(({"url": URL}, TEXT), status="error")) == []
    assert finds_no_page(({"query": "fetch"}, {"content": TEXT, "artifact": {"found_tools": ["web_fetch"]}}))


def test_calls_with_the_url_of_the_job_come_first_then_those_with_any_url() -> None:
    own, other, without = (
        ({"url": URL}, TEXT),
        ({"url": "https://site.example/wasps"}, OTHER + LONG),
        ({"q": "bees"}, LONG),
    )

    assert first(without, other, own).body == TEXT
    assert first(without, other).body == OTHER + LONG
    assert first(without).body == LONG
    assert first(without, other, ({"url": URL}, "Not found.")).body == OTHER + LONG


def test_a_search_result_does_not_replace_a_page_that_failed() -> None:
    found, refused = ({"query": "bees"}, LONG), {"content": "403 Forbidden", "status": "error"}
    opened = ({"url": URL}, "Opened.")

    assert finds_no_page(found, ({"url": f"{URL}/"}, refused))
    assert first(found, ({"url": URL}, refused), ({"url": "https://site.example/moved"}, TEXT)).body == TEXT
    assert LONG in first(({"url": URL}, refused), opened, ({}, LONG)).body


@pytest.mark.parametrize(
    "written", [f"{URL}/", f"{URL}#part", "HTTPS://WWW.Site.example/bees", "http://site.example/bees", f" {URL} "]
)
def test_the_url_of_the_job_is_known_however_it_is_written(written: str) -> None:
    assert (
        first(({"url": "https://site.example/wasps"}, OTHER * 9), ({"options": {"urls": [written]}}, TEXT)).body == TEXT
    )


def test_of_several_tools_markdown_comes_before_html_and_more_before_less() -> None:
    html = f"<html><body><article>{LONG * 9}</article></body></html>"
    calls = [({"url": URL, "tool": name}, text) for name, text in {"a": html, "b": TEXT, "c": TEXT + LONG}.items()]

    documents = page_candidates(URL, dialogue(*calls))

    assert [document.body for document in documents] == [TEXT + LONG, TEXT, html]
    assert [document.is_html for document in documents] == [False, False, True]


def parts(*places: tuple[int, int], text: str = LONG) -> list[Call]:
    """Write calls for the parts of a page from a place on, so many characters of each."""
    return [
        (
            {"url": URL, "start_index": start, "max_length": size},
            f"Contents of {URL}:\n{text[start : start + size]}{MORE}",
        )
        for start, size in places
    ]


@pytest.mark.parametrize(
    "places",
    [
        [(0, 900), (900, 900), (1800, 9_000)],
        [(900, 900), (1800, 9_000), (0, 900)],
        [(0, 900), (0, 900), (900, 900), (900, 9_000)],
        [(0, 9_000), (900, 100)],
    ],
    ids=["in order", "out of order", "twice", "again in part"],
)
def test_parts_of_a_page_are_joined_without_repetition(places: Sequence[tuple[int, int]]) -> None:
    assert first(*parts(*places)).body == LONG


@pytest.mark.parametrize("start", [float("inf"), 10**400, True])
def test_a_part_with_an_impossible_start_counts_as_the_first(start: Any) -> None:
    assert first(({"url": URL, "start_index": start}, TEXT)).body == TEXT


def test_numbered_pages_of_a_document_are_joined_in_order_and_identical_ones_once() -> None:
    pages = [({"url": URL, "page": number}, text) for number, text in ((2, OTHER), (1, TEXT), (3, OTHER))]

    assert first(*pages).body == f"{TEXT}\n\n{OTHER}"
    texts = [f"Paragraph {number} of a page in many parts." for number in range(20_000)]
    assert first(({"url": URL}, json.dumps([{"text": text} for text in texts]))).body == "\n\n".join(texts)


async def test_the_facts_a_tool_gives_become_the_pages() -> None:
    metadata = {"title": "On bees", "language": "en"}

    page = await page_from_results(URL, dialogue(({"url": URL}, json.dumps({"markdown": TEXT, "metadata": metadata}))))

    assert (page["title"], page["site"], page["language"]) == ("On bees", "site.example", "en")
    assert page["url"] == page["final_url"] == URL
    assert page["text"] == TEXT


async def test_a_result_that_proves_to_be_no_article_gives_way_to_the_next() -> None:
    shell = (PAGES / "shell.html").read_text(encoding="utf-8")

    page = await page_from_results(URL, dialogue(({"url": URL}, shell), ({"url": "https://cache.example/bees"}, TEXT)))

    assert page["text"].endswith("what the flowers give them.")


async def test_the_agents_own_text_never_becomes_the_page() -> None:
    with pytest.raises(FetchFailed, match=r"The tool results for https://site\.example/bees contain no page text"):
        await page_from_results(URL, dialogue(({"url": URL}, "Not found.")))
