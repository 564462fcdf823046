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
from toolweave.servers.core.credentials import CALLER_SCOPE_KEY, JWKS_ALGORITHMS, read_core_credentials
from toolweave.servers.core.server import open_core_server

JWKS_TIMEOUT_S = 4.0
CLOCK_SKEW_S = 60
OPERATOR_CLIENT_ID = "operator"
_MAX_TOKEN_LENGTH = 16_384


def build_core_auth(settings: Settings) -> AuthProvider | None:
    """Build what checks the tokens of callers; None where the operator has set nothing to check them by.

    Raises:
        ConfigError: as `core_credentials`.
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
    """Check bearer tokens against the operator's own."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the operator for the operator's token, None for another."""
        is_own = hmac.compare_digest(token.encode(), self._token.encode())
        return AccessToken(token=token, client_id=OPERATOR_CLIENT_ID, scopes=[]) if is_own else None


class SignedTokenVerifier(JWTVerifier):
    """FastMCP's verifier, for tokens that end: one without an end would let its holder in for ever."""

    async def load_access_token(self, token: str) -> AccessToken | None:
        """Check a token's signature, issuer, audience, beginning and end."""
        verified = await super().load_access_token(token) if len(token) <= _MAX_TOKEN_LENGTH else None
        if verified is None or not _is_number(verified.claims.get("exp")):
            return None
        not_before = verified.claims.get("nbf", 0)
        if not _is_number(not_before) or not_before > time.time() + CLOCK_SKEW_S:
            return None
        # To whom a session belongs: another subject of the same client must not go on with it.
        subject = verified.claims.get("sub")
        return verified.model_copy(update={"subject": None if subject is None else str(subject)})

    async def _fetch_jwks(self) -> dict[str, Any]:
        # FastMCP has no limit for the whole of it, and no word for the operator.
        try:
            async with asyncio.timeout(JWKS_TIMEOUT_S):
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
MAX_SESSIONS = 1_000
# Of a burst, before those it takes the place of are gone.
BURST_SESSIONS = 50
_SESSION_HEADER = MCP_SESSION_ID_HEADER.encode()


class SessionLimitMiddleware:
    """ASGI middleware before the sessions of a server: a new one takes the place of the one that is idle longest.

    A client whose session is gone gets 404 and opens another. While all are in use, new ones are refused with 503. A
    caller that middleware before us has let in has its sessions alone: to others they do not exist.
    """

    def __init__(
        self, app: ASGIApp, manager: StreamableHTTPSessionManager, *, limit: int = MAX_SESSIONS, idle_s: float = IDLE_S
    ) -> None:
        self._app = app
        self._manager = manager
        self._limit = limit
        manager.session_idle_timeout, manager.max_sessions = idle_s, limit + BURST_SESSIONS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; make room for the session that it may open."""
        if scope["type"] == "http" and not any(name == _SESSION_HEADER for name, _ in scope["headers"]):
            self._close_longest_idle()
        if caller := scope.get(CALLER_SCOPE_KEY):
            # Where the library looks for the caller.
            scope = {**scope, "user": AuthenticatedUser(AccessToken(token="", client_id=caller, scopes=[]))}
        await self._app(scope, receive, send)

    def _close_longest_idle(self) -> None:
        open_sessions = self._manager._server_instances  # noqa: SLF001 - FastMCP's own way to them
        if len(open_sessions) < self._limit:
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
    async with open_core_server(settings, auth=build_core_auth(settings)) as server:
        app = server.http_app(
            path=path, transport="http", json_response=False, stateless_http=False, host_origin_protection=False
        )
        async with app.lifespan(app):
            yield SessionLimitMiddleware(app, find_session_manager(app, path))


def find_session_manager(app: StarletteWithLifespan, path: str) -> StreamableHTTPSessionManager:
    """Find the sessions of an application: FastMCP offers no other way to limit them."""
    endpoint: Any = next(getattr(route, "endpoint", None) for route in app.routes if getattr(route, "path", "") == path)
    while not isinstance(endpoint, StreamableHTTPASGIApp):
        endpoint = endpoint.app  # what requires authentication stands around it
    assert endpoint.session_manager is not None, "it is made by the lifespan"  # noqa: S101 - for the type
    return endpoint.session_manager
