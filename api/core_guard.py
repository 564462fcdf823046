"""Decide who reaches the core server: by Host and Origin, by what is bound, and by whom the API knows (T-08, C-01)."""

import re
from dataclasses import replace
from hashlib import sha256

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from toolweave.api.clients import SERVED_BY, api_client
from toolweave.api.core_opening import rpc_error
from toolweave.api.http_guard import HttpGuard, Visitors
from toolweave.api.routes.callers import ask_the_api, may_know_callers
from toolweave.config.settings import Settings
from toolweave.origins import is_loopback
from toolweave.servers.core.credentials import CALLER, core_credentials

REFUSED = -32001
# Where proxies write for whom they speak, beside `Forwarded` (RFC 7239).
PROXY_HEADERS = (
    *("x-forwarded-for", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip", "fastly-client-ip"),
    *("fly-client-ip", "x-cluster-client-ip", "x-envoy-external-address", "x-original-forwarded-for"),
)
WITH_PORT = re.compile(r"\[(?P<v6>[0-9A-Fa-f:.]+)\](?::[0-9]+)?|(?P<v4>[0-9.]+)(?::[0-9]+)?")
UNGUARDED = (
    "The core tools read databases and files of this machine: where others can reach them, callers must show a token. "
    "Set TOOLWEAVE_CORE_TOKEN, or TOOLWEAVE_CORE_JWKS_URL or TOOLWEAVE_CORE_JWT_PUBLIC_KEY with "
    "TOOLWEAVE_CORE_JWT_ISSUER and TOOLWEAVE_CORE_JWT_AUDIENCE."
)
NOT_NAMED = (
    "Pages of just any origin may not use the core tools without a token: name this page's in TOOLWEAVE_CORS_ORIGINS, "
    "where * does not count for them, or set TOOLWEAVE_CORE_TOKEN."
)


class CoreGuard:
    """ASGI middleware before the core server.

    Where the operator has set credentials, the core server itself asks for them. Without any it is open to callers on
    this machine whom the API knows, and closed to others, whatever else an insecure bind may allow; of pages only those
    are let in whose origin somebody has named. A session is then for the credentials that it was opened with.

    Raises:
        ConfigError: a `core_…` setting cannot be used.
    """

    def __init__(self, settings: Settings, app: ASGIApp) -> None:
        self._app = app
        self._has_credentials = core_credentials(settings).are_set
        self._is_bound_to_loopback = is_loopback(settings.host)
        self._visitors = Visitors.of(settings)
        self._at_home = HttpGuard(self._admit, self._visitors)
        self._abroad = HttpGuard(self._admit, replace(self._visitors, host_names=None))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check Host and Origin by the rules of our server, in which that has been done already."""
        if SERVED_BY in scope:
            await self._admit(scope, receive, send)
            return
        guard = self._at_home if _is_at_home(scope, "server") else self._abroad
        await guard(scope, receive, send)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._has_credentials:
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope) or await self._refusal_of_the_api(scope)
        answer = refusal or self._app
        await answer({**scope, CALLER: _caller(scope)}, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        # What is bound may differ from our setting, and a proxy on this machine tells whom it speaks for.
        at_home = _is_at_home(scope, "server") and (not scope.get("client") or _is_at_home(scope, "client"))
        if not (self._is_bound_to_loopback and at_home):
            return rpc_error(403, REFUSED, UNGUARDED)
        headers = Headers(scope=scope)
        if not all(map(is_loopback, _forwarded_for(headers))):
            return rpc_error(403, REFUSED, UNGUARDED)
        origin = headers.get("origin")
        visitors: Visitors = scope[SERVED_BY].state.visitors if SERVED_BY in scope else self._visitors
        if origin is not None and not visitors.names_origin(origin, headers.get("host", "")):
            return rpc_error(403, REFUSED, NOT_NAMED)
        return None

    async def _refusal_of_the_api(self, scope: Scope) -> Response | None:
        if not may_know_callers(scope):
            return None
        try:
            await ask_the_api(api_client(Request(scope)))
        except HTTPException as refused:
            headers = {"www-authenticate": "Bearer"} if refused.status_code == 401 else None
            return rpc_error(refused.status_code, REFUSED, refused.detail, headers)
        return None


def _forwarded_for(headers: Headers) -> list[str]:
    """Return the addresses that proxies say they speak for; what is no address stands for itself."""
    given = [each for name in PROXY_HEADERS for value in headers.getlist(name) for each in value.split(",")]
    for element in (each for value in headers.getlist("forwarded") for each in value.split(",")):
        pairs = [pair.partition("=") for pair in element.split(";")]
        # A proxy that does not say for whom it speaks does not speak for this machine.
        given += [value for name, _, value in pairs if name.strip().lower() == "for"] or [""]
    return [_address(each) for each in given]


def _address(text: str) -> str:
    """Take the address out of one with a port, such as `127.0.0.1:5000` or `"[::1]:5000"`."""
    found = WITH_PORT.fullmatch(text.strip().strip('"'))
    return found["v6"] or found["v4"] if found else text.strip()


def _caller(scope: Scope) -> str | None:
    """Tell a caller whom the API lets in from others: by a digest of the credentials; None where it asks for none."""
    if not may_know_callers(scope):
        return None
    headers = Headers(scope=scope)
    keys = [headers.get(name, "") for name in ("authorization", "x-api-key")]
    # Pages set cookies for other reasons, too.
    shown = keys if any(keys) else [headers.get("cookie", "")]
    return sha256("\n".join(shown).encode()).hexdigest()


def _is_at_home(scope: Scope, end: str) -> bool:
    """Say whether the connection's end, server or client, is an address of loopback."""
    address: tuple[str, int] | None = scope.get(end)
    return address is not None and is_loopback(address[0])
