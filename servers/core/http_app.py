"""Serve the core server over HTTP: authenticate its callers by token, and limit its sessions (C-01)."""

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
from toolweave.servers.core.credentials import CALLER_SCOPE_KEY, JWKS_ALGORITHMS, read_core_credentials
from toolweave.servers.core.server import open_core_server

JWKS_TIMEOUT_S = 4.0
CLOCK_SKEW_S = 60
OPERATOR_CLIENT_ID = "operator"
_MAX_TOKEN_LENGTH = 16_384


def build_core_auth(settings: Settings) -> AuthProvider | None:
    """Build the verifier of callers' tokens; None if no credential is configured.

    Raises:
        ConfigError: as `read_core_credentials`.
    """
    credentials = read_core_credentials(settings)
    verifier = partial(SignedTokenVerifier, issuer=credentials.issuer, audience=credentials.audience)
    verifiers: list[TokenVerifier] = [OperatorTokenVerifier(credentials.token)] if credentials.token else []
    if key := credentials.public_key:
        verifiers.append(verifier(public_key=key.pem, algorithm=key.algorithm))
    if url := credentials.jwks_url:
        verifiers += [verifier(jwks_uri=url, algorithm=algorithm) for algorithm in JWKS_ALGORITHMS]
    return MultiAuth(verifiers=verifiers) if verifiers else None


class OperatorTokenVerifier(TokenVerifier):
    """Verify bearer tokens by comparing them with the operator's token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the operator's access token; None for any other token."""
        is_own = hmac.compare_digest(token.encode(), self._token.encode())
        return AccessToken(token=token, client_id=OPERATOR_CLIENT_ID, scopes=[]) if is_own else None


class SignedTokenVerifier(JWTVerifier):
    """FastMCP's JWT verifier, which additionally requires an expiry: a token without one would be valid for ever."""

    async def load_access_token(self, token: str) -> AccessToken | None:
        """Verify a token's signature, issuer, audience, `nbf` and `exp`; return None if one is invalid."""
        verified = await super().load_access_token(token) if len(token) <= _MAX_TOKEN_LENGTH else None
        if verified is None or not _is_number(verified.claims.get("exp")):
            return None
        not_before = verified.claims.get("nbf", 0)
        if not _is_number(not_before) or not_before > time.time() + CLOCK_SKEW_S:
            return None
        # A session belongs to a subject: another subject of the same client must not continue it.
        subject = verified.claims.get("sub")
        return verified.model_copy(update={"subject": None if subject is None else str(subject)})

    async def _fetch_jwks(self) -> dict[str, Any]:
        # FastMCP has no timeout for the whole download and logs nothing for the operator.
        try:
            async with asyncio.timeout(JWKS_TIMEOUT_S):
                keys: Any = await super()._fetch_jwks()
        except (TimeoutError, httpx.HTTPError, ValueError) as error:
            logger.error("the keys at TOOLWEAVE_CORE_JWKS_URL cannot be fetched: {}", type(error).__name__)
            raise ValueError("no keys") from None
        if not isinstance(keys, dict) or not isinstance(keys.get("keys"), list):
            logger.error("TOOLWEAVE_CORE_JWKS_URL returned something that is not a JSON Web Key Set")
            raise ValueError("no keys")  # noqa: TRY004 - what FastMCP expects
        return keys


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# A connected client keeps a stream open; its session is not idle.
IDLE_S = 300.0
# 65 kB each.
MAX_SESSIONS = 1_000
# Further sessions that a burst may open before the evicted ones have closed.
BURST_SESSIONS = 50
_SESSION_HEADER = MCP_SESSION_ID_HEADER.encode()


class SessionLimitMiddleware:
    """ASGI middleware that limits a server's sessions: at the limit, a new session evicts the one idle longest.

    A client whose session was evicted gets 404 and opens another one. If no session is idle, a new one is refused with
    503. A caller that earlier middleware has authenticated owns its sessions: other callers get 404 for them.
    """

    def __init__(
        self, app: ASGIApp, manager: StreamableHTTPSessionManager, *, limit: int = MAX_SESSIONS, idle_s: float = IDLE_S
    ) -> None:
        self._app = app
        self._manager = manager
        self._limit = limit
        manager.session_idle_timeout, manager.max_sessions = idle_s, limit + BURST_SESSIONS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, after evicting an idle session if the request may open one."""
        if scope["type"] == "http" and not any(name == _SESSION_HEADER for name, _ in scope["headers"]):
            self._close_longest_idle()
        if caller := scope.get(CALLER_SCOPE_KEY):
            # The library reads the session's owner from here.
            scope = {**scope, "user": AuthenticatedUser(AccessToken(token="", client_id=caller, scopes=[]))}
        await self._app(scope, receive, send)

    def _close_longest_idle(self) -> None:
        open_sessions = self._manager._server_instances  # noqa: SLF001 - FastMCP accesses them the same way
        if len(open_sessions) < self._limit:
            return
        # Each request moves the deadline; while a request is open, the deadline is infinite.
        scopes = [transport.idle_scope for transport in open_sessions.values() if transport.idle_scope is not None]
        idle = [scope for scope in scopes if scope.deadline < math.inf and not scope.cancel_called]
        if idle:
            min(idle, key=lambda scope: scope.deadline).cancel()


@asynccontextmanager
async def open_http_app(settings: Settings, path: str) -> AsyncIterator[ASGIApp]:
    """Open the core server over streamable HTTP at `path`; its sessions close with the context.

    It has sessions and event streams, because progress, logs and cancellation need them. It does not check Host and
    Origin: the application that mounts it does.

    Raises:
        ConfigError: a `core_…` setting is invalid.
    """
    async with open_core_server(settings, auth=build_core_auth(settings)) as server:
        app = server.http_app(
            path=path, transport="http", json_response=False, stateless_http=False, host_origin_protection=False
        )
        async with app.lifespan(app):
            yield SessionLimitMiddleware(app, find_session_manager(app, path))


def find_session_manager(app: StarletteWithLifespan, path: str) -> StreamableHTTPSessionManager:
    """Return the session manager of an application: FastMCP has no public way to limit its sessions."""
    endpoint: Any = next(getattr(route, "endpoint", None) for route in app.routes if getattr(route, "path", "") == path)
    while not isinstance(endpoint, StreamableHTTPASGIApp):
        endpoint = endpoint.app  # unwrap the authentication middleware
    assert endpoint.session_manager is not None, "the lifespan creates it"  # noqa: S101 - for the type
    return endpoint.session_manager
