"""Decide who reaches the core server: by Host and Origin, by what is bound, and by whom the API knows (T-08, C-01)."""

from dataclasses import replace

from fastapi import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from toolweave.api.clients import SERVED_BY, api_client
from toolweave.api.core_opening import rpc_error
from toolweave.api.http_guard import HttpGuard, Visitors, is_loopback
from toolweave.api.routes.callers import known_to_the_api
from toolweave.config.settings import Settings
from toolweave.servers.core.credentials import core_credentials

REFUSED = -32001
UNGUARDED = (
    "The core tools read databases and files of this machine: where others can reach them, callers must show a token. "
    "Set TOOLWEAVE_CORE_TOKEN, or TOOLWEAVE_CORE_JWKS_URL or TOOLWEAVE_CORE_JWT_PUBLIC_KEY with "
    "TOOLWEAVE_CORE_JWT_ISSUER and TOOLWEAVE_CORE_JWT_AUDIENCE."
)


class CoreGuard:
    """ASGI middleware before the core server.

    Where the operator has set credentials, the core server itself asks for them. Without any it is open to callers on
    this machine whom the API knows, and closed to others, whatever else an insecure bind may allow.

    Raises:
        ConfigError: a `core_…` setting cannot be used.
    """

    def __init__(self, settings: Settings, app: ASGIApp) -> None:
        self._app = app
        self._has_credentials = core_credentials(settings).are_set
        self._is_bound_to_loopback = is_loopback(settings.host)
        visitors = Visitors.of(settings)
        self._at_home = HttpGuard(self._admit, visitors)
        self._abroad = HttpGuard(self._admit, replace(visitors, host_names=None))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check Host and Origin by the rules of our server, in which that has been done already."""
        if SERVED_BY in scope:
            await self._admit(scope, receive, send)
            return
        guard = self._at_home if _is_at_home(scope, "server") else self._abroad
        await guard(scope, receive, send)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None if self._has_credentials else await self._refusal(scope)
        await (refusal or self._app)(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Response | None:
        # What is bound may differ from our setting, and a proxy on this machine tells whom it speaks for.
        at_home = _is_at_home(scope, "server") and (not scope.get("client") or _is_at_home(scope, "client"))
        if not (self._is_bound_to_loopback and at_home):
            return rpc_error(403, REFUSED, UNGUARDED)
        served_by = scope.get(SERVED_BY)
        if served_by is not None and not served_by.state.knows_callers:
            return None
        try:
            await known_to_the_api(api_client(Request(scope)))
        except HTTPException as refused:
            headers = {"www-authenticate": "Bearer"} if refused.status_code == 401 else None
            return rpc_error(refused.status_code, REFUSED, refused.detail, headers)
        return None


def _is_at_home(scope: Scope, end: str) -> bool:
    """Say whether the connection's end, server or client, is an address of loopback."""
    address: tuple[str, int] | None = scope.get(end)
    return address is not None and is_loopback(address[0])
