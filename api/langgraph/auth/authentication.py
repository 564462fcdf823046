"""Find out who sends a request, before anything but the middleware of the application has seen it."""

from collections import OrderedDict
from collections.abc import Iterable
from time import monotonic

from starlette.authentication import AuthCredentials
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from toolweave.api.body_limit import replaying
from toolweave.api.errors import detail_response, status_of
from toolweave.api.langgraph.auth.handlers import AuthHandlers
from toolweave.api.langgraph.custom_app import CustomRoutes
from toolweave.api.langgraph.json_body import read_bytes
from toolweave.api.langgraph.request_headers import configurable_headers
from toolweave.config.langgraph_json import AuthCache, LangGraphJson
from toolweave.errors import Unauthenticated
from toolweave.runtime.caller import Caller, User, calling
from toolweave.runtime.codec import loads

# Answered to anybody, as in the official server.
OPEN = frozenset({"/", "/ok", "/info", "/docs", "/openapi.json", "/metrics"})


class Authentication:
    """ASGI middleware: says in the scope and in `current_caller` who asks, and answers for who may not.

    Only the routes in `OPEN`, and those of the application unless it wants otherwise, are served to anybody.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        handlers: AuthHandlers | None,
        routes: Iterable[BaseRoute],
        config: LangGraphJson,
    ) -> None:
        self._app = app
        self._handlers = handlers
        self._routes = tuple(routes)
        self._http = config.http
        self._known = KnownUsers(config.auth.cache) if config.auth and config.auth.cache else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate, then pass the request on with its user."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = configurable_headers(scope, self._http.configurable_headers)
        if self._handlers is None or self._is_open(scope):
            with calling(Caller(None, headers)):
                await self._app(scope, receive, send)
            return
        try:
            user, receive = await self._user(self._handlers, scope, receive)
        except (HTTPException, Unauthenticated) as error:
            await _refuse(error, scope, receive, send)
            return
        except ClientDisconnect:
            return
        scope["user"], scope["auth"] = user, AuthCredentials(list(user.permissions))
        with calling(Caller(user, headers)):
            await self._app(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        route = self._route(scope)
        if isinstance(route, CustomRoutes):
            return not self._http.enable_custom_route_auth
        return isinstance(route, Route) and route.path in OPEN

    def _route(self, scope: Scope) -> BaseRoute | None:
        """Find the route that will answer, exactly as the router does; None when none will."""
        partly = None
        for route in self._routes:
            match, _ = route.matches(scope)
            if match is Match.FULL:
                return route
            if match is Match.PARTIAL and partly is None:
                partly = route
        return partly

    async def _user(self, handlers: AuthHandlers, scope: Scope, receive: Receive) -> tuple[User, Receive]:
        connection = HTTPConnection(scope)
        known = None if self._known is None else self._known.find(connection)
        if known is not None:
            return known, receive
        user, receive = await self._asked(handlers, scope, receive)
        if self._known is not None:
            self._known.keep(connection, user)
        return user, receive

    async def _asked(self, handlers: AuthHandlers, scope: Scope, receive: Receive) -> tuple[User, Receive]:
        connection = HTTPConnection(scope)
        body = None
        if "body" in handlers.wanted and scope["type"] == "http":
            data = await read_bytes(Request(scope, receive))
            receive = replaying(data, receive)
            body = _json_or_none(data)
        route = self._route(scope)
        path_params = route.matches(scope)[1].get("path_params", {}) if route is not None else {}
        arguments = {
            "request": Request(scope, receive) if scope["type"] == "http" else connection,
            "body": body,
            "path": scope["path"],
            "method": scope.get("method", "GET"),
            "path_params": dict(path_params),
            "query_params": dict(connection.query_params),
            "headers": dict(scope["headers"]),
            "authorization": connection.headers.get("authorization"),
        }
        return await handlers.user_of(arguments), receive


class KnownUsers:
    """Remember users for a while, by the headers that the configuration names."""

    def __init__(self, cache: AuthCache) -> None:
        self._cache = cache
        self._users: OrderedDict[tuple[tuple[str, ...], ...], tuple[float, User]] = OrderedDict()

    def find(self, connection: HTTPConnection) -> User | None:
        """Give the user who sent these headers a short while ago."""
        key = self._key(connection)
        until, user = self._users.get(key, (0.0, None))
        if user is not None and until <= monotonic():
            del self._users[key]
            return None
        return user

    def keep(self, connection: HTTPConnection, user: User) -> None:
        """Remember a user; a request with none of the headers is nobody's."""
        key = self._key(connection)
        if any(key):
            self._users[key] = (monotonic() + self._cache.ttl_seconds, user)
            while len(self._users) > self._cache.max_size:
                self._users.popitem(last=False)

    def _key(self, connection: HTTPConnection) -> tuple[tuple[str, ...], ...]:
        # All values of a header that is there twice: which one the handler goes by is not known here.
        return tuple(tuple(connection.headers.getlist(name)) for name in self._cache.cache_keys)


def _json_or_none(data: bytes) -> object:
    try:
        return loads(data)
    except ValueError:
        return None


async def _refuse(error: HTTPException | Unauthenticated, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": "not authenticated"})
    elif isinstance(error, HTTPException):
        await detail_response(error.status_code, str(error.detail), error.headers)(scope, receive, send)
    else:
        await detail_response(status_of(error), str(error))(scope, receive, send)
