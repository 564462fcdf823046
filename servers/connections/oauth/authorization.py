"""Add a token to each request to a remote server, and renew it while the caller waits."""

import asyncio
import math
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
from loguru import logger

from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import OAuth
from toolweave.errors import TokenStoreError
from toolweave.servers.connections.oauth import TokenLocation, exchange
from toolweave.servers.connections.oauth.vault import GrantKey, Vault, lock_grant, open_vault

T = TypeVar("T")
RETRY_DELAY_S = 30.0
CLOSE_TIMEOUT_S = 2.0
MAX_REFUSAL_BYTES = 64 * 1024
# The first newer token may be one that another process had stored, and may be rejected as well.
MAX_RENEWALS = 2
_SCOPE = re.compile(r'\bscope="([\x20-\x21\x23-\x7e]{1,200})"')


class ClientCredentialsSource:
    """A source of tokens for a client with its own secret (client_credentials)."""

    def __init__(self, url: str, auth: OAuth) -> None:
        self._url = url
        self._auth = auth

    async def load_grant(self) -> exchange.Grant | None:
        """Return None: the server's first 401 names the authorization server."""
        return None

    async def renew(self, _stale: exchange.Grant | None, challenge: str | None) -> exchange.Grant:
        """Request a token from the authorization server that the MCP server names.

        Raises:
            GrantRefused: the authorization server rejects the request.
            AuthorizationFault: it cannot be reached, or its responses are not valid.
        """
        destinations = exchange.Destinations(self._url, self._auth.issuer)
        return await exchange.run_flow(exchange.client_credentials_flow(self._url, self._auth), challenge, destinations)


class StoredGrantSource:
    """A source of tokens from a user's sign-in, which are shared with other processes through the vault.

    Args:
        server: the server's name.
        url: its URL.
        auth: its configuration.
        location: where tokens are stored; if None, a sign-in is always required.
    """

    def __init__(self, server: str, url: str, auth: OAuth, location: TokenLocation | None) -> None:
        self._key = GrantKey(server, url)
        self._auth = auth
        self._location = location
        self._vault: Vault | None = None
        self._warned = ""
        self._refusal = ""
        self._unsaved: exchange.Grant | None = None

    async def load_grant(self) -> exchange.Grant:
        """Return the stored tokens.

        Raises:
            SignInNeeded: there are no stored tokens, or they are not usable.
        """
        if self._unsaved is not None:
            return self._unsaved
        try:
            text = await self._use_vault(lambda vault: vault.read(self._key))
        except TokenStoreError as error:
            raise exchange.SignInNeeded(self._key.server, str(error)) from error
        grant = None if text is None else exchange.Grant.from_json(text)
        if grant is None or self._auth.client_id not in (None, grant.client.client_id):
            raise exchange.SignInNeeded(self._key.server, self._refusal)
        self._refusal = ""
        return grant

    async def renew(self, stale: exchange.Grant | None, _challenge: str | None) -> exchange.Grant:
        """Return newer tokens than `stale`: the ones that another process has stored meanwhile, or renewed ones.

        Raises:
            SignInNeeded: the authorization server no longer renews them.
            AuthorizationFault: it cannot be reached.
        """
        if self._location is None:
            raise exchange.SignInNeeded(self._key.server)
        try:
            async with lock_grant(self._location, self._key):
                stored = await self.load_grant()
                is_newer = stale is not None and stored.access_token != stale.access_token
                if is_newer and not stored.is_expired(time.time()):
                    return stored
                return await self._fetch_newer(stored)
        except TokenStoreError as error:
            raise exchange.AuthorizationFault(str(error)) from error

    async def _fetch_newer(self, old: exchange.Grant) -> exchange.Grant:
        if old.tokens.refresh_token is None:
            raise exchange.SignInNeeded(self._key.server, "its token has expired and has no refresh token")
        try:
            destinations = exchange.Destinations(self._key.url, self._auth.issuer)
            new = await exchange.run_flow(exchange.refresh_flow(self._key.url, old), None, destinations)
        except exchange.GrantRefused as refused:
            self._refusal = str(refused)
            if refused.code == "invalid_grant":
                await self._delete()
            raise exchange.SignInNeeded(self._key.server, self._refusal) from refused
        await self._store(new)
        return new

    async def _store(self, grant: exchange.Grant) -> None:
        self._unsaved = grant
        try:
            await self._use_vault(lambda vault: vault.write(self._key, grant.to_json()))
        except TokenStoreError as error:
            self._warn(f"{error}; its new tokens are lost when this process exits")
            return
        self._unsaved = None

    async def _delete(self) -> None:
        self._unsaved = None
        try:
            await self._use_vault(lambda vault: vault.delete(self._key))
        except TokenStoreError as error:
            self._warn(str(error))

    async def _use_vault(self, operation: Callable[[Vault], T]) -> T:
        """Run `operation` with the vault on a thread.

        Raises:
            SignInNeeded: there is no token location.
            TokenStoreError: the vault cannot be opened or used.
        """
        location = self._location
        if location is None:
            raise exchange.SignInNeeded(self._key.server)

        def open_and_use() -> T:
            self._vault = self._vault or open_vault(location)
            return operation(self._vault)

        return await asyncio.to_thread(open_and_use)

    def _warn(self, text: str) -> None:
        if text != self._warned:
            self._warned = text
            logger.bind(server=self._key.server).warning("MCP server {}: {}", self._key.server, text)


