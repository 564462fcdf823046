"""Load an application's Auth object and call its handlers: who is it, and may it do this?"""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langgraph_sdk import Auth
from langgraph_sdk.auth.exceptions import HTTPException as AuthHTTPException
from langgraph_sdk.auth.types import AuthContext
from starlette.exceptions import HTTPException

from toolweave.config.langgraph_json import LangGraphJson
from toolweave.errors import ConfigError, Forbidden, Unauthenticated
from toolweave.runtime.caller import User
from toolweave.runtime.graphs import load_target
from toolweave.runtime.persistence.search import MetadataFilter, check_filter

PARAMETERS = ("request", "body", "path", "method", "path_params", "query_params", "headers", "authorization")


@dataclass(frozen=True, slots=True)
class AuthHandlers:
    """The handlers of one Auth object; `wanted` names the parameters that its authenticate handler takes."""

    auth: Auth
    authenticate: Callable[..., Any]
    wanted: tuple[str, ...]

    async def user_of(self, arguments: Mapping[str, Any]) -> User:
        """Ask who sent a request.

        Raises:
            HTTPException: what the handler raised, with its status, detail and headers.
            Unauthenticated: the handler found nobody.
        """
        given = {name: arguments[name] for name in self.wanted}
        try:
            if inspect.iscoroutinefunction(self.authenticate):
                found = await self.authenticate(**given)
            else:
                found = await asyncio.to_thread(self.authenticate, **given)
                found = await found if inspect.isawaitable(found) else found
        except AuthHTTPException as error:
            raise HTTPException(error.status_code, error.detail, dict(error.headers or {})) from error
        return _user_from(found)

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
    return AuthHandlers(auth, handler, _wanted(handler, source))


def _wanted(handler: Callable[..., Any], source: str) -> tuple[str, ...]:
    parameters = inspect.signature(handler).parameters.values()
    named = [item for item in parameters if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)]
    for item in named:
        if item.name not in PARAMETERS and item.default is item.empty:
            raise ConfigError(
                f"auth: the authenticate handler wants {item.name!r}, which no request has.",
                source=source,
                fix=f"It may take {', '.join(PARAMETERS)}.",
            )
    return tuple(item.name for item in named if item.name in PARAMETERS)


def _user_from(found: Any) -> User:
    """Read a user in any of the SDK's forms: an identity, a mapping, an object with properties."""
    if isinstance(found, str) and found:
        return User({"identity": found})
    members: dict[str, Any] = {}
    if isinstance(found, Mapping):
        members = dict(found)
    elif found is not None and hasattr(found, "identity"):
        for name in ("identity", "display_name", "is_authenticated", "permissions"):
            if hasattr(found, name):
                members[name] = getattr(found, name)
        members.update(getattr(found, "__dict__", {}))
    if not members.get("identity") or members.get("is_authenticated") is False:
        raise Unauthenticated("Unauthorized")
    return User({str(name): item for name, item in members.items() if not str(name).startswith("_")})
