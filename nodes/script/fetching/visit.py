"""Ask for one page as its site's rules let us, following where it is sent on (A-04, W-09)."""

import asyncio

from toolweave import __version__
from toolweave.errors import FetchFailed, OutboundFailed
from toolweave.nodes.script.fetching.robots import may_fetch
from toolweave.outbound import OutboundClient, OutboundRequest, OutboundResponse
from toolweave.outbound_messages import redirected

AGENT = "Toolweave"
USER_AGENT = f"{AGENT}/{__version__}"
MOST_REDIRECTS = 5
_ACCEPT = "text/html, application/xhtml+xml, text/markdown;q=0.9, text/plain;q=0.8, */*;q=0.1"


class Visit:
    """The requests for one page; a site's robots.txt is asked for once.

    The client must follow no redirects itself: each site on the way has rules of its own.
    """

    def __init__(self, client: OutboundClient) -> None:
        self._client = client
        self._rules: dict[tuple[str, str, int], str] = {}

    async def get(self, url: str) -> OutboundResponse:
        """Give the answer at the end of the way.

        Raises:
            FetchFailed: a site's robots.txt forbids it, or cannot be read; the text goes on after "was not fetched: ".
            OutboundFailed: as the client does, or it is sent on too often.
            OutboundRefused: as the client does.
        """
        request = OutboundRequest("GET", url, (("User-Agent", USER_AGENT), ("Accept", _ACCEPT)))
        for _ in range(MOST_REDIRECTS + 1):
            await self._require_allowed(request.url)
            answer, following = await self._step(request)
            if following is None:
                return answer
            request = following
        raise OutboundFailed(f"It redirects more than {MOST_REDIRECTS} times.", reason="redirects")

    async def _require_allowed(self, url: str) -> None:
        target = self._client.policy.check_written(url)
        if target.origin not in self._rules:
            self._rules[target.origin] = await self._robots(f"{target.scheme}://{target.authority}/robots.txt")
        # Off the loop: half a megabyte of a stranger's rules takes its time.
        if not await asyncio.to_thread(may_fetch, self._rules[target.origin], target.path, AGENT):
            raise FetchFailed(
                f"the robots.txt of {target.authority} does not let programs fetch it. "
                "Give another address, or ask the site's owner."
            )

    async def _robots(self, url: str) -> str:
        request = OutboundRequest("GET", url, (("User-Agent", USER_AGENT), ("Accept", "text/plain")))
        for _ in range(MOST_REDIRECTS + 1):
            answer, following = await self._step(request)
            if following is None:
                return _rules_in(answer)
            request = following
        return ""

    async def _step(self, request: OutboundRequest) -> tuple[OutboundResponse, OutboundRequest | None]:
        target = self._client.policy.check_written(request.url)
        answer = await self._client.send(request)
        return answer, redirected(request, target, answer)


def _rules_in(answer: OutboundResponse) -> str:
    """Give the rules of a site that has any. Who cannot ask for them may not fetch (RFC 9309, 2.3.1.4)."""
    if answer.status >= 500:
        raise FetchFailed("the site's robots.txt, which says what programs may fetch, fails now. Try again later.")
    return answer.body.decode("utf-8", "replace") if answer.status < 300 else ""
