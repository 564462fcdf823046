"""Sign a person in to a remote server and keep what comes of it; sign out again."""

import asyncio
from collections.abc import Callable

import httpx
from mcp.client.auth.oauth2 import OAuthContext

from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import OAuth
from toolweave.servers.connections.oauth.callback import Callback, listen
from toolweave.servers.connections.oauth.destinations import Destinations
from toolweave.servers.connections.oauth.exchange import EXCHANGE_LIMIT_S, carry_out, first_refusal
from toolweave.servers.connections.oauth.grant import GrantDraft
from toolweave.servers.connections.oauth.opening import hold, open_vault
from toolweave.servers.connections.oauth.place import TokenPlace
from toolweave.servers.connections.oauth.provider import person_provider, registered_client
from toolweave.servers.connections.oauth.vault import GrantKey

PATIENCE_S = 300.0


class _Visitor:
    """The person, as the SDK's flow knows them."""

    def __init__(
        self, callback: Callback, destinations: Destinations, show: Callable[[str], None], patience_s: float
    ) -> None:
        self.redirect_uri = callback.redirect_uri
        self._callback = callback
        self._destinations = destinations
        self._show = show
        self._patience_s = patience_s
        self.context: OAuthContext | None = None

    async def show(self, url: str) -> None:
        await self._destinations.check(httpx.URL(url))
        metadata = self.context.oauth_metadata if self.context else None
        self._callback.expect(url, str(metadata.issuer) if metadata else None)
        await asyncio.to_thread(self._show, url)

    async def comes_back(self) -> tuple[str, str | None]:
        return await self._callback.code(self._patience_s)


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
    key = GrantKey(config.name, url)
    vault = await asyncio.to_thread(open_vault, place)
    refusal = await first_refusal(url, config.headers, listens=config.transport == "sse")
    async with listen(auth.redirect_port) as callback:
        draft = GrantDraft(registered_client(auth, callback.redirect_uri))
        destinations = Destinations(url, auth.issuer)
        visitor = _Visitor(callback, destinations, show, patience_s)
        provider = person_provider(url, auth, draft, visitor)
        visitor.context = provider.context
        grant = await carry_out(provider, draft, refusal, destinations, limit_s=patience_s + EXCHANGE_LIMIT_S)
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
