"""Decide which browsers and which host names may talk to the server: CORS, Origin and Host checks (T-08)."""

import re
from dataclasses import dataclass
from typing import Self

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolweave.api.errors import detail_response
from toolweave.config.langgraph_json import CorsRules
from toolweave.config.settings import Settings
from toolweave.origins import host_name, is_loopback, split_origin

STUDIO_ORIGIN = "https://smith.langchain.com"
METHODS = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, QUERY"
EXPOSED = (
    "x-pagination-total, x-pagination-next, content-location, location, x-ignored-fields, etag, mcp-session-id, "
    "www-authenticate"
)


@dataclass(frozen=True, slots=True)
class Visitors:
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
    def of(cls, settings: Settings, cors: CorsRules | None = None) -> Self:
        """Derive the rules from the settings: a loopback bind answers to loopback names only."""
        names = frozenset({settings.host.lower()}) if is_loopback(settings.host) else None
        cors = cors or CorsRules()
        wanted = (*settings.cors_origins, *cors.allow_origins)
        origins = frozenset({STUDIO_ORIGIN, *(origin.rstrip("/").lower() for origin in wanted)})
        return cls(origins, "*" in wanted, names, cors)

    def allow_origin(self, origin: str, host: str) -> bool:
        """Allow listed and loopback origins, and pages that this server itself served."""
        return self.any_origin or self.names_origin(origin, host)

    def names_origin(self, origin: str, host: str) -> bool:
        """Say whether an origin is allowed by more than a `*` that allows all."""
        if origin.lower() in self.origins:
            return True
        if self.cors.allow_origin_regex is not None and re.fullmatch(self.cors.allow_origin_regex, origin):
            return True
        parts = split_origin(origin)
        return parts is not None and (is_loopback(parts[0]) or parts[1] == host.lower())

    def allow_host(self, host: str) -> bool:
        """Allow loopback names and the bind address; a name that merely resolves to us is DNS rebinding."""
        if self.host_names is None:
            return True
        name = host_name(host)
        return name is not None and (name in self.host_names or is_loopback(name))


class HttpGuard:
    """ASGI middleware that refuses strangers and gives the browsers of friends their CORS headers."""

    def __init__(self, app: ASGIApp, visitors: Visitors) -> None:
        self._app = app
        self._visitors = visitors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check Host and Origin, answer preflights, and mark every other response for CORS."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        refusal = self._refusal(headers.get("host", ""), origin)
        if refusal is not None:
            await self._refuse(refusal, scope, receive, send)
        elif scope["type"] == "websocket":
            await self._app(scope, receive, send)
        elif origin and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await self._preflight(headers, origin)(scope, receive, send)
        else:
            await self._app(scope, receive, self._marking(send, origin, headers.get("host", "")))

    def _refusal(self, host: str, origin: str | None) -> Response | None:
        if not self._visitors.allow_host(host):
            return detail_response(421, f"This server answers on loopback names only, not as {host[:200]!r}.")
        if origin is not None and not self._visitors.allow_origin(origin, host):
            text = f"Origin {origin[:200]!r} is not allowed. Add it to TOOLWEAVE_CORS_ORIGINS to allow it."
            return detail_response(403, text, {"vary": "Origin"})
        return None

    @staticmethod
    async def _refuse(refusal: Response, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "Host or Origin not allowed"})
            return
        await refusal(scope, receive, send)

    def _preflight(self, headers: Headers, origin: str) -> Response:
        cors = self._visitors.cors
        answer = {
            "vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers, "
            "Access-Control-Request-Private-Network",
            "access-control-allow-methods": _listed(cors.allow_methods, METHODS),
            "access-control-max-age": str(cors.max_age),
            "access-control-allow-private-network": "true",
            **self._allowed(origin, headers.get("host", "")),
        }
        wanted = headers.get("access-control-request-headers")
        if wanted is not None:
            answer["access-control-allow-headers"] = _listed(cors.allow_headers, wanted)
        return PlainTextResponse("OK", headers=answer)

    def _allowed(self, origin: str, host: str) -> dict[str, str]:
        visitors = self._visitors
        # The `*` of TOOLWEAVE_CORS_ORIGINS lets every page in, but not with the credentials that langgraph.json allows.
        meant = "*" in visitors.cors.allow_origins or visitors.names_origin(origin, host)
        if visitors.cors.allow_credentials and meant:
            # With credentials, browsers take no *.
            return {"access-control-allow-origin": origin, "access-control-allow-credentials": "true"}
        return {"access-control-allow-origin": "*" if self._visitors.any_origin else origin}

    def _marking(self, send: Send, origin: str | None, host: str) -> Send:
        extra = [(b"vary", b"Origin")]
        if origin is not None:
            exposed = ", ".join((EXPOSED, *self._visitors.cors.expose_headers))
            marks = {**self._allowed(origin, host), "access-control-expose-headers": exposed}
            extra += [(name.encode(), value.encode("latin-1")) for name, value in marks.items()]
        ours = {name for name, _ in extra} - {b"vary"}

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                # An application may bring CORS middleware of its own; browsers refuse a header that is there twice.
                kept = [pair for pair in message.get("headers", ()) if pair[0].lower() not in ours]
                message["headers"] = [*kept, *extra]
            await send(message)

        return marked


def _listed(allowed: tuple[str, ...] | None, otherwise: str) -> str:
    return otherwise if allowed is None or "*" in allowed else ", ".join(allowed)
