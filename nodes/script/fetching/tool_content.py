"""Choose what of an agent's tool results is the page, and make a Page of it (A-04).

Content comes from tool results only: what the agent says itself never takes its place. Results of calls with the
page's own URL come first, then those of calls with any URL, then all: tools that show what a browser has open are asked
without one. But what a search found says nothing of a page that was asked for and could not be had.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from langchain_core.messages import AnyMessage
from loguru import logger

from toolweave.errors import FetchFailed
from toolweave.nodes.script.fetching.tool_document import Document
from toolweave.nodes.script.fetching.tool_parts import ToolPage, addresses_in, is_same_address, tool_pages
from toolweave.nodes.script.fetching.tool_results import failed_arguments, tool_results
from toolweave.nodes.script.page import Page
from toolweave.nodes.script.page_address import shown_url
from toolweave.nodes.script.reading.extraction import extract_page
from toolweave.nodes.script.reading.markdown_page import FEWEST_LETTERS, letters

MOST_CHARACTERS = 10 * 1024 * 1024
"""What is taken of a page: as much as of one that is fetched the plain way."""

MOST_TRIED = 5
_TYPES = {"markdown": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8"}


async def page_of_results(url: str, messages: Sequence[AnyMessage]) -> Page:
    """Make a page of what the tools of a dialogue returned for `url`.

    Raises:
        FetchFailed: they returned no article; says why, also of the first result that seemed to hold one.
    """
    problem = ""
    for document in await asyncio.to_thread(lambda: list(islice(likely_documents(url, messages), MOST_TRIED))):
        try:
            return await _page(url, document)
        except FetchFailed as error:
            problem = problem or str(error)
    raise FetchFailed(problem or f"What the tools returned for {shown_url(url)} holds no text of a page.")


async def _page(url: str, document: Document) -> Page:
    if len(document.body) > MOST_CHARACTERS:
        logger.warning("of a page of {} characters the first {} are taken", len(document.body), MOST_CHARACTERS)
    body = document.body[:MOST_CHARACTERS].encode("utf-8", "replace")
    facts = {"title": document.title, "site": document.site, "language": document.language}
    return await extract_page(
        body,
        url,
        _TYPES[document.kind],
        final_url=document.url or url,
        facts=facts if document.kind == "markdown" else None,
    )


def likely_documents(url: str, messages: Sequence[AnyMessage]) -> Iterator[Document]:
    """Give what may be the page, the likeliest first."""
    results = tool_results(messages)
    pages = tool_pages(results)
    asked = [page for page in pages if any(is_same_address(each, url) for each in page.addresses)]
    yield from _usable(page.about(url) for page in sorted(asked, key=_likelihood))
    yield from _usable(_together([page for page in pages if page.addresses and page not in asked]))
    refused = any(_names(url, arguments) for arguments in failed_arguments(messages))
    if not refused or any(_names(url, result.arguments) for result in results):
        yield from _usable(_together(pages))


def _names(url: str, arguments: Mapping[str, Any]) -> bool:
    return any(is_same_address(each, url) for each in addresses_in(arguments))


def _likelihood(page: ToolPage) -> tuple[bool, int]:
    """Order the pages of several tools: markdown is what was asked for, and the longest lacks least."""
    kinds = {document.kind for document in page.documents}
    return "markdown" not in kinds, -sum(len(document.body) for document in page.documents)


def _together(pages: Sequence[ToolPage]) -> Iterator[Document]:
    """Join the markdown of several pages; an HTML document stands for itself."""
    documents = [document for page in pages for document in page.documents]
    texts = list(dict.fromkeys(each.body.strip() for each in documents if each.kind == "markdown"))
    first = next((each for each in documents if each.kind == "markdown"), None)
    if first is not None:
        yield first._replace(body="\n\n".join(texts))
    yield from (each for each in documents if each.kind == "html")


def _usable(documents: Iterator[Document]) -> Iterator[Document]:
    return (each for each in documents if letters(each.body) >= FEWEST_LETTERS)
