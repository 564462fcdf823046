"""Make the SDK's OAuth providers for a server's configuration, held to the issuer and the scope that it names."""

from typing import Final, Protocol
from urllib.parse import urlsplit

import httpx
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, TokenStorage
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata
from pydantic import AnyHttpUrl, AnyUrl

from toolweave.config.mcp_entry import OAuth
from toolweave.servers.connections.oauth.grant import Grant, GrantDraft

CLIENT_NAME = "Toolweave"
BASIC: Final = "client_secret_basic"
POSTED: Final = "client_secret_post"
NOWHERE = "http://127.0.0.1/callback"
LONG_AGO = 1.0
SHOWN_SERVERS = 3


class Person(Protocol):
    """Who signs in: is shown a URL, and comes back to a redirect URI with a code and the state."""

    @property
    def redirect_uri(self) -> str:
        """Say where the authorization server sends the person back to."""

    async def show(self, url: str) -> None:
        """Show the URL to begin at."""

    async def comes_back(self) -> tuple[str, str | None]:
        """Wait for the code and the state."""


class _Held(OAuthClientProvider):
    """What both grants are held to: the SDK goes wherever the MCP server points, and asks for whatever it names."""

    only_issuer: str | None = None
    only_scope: str | None = None

    def _select_authorization_server(self, advertised: list[str]) -> str:
        if self.only_issuer is None:
            return advertised[0]
        for server in advertised:
            if issuers_match(server, self.only_issuer):
                return server
        named = ", ".join(advertised[:SHOWN_SERVERS])
        raise OAuthFlowError(f"the server names {named} as its authorization server: if you trust it, set auth.issuer")

    async def _perform_authorization(self) -> httpx.Request:
        if self.only_scope is not None:
            self.context.client_metadata.scope = self.only_scope
        client, server = self.context.client_info, self.context.oauth_metadata
        methods = (server and server.token_endpoint_auth_methods_supported) or [BASIC]
        if client and client.token_endpoint_auth_method == BASIC and BASIC not in methods and POSTED in methods:
            client.token_endpoint_auth_method = POSTED
        return await super()._perform_authorization()


class _Credentials(_Held, ClientCredentialsOAuthProvider):
    """The client_credentials grant."""


def credentials_provider(url: str, auth: OAuth, draft: TokenStorage) -> OAuthClientProvider:
    """Make the provider for client_credentials; the secret goes to the configured issuer or the server's own origin."""
    issuer = auth.issuer or _origin(url)
    provider = _Credentials(
        url, draft, auth.client_id or "", auth.client_secret or "", scopes=auth.scope, issuer=issuer
    )
    provider.only_issuer, provider.only_scope = issuer, auth.scope
    return provider


def renewing_provider(url: str, grant: Grant, draft: GrantDraft) -> OAuthClientProvider:
    """Make a provider that begins with using `grant`'s refresh token, where that was given out."""
    provider = OAuthClientProvider(url, _metadata(NOWHERE, None), draft)
    provider.context.oauth_metadata = grant.server
    provider.context.protected_resource_metadata = grant.resource
    provider.context.token_expiry_time = LONG_AGO
    return provider


def person_provider(url: str, auth: OAuth, draft: GrantDraft, person: Person) -> OAuthClientProvider:
    """Make the provider for a sign-in by a person."""
    provider = _Held(url, _metadata(person.redirect_uri, auth.scope), draft, person.show, person.comes_back)
    provider.only_issuer, provider.only_scope = auth.issuer, auth.scope
    return provider


def registered_client(auth: OAuth, redirect_uri: str) -> OAuthClientInformationFull | None:
    """Give the client that the configuration names; None where we register one ourselves."""
    if auth.client_id is None:
        return None
    return OAuthClientInformationFull(
        client_id=auth.client_id,
        client_secret=auth.client_secret,
        redirect_uris=[AnyUrl(redirect_uri)],
        token_endpoint_auth_method=BASIC if auth.client_secret else "none",
    )


def _metadata(redirect_uri: str, scope: str | None) -> OAuthClientMetadata:
    return OAuthClientMetadata(redirect_uris=[AnyUrl(redirect_uri)], client_name=CLIENT_NAME, scope=scope)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return str(AnyHttpUrl(f"{parts.scheme}://{parts.netloc}"))
