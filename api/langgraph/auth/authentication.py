"""Authenticate the user of each request with the application's Auth object, before any route runs."""

import asyncio
import inspect
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
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
from toolweave.api.langgraph_client import IDENTIFIED_KEY
from toolweave.api.request_bodies import read_limited_body, replay_body
from toolweave.api.request_ids import SCOPE_KEY
from toolweave.config.langgraph_json import AuthCache, HeaderRules, LangGraphJson
from toolweave.errors import ConfigError, Forbidden
from toolweave.log_ids import log_ids
from toolweave.runtime.caller import TRACE_HEADERS, Caller, User, use_caller
from toolweave.runtime.codec import loads
from toolweave.runtime.graphs import load_object
from toolweave.runtime.models import JsonObject
from toolweave.runtime.persistence.search import AuthFilter, check_auth_filter

HANDLER_PARAMETERS = ("request", "body", "path", "method", "path_params", "query_params", "headers", "authorization")
# Headers that no include pattern copies into configurable.
CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key", "x-service-key", "x-tenant-id"})

USER_PROPERTIES = ("identity", "display_name", "is_authenticated", "permissions")


@dataclass(frozen=True, slots=True)
class AuthHandlers:
    """The handlers of one Auth object; `parameters` are those of its authenticate handler."""

    auth: Auth
    authenticate: Callable[..., Any]
    parameters: tuple[str, ...]

    async def identify_user(self, arguments: Mapping[str, Any]) -> User:
        """Call the authenticate handler and return the user.

        Raises:
            HTTPException: the handler's own, with its status, detail and headers; 401, it returned no user.
        """
        selected = {name: arguments[name] for name in self.parameters}
        try:
            if inspect.iscoroutinefunction(self.authenticate):
                found = await self.authenticate(**selected)
            else:
                found = await asyncio.to_thread(self.authenticate, **selected)
                found = await found if inspect.isawaitable(found) else found
        except AuthHTTPException as error:
            raise HTTPException(error.status_code, error.detail, dict(error.headers or {})) from error
        return _parse_user(found)

    async def permit(self, user: User, resource: str, action: str, value: dict[str, Any]) -> AuthFilter | None:
        """Call the handler of an action, which may change `value`, and return its filter, if any.

        Raises:
            Forbidden: the handler returned False or raised AssertionError.
            HTTPException: the handler's own.
            WrongFilterError: the handler returned an invalid filter.
        """
        handler = self._find_handler(resource, action)
        if handler is None:
            return None
        context = AuthContext(permissions=user.permissions, user=user, resource=resource, action=action)  # type: ignore[arg-type]
        try:
            answer = await handler(ctx=context, value=value)
        except AuthHTTPException as error:
            raise HTTPException(error.status_code, error.detail, dict(error.headers or {})) from error
        except AssertionError as error:
            # The official documentation has handlers with `assert namespace[0] == user, "Not authorized"`.
            raise Forbidden(str(error) or "Forbidden") from error
        if answer is None or answer is True:
            return None
        if not isinstance(answer, Mapping):
            raise Forbidden("Forbidden")
        check_auth_filter(answer)
        return answer or None

    def _find_handler(self, resource: str, action: str) -> Callable[..., Any] | None:
        """Return the most specific handler: of resource and action, of the resource, of the action, of all."""
        registered = self.auth._handlers  # noqa: SLF001 - offered to servers
        for key in ((resource, action), (resource, "*"), ("*", action)):
            if registered.get(key):
                return registered[key][-1]
        catch_all = self.auth._global_handlers  # noqa: SLF001 - offered to servers
        return catch_all[-1] if catch_all else None


def load_auth(config: LangGraphJson) -> AuthHandlers | None:
    """Load the handlers of `auth.path`; return None if langgraph.json has none.

    Raises:
        ConfigError: `auth.path` cannot be loaded, is no Auth object, or has no authenticate handler.
    """
    if config.auth is None:
        return None
    source, target = str(config.path), config.auth.path
    auth = load_object(config, target, what="auth", kind=Auth, fix="Name an object of langgraph_sdk.Auth.")
    handler = auth._authenticate_handler  # noqa: SLF001 - offered to servers
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
                f"auth: the authenticate handler has the unknown parameter {item.name!r}.",
                source=source,
                fix=f"It may take {', '.join(HANDLER_PARAMETERS)}.",
            )
    return tuple(item.name for item in named if item.name in HANDLER_PARAMETERS)


