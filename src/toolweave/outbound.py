"""Send requests to URLs that come from users, models, tool configurations or pages, under one policy (W-09).

    policy = OutboundPolicy(allow=settings.outbound_allow, only=(allowed_target("api.example.org"),))
    async with open_outbound_client(policy) as client:
        answer = await client.send(OutboundRequest("GET", url))

The host's name is resolved here, all its addresses are checked, and the connection goes to a checked one; no proxy of
the environment comes in between. Every redirect is a new request to check.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

import httpcore
import httpx

from toolweave.errors import OutboundFailed, OutboundRefused
from toolweave.outbound_body import ACCEPTED, read_body
from toolweave.outbound_connection import open_pool
from toolweave.outbound_messages import OutboundRequest, OutboundResponse, redirected, require_sendable
from toolweave.outbound_policy import OutboundLimits, OutboundPolicy
from toolweave.outbound_urls import OutboundTarget

__all__ = [
    "OutboundClient",
    "OutboundLimits",
    "OutboundPolicy",
    "OutboundRequest",
    "OutboundResponse",
    "open_outbound_client",
]

# These send their length even when they have nothing to send.
_WITH_CONTENT = ("POST", "PUT", "PATCH")


class OutboundClient:
    """Send requests under a policy; open it with `open_outbound_client`."""

    def __init__(self, policy: OutboundPolicy, pool: httpcore.AsyncConnectionPool) -> None:
        self.policy = policy
        self._pool = pool

    async def send(self, request: OutboundRequest, *, body_wanted: bool = True) -> OutboundResponse:
        """Send a request, following redirects; every status is an answer.

        Without `body_wanted` the answer's body is not read, so that its size does not matter.

        Raises:
            OutboundRefused: the policy does not let it go to its URL or a redirect's, or it is too large or malformed.
            OutboundFailed: no connection, no time left, too many redirects, or an answer that is too large or broken.
        """
        require_sendable(request, self.policy.limits.request_bytes)
        seconds = self.policy.limits.total_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(request, body_wanted)
        except TimeoutError as error:
            raise OutboundFailed(f"No complete answer came within {seconds:g} s.", reason="timeout") from error

    async def _follow(self, request: OutboundRequest, body_wanted: bool) -> OutboundResponse:
        target = self.policy.check_written(request.url)
        response = await self._exchange(request, target, body_wanted)
        try:
            return await self._redirected(request, target, response, body_wanted)
        except (OutboundRefused, OutboundFailed) as error:
            error.sent = True
            raise

    async def _redirected(
        self, request: OutboundRequest, target: OutboundTarget, response: OutboundResponse, body_wanted: bool
    ) -> OutboundResponse:
        most = self.policy.limits.redirects
        for _ in range(most):
            following = redirected(request, target, response)
            if following is None:
                return response
            request, target = following, self.policy.check_written(following.url)
            response = await self._exchange(request, target, body_wanted)
        if most and response.redirects:
            raise OutboundFailed(f"The answer redirects more than {most} times.", reason="redirects")
        return response

    async def _exchange(self, request: OutboundRequest, target: OutboundTarget, body_wanted: bool) -> OutboundResponse:
        headers = [("Host", target.authority), ("Accept-Encoding", ACCEPTED), *request.headers]
        url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        content = request.content or (b"" if request.method in _WITH_CONTENT else None)
        waits = {"timeout": {"connect": self.policy.limits.connect_seconds}}
        with _explained(target):
            async with self._pool.stream(
                request.method, url, headers=headers, content=content, extensions=waits
            ) as answer:
                received = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers)
                response = OutboundResponse(answer.status, received, b"", target.url)
                if not body_wanted or response.redirects:
                    return response
                coding = ", ".join(response.all("content-encoding"))
                body = await read_body(answer.aiter_stream(), coding, self.policy.limits.response_bytes)
                return replace(response, body=body)


@contextmanager
def _explained(target: OutboundTarget) -> Iterator[None]:
    """Turn the HTTP library's failures into ours; what the policy says passes through."""
    try:
        yield
    except httpcore.ConnectTimeout as error:
        raise OutboundFailed(f"{target.authority} accepts no connection in time.", reason="connect") from error
    except httpcore.ConnectError as error:
        raise OutboundFailed(f"No connection to {target.authority}: {error}", reason="connect") from error
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
        raise OutboundFailed(f"The exchange with {target.authority} broke off: {error}", reason="transfer") from error


@asynccontextmanager
async def open_outbound_client(
    policy: OutboundPolicy, *, trust: ssl.SSLContext | None = None
) -> AsyncIterator[OutboundClient]:
    """Open a client; `trust` says which certificates count, by default those that other HTTPS clients here trust."""
    async with open_pool(policy, trust or httpx.create_ssl_context()) as pool:
        yield OutboundClient(policy, pool)
