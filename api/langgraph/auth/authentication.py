"""Find out who sends a request, by the Auth object of the application, before its routes have seen it."""

import asyncio
import inspect
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from time import monotonic
from typing import Any

from langgraph_sdk import Auth
from langgraph_sdk.auth.exceptions import HTTPException as AuthHTTPException
from langgraph_sdk.auth.types import AuthContext
from starlette.authentication import AuthCredentials
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from toolweave.api.errors import detail_response
from toolweave.api.langgraph.custom_app import CustomRoutes
from toolweave.api.langgraph.requests import BODY_LIMIT
from toolweave.api.request_bodies import read_limited, replay_body
from toolweave.config.langgraph_json import AuthCache, HeaderRules, LangGraphJson
from toolweave.errors import ConfigError, Forbidden
from toolweave.runtime.caller import TRACE, Caller, User, calling
from toolweave.runtime.codec import loads
from toolweave.runtime.graphs import load_target
from toolweave.runtime.models import JsonObject
from toolweave.runtime.persistence.search import MetadataFilter, check_filter

HANDLER_PARAMETERS = ("request", "body", "path", "method", "path_params", "query_params", "headers", "authorization")
# Credentials are for the server: no pattern lets them through.
CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key", "x-service-key", "x-tenant-id"})

USER_PROPERTIES = ("identity", "display_name", "is_authenticated", "permissions")


@dataclass(frozen=True, slots=True)
class AuthHandlers:
    """The handlers of one Auth object; `wanted` names the parameters that its authenticate handler takes."""

    auth: Auth
    authenticate: Callable[..., Any]
    parameters: tuple[str, ...]

    async def identify_user(self, arguments: Mapping[str, Any]) -> User:
        """Ask who sent a request.

        Raises:
            HTTPException: what the handler raised, with its status, detail and headers; 401, it found nobody.
        """
        given = {name: arguments[name] for name in self.parameters}
        try:
            if inspect.iscoroutinefunction(self.authenticate):
                found = await self.authenticate(**given)
            else:
                found = await asyncio.to_thread(self.authenticate, **given)
                found = await found if inspect.isawaitable(found) else found
        except AuthHTTPException as error:
            raise HTTPException(error.status_code, error.detail, dict(error.headers or {})) from error
        return _parse_user(found)

    async def permit(self, user: User, resource: str, action: str, value: dict[str, Any]) -> MetadataFilter | None:
        """Ask whether a user may do this; the handler may change `value`. Gives the filter it returned, if any.

        Raises:
            Forbidden: the handler says no, or an assertion of its does.
            HTTPException: what the handler raised.
            WrongFilterError: it returned a filter that means nothing.
        """
        handler = self._handler(resource, action)
        if handler is None:
            return None
        context = AuthContext(permissions=user.permissions, user=user, resource=resource, action=action)  # type: ignore[arg-type]
        try:
            answer = await handler(ctx=context, value=value)
        except AuthHTTPException as error:
            raise HTTPException(error.status_code, error.detail, dict(error.headers or {})) from error
        except AssertionError as error:
            # As the official server's documentation writes handlers: `assert namespace[0] == user, "Not authorized"`.
            raise Forbidden(str(error) or "Forbidden") from error
        if answer is None or answer is True:
            return None
        if not isinstance(answer, Mapping):
            raise Forbidden("Forbidden")
        check_filter(answer)
        return answer or None

    def _handler(self, resource: str, action: str) -> Callable[..., Any] | None:
        """Choose the most specific handler: of the action, of the resource, of the action anywhere, of everything."""
        registered = self.auth._handlers  # noqa: SLF001 - the SDK's promise to servers
        for key in ((resource, action), (resource, "*"), ("*", action)):
            if registered.get(key):
                return registered[key][-1]
        everything = self.auth._global_handlers  # noqa: SLF001 - the SDK's promise to servers
        return everything[-1] if everything else None


def load_auth(config: LangGraphJson) -> AuthHandlers | None:
    """Load `auth.path`; None when langgraph.json names none.

    Raises:
        ConfigError: it cannot be loaded, is no Auth object, or cannot authenticate.
    """
    if config.auth is None:
        return None
    source, target = str(config.path), config.auth.path
    auth = load_target(target, config.path.parent, what="auth", source=source)
    if not isinstance(auth, Auth):
        fix = "Name an object of langgraph_sdk.Auth."
        raise ConfigError(f"auth: {target!r} is a {type(auth).__name__}, no Auth.", source=source, fix=fix)
    handler = auth._authenticate_handler  # noqa: SLF001 - the SDK's promise to servers
    if handler is None:
        fix = "Decorate a function with @auth.authenticate."
        raise ConfigError(f"auth: {target!r} has no authenticate handler.", source=source, fix=fix)
    return AuthHandlers(auth, handler, _parameter_names(handler, source))


