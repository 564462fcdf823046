"""Fetch a page the plain way: one GET request, no scripts, as the site's robots.txt lets us (A-04)."""

import asyncio
import ssl
from collections.abc import Awaitable, Sequence
from http import HTTPStatus
from typing import NotRequired, Protocol

import httpx
from typing_extensions import TypedDict

from toolweave.config.outbound_allow import AllowedTarget
from toolweave.config.settings import Settings
from toolweave.errors import FetchFailed, OutboundFailed, OutboundRefused
from toolweave.nodes.progress_events import tell_progress
from toolweave.nodes.script.fetching.visit import Visit
from toolweave.nodes.script.page import Page
from toolweave.nodes.script.page_address import shown_url
from toolweave.nodes.script.reading.extraction import ExtractionLimits, extract_page
from toolweave.nodes.script.script_state import ScriptSource, source_of
from toolweave.outbound import OutboundLimits, OutboundPolicy, open_outbound_client
from toolweave.outbound_policy import Resolver, resolve

MOST_BYTES = 10 * 1024 * 1024
SECONDS = 30.0
# Of a whole run; writing comes after.
BEGUN_PERCENT, DONE_PERCENT = 2.0, 40.0
LONGEST_TOLD = 80

_ADVICE = {
    "resolve": "Check the address.",
    "connect": "Check the address, or try again later.",
    "timeout": "Try again later.",
    "transfer": "Try again later.",
    "too_large": "Give the address of a smaller page.",
    "redirects": "Give the address it is meant to end at.",
}
_STATUS_ADVICE = {
    401: "it wants a sign-in. Give the address of a page that everybody may read.",
    402: "it is for subscribers only. Give the address of a page that everybody may read.",
    403: "the site refuses us. Give another address, or have it fetched by an agent's tools (MCP_CONFIG_PATH).",
    404: "there is no such page. Check the address.",
    410: "the page is gone. Check the address.",
    429: "the site has had too many requests. Try again later.",
    451: "the page may not be shown for legal reasons.",
}


class PlainFetch:
    """Fetch pages under the outbound policy (W-09), from any event loop.

    Args:
        allow: exceptions from the policy, as the settings have them.
        seconds: how long the requests for a page may take together.
        most_bytes: how large a page may be, unpacked.
        extraction: bounds of telling the article.
        trust: which certificates count; by default those that other HTTPS clients here trust.
        resolver: looks names up.
    """

    def __init__(
        self,
        allow: Sequence[AllowedTarget] = (),
        *,
        seconds: float = SECONDS,
        most_bytes: int = MOST_BYTES,
        extraction: ExtractionLimits | None = None,
        trust: ssl.SSLContext | None = None,
        resolver: Resolver = resolve,
    ) -> None:
        # Redirects are followed here: each host's robots.txt has to be asked.
        limits = OutboundLimits(total_seconds=seconds, response_bytes=most_bytes, redirects=0)
        self._policy = OutboundPolicy(allow=tuple(allow), limits=limits, resolver=resolver)
        self._seconds = seconds
        self._extraction = extraction
        self._trust = trust

    async def fetch(self, url: str) -> Page:
        """Fetch a page and give its article.

        Raises:
            FetchFailed: the text says why, and what to do; it shows the URL without credentials.
        """
        subject = f"The page {shown_url(url)}"
        if self._trust is None:
            # There are many certificates, so they are read off the loop, and kept.
            self._trust = await asyncio.to_thread(httpx.create_ssl_context)
        try:
            async with asyncio.timeout(self._seconds), open_outbound_client(self._policy, trust=self._trust) as client:
                answer = await Visit(client).get(url)
        except TimeoutError:
            raise FetchFailed(f"{subject} was not fetched within {self._seconds:g} s. {_ADVICE['timeout']}") from None
        except OutboundRefused as error:
            raise FetchFailed(f"{subject} was not fetched: {error}") from None
        except OutboundFailed as error:
            told = str(error).rstrip(".")
            raise FetchFailed(f"{subject} was not fetched: {told}. {_ADVICE[error.reason]}") from None
        except FetchFailed as error:
            raise FetchFailed(f"{subject} was not fetched: {error}") from None
        if answer.status >= 300:
            raise FetchFailed(f"{subject} was not fetched: {_status_text(answer.status)}")
        content_type = next(iter(answer.all("content-type")), "")
        return await extract_page(answer.body, url, content_type, final_url=answer.url, limits=self._extraction)


class FetchState(TypedDict):
    """What the node reads and leaves."""

    url: str
    page: NotRequired[Page]


class FetchedPage(TypedDict):
    """What a node that fetches changes."""

    page: Page
    source: ScriptSource


class FetchNode(Protocol):
    """The node that fetches."""

    def __call__(self, state: FetchState) -> Awaitable[FetchedPage]:
        """Return the page."""
        ...


def fetch_plain_node(fetch: PlainFetch) -> FetchNode:
    """Make the node that fetches the page at `url`; a failure ends its run (FetchFailed)."""

    async def fetch_page(state: FetchState) -> FetchedPage:
        tell_progress(BEGUN_PERCENT, f"Fetching {shown_url(state['url'])}")
        page = await fetch.fetch(state["url"])
        tell_progress(DONE_PERCENT, f"Fetched “{page['title'][:LONGEST_TOLD]}”")
        return {"page": page, "source": source_of(page)}

    return fetch_page


def plain_fetch(settings: Settings) -> PlainFetch:
    """Make what fetches pages as the settings of this process say."""
    return PlainFetch(settings.outbound_allow)


def _status_text(status: int) -> str:
    try:
        phrase = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = str(status)
    told = _STATUS_ADVICE.get(status) or (
        "the site has a problem. Try again later." if status >= 500 else "Check the address."
    )
    return f"the site answered {phrase}: {told}"
