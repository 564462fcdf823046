"""Let in callers of the core server who show a token: the operator's own, or one signed for this service (C-01)."""

import asyncio
import hmac
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
from fastmcp.server.auth import AccessToken, AuthProvider, JWTVerifier, MultiAuth, TokenVerifier
from fastmcp.server.http import StarletteWithLifespan, StreamableHTTPASGIApp
from loguru import logger
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import ASGIApp, Receive, Scope, Send

from toolweave.config.settings import Settings
from toolweave.servers.core.credentials import CALLER, PUBLISHED, core_credentials
from toolweave.servers.core.server import open_core_server

KEYS_LIMIT_S = 4.0
CLOCK_SKEW_S = 60
OPERATOR = "operator"
_LONGEST_TOKEN = 16_384


def core_auth(settings: Settings) -> AuthProvider | None:
    """Build what checks the tokens of callers; None where the operator has set nothing to check them by.

    Raises:
        ConfigError: as `core_credentials`.
    """
    credentials = core_credentials(settings)
    by = partial(SignedTokens, issuer=credentials.issuer, audience=credentials.audience)
    checks: list[TokenVerifier] = [OperatorToken(credentials.token)] if credentials.token else []
    if key := credentials.public_key:
        checks.append(by(public_key=key.pem, algorithm=key.algorithm))
    if url := credentials.jwks_url:
        checks += [by(jwks_uri=url, algorithm=algorithm) for algorithm in PUBLISHED]
    return MultiAuth(verifiers=checks) if checks else None


class OperatorToken(TokenVerifier):
    """Check bearer tokens against the operator's own."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the operator for the operator's token, None for another."""
        is_own = hmac.compare_digest(token.encode(), self._token.encode())
        return AccessToken(token=token, client_id=OPERATOR, scopes=[]) if is_own else None


class SignedTokens(JWTVerifier):
    """FastMCP's verifier, for tokens that end: one without an end would let its holder in for ever."""

    async def load_access_token(self, token: str) -> AccessToken | None:
        """Check a token's signature, issuer, audience, beginning and end."""
        known = await super().load_access_token(token) if len(token) <= _LONGEST_TOKEN else None
        if known is None or not _is_number(known.claims.get("exp")):
            return None
        begins = known.claims.get("nbf", 0)
        if not _is_number(begins) or begins > time.time() + CLOCK_SKEW_S:
            return None
        # To whom a session belongs: another subject of the same client must not go on with it.
        subject = known.claims.get("sub")
        return known.model_copy(update={"subject": None if subject is None else str(subject)})

    async def _fetch_jwks(self) -> dict[str, Any]:
        # FastMCP has no limit for the whole of it, and no word for the operator.
        try:
            async with asyncio.timeout(KEYS_LIMIT_S):
                keys: Any = await super()._fetch_jwks()
        except (TimeoutError, httpx.HTTPError, ValueError) as error:
            logger.error("the keys of TOOLWEAVE_CORE_JWKS_URL cannot be fetched: {}", type(error).__name__)
            raise ValueError("no keys") from None
        if not isinstance(keys, dict) or not isinstance(keys.get("keys"), list):
            logger.error("what TOOLWEAVE_CORE_JWKS_URL gives is no set of keys")
            raise ValueError("no keys")  # noqa: TRY004 - what FastMCP expects
        return keys


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# A client that is there keeps a stream open, which is not idle.
IDLE_S = 300.0
# At 65 kB each.
MOST_SESSIONS = 1_000
# Of a burst, before those it takes the place of are gone.
SPARE = 50
_HEADER = MCP_SESSION_ID_HEADER.encode()


class BoundedSessions:
    """ASGI middleware before the sessions of a server: a new one takes the place of the one that is idle longest.

    A client whose session is gone gets 404 and opens another. While all are in use, new ones are refused with 503. A
    caller that middleware before us has let in has its sessions alone: to others they do not exist.
    """

    def __init__(
        self, app: ASGIApp, sessions: StreamableHTTPSessionManager, *, most: int = MOST_SESSIONS, idle_s: float = IDLE_S
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._most = most
        sessions.session_idle_timeout, sessions.max_sessions = idle_s, most + SPARE

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; make room for the session that it may open."""
        if scope["type"] == "http" and not any(name == _HEADER for name, _ in scope["headers"]):
            self._make_room()
        if caller := scope.get(CALLER):
            # Where the library looks for the caller.
            scope = {**scope, "user": AuthenticatedUser(AccessToken(token="", client_id=caller, scopes=[]))}
        await self._app(scope, receive, send)

    def _make_room(self) -> None:
        open_sessions = self._sessions._server_instances  # noqa: SLF001 - FastMCP's own way to them
        if len(open_sessions) < self._most:
            return
        # The deadline is moved with each request, and there is none while one is open.
        scopes = [transport.idle_scope for transport in open_sessions.values() if transport.idle_scope is not None]
        idle = [scope for scope in scopes if scope.deadline < math.inf and not scope.cancel_called]
        if idle:
            min(idle, key=lambda scope: scope.deadline).cancel()


@asynccontextmanager
async def open_http_app(settings: Settings, path: str) -> AsyncIterator[ASGIApp]:
    """Open the core server over streamable HTTP at `path`; its sessions end with the block.

    With sessions and event streams, because progress, logs and cancellations need them. The application does not look
    at Host and Origin: what serves it does.

    Raises:
        ConfigError: a `core_…` setting cannot be used.
    """
    async with open_core_server(settings, auth=core_auth(settings)) as server:
        app = server.http_app(
            path=path, transport="http", json_response=False, stateless_http=False, host_origin_protection=False
        )
        async with app.lifespan(app):
            yield BoundedSessions(app, sessions_of(app, path))


def sessions_of(app: StarletteWithLifespan, path: str) -> StreamableHTTPSessionManager:
    """Find the sessions of an application: FastMCP offers no other way to limit them."""
    endpoint: Any = next(getattr(route, "endpoint", None) for route in app.routes if getattr(route, "path", "") == path)
    while not isinstance(endpoint, StreamableHTTPASGIApp):
        endpoint = endpoint.app  # what requires authentication stands around it
    assert endpoint.session_manager is not None, "it is made by the lifespan"  # noqa: S101 - for the type
    return endpoint.session_manager
