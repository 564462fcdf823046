"""Carry the requests of the SDK's OAuth flow, within bounds: the MCP server, which may be hostile, says where they go.

The flow is driven by hand and apart from the request that was refused. As an `httpx.Auth` of the session's client it
would hold its lock while a call or an event stream is open, and a caller who leaves would cut off an exchange after
which the old refresh token is worth nothing.
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

LONGEST_LIFE_S = 10 * 366 * 24 * 3600
REQUEST_LIMIT_S = 10.0
EXCHANGE_LIMIT_S = 30.0
LARGEST_ANSWER = 256 * 1024
PING = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
FORM = "application/x-www-form-urlencoded"
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
_ERROR_CODE = re.compile(r"[a-z_]{1,64}")
CLIENT_NAME = "Toolweave"
BASIC: Final = "client_secret_basic"
POSTED: Final = "client_secret_post"
NOWHERE = "http://127.0.0.1/callback"
LONG_AGO = 1.0
SHOWN_SERVERS = 3


class AuthorizationFault(httpx.ConnectError):
    """A request was not carried out for want of a token; the text is ours and holds nothing secret.

    A `ConnectError`, so that it takes the way of all faults of HTTP to callers, `last_error` and the log, as one
    after which nothing was carried out (D-5).
    """


class SignInNeeded(AuthorizationFault):
    """Only a person can help: `toolweave servers login`."""

    def __init__(self, server: str, why: str = "") -> None:
        super().__init__(f"needs a sign-in{why and f' ({why})'}: run `toolweave servers login {server}`")


def status_line(answer: httpx.Response) -> str:
    """Write the status of an answer as `HTTP 503 Service Unavailable`."""
    return f"HTTP {answer.status_code} {httpx.codes.get_reason_phrase(answer.status_code)}".rstrip()


def refuse_unsafe(url: httpx.URL, resource: httpx.URL) -> None:
    """Keep secrets off the open net, and a server elsewhere from sending us to services of this machine.

    Raises:
        AuthorizationFault: it is not https, or holds credentials; or it is on this machine and `resource` is not.
    """
    local = url.host in LOOPBACK_HOSTS
    if local and resource.host not in LOOPBACK_HOSTS:
        raise AuthorizationFault("it points at this machine for its authorization, which is refused")
    if url.scheme not in ("http", "https") or (url.scheme != "https" and not local) or url.userinfo:
        raise AuthorizationFault(f"it points at {url.scheme}://{url.host} for its authorization: only https is used")


class Destinations:
    """Where one exchange may go.

    Args:
        resource: the MCP server's URL, as configured.
        issuer: the authorization server that the configuration names, if it does.
        policy: tells public addresses from others (W-09).
    """

    def __init__(self, resource: str, issuer: str | None = None, policy: OutboundPolicy | None = None) -> None:
        self.resource = httpx.URL(resource)
        self._written = {self.resource.host, httpx.URL(issuer or resource).host}
        self._policy = policy or OutboundPolicy()

    async def check(self, url: httpx.URL) -> None:
        """Refuse what `refuse_unsafe` does, and to be sent by a public server into a private network.

        Hosts that the configuration names are meant. The connection is not bound to the addresses that are checked:
        a name that changes them has no certificate for what it then stands for.

        Raises:
            AuthorizationFault: requests do not go there.
        """
        refuse_unsafe(url, self.resource)
        if url.host in self._written or url.host in LOOPBACK_HOSTS:
            return
        if await self._is_private(url) and not await self._is_private(self.resource):
            raise AuthorizationFault(
                f"it points at {url.host}, in a private network, for its authorization: set auth.issuer if you trust it"
            )

    async def _is_private(self, url: httpx.URL) -> bool:
        try:
            await self._policy.check(str(url))
        except OutboundRefused:
            return True
        except OutboundFailed:
            pass  # the name is known to a proxy at most
        return False


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
        """Return the token that requests carry."""
        return self.tokens.access_token

    def is_expired(self, now: float) -> bool:
        """Return whether the access token's time is over; a server that gave none decides by 401."""
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

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens to begin with."""
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Take new tokens."""
        kept = self.tokens.refresh_token if self.tokens else None
        self._received = tokens.model_copy(update={"refresh_token": tokens.refresh_token or kept})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client to use."""
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


class Refused(AuthorizationFault):
    """The authorization server declines, and would again; `code` is one of RFC 6749 section 5.2, or empty."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


