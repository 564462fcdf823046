"""Run the SDK's OAuth flow and limit its requests: their URLs come from the MCP server, which may be hostile.

The flow runs apart from the request that got the 401. As an `httpx.Auth` of the session's client it would hold its lock
while a call or an event stream is open, and a cancelled caller would cancel an exchange after which the old refresh
token is no longer valid.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final, Self
from urllib.parse import urlsplit

import httpx
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError, TokenStorage
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyHttpUrl, AnyUrl, BaseModel, ConfigDict, ValidationError

from toolweave.config.mcp_entry import LOOPBACK_HOSTS, OAuth
from toolweave.errors import OutboundFailed, OutboundRefused
from toolweave.outbound_policy import OutboundPolicy

MAX_LIFETIME_S = 10 * 366 * 24 * 3600
REQUEST_TIMEOUT_S = 10.0
EXCHANGE_TIMEOUT_S = 30.0
MAX_BODY_BYTES = 256 * 1024
PING_REQUEST = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
FORM_CONTENT_TYPE = "application/x-www-form-urlencoded"
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
_ERROR_CODE = re.compile(r"[a-z_]{1,64}")
CLIENT_NAME = "Toolweave"
BASIC: Final = "client_secret_basic"
POST: Final = "client_secret_post"
UNUSED_REDIRECT_URI = "http://127.0.0.1/callback"
EXPIRED_AT = 1.0
MAX_NAMED_SERVERS = 3


class AuthorizationFault(httpx.ConnectError):
    """A request was not sent because there is no valid token; the text is Toolweave's and contains no secret.

    It is a `ConnectError`, so that callers, `last_error` and the log handle it like any HTTP fault after which nothing
    was executed (D-5).
    """


class SignInNeeded(AuthorizationFault):
    """A user has to sign in: `toolweave servers login`."""

    def __init__(self, server: str, reason: str = "") -> None:
        super().__init__(f"needs a sign-in{reason and f' ({reason})'}: run `toolweave servers login {server}`")


def status_line(response: httpx.Response) -> str:
    """Return the status of a response, such as `HTTP 503 Service Unavailable`."""
    return f"HTTP {response.status_code} {httpx.codes.get_reason_phrase(response.status_code)}".rstrip()


def require_safe(url: httpx.URL, resource: httpx.URL) -> None:
    """Require https, and prevent a remote server from redirecting the flow to services of this machine.

    Raises:
        AuthorizationFault: `url` is not https or has credentials, or it is on this machine and `resource` is not.
    """
    is_local = url.host in LOOPBACK_HOSTS
    if is_local and resource.host not in LOOPBACK_HOSTS:
        raise AuthorizationFault("it points at this machine for its authorization, which is refused")
    if url.scheme not in ("http", "https") or (url.scheme != "https" and not is_local) or url.userinfo:
        raise AuthorizationFault(f"it points at {url.scheme}://{url.host} for its authorization: only https is used")


class Destinations:
    """The URLs that one exchange may request.

    Args:
        resource: the MCP server's URL, as configured.
        issuer: the authorization server from the configuration, if any.
        policy: distinguishes public addresses from others (W-09).
    """

    def __init__(self, resource: str, issuer: str | None = None, policy: OutboundPolicy | None = None) -> None:
        self.resource = httpx.URL(resource)
        self._configured_hosts = {self.resource.host, httpx.URL(issuer or resource).host}
        self._policy = policy or OutboundPolicy()

    async def check_url(self, url: httpx.URL) -> None:
        """Check a URL as `require_safe` does; also refuse URLs in private networks that a public server names.

        Hosts from the configuration are allowed. The connection may use other addresses than the checked ones: a name
        that changes its addresses has no certificate for the new host.

        Raises:
            AuthorizationFault: the URL is refused.
        """
        require_safe(url, self.resource)
        if url.host in self._configured_hosts or url.host in LOOPBACK_HOSTS:
            return
        if await self._is_private(url) and not await self._is_private(self.resource):
            raise AuthorizationFault(
                f"it points at {url.host}, in a private network, for its authorization: set auth.issuer if you trust it"
            )

    async def _is_private(self, url: httpx.URL) -> bool:
        try:
            await self._policy.check_url(str(url))
        except OutboundRefused:
            return True
        except OutboundFailed:
            pass  # the name does not resolve here; at most a proxy can resolve it
        return False


class Grant(BaseModel):
    """Tokens, their client and their authorization server; `expires_at` is in seconds since 1970.

    The authorization server's metadata is stored, so that tokens are renewed where they were issued: the MCP server
    could name another URL for the refresh token.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    tokens: OAuthToken
    client: OAuthClientInformationFull
    expires_at: float | None = None
    server: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None

    @property
    def access_token(self) -> str:
        """Return the access token for requests."""
        return self.tokens.access_token

    def is_expired(self, now: float) -> bool:
        """Return whether the access token has expired; without an expiry time only a 401 shows it."""
        return self.expires_at is not None and now >= self.expires_at

    def to_json(self) -> str:
        """Return the grant as JSON for a vault."""
        return self.model_dump_json(exclude_none=True)

    @classmethod
    def from_json(cls, text: str) -> Self | None:
        """Parse the JSON of `to_json`; None for any other text."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            return None


class GrantDraft(TokenStorage):
    """The SDK's token storage during one exchange; its contents become a `Grant` afterwards.

    It exists because the SDK's flow would store tokens without their expiry time and authorization server, and would
    lose a refresh token that a server does not repeat (RFC 6749 section 6).
    """

    def __init__(self, client: OAuthClientInformationFull | None = None, tokens: OAuthToken | None = None) -> None:
        self.client = client
        self.tokens = tokens
        self._received: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """Return the initial tokens."""
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store new tokens."""
        refresh_token = self.tokens.refresh_token if self.tokens else None
        self._received = tokens.model_copy(update={"refresh_token": tokens.refresh_token or refresh_token})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the OAuth client."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store the registered client."""
        self.client = client_info

    def build_grant(self, context: OAuthContext) -> Grant | None:
        """Return the grant from the exchange, None if it has not returned tokens yet."""
        if self._received is None or context.client_info is None:
            return None
        lifetime = self._received.expires_in
        return Grant(
            tokens=self._received,
            client=context.client_info,
            expires_at=time.time() + lifetime if lifetime is not None and 0 < lifetime <= MAX_LIFETIME_S else None,
            server=context.oauth_metadata,
            resource=context.protected_resource_metadata,
        )