def _parameter_names(handler: Callable[..., Any], source: str) -> tuple[str, ...]:
    parameters = inspect.signature(handler).parameters.values()
    named = [item for item in parameters if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)]
    for item in named:
        if item.name not in HANDLER_PARAMETERS and item.default is item.empty:
            raise ConfigError(
                f"auth: the authenticate handler wants {item.name!r}, which no request has.",
                source=source,
                fix=f"It may take {', '.join(HANDLER_PARAMETERS)}.",
            )
    return tuple(item.name for item in named if item.name in HANDLER_PARAMETERS)


def _parse_user(found: Any) -> User:
    """Read a user in any of the SDK's forms: an identity, a mapping, an object with properties."""
    if isinstance(found, str):
        members: Mapping[str, Any] = {"identity": found}
    elif isinstance(found, Mapping):
        members = found
    else:
        properties = {name: getattr(found, name) for name in USER_PROPERTIES if hasattr(found, name)}
        members = {**properties, **getattr(found, "__dict__", {})}
    if not members.get("identity") or members.get("is_authenticated") is False:
        raise HTTPException(401)
    return User({str(name): item for name, item in members.items() if not str(name).startswith("_")})


def configurable_headers(scope: Scope, rules: HeaderRules | None) -> JsonObject:
    """Give the headers that are included and not excluded, in lower case.

    Those that say which trace a request belongs to are included anyway, so that a run can go on with it (T-03).
    """
    includes, excludes = (rules.includes or (), rules.excludes or ()) if rules else ((), ())
    chosen: JsonObject = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        wanted = name in TRACE or (name not in CREDENTIALS and _matches_any(name, includes))
        if wanted and not _matches_any(name, excludes):
            chosen[name] = value.decode("latin-1")
    return chosen


def _matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    # Only * is a wildcard: brackets and question marks stand for themselves.
    return any(fnmatchcase(name, pattern.lower().replace("[", "[[]").replace("?", "[?]")) for pattern in patterns)


class Authentication:
    """ASGI middleware: says in the scope and in `current_caller` who asks, and answers for who may not.

    Only the paths `open_to_all`, and those of the application unless it wants otherwise, are served to anybody.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        handlers: AuthHandlers | None,
        routes: Iterable[BaseRoute],
        public_paths: Collection[str],
        config: LangGraphJson,
    ) -> None:
        self._app = app
        self._handlers = handlers
        self._routes = tuple(routes)
        self._public_paths = public_paths
        self._http = config.http
        self._user_cache = UserCache(config.auth.cache) if config.auth and config.auth.cache else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate, then pass the request on with its user."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = configurable_headers(scope, self._http.configurable_headers)
        if self._handlers is None or self._is_public(scope):
            with calling(Caller(None, headers)):
                await self._app(scope, receive, send)
            return
        try:
            user, receive = await self._user(self._handlers, scope, receive)
        except HTTPException as error:
            await detail_response(error.status_code, str(error.detail), error.headers)(scope, receive, send)
            return
        except ClientDisconnect:
            return
        scope["user"], scope["auth"] = user, AuthCredentials(list(user.permissions))
        with calling(Caller(user, headers)):
            await self._app(scope, receive, send)

    def _is_public(self, scope: Scope) -> bool:
        route = self._route(scope)
        if isinstance(route, CustomRoutes):
            return not self._http.enable_custom_route_auth
        return isinstance(route, Route) and route.path in self._public_paths

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
        user = None if self._user_cache is None else self._user_cache.find(connection)
        if user is not None:
            return user, receive
        body = None
        if "body" in handlers.parameters and scope["type"] == "http":
            data = await read_limited(Request(scope, receive), BODY_LIMIT)
            receive = replay_body(data, receive)
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
        user = await handlers.identify_user(arguments)
        if self._user_cache is not None:
            self._user_cache.store(connection, user)
        return user, receive


class UserCache:
    """Remember users for a while, by the headers that the configuration names."""

    def __init__(self, cache: AuthCache) -> None:
        self._cache = cache
        self._users: OrderedDict[tuple[tuple[str, ...], ...], tuple[float, User]] = OrderedDict()

    def find(self, connection: HTTPConnection) -> User | None:
        """Give the user who sent these headers a short while ago."""
        key = self._key(connection)
        until, user = self._users.get(key, (0.0, None))
        if until > monotonic():
            return user
        self._users.pop(key, None)
        return None

    def store(self, connection: HTTPConnection, user: User) -> None:
        """Remember a user; a request with none of the headers is nobody's."""
        key = self._key(connection)
        if any(key):
            self._users.pop(key, None)
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
