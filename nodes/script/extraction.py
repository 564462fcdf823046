"""Extract a page's article in a separate process (A-04).

Pages are untrusted. A page with a million attributes takes minutes to parse in a thread that cannot be stopped, and a
page of 5 MB can block the interpreter. The process is killed after `seconds` and has a memory limit. The main process
stays small: it never imports trafilatura and lxml (S-04).
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
    """Return the article of a page: an HTML document, markdown or plain text.

    Args:
        body: the received bytes.
        url: the requested URL.
        content_type: the value of the header, which may be empty.
        final_url: the URL after redirects; default: `url`.
        title: the title of a markdown page, if known.
        language: the language of a markdown page, if known.
        seconds: the time limit.
        memory_bytes: the memory limit of the process.

    Raises:
        FetchFailed: the page has no article, only one for subscribers, or is not text; a limit is exceeded; or the
            packages that read pages are not installed.
    """
    request = {
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
            answer = await _run_reader(json.dumps(request).encode() + b"\n" + body)
    except TimeoutError:
        raise FetchFailed(f"{subject} is too complex: its article was not extracted within {seconds:g} s.") from None
    if "failed" in answer:
        raise FetchFailed(f"{subject} {answer['failed']}")
    page: ArticlePage = answer["page"]
    return page


async def _run_reader(request: bytes) -> dict[str, Any]:
    """Run the reader process; return its answer, or the reason why there is none."""
    process = await asyncio.create_subprocess_exec(
        # -P: do not import modules from the working directory.
        *(sys.executable, "-P", "-m", READER_MODULE),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        stdout, stderr = await process.communicate(request)
    finally:
        if process.returncode is None:
            process.kill()
        while process.returncode is None:
            # The killed process exits at once. Wait for it, because its event loop may close next.
            with suppress(asyncio.CancelledError):
                await process.wait()
    if process.returncode != 0:
        return {"failed": _exit_message(process.returncode, stderr)}
    answer: dict[str, Any] = await asyncio.to_thread(json.loads, stdout)
    return answer


def _exit_message(code: int | None, stderr: bytes) -> str:
    """Return the reason of an abnormal exit: a missing package, or else a page that exceeded a limit."""
    last_line = redact_text(stderr.decode(errors="replace").strip().rpartition("\n")[2])
    logger.warning("the process that reads pages exited with code {}: {}", code, last_line)
    if any(words in last_line for words in _NOT_INSTALLED):
        return "was fetched, but a package to read it is missing (see the log): pip install 'toolweave[script]'"
    return "is too complex to be read. Use the URL of a simpler page."
