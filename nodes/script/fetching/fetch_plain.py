"""Fetch a page with plain GET requests, without scripts, as each site's robots.txt allows (A-04, W-09)."""

import asyncio
import http.client
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence

import httpx
from protego import Protego

from toolweave import __version__, outbound
from toolweave.config.outbound_allow import AllowedTarget
from toolweave.errors import FetchFailed, OutboundFailed, OutboundRefused
from toolweave.nodes.script.extraction import extract_page
from toolweave.nodes.script.page import ArticlePage
from toolweave.nodes.script.state import ScriptNode, ScriptState, ScriptUpdate, report_progress, safe_url, script_source

# The rest of a larger file is ignored (RFC 9309, 2.5).
MAX_ROBOTS_CHARS = 512 * 1024
_AGENT_LINE = re.compile(r"\s*user(?:-|\s+)?agent[\s:]\s*([^\s/#]*)", re.IGNORECASE)


def may_fetch(robots: str, path: str, agent: str) -> bool:
    """Return whether a site's robots.txt allows an agent to fetch a path.

    Args:
        robots: the text of robots.txt.
        path: the requested path with its query, percent-encoded.
        agent: the product name without a version, such as "toolweave".
    """
    lines = robots[:MAX_ROBOTS_CHARS].removeprefix("\ufeff").splitlines()
    rules = Protego.parse("\n".join(_normalize_agent_line(line, agent.lower()) for line in lines))
    # Without a host, a path that begins with "//" would be parsed as one.
    return rules.can_fetch(f"http://host{path}", agent)


def _normalize_agent_line(line: str, agent: str) -> str:
    """Reduce a user-agent line to the product name, and replace all other agents by the same name.

    Protego matches "tool" with "toolweave", but not "toolweave/1.0". It copies each rule for each agent of its group:
    1 000 rules for 4 000 agents take 16 s.
    """
    found = _AGENT_LINE.match(line)
    if found is None:
        return line
    name = found[1].lower()
    return f"User-agent: {name if name in ('*', agent) else '-'}"


PRODUCT_NAME = "Toolweave"
USER_AGENT = f"{PRODUCT_NAME}/{__version__}"
MAX_REDIRECTS = 5
_ACCEPT = "text/html, application/xhtml+xml, text/markdown;q=0.9, text/plain;q=0.8, */*;q=0.1"


class RobotsAwareClient:
    """The requests for one page; each site's robots.txt is fetched once.

    The client must not follow redirects itself, because each site has its own rules.
    """

    def __init__(self, client: outbound.OutboundClient) -> None:
        self._client = client
        self._rules: dict[tuple[str, str, int], str] = {}

    async def get(self, url: str) -> outbound.OutboundResponse:
        """Fetch a URL; return the response after redirects.

        Raises:
            FetchFailed: a site's robots.txt forbids it, or cannot be read; the text continues "was not fetched: ".
            OutboundFailed: as the client raises it, or too many redirects.
            OutboundRefused: as the client raises it.
        """
        answer = await self._follow_redirects(url, _ACCEPT, self._require_allowed)
        if answer is None:
            raise OutboundFailed(f"It redirects more than {MAX_REDIRECTS} times.", reason="redirects")
        return answer

    async def _follow_redirects(
        self, url: str, accept: str, check: Callable[[str], Awaitable[None]] | None = None
    ) -> outbound.OutboundResponse | None:
        """Follow redirects and check each URL first; return None if there are too many."""
        request = outbound.OutboundRequest("GET", url, (("User-Agent", USER_AGENT), ("Accept", accept)))
        for _ in range(MAX_REDIRECTS + 1):
            if check is not None:
                await check(request.url)
            target = self._client.policy.check_without_dns(request.url)
            answer = await self._client.send(request)
            next_request = outbound.redirection(request, target, answer)
            if next_request is None:
                return answer
            request = next_request
        return None

    async def _require_allowed(self, url: str) -> None:
        target = self._client.policy.check_without_dns(url)
        if target.origin not in self._rules:
            robots = await self._follow_redirects(f"{target.scheme}://{target.authority}/robots.txt", "text/plain")
            self._rules[target.origin] = _robots_text(robots) if robots else ""
        # In a thread: parsing half a megabyte of rules would block the event loop.
        if not await asyncio.to_thread(may_fetch, self._rules[target.origin], target.path, PRODUCT_NAME):
            raise FetchFailed(
                f"the robots.txt of {target.authority} does not allow programs to fetch it. "
                "Use another URL, or ask the site's owner."
            )


