"""Keep sessions to their callers, and from piling up: those left without a word, and more than fit into memory."""

import math

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import ASGIApp, Receive, Scope, Send

from toolweave.servers.core.credentials import CALLER

# A client that is there keeps a stream open, which is not idle.
IDLE_S = 300.0
# At 65 kB each.
MOST_SESSIONS = 1_000
# Of a burst, before those it takes the place of are gone.
SPARE = 50

_HEADER = MCP_SESSION_ID_HEADER.encode()


class BoundedSessions:
    """ASGI middleware before the sessions of a server: a new one takes the place of the one that is idle longest.

    A client whose session is gone hears 404 and opens another. While all are in use, new ones are refused with 503.
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
        await self._app(scope, receive, send)

    def _make_room(self) -> None:
        kept = self._sessions._server_instances  # noqa: SLF001 - FastMCP's own way to them
        if len(kept) < self._most:
            return
        # The deadline is moved with each request, and there is none while one is open.
        scopes = [transport.idle_scope for transport in kept.values() if transport.idle_scope is not None]
        idle = [scope for scope in scopes if scope.deadline < math.inf and not scope.cancel_called]
        if idle:
            min(idle, key=lambda scope: scope.deadline).cancel()


class OwnedSessions:
    """ASGI middleware before the sessions of a server: who was let in by somebody before us keeps a session alone.

    To others it does not exist, as that of one token does not for another.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its caller as the library looks for it."""
        if caller := scope.get(CALLER):
            scope = {**scope, "user": AuthenticatedUser(AccessToken(token="", client_id=caller, scopes=[]))}
        await self._app(scope, receive, send)
