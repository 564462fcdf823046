"""Get tokens by client_credentials; they are kept in memory only, as new ones are to be had at any time."""

from toolweave.config.mcp_entry import OAuth
from toolweave.servers.connections.oauth.destinations import Destinations
from toolweave.servers.connections.oauth.exchange import Refusal, carry_out
from toolweave.servers.connections.oauth.grant import Grant, GrantDraft
from toolweave.servers.connections.oauth.provider import credentials_provider


class CredentialsSource:
    """The tokens of a client that has a secret of its own."""

    def __init__(self, url: str, auth: OAuth) -> None:
        self._url = url
        self._auth = auth

    async def kept(self) -> Grant | None:
        """Give nothing: the first request asks the server where its tokens come from."""
        return None

    async def renew(self, stale: Grant | None, refusal: Refusal) -> Grant:  # noqa: ARG002
        """Get a token from the authorization server that the MCP server names.

        Raises:
            Refused: it declines.
            AuthorizationFault: it cannot be reached or used.
        """
        draft = GrantDraft()
        destinations = Destinations(self._url, self._auth.issuer)
        return await carry_out(credentials_provider(self._url, self._auth, draft), draft, refusal, destinations)
