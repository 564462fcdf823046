"""Tell a page's article from what stands around it, in a process of its own (A-04).

Pages come from strangers. One whose million attributes take minutes to read would hold a thread that nobody can end,
and one of 5 MB the interpreter; a process is ended after `limits.seconds`, has a bound of memory, and this one stays
light: trafilatura and lxml are never loaded here (S-04).
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolweave.errors import FetchFailed
from toolweave.nodes.script.no_article import NoArticle
from toolweave.nodes.script.page import Page
from toolweave.nodes.script.page_address import shown_url
from toolweave.nodes.script.page_kind import kind_of

MODULE = "toolweave.nodes.script.extracting"


@dataclass(frozen=True, slots=True)
class ExtractionLimits:
    """How long telling the article may take, and how much memory."""

    seconds: float = 60.0
    memory_bytes: int = 2 * 1024**3


async def extract_page(
    body: bytes,
    url: str,
    content_type: str,
    *,
    final_url: str | None = None,
    facts: Mapping[str, str] | None = None,
    limits: ExtractionLimits | None = None,
) -> Page:
    """Give the article of a page, an HTML document, markdown or plain text.

    Args:
        body: the page as it came.
        url: where it was asked for.
        content_type: the header's value, which may be empty.
        final_url: where it came from, if elsewhere.
        facts: title, site and language of a page in markdown, as far as they are known.
        limits: of time and memory.

    Raises:
        FetchFailed: it holds no article, one for subscribers only, or something else than text; or it is too much.
    """
    limits = limits or ExtractionLimits()
    asked = {
        "url": url,
        "final_url": final_url or url,
        "content_type": content_type,
        "facts": dict(facts or {}),
        "memory": limits.memory_bytes,
    }
    subject = f"The page {shown_url(final_url or url)}"
    try:
        kind_of(body, content_type)
    except NoArticle as error:
        raise FetchFailed(f"{subject} {error}") from None
    try:
        async with asyncio.timeout(limits.seconds):
            answer = await _ask(json.dumps(asked).encode() + b"\n" + body)
    except TimeoutError:
        raise FetchFailed(
            f"{subject} is too complicated: its article was not found within {limits.seconds:g} s."
        ) from None
    if answer is None:
        raise FetchFailed(f"{subject} is too complicated to be read.")
    if "failed" in answer:
        raise FetchFailed(f"{subject} {answer['failed']}")
    page: Page = answer["page"]
    return page


async def _ask(request: bytes) -> dict[str, Any] | None:
    """Let the process answer; None where it ended without an answer."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", MODULE),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        written, _ = await process.communicate(request)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        return None
    answer: dict[str, Any] = await asyncio.to_thread(json.loads, written)
    return answer
