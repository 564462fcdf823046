"""Take tokens from where a person's sign-in has put them, and keep there what they are renewed to."""

import asyncio
import time

from loguru import logger

from toolweave.config.mcp_entry import OAuth
from toolweave.errors import TokenStoreError
from toolweave.servers.connections.oauth.destinations import Destinations
from toolweave.servers.connections.oauth.exchange import Refusal, Refused, carry_out
from toolweave.servers.connections.oauth.grant import Grant, GrantDraft
from toolweave.servers.connections.oauth.opening import hold, open_vault
from toolweave.servers.connections.oauth.place import TokenPlace
from toolweave.servers.connections.oauth.provider import renewing_provider
from toolweave.servers.connections.oauth.vault import GrantKey, Vault
from toolweave.servers.connections.transport.authorization_fault import AuthorizationFault, SignInNeeded


class KeptSource:
    """The tokens of a sign-in by a person, shared with other processes through the vault.

    Args:
        server: the server's name.
        url: its URL.
        auth: its configuration.
        place: where tokens are kept; None: nowhere, so that it always needs a sign-in.
    """

    def __init__(self, server: str, url: str, auth: OAuth, place: TokenPlace | None) -> None:
        self._key = GrantKey(server, url)
        self._auth = auth
        self._place = place
        self._vault: Vault | None = None
        self._warned = ""
        self._why = ""
        self._unsaved: Grant | None = None

    async def kept(self) -> Grant:
        """Give what is kept.

        Raises:
            SignInNeeded: nothing is, or nothing that can be used.
        """
        if self._unsaved is not None:
            return self._unsaved
        if self._place is None:
            raise SignInNeeded(self._key.server)
        try:
            text = await asyncio.to_thread(self._read, self._place)
        except TokenStoreError as error:
            raise SignInNeeded(self._key.server, str(error)) from error
        grant = None if text is None else Grant.read(text)
        if grant is None or not self._is_ours(grant):
            raise SignInNeeded(self._key.server, self._why)
        self._why = ""
        return grant

    async def renew(self, stale: Grant | None, refusal: Refusal) -> Grant:  # noqa: ARG002
        """Give newer tokens than `stale`: those another process has stored meanwhile, else fetch them.

        Raises:
            SignInNeeded: the authorization server does not renew them any more.
            AuthorizationFault: it cannot be reached.
        """
        if self._place is None:
            raise SignInNeeded(self._key.server)
        try:
            async with hold(self._place, self._key):
                kept = await self.kept()
                is_news = stale is not None and kept.access_token != stale.access_token
                if is_news and not kept.is_expired(time.time()):
                    return kept
                return await self._renewed(kept)
        except TokenStoreError as error:
            raise AuthorizationFault(str(error)) from error

    async def _renewed(self, old: Grant) -> Grant:
        if old.tokens.refresh_token is None:
            raise SignInNeeded(self._key.server, "its token has run out, and came without a way to renew it")
        draft = GrantDraft(old.client, old.tokens)
        try:
            destinations = Destinations(self._key.url, self._auth.issuer)
            new = await carry_out(renewing_provider(self._key.url, old, draft), draft, Refusal(), destinations)
        except Refused as refused:
            self._why = str(refused)
            if refused.code == "invalid_grant":
                await self._forget()
            raise SignInNeeded(self._key.server, self._why) from refused
        await self._keep(new)
        return new

    async def _keep(self, grant: Grant) -> None:
        self._unsaved = grant
        try:
            await asyncio.to_thread(self._open().write, self._key, grant.written())
        except TokenStoreError as error:
            self._warn(f"{error}; its new tokens live as long as this process")
            return
        self._unsaved = None

    async def _forget(self) -> None:
        self._unsaved = None
        try:
            await asyncio.to_thread(self._open().delete, self._key)
        except TokenStoreError as error:
            self._warn(str(error))

    def _read(self, place: TokenPlace) -> str | None:
        if self._vault is None:
            self._vault = open_vault(place)
        return self._vault.read(self._key)

    def _open(self) -> Vault:
        if self._vault is None:
            raise TokenStoreError("nothing was read yet")
        return self._vault

    def _is_ours(self, grant: Grant) -> bool:
        """Refuse tokens that were given to another client than the one configured now."""
        return self._auth.client_id in (None, grant.client.client_id)

    def _warn(self, text: str) -> None:
        if text != self._warned:
            self._warned = text
            logger.bind(server=self._key.server).warning("MCP server {}: {}", self._key.server, text)