class GrantRefused(AuthorizationFault):
    """The authorization server rejects the request permanently; `code` is from RFC 6749 section 5.2, or empty."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


async def run_flow(
    provider: "GrantFlow", challenge: str | None, destinations: Destinations, *, timeout_s: float = EXCHANGE_TIMEOUT_S
) -> Grant:
    """Run the flow until the provider has new tokens, and return them.

    It starts with a 401 whose WWW-Authenticate header is `challenge`.

    Raises:
        GrantRefused: the authorization server rejects the request.
        AuthorizationFault: it cannot be reached, or a response of it or of the MCP server is not valid.
    """
    request = httpx.Request("GET", provider.context.server_url)
    refusal = httpx.Response(401, headers={"WWW-Authenticate": challenge or "Bearer"}, request=request)
    try:
        async with asyncio.timeout(timeout_s), _client() as client, aclosing(provider.async_auth_flow(request)) as flow:
            outgoing = await anext(flow)
            while (grant := provider.draft.build_grant(provider.context)) is None:
                response = refusal if outgoing is request else await _send(client, destinations, outgoing)
                outgoing = await flow.asend(response)
            return grant
    except TimeoutError:
        raise AuthorizationFault(f"its authorization server did not finish within {timeout_s:g} s") from None
    except AuthorizationFault:
        raise
    except (OAuthFlowError, ValueError, OverflowError, httpx.InvalidURL, httpx.HTTPError) as error:
        # Invalid metadata raises many kinds of errors; pydantic's own text would quote the metadata.
        safe = isinstance(error, OAuthFlowError) and not isinstance(error, OAuthTokenError | OAuthRegistrationError)
        detail = str(error) if safe else type(error).__name__
        raise AuthorizationFault(f"its authorization cannot be used: {detail}") from None


async def fetch_challenge(url: str, headers: dict[str, str], *, uses_sse: bool) -> str | None:
    """Send a request without a token and return the server's WWW-Authenticate challenge, if there is one.

    Args:
        url: the server's URL.
        headers: the headers from its configuration.
        uses_sse: the server uses SSE, where a session starts with a GET.

    Raises:
        AuthorizationFault: it cannot be reached.
    """
    accept = {"Accept": "application/json, text/event-stream"}
    body = None if uses_sse else PING_REQUEST
    async with _client() as client:
        request = client.build_request("GET" if uses_sse else "POST", url, headers=headers | accept, json=body)
        try:
            response = await client.send(request, stream=True)
            await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise AuthorizationFault(f"the server cannot be reached ({type(error).__name__})") from None
    refused = response.status_code == httpx.codes.UNAUTHORIZED
    return response.headers.get("www-authenticate") if refused else None


def _client() -> httpx.AsyncClient:
    # A small compressed response could be huge after decompression.
    return httpx.AsyncClient(timeout=REQUEST_TIMEOUT_S, headers={"Accept-Encoding": "identity"})


async def _send(client: httpx.AsyncClient, destinations: Destinations, request: httpx.Request) -> httpx.Response:
    """Check and send one request of the flow; redirects are not followed.

    Raises:
        AuthorizationFault: the URL is refused, there is no response, or the response is too large or not valid.
    """
    await destinations.check_url(request.url)
    request.headers["Accept-Encoding"] = "identity"
    origin = f"{request.url.scheme}://{request.url.netloc.decode()}"
    try:
        response = await client.send(request, stream=True)
        async with aclosing(response):
            content = await _read_content(response, origin)
    except AuthorizationFault:
        raise
    except httpx.TransportError as error:
        reason = type(error).__name__
        raise AuthorizationFault(f"{origin} cannot be reached for its authorization ({reason})") from error
    buffered = httpx.Response(response.status_code, headers=response.headers, content=content, request=request)
    buffered.next_request = response.next_request
    _check_response(request, buffered)
    return buffered


async def _read_content(response: httpx.Response, origin: str) -> bytes:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise AuthorizationFault(f"{origin} sent a compressed response, which was not requested")
    content = bytearray()
    async for chunk in response.aiter_raw():
        content += chunk
        if len(content) > MAX_BODY_BYTES:
            raise AuthorizationFault(f"{origin} sent a response of more than {MAX_BODY_BYTES} bytes")
    return bytes(content)


def _check_response(request: httpx.Request, response: httpx.Response) -> None:
    """Raise an error where the SDK would continue, or would log and raise the response with the tokens in it."""
    if request.method != "POST" and response.is_server_error:
        # The SDK would continue as with a server that publishes no metadata.
        raise _server_fault(response)
    if response.next_request is not None or request.method != "POST":
        return
    if request.headers.get("content-type", "").startswith(FORM_CONTENT_TYPE):
        if not response.is_success:
            raise _refusal_error(response)
        _require_model(OAuthToken, response)
    elif response.status_code in (200, 201):
        _require_model(OAuthClientInformationFull, response)
    else:
        raise GrantRefused(f"client registration was refused ({status_line(response)}): set auth.client_id")


def _refusal_error(response: httpx.Response) -> AuthorizationFault:
    if response.is_server_error or response.status_code == httpx.codes.TOO_MANY_REQUESTS:
        return _server_fault(response)
    try:
        code = str(json.loads(response.content)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        code = ""
    if not _ERROR_CODE.fullmatch(code):
        code = ""
    return GrantRefused(f"its authorization server rejects the request: {code or status_line(response)}", code)


def _server_fault(response: httpx.Response) -> AuthorizationFault:
    return AuthorizationFault(f"its authorization server failed ({status_line(response)})")


def _require_model(model: type[BaseModel], response: httpx.Response) -> None:
    try:
        parsed = model.model_validate_json(response.content)
    except ValidationError:
        raise AuthorizationFault(f"its authorization server's response is not a valid {model.__name__}") from None
    if not isinstance(parsed, OAuthToken):
        return
    tokens = (parsed.access_token, parsed.refresh_token or "-")
    if not all(_TOKEN.fullmatch(token) for token in tokens):
        raise AuthorizationFault("its authorization server issued tokens that are not valid in a header")


class GrantFlow(OAuthClientProvider):
    """The SDK's flow, restricted to an issuer and a scope: the SDK itself uses any issuer that the MCP server names.

    It starts with the client and the tokens of its `draft`, and stores the new ones there.
    """

    draft: GrantDraft
    only_issuer: str | None = None
    only_scope: str | None = None

    def _select_authorization_server(self, advertised: list[str]) -> str:
        if self.only_issuer is None:
            return advertised[0]
        for server in advertised:
            if issuers_match(server, self.only_issuer):
                return server
        named = ", ".join(advertised[:MAX_NAMED_SERVERS])
        raise OAuthFlowError(f"the server names {named} as its authorization server: if you trust it, set auth.issuer")

    async def _perform_authorization(self) -> httpx.Request:
        if self.only_scope is not None:
            self.context.client_metadata.scope = self.only_scope
        client, server = self.context.client_info, self.context.oauth_metadata
        methods = (server and server.token_endpoint_auth_methods_supported) or [BASIC]
        if client and client.token_endpoint_auth_method == BASIC and BASIC not in methods and POST in methods:
            client.token_endpoint_auth_method = POST
        return await super()._perform_authorization()


class _CredentialsFlow(GrantFlow, ClientCredentialsOAuthProvider):
    """The client_credentials grant."""


def client_credentials_flow(url: str, auth: OAuth) -> GrantFlow:
    """Return the client_credentials flow; it sends the secret to the configured issuer or the server's own origin."""
    issuer, draft = auth.issuer or _origin(url), GrantDraft()
    flow = _CredentialsFlow(
        url, draft, auth.client_id or "", auth.client_secret or "", scopes=auth.scope, issuer=issuer
    )
    flow.draft, flow.only_issuer, flow.only_scope = draft, issuer, auth.scope
    return flow