def _parse_user(found: Any) -> User:
    """Parse a user in any of the SDK's forms: an identity, a mapping, an object with properties."""
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
    """Return the included and not excluded headers, with names in lower case.

    Trace headers need no include pattern, so that a run continues the trace of its request (T-03).
    """
    includes, excludes = (rules.includes or (), rules.excludes or ()) if rules else ((), ())
    chosen: JsonObject = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        included = name in TRACE_HEADERS or (name not in CREDENTIALS and _matches_any(name, includes))
        if included and not _matches_any(name, excludes):
            chosen[name] = value.decode("latin-1")
    return chosen


def _matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    # Only * is a wildcard: brackets and question marks are literal.
    return any(fnmatchcase(name, pattern.lower().replace("[", "[[]").replace("?", "[?]")) for pattern in patterns)


@dataclass
class Authentication:
    """ASGI middleware that sets the user of each request in the scope and in `current_caller`, or refuses it.

    `public_paths` need no user, nor do the routes of http.app unless `enable_custom_route_auth` is set.
    """

    app: ASGIApp
    handlers: AuthHandlers | None
    routes: Sequence[BaseRoute]
    public_paths: Collection[str]
    config: LangGraphJson

    def __post_init__(self) -> None:
        cache = self.config.auth and self.config.auth.cache
        self._user_cache = UserCache(cache) if cache else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate the request, then pass it on with its user."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = configurable_headers(scope, self.config.http.configurable_headers)
        if self.handlers is None or self._is_public(scope):
            with use_caller(Caller(None, headers, request_id=scope.get(SCOPE_KEY))):
                await self.app(scope, receive, send)
            return
        try:
            user, receive = await self._identify(self.handlers, scope, receive)
        except HTTPException as error:
            await detail_response(error.status_code, str(error.detail), error.headers)(scope, receive, send)
            return
        except ClientDisconnect:
            return
        scope["user"], scope["auth"] = user, AuthCredentials(list(user.permissions))
        caller = Caller(user, headers, request_id=scope.get(SCOPE_KEY))
        if (identified := scope.get(IDENTIFIED_KEY)) is not None:
            identified.append(caller)
        with use_caller(caller), log_ids(request_id=caller.request_id, user_id=user.identity):
            await self.app(scope, receive, send)

    def _is_public(self, scope: Scope) -> bool:
        route = self._find_route(scope)
        if isinstance(route, CustomRoutes):
            return not self.config.http.enable_custom_route_auth
        return isinstance(route, Route) and route.path in self.public_paths

    def _find_route(self, scope: Scope) -> BaseRoute | None:
        """Return the route that the router will choose, None if there is none."""
        partial = None
        for route in self.routes:
            match, _ = route.matches(scope)
            if match is Match.FULL:
                return route
            if match is Match.PARTIAL and partial is None:
                partial = route
        return partial

    async def _identify(self, handlers: AuthHandlers, scope: Scope, receive: Receive) -> tuple[User, Receive]:
        connection = HTTPConnection(scope)
        user = None if self._user_cache is None else self._user_cache.find(connection)
        if user is not None:
            return user, receive
        body = None
        if "body" in handlers.parameters and scope["type"] == "http":
            data = await read_limited_body(Request(scope, receive), BODY_LIMIT)
            receive = replay_body(data, receive)
            body = _json_or_none(data)
        route = self._find_route(scope)
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
    """A cache of users by the headers that `auth.cache` names, with expiry and a maximum size."""

    def __init__(self, cache: AuthCache) -> None:
        self._cache = cache
        self._users: OrderedDict[tuple[tuple[str, ...], ...], tuple[float, User]] = OrderedDict()

    def find(self, connection: HTTPConnection) -> User | None:
        """Return the cached user of these headers, None if there is none or it has expired."""
        key = self._cache_key(connection)
        expires_at, user = self._users.get(key, (0.0, None))
        if expires_at > monotonic():
            return user
        self._users.pop(key, None)
        return None

    def store(self, connection: HTTPConnection, user: User) -> None:
        """Cache a user, unless the request has none of the headers."""
        key = self._cache_key(connection)
        if any(key):
            self._users.pop(key, None)
            self._users[key] = (monotonic() + self._cache.ttl_seconds, user)
            while len(self._users) > self._cache.max_size:
                self._users.popitem(last=False)

    def _cache_key(self, connection: HTTPConnection) -> tuple[tuple[str, ...], ...]:
        # All values of a repeated header: the handler may use any of them.
        return tuple(tuple(connection.headers.getlist(name)) for name in self._cache.cache_keys)


def _json_or_none(data: bytes) -> object:
    try:
        return loads(data)
    except ValueError:
        return None