def _robots_text(answer: outbound.OutboundResponse) -> str:
    """Return a site's rules, if it has any; a server error forbids fetching (RFC 9309, 2.3.1.4)."""
    if answer.status >= 500:
        raise FetchFailed("the site's robots.txt, which says what may be fetched, cannot be read now. Try again later.")
    return answer.body.decode("utf-8", "replace") if answer.status < 300 else ""


MAX_BYTES = 10 * 1024 * 1024
TIMEOUT_S = 30.0
# Progress of the run in percent; writing follows.
START_PERCENT, DONE_PERCENT = 2.0, 40.0
MAX_TITLE_CHARS = 80
_ADVICE = "Check the URL, try again later, or let an agent fetch it with its tools (MCP_CONFIG_PATH)."


class PlainFetch:
    """Fetches pages under the outbound policy (W-09), from any event loop.

    Args:
        allow: targets that the policy allows in addition, as in the settings.
        seconds: the time limit for all requests of a page.
        trust: the trusted certificates; default: those of httpx.
    """

    def __init__(
        self, allow: Sequence[AllowedTarget] = (), *, seconds: float = TIMEOUT_S, trust: ssl.SSLContext | None = None
    ) -> None:
        # This class follows redirects itself, because each host's robots.txt must be checked.
        limits = outbound.OutboundLimits(total_timeout_s=seconds, max_response_bytes=MAX_BYTES, max_redirects=0)
        self._policy = outbound.OutboundPolicy(allow=tuple(allow), limits=limits)
        self._seconds = seconds
        self._trust = trust

    async def fetch(self, url: str) -> ArticlePage:
        """Fetch a page and return its article.

        Raises:
            FetchFailed: the text has the reason, a fix, and the URL without credentials.
        """
        subject = f"The page {safe_url(url)}"
        if self._trust is None:
            # Reading the many certificates takes long: do it once, in a thread.
            self._trust = await asyncio.to_thread(httpx.create_ssl_context)
        try:
            async with (
                asyncio.timeout(self._seconds),
                outbound.open_outbound_client(self._policy, trust=self._trust) as client,
            ):
                answer = await RobotsAwareClient(client).get(url)
        except TimeoutError:
            raise FetchFailed(f"{subject} was not fetched within {self._seconds:g} s. {_ADVICE}") from None
        except (OutboundRefused, FetchFailed) as error:
            raise FetchFailed(f"{subject} was not fetched: {error}") from None
        except OutboundFailed as error:
            raise FetchFailed(f"{subject} was not fetched: {str(error).rstrip('.')}. {_ADVICE}") from None
        if answer.status >= 300:
            phrase = http.client.responses.get(answer.status, "")
            status = f"the site answered {answer.status} {phrase}".rstrip()
            raise FetchFailed(f"{subject} was not fetched: {status}. {_ADVICE}")
        content_type = next(iter(answer.header_values("content-type")), "")
        return await extract_page(answer.body, url, content_type, final_url=answer.url)


def fetch_plain_node(fetch: PlainFetch) -> ScriptNode:
    """Return the node that fetches the page at `url`; a failure ends its run (FetchFailed)."""

    async def fetch_page(state: ScriptState) -> ScriptUpdate:
        report_progress(START_PERCENT, f"Fetching {safe_url(state['url'])}")
        page = await fetch.fetch(state["url"])
        report_progress(DONE_PERCENT, f"Fetched “{page['title'][:MAX_TITLE_CHARS]}”")
        return {"page": page, "source": script_source(page)}

    return fetch_page