def refresh_flow(url: str, grant: Grant) -> GrantFlow:
    """Return a flow that sends `grant`'s refresh token to the authorization server that issued it."""
    draft = GrantDraft(grant.client, grant.tokens)
    flow = GrantFlow(url, _client_metadata(UNUSED_REDIRECT_URI, None), draft)
    flow.draft = draft
    flow.context.oauth_metadata = grant.server
    flow.context.protected_resource_metadata = grant.resource
    flow.context.token_expiry_time = EXPIRED_AT
    return flow


def sign_in_flow(
    url: str,
    auth: OAuth,
    redirect_uri: str,
    show_url: Callable[[str], Awaitable[None]],
    wait_for_code: Callable[[], Awaitable[tuple[str, str | None]]],
) -> GrantFlow:
    """Return the flow for a user's sign-in: `show_url` shows a URL, `wait_for_code` returns the code and the state."""
    draft = GrantDraft(_configured_client(auth, redirect_uri))
    flow = GrantFlow(url, _client_metadata(redirect_uri, auth.scope), draft, show_url, wait_for_code)
    flow.draft, flow.only_issuer, flow.only_scope = draft, auth.issuer, auth.scope
    return flow


def _configured_client(auth: OAuth, redirect_uri: str) -> OAuthClientInformationFull | None:
    """Return the OAuth client from the configuration, None if Toolweave has to register one."""
    if auth.client_id is None:
        return None
    return OAuthClientInformationFull(
        client_id=auth.client_id,
        client_secret=auth.client_secret,
        redirect_uris=[AnyUrl(redirect_uri)],
        token_endpoint_auth_method=BASIC if auth.client_secret else "none",
    )


def _client_metadata(redirect_uri: str, scope: str | None) -> OAuthClientMetadata:
    return OAuthClientMetadata(redirect_uris=[AnyUrl(redirect_uri)], client_name=CLIENT_NAME, scope=scope)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return str(AnyHttpUrl(f"{parts.scheme}://{parts.netloc}"))
