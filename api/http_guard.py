"""Check Origin and Host of requests, and answer CORS (T-08)."""

import re
from dataclasses import dataclass
from typing import Self

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from toolweave.api.errors import detail_response
from toolweave.config.langgraph_json import CorsRules
from toolweave.config.settings import Settings
from toolweave.origins import host_name, is_loopback, split_origin

STUDIO_ORIGIN = "https://smith.langchain.com"
EXPOSED_HEADERS = (
    "x-pagination-total, x-pagination-next, content-location, location, x-ignored-fields, etag, mcp-session-id, "
    "www-authenticate, x-request-id"
)


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The browser origins and Host headers that this server accepts.

    `origins` are allowed beside loopback origins and LangSmith Studio; `any_origin` allows all. `host_names` None
    accepts any Host, for a server that other machines may reach. `cors` is `http.cors` of langgraph.json: its origins
    are in `origins`, its other options apply to all.
    """

    origins: frozenset[str]
    any_origin: bool
    host_names: frozenset[str] | None
    cors: CorsRules

    @classmethod
    def from_settings(cls, settings: Settings, cors: CorsRules | None = None) -> Self:
        """Build the rules from the settings; a server bound to loopback accepts loopback names only."""
        names = frozenset({settings.host.lower()}) if is_loopback(settings.host) else None
        cors = cors or CorsRules()
        configured = (*settings.cors_origins, *cors.allow_origins)
        origins = frozenset({STUDIO_ORIGIN, *(origin.rstrip("/").lower() for origin in configured)})
        return cls(origins, "*" in configured, names, cors)

    def is_trusted_origin(self, origin: str, host: str) -> bool:
        """Return whether an origin is allowed by name, regex, loopback or as our own, not only by a `*`."""
        if origin.lower() in self.origins:
            return True
        if self.cors.allow_origin_regex is not None and re.fullmatch(self.cors.allow_origin_regex, origin):
            return True
        parts = split_origin(origin)
        return parts is not None and (is_loopback(parts[0]) or parts[1] == host.lower())

    def allows_host(self, host: str) -> bool:
        """Return whether a Host is a loopback name or the bind address; other names may be DNS rebinding."""
        if self.host_names is None:
            return True
        name = host_name(host)
        return name is not None and (name in self.host_names or is_loopback(name))


class HttpGuard:
    """ASGI middleware that refuses other origins and hosts, and adds CORS headers to responses."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._rules = rules
        cors = rules.cors

        def cors_middleware(origins: tuple[str, ...], *, credentials: bool) -> CORSMiddleware:
            return CORSMiddleware(
                app,
                allow_origins=origins,
                # Matches all: __call__ has refused other origins already.
                allow_origin_regex=".*",
                allow_methods=("*",) if cors.allow_methods is None else cors.allow_methods,
                allow_headers=("*",) if cors.allow_headers is None else cors.allow_headers,
                allow_credentials=credentials,
                allow_private_network=True,
                expose_headers=(EXPOSED_HEADERS, *cors.expose_headers),
                max_age=cors.max_age,
            )

        self._trusted_cors = cors_middleware((), credentials=cors.allow_credentials)
        self._any_origin_cors = cors_middleware(("*",), credentials=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check Host and Origin, answer preflight requests, and add CORS headers to all other responses."""
        if scope["type"] not in ("http", "websocket"):
            await self._trusted_cors(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        refusal = self._refusal(host, origin)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        rules = self._rules
        # The `*` of TOOLWEAVE_CORS_ORIGINS allows all pages, but without the credentials that langgraph.json allows.
        is_trusted = "*" in rules.cors.allow_origins or (origin is not None and rules.is_trusted_origin(origin, host))
        if rules.any_origin and not (rules.cors.allow_credentials and is_trusted):
            await self._any_origin_cors(scope, receive, send)
        else:
            await self._trusted_cors(scope, receive, send)

    def _refusal(self, host: str, origin: str | None) -> Response | None:
        if not self._rules.allows_host(host):
            return detail_response(421, f"This server accepts requests to loopback names only, not to {host[:200]!r}.")
        if origin is not None and not (self._rules.any_origin or self._rules.is_trusted_origin(origin, host)):
            text = f"Origin {origin[:200]!r} is not allowed. Add it to TOOLWEAVE_CORS_ORIGINS to allow it."
            return detail_response(403, text, {"vary": "Origin"})
        return None
