"""Decide which browsers and which host names may talk to the server: CORS, Origin and Host checks (T-08)."""

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
    "www-authenticate"
)


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Who may talk to this server.

    `origins` are allowed beside loopback ones and LangSmith Studio; `any_origin` allows all. `host_names` are the
    names this server answers to; None means any, for a server that other machines may reach. `cors` is what
    langgraph.json wants of `http.cors`: its origins come on top, the rest is for all.
    """

    origins: frozenset[str]
    any_origin: bool
    host_names: frozenset[str] | None
    cors: CorsRules

    @classmethod
    def from_settings(cls, settings: Settings, cors: CorsRules | None = None) -> Self:
        """Derive the rules from the settings: a loopback bind answers to loopback names only."""
        names = frozenset({settings.host.lower()}) if is_loopback(settings.host) else None
        cors = cors or CorsRules()
        wanted = (*settings.cors_origins, *cors.allow_origins)
        origins = frozenset({STUDIO_ORIGIN, *(origin.rstrip("/").lower() for origin in wanted)})
        return cls(origins, "*" in wanted, names, cors)

    def allows_origin(self, origin: str, host: str) -> bool:
        """Allow listed and loopback origins, and pages that this server itself served."""
        return self.any_origin or self.lists_origin(origin, host)

    def lists_origin(self, origin: str, host: str) -> bool:
        """Say whether an origin is allowed by more than a `*` that allows all."""
        if origin.lower() in self.origins:
            return True
        if self.cors.allow_origin_regex is not None and re.fullmatch(self.cors.allow_origin_regex, origin):
            return True
        parts = split_origin(origin)
        return parts is not None and (is_loopback(parts[0]) or parts[1] == host.lower())

    def allows_host(self, host: str) -> bool:
        """Allow loopback names and the bind address; a name that merely resolves to us is DNS rebinding."""
        if self.host_names is None:
            return True
        name = host_name(host)
        return name is not None and (name in self.host_names or is_loopback(name))


class HttpGuard:
    """ASGI middleware that refuses strangers and gives the browsers of friends their CORS headers."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._rules = rules
        cors = rules.cors

        def cors_middleware(origins: tuple[str, ...], *, credentials: bool) -> CORSMiddleware:
            return CORSMiddleware(
                app,
                allow_origins=origins,
                # Other origins have been refused already.
                allow_origin_regex=".*",
                allow_methods=("*",) if cors.allow_methods is None else cors.allow_methods,
                allow_headers=("*",) if cors.allow_headers is None else cors.allow_headers,
                allow_credentials=credentials,
                allow_private_network=True,
                expose_headers=(EXPOSED_HEADERS, *cors.expose_headers),
                max_age=cors.max_age,
            )

        self._listed_origin_cors = cors_middleware((), credentials=cors.allow_credentials)
        self._any_origin_cors = cors_middleware(("*",), credentials=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check Host and Origin, answer preflights, and mark every other response for CORS."""
        if scope["type"] not in ("http", "websocket"):
            await self._listed_origin_cors(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        refusal = self._refusal(host, origin)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        rules = self._rules
        # The `*` of TOOLWEAVE_CORS_ORIGINS lets every page in, but not with the credentials that langgraph.json allows.
        is_listed = "*" in rules.cors.allow_origins or (origin is not None and rules.lists_origin(origin, host))
        if rules.any_origin and not (rules.cors.allow_credentials and is_listed):
            await self._any_origin_cors(scope, receive, send)
        else:
            await self._listed_origin_cors(scope, receive, send)

    def _refusal(self, host: str, origin: str | None) -> Response | None:
        if not self._rules.allows_host(host):
            return detail_response(421, f"This server answers on loopback names only, not as {host[:200]!r}.")
        if origin is not None and not self._rules.allows_origin(origin, host):
            text = f"Origin {origin[:200]!r} is not allowed. Add it to TOOLWEAVE_CORS_ORIGINS to allow it."
            return detail_response(403, text, {"vary": "Origin"})
        return None
