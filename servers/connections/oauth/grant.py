"""Hold what an authorization server has granted for one MCP server, and everything needed to renew it."""

import time
from typing import Self

from mcp.client.auth import TokenStorage
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from pydantic import BaseModel, ConfigDict, ValidationError

LONGEST_LIFE_S = 10 * 366 * 24 * 3600


class Grant(BaseModel):
    """Tokens, the client they were given to, and who gave them; `expires_at` is in seconds since 1970.

    The authorization server's metadata is kept because tokens are renewed where they were granted: the MCP server
    is not asked again, who could name another place for the refresh token to go to.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    tokens: OAuthToken
    client: OAuthClientInformationFull
    expires_at: float | None = None
    server: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None

    @property
    def access_token(self) -> str:
        """Give the token that requests carry."""
        return self.tokens.access_token

    def is_expired(self, now: float) -> bool:
        """Say whether the access token's time is over; a server that gave none decides by 401."""
        return self.expires_at is not None and now >= self.expires_at

    def written(self) -> str:
        """Write it for a vault."""
        return self.model_dump_json(exclude_none=True)

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Read what `written` wrote; None for anything else."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            return None


class GrantDraft(TokenStorage):
    """The SDK's token storage for the time of one exchange; what it holds afterwards becomes a `Grant`.

    The SDK would store tokens without saying when they end or who gave them, and forgets a refresh token that a
    server does not repeat (RFC 6749 section 6).
    """

    def __init__(self, client: OAuthClientInformationFull | None = None, tokens: OAuthToken | None = None) -> None:
        self.client = client
        self.tokens = tokens
        self._received: OAuthToken | None = None

    @property
    def has_new_tokens(self) -> bool:
        """Say whether the exchange has come to its end."""
        return self._received is not None

    async def get_tokens(self) -> OAuthToken | None:
        """Give the tokens to begin with."""
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Take new tokens."""
        kept = self.tokens.refresh_token if self.tokens else None
        self._received = tokens.model_copy(update={"refresh_token": tokens.refresh_token or kept})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Give the client to use."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Take the client that was registered."""
        self.client = client_info

    def grant(self, context: OAuthContext) -> Grant | None:
        """Put together what the exchange has brought; None if it brought no tokens."""
        if self._received is None or context.client_info is None:
            return None
        life = self._received.expires_in
        return Grant(
            tokens=self._received,
            client=context.client_info,
            expires_at=time.time() + life if life is not None and 0 < life <= LONGEST_LIFE_S else None,
            server=context.oauth_metadata,
            resource=context.protected_resource_metadata,
        )
