"""Carry the requests of the SDK's OAuth flow, within bounds: the MCP server, which may be hostile, says where they go.

The flow is driven by hand and apart from the request that was refused. As an `httpx.Auth` of the session's client it
would hold its lock while a call or an event stream is open, and a caller who leaves would cut off an exchange after
which the old refresh token is worth nothing.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import httpx
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.types import LATEST_PROTOCOL_VERSION
from pydantic import BaseModel, ValidationError

from toolweave import __version__
from toolweave.servers.connections.oauth.destinations import Destinations
from toolweave.servers.connections.oauth.grant import Grant, GrantDraft
from toolweave.servers.connections.transport.authorization_fault import AuthorizationFault
from toolweave.servers.connections.transport.faults import status_line

REQUEST_LIMIT_S = 10.0
EXCHANGE_LIMIT_S = 30.0
LARGEST_ANSWER = 256 * 1024
LONGEST_EXPIRY_S = 2**53
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": LATEST_PROTOCOL_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "toolweave", "version": __version__},
    },
}
FORM = "application/x-www-form-urlencoded"
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
_ERROR_CODE = re.compile(r"[a-z_]{1,64}")


class Refused(AuthorizationFault):
    """The authorization server declines, and would again; `code` is one of RFC 6749 section 5.2, or empty."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a server answered to a request without a good token: its WWW-Authenticate header."""

    challenge: str | None = None

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Give it as the response that the flow begins with."""
        return httpx.Response(401, headers={"WWW-Authenticate": self.challenge or "Bearer"}, request=request)


async def carry_out(
    provider: OAuthClientProvider,
    draft: GrantDraft,
    refusal: Refusal,
    destinations: Destinations,
    *,
    limit_s: float = EXCHANGE_LIMIT_S,
) -> Grant:
    """Drive the flow from a refused request until the provider has put new tokens into `draft`.

    Raises:
        Refused: the authorization server declines.
        AuthorizationFault: it cannot be reached, or what it or the MCP server says cannot be used.
    """
    context = provider.context
    request = httpx.Request("GET", context.server_url)
    try:
        async with asyncio.timeout(limit_s), _client() as client, aclosing(provider.async_auth_flow(request)) as flow:
            await _drive(flow, draft, _Carrier(client, destinations), request, refusal)
    except TimeoutError:
        raise AuthorizationFault(f"its authorization server did not finish within {limit_s:g} s") from None
    except AuthorizationFault:
        raise
    except (OAuthFlowError, ValueError, OverflowError, httpx.InvalidURL, httpx.HTTPError) as error:
        # Metadata that is not what it should be fails in many ways; pydantic's own text would quote it.
        plain = isinstance(error, OAuthFlowError) and not isinstance(error, OAuthTokenError | OAuthRegistrationError)
        what = str(error) if plain else type(error).__name__
        raise AuthorizationFault(f"its authorization cannot be used: {what}") from None
    grant = draft.grant(context)
    if grant is None:
        raise AuthorizationFault("its authorization ended without a token")
    return grant


async def first_refusal(url: str, headers: dict[str, str], *, listens: bool) -> Refusal:
    """Ask a server without a token, to hear whom to ask for one.

    Args:
        url: the server's.
        headers: what its configuration adds to every request.
        listens: the server speaks SSE, where a session begins with a GET.

    Raises:
        AuthorizationFault: it cannot be reached.
    """
    accept = {"Accept": "application/json, text/event-stream"}
    body = None if listens else HELLO
    async with _client() as client:
        request = client.build_request("GET" if listens else "POST", url, headers=headers | accept, json=body)
        try:
            response = await client.send(request, stream=True)
            await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise AuthorizationFault(f"the server cannot be reached ({type(error).__name__})") from None
    asks = response.status_code == httpx.codes.UNAUTHORIZED
    return Refusal(response.headers.get("www-authenticate") if asks else None)


async def _drive(
    flow: AsyncGenerator[httpx.Request, httpx.Response],
    draft: GrantDraft,
    carrier: "_Carrier",
    request: httpx.Request,
    refusal: Refusal,
) -> None:
    outgoing = await anext(flow)
    while not draft.has_new_tokens:
        if outgoing is request:
            answer = refusal.answer(request)
        else:
            answer = await carrier.send(outgoing)
            _check(outgoing, answer)
        outgoing = await flow.asend(answer)


def _client() -> httpx.AsyncClient:
    # A compressed answer could be small on the way and huge here.
    return httpx.AsyncClient(timeout=REQUEST_LIMIT_S, headers={"Accept-Encoding": "identity"})


class _Carrier:
    """Send single requests to where they may go, and take in answers of a bounded size."""

    def __init__(self, client: httpx.AsyncClient, destinations: Destinations) -> None:
        self._client = client
        self._destinations = destinations

    async def send(self, request: httpx.Request) -> httpx.Response:
        """Send one request; redirects are not followed.

        Raises:
            AuthorizationFault: it may not go there, nobody answers, or the answer is too large.
        """
        await self._destinations.check(request.url)
        request.headers["Accept-Encoding"] = "identity"
        origin = f"{request.url.scheme}://{request.url.netloc.decode()}"
        try:
            response = await self._client.send(request, stream=True)
            try:
                content = await _content(response, origin)
            finally:
                await response.aclose()
        except AuthorizationFault:
            raise
        except httpx.TransportError as error:
            why = type(error).__name__
            raise AuthorizationFault(f"{origin} cannot be reached for its authorization ({why})") from error
        whole = httpx.Response(response.status_code, headers=response.headers, content=content, request=request)
        whole.next_request = response.next_request
        return whole


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
        raise Refused(
            f"its authorization server does not register us ({status_line(answer.status_code)}): set auth.client_id"
        )


def _declined(answer: httpx.Response) -> AuthorizationFault:
    if answer.is_server_error or answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
        return _trouble(answer)
    try:
        code = str(json.loads(answer.content)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        code = ""
    if not _ERROR_CODE.fullmatch(code):
        code = ""
    return Refused(f"its authorization server refuses: {code or status_line(answer.status_code)}", code)


def _trouble(answer: httpx.Response) -> AuthorizationFault:
    return AuthorizationFault(f"its authorization server has trouble ({status_line(answer.status_code)})")


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
    if not 0 <= (found.expires_in or 0) <= LONGEST_EXPIRY_S:
        raise AuthorizationFault("its authorization server gives tokens of an impossible age")