async def carry_out(
    provider: "GrantFlow", challenge: str | None, destinations: Destinations, *, limit_s: float = EXCHANGE_LIMIT_S
) -> Grant:
    """Drive the flow until the provider has new tokens.

    It begins with a request that was refused with `challenge`, the WWW-Authenticate header.

    Raises:
        Refused: the authorization server declines.
        AuthorizationFault: it cannot be reached, or what it or the MCP server says cannot be used.
    """
    request = httpx.Request("GET", provider.context.server_url)
    refusal = httpx.Response(401, headers={"WWW-Authenticate": challenge or "Bearer"}, request=request)
    try:
        async with asyncio.timeout(limit_s), _client() as client, aclosing(provider.async_auth_flow(request)) as flow:
            outgoing = await anext(flow)
            while (grant := provider.draft.grant(provider.context)) is None:
                answer = refusal if outgoing is request else await _answer(client, destinations, outgoing)
                outgoing = await flow.asend(answer)
            return grant
    except TimeoutError:
        raise AuthorizationFault(f"its authorization server did not finish within {limit_s:g} s") from None
    except AuthorizationFault:
        raise
    except (OAuthFlowError, ValueError, OverflowError, httpx.InvalidURL, httpx.HTTPError) as error:
        # Metadata that is not what it should be fails in many ways; pydantic's own text would quote it.
        plain = isinstance(error, OAuthFlowError) and not isinstance(error, OAuthTokenError | OAuthRegistrationError)
        what = str(error) if plain else type(error).__name__
        raise AuthorizationFault(f"its authorization cannot be used: {what}") from None


async def first_challenge(url: str, headers: dict[str, str], *, listens: bool) -> str | None:
    """Send a server a request without a token, and return the challenge that says who gives tokens, if there is one.

    Args:
        url: the server's.
        headers: what its configuration adds to every request.
        listens: the server speaks SSE, where a session begins with a GET.

    Raises:
        AuthorizationFault: it cannot be reached.
    """
    accept = {"Accept": "application/json, text/event-stream"}
    body = None if listens else PING
    async with _client() as client:
        request = client.build_request("GET" if listens else "POST", url, headers=headers | accept, json=body)
        try:
            response = await client.send(request, stream=True)
            await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise AuthorizationFault(f"the server cannot be reached ({type(error).__name__})") from None
    refused = response.status_code == httpx.codes.UNAUTHORIZED
    return response.headers.get("www-authenticate") if refused else None


def _client() -> httpx.AsyncClient:
    # A compressed answer could be small on the way and huge here.
    return httpx.AsyncClient(timeout=REQUEST_LIMIT_S, headers={"Accept-Encoding": "identity"})


async def _answer(client: httpx.AsyncClient, destinations: Destinations, request: httpx.Request) -> httpx.Response:
    """Send one request of the flow to where it may go; redirects are not followed.

    Raises:
        AuthorizationFault: it may not go there, no server answers, or the answer is too large or cannot be used.
    """
    await destinations.check(request.url)
    request.headers["Accept-Encoding"] = "identity"
    origin = f"{request.url.scheme}://{request.url.netloc.decode()}"
    try:
        response = await client.send(request, stream=True)
        async with aclosing(response):
            content = await _content(response, origin)
    except AuthorizationFault:
        raise
    except httpx.TransportError as error:
        why = type(error).__name__
        raise AuthorizationFault(f"{origin} cannot be reached for its authorization ({why})") from error
    answer = httpx.Response(response.status_code, headers=response.headers, content=content, request=request)
    answer.next_request = response.next_request
    _check(request, answer)
    return answer


