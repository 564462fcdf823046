"""Sign a user in to a remote server and store the tokens; sign the user out."""

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
from toolweave.servers.connections.oauth import TokenLocation
from toolweave.servers.connections.oauth.exchange import (
    EXCHANGE_TIMEOUT_S,
    AuthorizationFault,
    Destinations,
    fetch_challenge,
    run_flow,
    sign_in_flow,
)
from toolweave.servers.connections.oauth.vault import GrantKey, lock_grant, open_vault

HOST = "127.0.0.1"
CALLBACK_PATH = "/callback"
MAX_REQUEST_BYTES = 32 * 1024
REQUEST_TIMEOUT_S = 10.0
MAX_REASON_CHARS = 200
_DONE_TEXT = "You are signed in. This window can be closed."
_REFUSED_TEXT = "The sign-in was refused. The terminal shows the reason; this window can be closed."
_UNKNOWN_TEXT = "This request does not belong to the current sign-in."
LOGIN_TIMEOUT_S = 300.0


class SignInCallback:
    """The redirect endpoint of one sign-in; it accepts the first request with the expected state.

    It rejects all other requests: any page in the browser can send requests to this machine.
    """

    def __init__(self) -> None:
        self.redirect_uri = ""
        self._state = ""
        self._issuer: str | None = None
        self._code: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def expect_state(self, authorization_url: str, issuer: str | None) -> None:
        """Store the expected state from the sign-in URL, and the expected issuer if it is known."""
        self._state = _value(parse_qs(urlsplit(authorization_url).query), "state")
        self._issuer = issuer

    async def wait_for_code(self, timeout_s: float) -> tuple[str, str]:
        """Wait for the code; return it and the state.

        Raises:
            AuthorizationFault: the sign-in was rejected or cancelled, or timed out.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._code, self._state
        except TimeoutError:
            raise AuthorizationFault(f"the sign-in in the browser was not completed within {timeout_s:g} s") from None

    async def handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one HTTP request of the browser, accept its code if the state matches, and respond with a page."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = self._handle_request(head.split(b"\r\n", 1)[0].decode("ascii", "replace"))
                writer.write(_encode_page(status, text))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not a browser
        finally:
            writer.close()

    def _handle_request(self, line: str) -> tuple[str, str]:
        method, _, rest = line.partition(" ")
        path, _, parameters = rest.partition(" ")[0].partition("?")
        if method != "GET" or path != CALLBACK_PATH:
            return "404 Not Found", _UNKNOWN_TEXT
        query = parse_qs(parameters)
        valid = bool(self._state) and secrets.compare_digest(_value(query, "state").encode(), self._state.encode())
        if not valid or self._code.done():
            return "400 Bad Request", _UNKNOWN_TEXT
        sender = _value(query, "iss")
        if sender and self._issuer and not issuers_match(sender, self._issuer):
            # A mix-up attack: the server's issuer sent the user to another issuer's login, to get its code (RFC 9207).
            self._code.set_exception(AuthorizationFault(f"the sign-in was answered by {sender[:MAX_REASON_CHARS]!r}"))
            return "200 OK", _REFUSED_TEXT
        if code := _value(query, "code"):
            self._code.set_result(code)
            return "200 OK", _DONE_TEXT
        reason = ": ".join(filter(None, (_value(query, "error"), _value(query, "error_description"))))
        shown = "".join(char if char.isprintable() else " " for char in reason[:MAX_REASON_CHARS])
        self._code.set_exception(AuthorizationFault(f"the sign-in was refused ({shown or 'without a reason'})"))
        return "200 OK", _REFUSED_TEXT


@asynccontextmanager
async def open_callback(port: int | None) -> AsyncIterator[SignInCallback]:
    """Listen on `port` of 127.0.0.1, a free one if None, until the block ends.

    Raises:
        AuthorizationFault: the port is in use.
    """
    callback = SignInCallback()
    try:
        server = await asyncio.start_server(callback.handle_connection, HOST, port or 0, limit=MAX_REQUEST_BYTES)
    except OSError as error:
        raise AuthorizationFault(f"port {port} of {HOST} for the sign-in's redirect is in use") from error
    async with server:
        callback.redirect_uri = f"http://{HOST}:{server.sockets[0].getsockname()[1]}{CALLBACK_PATH}"
        yield callback


def _value(query: dict[str, list[str]], name: str) -> str:
    return query[name][0] if len(query.get(name, ())) == 1 else ""


def _encode_page(status: str, text: str) -> bytes:
    body = f"<!doctype html><meta charset=utf-8><title>Toolweave</title><p>{text}</p>".encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Content-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body


async def sign_in(
    config: McpServerConfig, location: TokenLocation, show: Callable[[str], None], *, timeout_s: float = LOGIN_TIMEOUT_S
) -> None:
    """Run a user's sign-in to a server and store the tokens; they replace earlier ones.

    Args:
        config: the server, whose `auth` uses authorization_code.
        location: where tokens are stored.
        show: shows the sign-in URL to the user; called on a thread.
        timeout_s: the user's time for the sign-in.

    Raises:
        AuthorizationFault: the sign-in failed.
        TokenStoreError: its tokens cannot be stored.
    """
    url, auth = config.url or "", config.auth or OAuth()
    key, destinations = GrantKey(config.name, url), Destinations(url, auth.issuer)
    vault = await asyncio.to_thread(open_vault, location)
    challenge = await fetch_challenge(url, config.headers, uses_sse=config.transport == "sse")
    async with open_callback(auth.redirect_port) as callback:

        async def show_url(address: str) -> None:
            await destinations.check_url(httpx.URL(address))
            metadata = flow.context.oauth_metadata
            callback.expect_state(address, str(metadata.issuer) if metadata else None)
            await asyncio.to_thread(show, address)

        flow = sign_in_flow(url, auth, callback.redirect_uri, show_url, partial(callback.wait_for_code, timeout_s))
        grant = await run_flow(flow, challenge, destinations, timeout_s=timeout_s + EXCHANGE_TIMEOUT_S)
    async with lock_grant(location, key):
        await asyncio.to_thread(vault.write, key, grant.to_json())


async def sign_out(config: McpServerConfig, location: TokenLocation) -> bool:
    """Delete a server's tokens and Toolweave's registration as a client; return whether there were any.

    Raises:
        TokenStoreError: they could not be deleted.
    """
    key = GrantKey(config.name, config.url or "")
    vault = await asyncio.to_thread(open_vault, location)
    async with lock_grant(location, key):
        return await asyncio.to_thread(vault.delete, key)
