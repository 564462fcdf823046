"""Tell a page's article from what stands around it, in a process of its own (A-04).

Pages come from strangers. One whose million attributes take minutes to read would hold a thread that nobody can end,
and one of 5 MB the interpreter; a process is ended after `seconds`, has a bound of memory, and this one stays
light: trafilatura and lxml are never loaded here (S-04).
"""

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

from loguru import logger

from toolweave.errors import FetchFailed
from toolweave.nodes.script.page import ArticlePage
from toolweave.nodes.script.state import safe_url
from toolweave.redact import redact_text

READER_MODULE = "toolweave.nodes.script.page_reader"
_NOT_INSTALLED = ("ImportError", "ModuleNotFoundError", "No module named")


TIMEOUT_S = 60.0
MAX_MEMORY_BYTES = 2 * 1024**3


async def extract_page(
    body: bytes,
    url: str,
    content_type: str,
    *,
    final_url: str | None = None,
    title: str = "",
    language: str = "",
    seconds: float = TIMEOUT_S,
    memory_bytes: int = MAX_MEMORY_BYTES,
) -> ArticlePage:
    """Give the article of a page, an HTML document, markdown or plain text.

    Args:
        body: the page as it came.
        url: where it was asked for.
        content_type: the header's value, which may be empty.
        final_url: where it came from, if elsewhere.
        title: of a page in markdown, as far as it is known.
        language: likewise.
        seconds: how long it may take.
        memory_bytes: how much memory it may take.

    Raises:
        FetchFailed: it holds no article, one for subscribers only, or something else than text; it is too much; or what
            reads pages does not work here.
    """
    asked = {
        "url": url,
        "final_url": final_url or url,
        "content_type": content_type,
        "title": title,
        "language": language,
        "seconds": seconds,
        "memory": memory_bytes,
    }
    subject = f"The page {safe_url(final_url or url)}"
    try:
        async with asyncio.timeout(seconds):
            answer = await _run_reader(json.dumps(asked).encode() + b"\n" + body)
    except TimeoutError:
        raise FetchFailed(f"{subject} is too complicated: its article was not found within {seconds:g} s.") from None
    if "failed" in answer:
        raise FetchFailed(f"{subject} {answer['failed']}")
    page: ArticlePage = answer["page"]
    return page


async def _run_reader(request: bytes) -> dict[str, Any]:
    """Let the process answer, or say why it gave no answer."""
    process = await asyncio.create_subprocess_exec(
        # -P: no file of the folder that this runs in is taken for a module.
        *(sys.executable, "-P", "-m", READER_MODULE),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        written, complaint = await process.communicate(request)
    finally:
        if process.returncode is None:
            process.kill()
        while process.returncode is None:
            # It ends at once, and its loop, which may be about to close, must not be left with it.
            with suppress(asyncio.CancelledError):
                await process.wait()
    if process.returncode != 0:
        return {"failed": _exit_message(process.returncode, complaint)}
    answer: dict[str, Any] = await asyncio.to_thread(json.loads, written)
    return answer


def _exit_message(code: int | None, complaint: bytes) -> str:
    """Tell a page that was too much for the process, which shows in many ways, from an installation that is broken."""
    last = redact_text(complaint.decode(errors="replace").strip().rpartition("\n")[2])
    logger.warning("the process that reads pages ended with code {}: {}", code, last)
    if any(words in last for words in _NOT_INSTALLED):
        return "was fetched, but nothing here can read it; the log says why. Install Toolweave with all it depends on."
    return "is too complicated to be read. Give the address of a simpler one."