async def _content(response: httpx.Response, origin: str) -> bytes:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise AuthorizationFault(f"{origin} answers compressed, which was not asked for")
    content = bytearray()
    async for chunk in response.aiter_raw():
        content += chunk
        if len(content) > LARGEST_ANSWER:
            raise AuthorizationFault(f"{origin} answers with more than {LARGEST_ANSWER} bytes")
    return bytes(content)


def _check(request: httpx.Request, answer: httpx.Response) -> None:
    """Stop where the SDK would go on, or log and raise what was answered, with the tokens in it."""
    if request.method != "POST" and answer.is_server_error:
        # The SDK would go on as with a server that publishes nothing.
        raise _trouble(answer)
    if answer.next_request is not None or request.method != "POST":
        return
    if request.headers.get("content-type", "").startswith(FORM):
        if not answer.is_success:
            raise _declined(answer)
        _refuse_other_than(OAuthToken, answer)
    elif answer.status_code in (200, 201):
        _refuse_other_than(OAuthClientInformationFull, answer)
    else:
        raise Refused(f"its authorization server does not register us ({status_line(answer)}): set auth.client_id")


def _declined(answer: httpx.Response) -> AuthorizationFault:
    if answer.is_server_error or answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
        return _trouble(answer)
    try:
        code = str(json.loads(answer.content)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        code = ""
    if not _ERROR_CODE.fullmatch(code):
        code = ""
    return Refused(f"its authorization server refuses: {code or status_line(answer)}", code)


def _trouble(answer: httpx.Response) -> AuthorizationFault:
    return AuthorizationFault(f"its authorization server has trouble ({status_line(answer)})")


def _refuse_other_than(form: type[BaseModel], answer: httpx.Response) -> None:
    try:
        found = form.model_validate_json(answer.content)
    except ValidationError:
        raise AuthorizationFault(f"its authorization server's answer is no {form.__name__}") from None
    if not isinstance(found, OAuthToken):
        return
    tokens = (found.access_token, found.refresh_token or "-")
    if not all(_TOKEN.fullmatch(token) for token in tokens):
        raise AuthorizationFault("its authorization server gives tokens that no header can carry")


class GrantFlow(OAuthClientProvider):
    """The SDK's flow, held to an issuer and a scope: by itself it goes wherever the MCP server points.

    It begins with the client and the tokens of its `draft`, which gets the new ones.
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


class _CredentialsFlow(GrantFlow, ClientCredentialsOAuthProvider):
    """The client_credentials grant."""


def credentials_flow(url: str, auth: OAuth) -> GrantFlow:
    """Make the flow for client_credentials; the secret goes to the configured issuer or the server's own origin."""
    issuer, draft = auth.issuer or _origin(url), GrantDraft()
    flow = _CredentialsFlow(
        url, draft, auth.client_id or "", auth.client_secret or "", scopes=auth.scope, issuer=issuer
    )
    flow.draft, flow.only_issuer, flow.only_scope = draft, issuer, auth.scope
    return flow


def renewing_flow(url: str, grant: Grant) -> GrantFlow:
    """Make a flow that begins with using `grant`'s refresh token, where that was given out."""
    draft = GrantDraft(grant.client, grant.tokens)
    flow = GrantFlow(url, _metadata(NOWHERE, None), draft)
    flow.draft = draft
    flow.context.oauth_metadata = grant.server
    flow.context.protected_resource_metadata = grant.resource
    flow.context.token_expiry_time = LONG_AGO
    return flow


def person_flow(
    url: str,
    auth: OAuth,
    redirect_uri: str,
    show: Callable[[str], Awaitable[None]],
    comes_back: Callable[[], Awaitable[tuple[str, str | None]]],
) -> GrantFlow:
    """Make the flow for a sign-in by a person, who is shown a URL and comes back with a code and the state."""
    draft = GrantDraft(_registered_client(auth, redirect_uri))
    flow = GrantFlow(url, _metadata(redirect_uri, auth.scope), draft, show, comes_back)
    flow.draft, flow.only_issuer, flow.only_scope = draft, auth.issuer, auth.scope
    return flow


def _registered_client(auth: OAuth, redirect_uri: str) -> OAuthClientInformationFull | None:
    """Return the client that the configuration names, None where Toolweave registers one."""
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
