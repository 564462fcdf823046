"""Hold the caller of the current request: the API sets it, and any code that the request runs can read it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from toolweave.runtime.codec import dumps, loads
from toolweave.runtime.models import JsonObject

USER_KEY = "langgraph_auth_user"
USER_ID_KEY = "langgraph_auth_user_id"
PERMISSIONS_KEY = "langgraph_auth_permissions"
# Only the server may set these: a caller that sets them could impersonate another user.
AUTH_KEYS = frozenset({USER_KEY, USER_ID_KEY, PERMISSIONS_KEY})
# The key of the official server, too.
REQUEST_ID_KEY = "langgraph_request_id"
# The API shows these fields. All other fields of a user, such as a token, are only available to the run.
PUBLIC_USER_FIELDS = ("identity", "display_name", "is_authenticated", "permissions")
# W3C Trace Context: the headers available to runs that are not secret.
TRACE_HEADERS = ("traceparent", "tracestate")
# The parts of `Caller.credentials`.
HEADERS, USER_MEMBERS = "headers", "user"


class User:
    """An authenticated user, like `langgraph_sdk.auth.types.BaseUser`; each field is an attribute and an item."""

    identity: str
    display_name: str
    is_authenticated: bool
    permissions: Sequence[str]

    def __init__(self, members: Mapping[str, Any]) -> None:
        identity, permissions = str(members["identity"]), list(members.get("permissions") or ())
        defaults = {"is_authenticated": True, "display_name": identity}
        vars(self).update({**defaults, **members, "identity": identity, "permissions": permissions})

    def __getitem__(self, key: str) -> Any:
        return vars(self)[key]

    def __contains__(self, key: object) -> bool:
        return key in vars(self)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, User) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"User({self.identity!r})"


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request; `user` is None without authentication.

    Runs receive `headers` in `configurable`. An authorization handler may set `run_metadata`, which is added to the
    metadata of each run of the request, and `thread_filter`, which the threads of these runs must match. `request_id`
    is on the log lines of the request and of its runs.
    """

    user: User | None = None
    headers: JsonObject = field(default_factory=dict)
    run_metadata: JsonObject = field(default_factory=dict)
    thread_filter: Mapping[str, Any] | None = None
    request_id: str | None = None

    def configurable(self) -> JsonObject:
        """Return the public part of a run's `config.configurable`: JSON, stored in plain text and shown by the API."""
        shown = {name: value for name, value in self.headers.items() if name in TRACE_HEADERS}
        if self.request_id is not None:
            shown[REQUEST_ID_KEY] = self.request_id
        if self.user is None:
            return shown
        members = _user_json(self.user)
        public = {name: members[name] for name in PUBLIC_USER_FIELDS}
        permissions = [str(permission) for permission in self.user.permissions]
        return {**shown, USER_KEY: public, USER_ID_KEY: self.user.identity, PERMISSIONS_KEY: permissions}

    def credentials(self) -> JsonObject:
        """Return the secret part of a run's `config.configurable`: it may hold tokens and is stored encrypted."""
        headers = {name: value for name, value in self.headers.items() if name not in TRACE_HEADERS}
        members = {} if self.user is None else _user_json(self.user)
        hidden = {name: value for name, value in members.items() if name not in PUBLIC_USER_FIELDS}
        parts = {HEADERS: headers, USER_MEMBERS: hidden}
        return {name: part for name, part in parts.items() if part}


def configurable_of_call(caller: Caller) -> JsonObject:
    """Return the `configurable` for one tool call that the caller makes without a run; never store it."""
    user = {} if caller.user is None else {USER_KEY: caller.user, "user_id": caller.user.identity}
    return {**caller.headers, **caller.configurable(), **user}


def user_of_run(configured: Mapping[str, Any], credentials: JsonObject) -> JsonObject:
    """Rebuild a run's user from the results of `Caller.configurable` and `Caller.credentials`; empty without a user."""
    if USER_KEY not in configured:
        return {}
    members = {**configured[USER_KEY], **credentials.get(USER_MEMBERS, {})}
    return {USER_KEY: User(members), "user_id": configured[USER_ID_KEY]}


def _user_json(user: User) -> JsonObject:
    members: JsonObject = loads(dumps(vars(user)))
    return members


ANONYMOUS = Caller()
_CALLER: ContextVar[Caller] = ContextVar("caller", default=ANONYMOUS)


def current_caller() -> Caller:
    """Return the caller of the current request, or `ANONYMOUS` outside of requests and without authentication."""
    return _CALLER.get()


@contextmanager
def use_caller(caller: Caller) -> Iterator[None]:
    """Make this the current caller inside the block."""
    token = _CALLER.set(caller)
    try:
        yield
    finally:
        _CALLER.reset(token)
