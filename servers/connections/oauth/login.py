"""Sign a person in to a remote server and keep what comes of it; sign out again."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import parse_qs, urlsplit

import httpx
from mcp.client.auth.utils import issuers_match

from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import OAuth
from toolweave.servers.connections.oauth import TokenPlace
from toolweave.servers.connections.oauth.exchange import (
    EXCHANGE_LIMIT_S,
    AuthorizationFault,
    Destinations,
    carry_out,
    first_challenge,
    person_flow,
)
from toolweave.servers.connections.oauth.vault import GrantKey, hold, open_vault

HOST = "127.0.0.1"
PATH = "/callback"
LONGEST_REQUEST = 32 * 1024
REQUEST_LIMIT_S = 10.0
LONGEST_REASON = 200
_DONE = "You are signed in. This window can be closed."
_REFUSED = "The sign-in was refused. The terminal says more; this window can be closed."
_UNKNOWN = "This is not the sign-in that is being waited for."
PATIENCE_S = 300.0


class Callback:
    """What comes back from one sign-in: the first request with the state that was sent along.

    Others are turned away and change nothing: any page in the browser can send requests to this machine.
    """

    def __init__(self) -> None:
        self.redirect_uri = ""
        self._state = ""
        self._issuer: str | None = None
        self._code: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def expect(self, authorization_url: str, issuer: str | None) -> None:
        """Take the state from the URL that the person begins at; `issuer` is who should answer, if that is known."""
        self._state = _one(parse_qs(urlsplit(authorization_url).query), "state")
        self._issuer = issuer

    async def code(self, limit_s: float) -> tuple[str, str]:
        """Wait for the code; returns it and the state.

        Raises:
            AuthorizationFault: the person was refused or refuses, or does not come back in time.
        """
        try:
            async with asyncio.timeout(limit_s):
                return await self._code, self._state
        except TimeoutError:
            raise AuthorizationFault(f"nobody came back from the browser within {limit_s:g} s") from None

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection with one page."""
        try:
            async with asyncio.timeout(REQUEST_LIMIT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = self._received(head.split(b"\r\n", 1)[0].decode("ascii", "replace"))
                writer.write(_page(status, text))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # it was no browser
        finally:
            writer.close()

    def _received(self, line: str) -> tuple[str, str]:
        method, _, rest = line.partition(" ")
        path, _, parameters = rest.partition(" ")[0].partition("?")
        if method != "GET" or path != PATH:
            return "404 Not Found", _UNKNOWN
        query = parse_qs(parameters)
        known = bool(self._state) and secrets.compare_digest(_one(query, "state").encode(), self._state.encode())
        if not known or self._code.done():
            return "400 Bad Request", _UNKNOWN
        sender = _one(query, "iss")
        if sender and self._issuer and not issuers_match(sender, self._issuer):
            # Whoever the server named leads people to another's login, to be given the code (RFC 9207).
            self._code.set_exception(AuthorizationFault(f"the sign-in was answered by {sender[:LONGEST_REASON]!r}"))
            return "200 OK", _REFUSED
        if code := _one(query, "code"):
            self._code.set_result(code)
            return "200 OK", _DONE
        reason = ": ".join(filter(None, (_one(query, "error"), _one(query, "error_description"))))
        shown = "".join(char if char.isprintable() else " " for char in reason[:LONGEST_REASON])
        self._code.set_exception(AuthorizationFault(f"the sign-in was refused ({shown or 'without a reason'})"))
        return "200 OK", _REFUSED


@asynccontextmanager
async def listen(port: int | None) -> AsyncIterator[Callback]:
    """Listen on `port` of 127.0.0.1, a free one if None, for as long as the block lasts.

    Raises:
        AuthorizationFault: the port is taken.
    """
    callback = Callback()
    try:
        server = await asyncio.start_server(callback.answer, HOST, port or 0, limit=LONGEST_REQUEST)
    except OSError as error:
        raise AuthorizationFault(f"port {port} of {HOST}, where the sign-in comes back to, is taken") from error
    async with server:
        callback.redirect_uri = f"http://{HOST}:{server.sockets[0].getsockname()[1]}{PATH}"
        yield callback


def _one(query: dict[str, list[str]], name: str) -> str:
    return query[name][0] if len(query.get(name, ())) == 1 else ""


def _page(status: str, text: str) -> bytes:
    body = f"<!doctype html><meta charset=utf-8><title>Toolweave</title><p>{text}</p>".encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Content-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body


async def sign_in(
    config: McpServerConfig, place: TokenPlace, show: Callable[[str], None], *, patience_s: float = PATIENCE_S
) -> None:
    """Let a person sign in to a server and keep its tokens, in place of earlier ones.

    Args:
        config: the server; its `auth` is for people (authorization_code).
        place: where tokens are kept.
        show: shows the person the URL to begin at, on a thread.
        patience_s: how long the person may take.

    Raises:
        AuthorizationFault: the sign-in came to nothing.
        TokenStoreError: its tokens cannot be kept.
    """
    url, auth = config.url or "", config.auth or OAuth()
    key, destinations = GrantKey(config.name, url), Destinations(url, auth.issuer)
    vault = await asyncio.to_thread(open_vault, place)
    challenge = await first_challenge(url, config.headers, listens=config.transport == "sse")
    async with listen(auth.redirect_port) as callback:

        async def show_url(address: str) -> None:
            await destinations.check(httpx.URL(address))
            metadata = flow.context.oauth_metadata
            callback.expect(address, str(metadata.issuer) if metadata else None)
            await asyncio.to_thread(show, address)

        flow = person_flow(url, auth, callback.redirect_uri, show_url, partial(callback.code, patience_s))
        grant = await carry_out(flow, challenge, destinations, limit_s=patience_s + EXCHANGE_LIMIT_S)
    async with hold(place, key):
        await asyncio.to_thread(vault.write, key, grant.written())


async def sign_out(config: McpServerConfig, place: TokenPlace) -> bool:
    """Forget a server's tokens and the client we registered; say whether there were any.

    Raises:
        TokenStoreError: they are still there.
    """
    key = GrantKey(config.name, config.url or "")
    vault = await asyncio.to_thread(open_vault, place)
    async with hold(place, key):
        return await asyncio.to_thread(vault.delete, key)