GrantSource = ClientCredentialsSource | StoredGrantSource


@dataclass(frozen=True, slots=True)
class _Pause:
    """Blocks all requests until new tokens are stored, a reconnect is requested, or `until` has passed."""

    fault: exchange.AuthorizationFault
    tokens: exchange.Grant | None
    until: float


class ServerAuthorization(httpx.Auth):
    """The authorization of one server's requests in all its sessions.

    Each renewal runs in its own task, one at a time: a caller's timeout must not cancel it between the authorization
    server's response, which ends the old refresh token, and the storing of the new one.
    """

    def __init__(self, server: str, source: GrantSource, on_token: Callable[[str], None]) -> None:
        self._server = server
        self._source = source
        self._on_token = on_token
        self._grant: exchange.Grant | None = None
        self._renewal: asyncio.Task[exchange.Grant] | None = None
        self._pause: _Pause | None = None
        self._scope_hint = ""

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Send a request with the current token; after a 401 send it again with a newer one.

        After a 401 any request may be sent again, because the server has not executed it (D-5).

        Raises:
            AuthorizationFault: there is no token, or the server rejects the new one, too.
        """
        grant = await self._current_grant()
        self._set_token(request, grant)
        response = yield request
        for _ in range(MAX_RENEWALS):
            if response.status_code != httpx.codes.UNAUTHORIZED:
                self._warn_of_scope(response)
                return
            response.headers.pop("content-encoding", None)
            response.stream = _TruncatedBody(response.stream)
            grant = await self._renewed_grant(grant, response.headers.get("www-authenticate"))
            self._set_token(request, grant)
            response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            fault = exchange.AuthorizationFault("it rejects the new token of its authorization server")
            self._pause = _Pause(fault, grant, time.monotonic() + RETRY_DELAY_S)
            raise fault

    def discard_cached_token(self) -> None:
        """Discard the cached token and allow requests again, for an operator; stored tokens are loaded next."""
        self._pause = None
        self._grant = None

    async def drain_renewal(self) -> None:
        """Wait at most `CLOSE_TIMEOUT_S` for a running renewal, then cancel it."""
        if self._renewal is not None and not self._renewal.done():
            await asyncio.wait({self._renewal}, timeout=CLOSE_TIMEOUT_S)
            self._renewal.cancel()

    def _set_token(self, request: httpx.Request, grant: exchange.Grant | None) -> None:
        if grant is not None:
            self._on_token(grant.access_token)
            request.headers["Authorization"] = f"Bearer {grant.access_token}"

    def _warn_of_scope(self, response: httpx.Response) -> None:
        """Log once which scope is missing; only a sign-in or the configuration can add it."""
        challenge = response.headers.get("www-authenticate", "")
        if response.status_code != httpx.codes.FORBIDDEN or "insufficient_scope" not in challenge:
            return
        missing = _SCOPE.search(challenge)
        hint = (
            f"its token lacks the scope {missing[1] if missing else 'for it'!r}: add it to auth.scope and sign in again"
        )
        if hint != self._scope_hint:
            self._scope_hint = hint
            logger.bind(server=self._server).warning("MCP server {} rejects a request: {}", self._server, hint)

    async def _current_grant(self) -> exchange.Grant | None:
        if self._pause is not None:
            await self._end_pause(self._pause)
        if self._grant is None:
            self._grant = await self._source.load_grant()
        if self._grant is not None and self._grant.is_expired(time.time()):
            return await self._renewed_grant(self._grant, None)
        return self._grant

    async def _end_pause(self, pause: _Pause) -> None:
        """End the pause if its time has passed or other tokens are stored now.

        Raises:
            AuthorizationFault: the pause continues.
        """
        if time.monotonic() < pause.until:
            stored = await self._source.load_grant()
            if stored is None or (pause.tokens is not None and stored.access_token == pause.tokens.access_token):
                raise pause.fault.with_traceback(None)
            self._grant = stored
        self._pause = None

    async def _renewed_grant(self, stale: exchange.Grant | None, challenge: str | None) -> exchange.Grant:
        current = self._grant
        if current is not None and stale is not None and current.access_token != stale.access_token:
            return current
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew(stale, challenge))
            self._renewal.add_done_callback(_retrieve_exception)
        return await asyncio.shield(self._renewal)

    async def _renew(self, stale: exchange.Grant | None, challenge: str | None) -> exchange.Grant:
        try:
            grant = await self._source.renew(stale, challenge)
        except exchange.SignInNeeded as fault:
            self._grant = None
            self._pause = _Pause(fault, stale, math.inf)
            raise
        except exchange.GrantRefused as fault:
            self._pause = _Pause(fault, stale, time.monotonic() + RETRY_DELAY_S)
            raise
        self._grant = grant
        logger.bind(server=self._server).debug("MCP server {}: its token was renewed", self._server)
        return grant


class _TruncatedBody(httpx.AsyncByteStream):
    """A body that ends after `MAX_REFUSAL_BYTES`: httpx reads a 401's whole body before it sends the next request."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        remaining = MAX_REFUSAL_BYTES
        async for chunk in self._stream:
            yield chunk[:remaining]
            remaining -= len(chunk)
            if remaining <= 0:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def open_authorization(
    config: McpServerConfig, location: TokenLocation | None, on_token: Callable[[str], None]
) -> AsyncIterator[ServerAuthorization | None]:
    """Yield the authorization from a server's configuration, None if it has none.

    `on_token` is called with each token before it is sent, so that the logs can hide it. At the end it waits for a
    running renewal, in bounded time, and then cancels it.
    """
    if config.auth is None or config.url is None:
        yield None
        return
    auth = ServerAuthorization(config.name, _grant_source(config.name, config.url, config.auth, location), on_token)
    try:
        yield auth
    finally:
        await auth.drain_renewal()


def _grant_source(server: str, url: str, auth: OAuth, location: TokenLocation | None) -> GrantSource:
    if auth.grant == "client_credentials":
        return ClientCredentialsSource(url, auth)
    return StoredGrantSource(server, url, auth, location)


def _retrieve_exception(renewal: asyncio.Task[exchange.Grant]) -> None:
    """Retrieve the exception of a renewal without callers, so that asyncio does not log it."""
    if not renewal.cancelled():
        renewal.exception()
