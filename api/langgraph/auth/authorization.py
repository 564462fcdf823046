"""Authorize requests with the application's auth handlers before their endpoints run."""

from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import UUID

from starlette.requests import Request
from starlette.types import ASGIApp

from toolweave.api.langgraph.auth.authentication import AuthHandlers
from toolweave.api.langgraph.components import body_schema
from toolweave.api.langgraph.requests import BODY_LIMIT, Handler, is_uuid, parse_json
from toolweave.api.langgraph.services import ApiServices, get_services
from toolweave.api.request_bodies import read_limited_body, replay_body
from toolweave.errors import InvalidRequest, NotFound, Unauthenticated
from toolweave.runtime.caller import User, current_caller, use_caller
from toolweave.runtime.codec import dumps
from toolweave.runtime.models import JsonObject
from toolweave.runtime.persistence.assistants import system_assistant_id
from toolweave.runtime.persistence.search import AuthFilter, FilteredResource, is_allowed, use_filters

Resource = Literal["threads", "assistants"]


@dataclass(slots=True)
class AuthRequest:
    """A request during its authorization.

    `body` is its JSON, None if absent or invalid; rules change it in place. `filters` apply to the endpoint's searches,
    `run_metadata` to the runs that it creates, `run_threads` to their threads.
    """

    request: Request
    handlers: AuthHandlers
    user: User
    services: ApiServices
    body: Any = None
    filters: dict[FilteredResource, AuthFilter | None] = field(default_factory=dict)
    run_metadata: JsonObject = field(default_factory=dict)
    run_threads: AuthFilter | None = None

    @property
    def fields(self) -> JsonObject:
        """The body if it is an object, else {}; the endpoint refuses other bodies."""
        return self.body if isinstance(self.body, dict) else {}

    def id_in_path(self, what: str) -> str | None:
        """Return the id `{what}_id` of the path, None if it is no UUID; the endpoint refuses that."""
        return parse_id(self.request.path_params.get(f"{what}_id"))

    async def permit(self, resource: str, action: str, value: dict[str, Any]) -> AuthFilter | None:
        """Call the auth handler and return its filter. Raises Forbidden or the handler's exception."""
        return await self.handlers.permit(self.user, resource, action, value)

    async def permit_with_changes(self, resource: str, action: str, value: dict[str, Any]) -> AuthFilter | None:
        """Call the auth handler, and copy its changes of `value` into the body's fields of the same names."""
        before = deepcopy(value)
        row_filter = await self.permit(resource, action, value)
        for name, item in value.items():
            if name not in before or before[name] != item:
                self.fields[name] = str(item) if isinstance(item, UUID) else item
        return row_filter

    async def permit_row(
        self,
        resource: Resource,
        action: str,
        row_id: str | None,
        value: dict[str, Any] | None = None,
        *,
        error: Exception | None = None,
    ) -> AuthFilter | None:
        """Authorize one thread or assistant; raise `error`, else NotFound, if it exists but is not visible."""
        arguments = {f"{resource.removesuffix('s')}_id": row_id and UUID(row_id)} if value is None else value
        row_filter = await self.permit(resource, action, arguments)
        await self.require_visible(row_filter, resource, row_id, error)
        return row_filter

    async def require_visible(
        self, row_filter: AuthFilter | None, resource: Resource, row_id: str | None, error: Exception | None = None
    ) -> None:
        """Raise `error`, else NotFound, if a filter excludes a thread or an assistant."""
        if not await self.is_visible(row_filter, resource, row_id):
            raise error or NotFound(f"Thread with ID {row_id} not found" if resource == "threads" else "Not Found")

    async def is_visible(self, row_filter: AuthFilter | None, resource: Resource, row_id: str | None) -> bool:
        """Return whether a filter includes a thread or assistant; True if that does not exist."""
        if row_filter is None or row_id is None:
            return True
        repository = getattr(self.services.persistence, resource)
        try:
            return is_allowed(row_filter, (await repository.get(row_id)).metadata)
        except NotFound:
            return True

    async def may_run_assistant(self, row_filter: AuthFilter | None, name_or_id: object) -> bool:
        """Return whether a user may run an assistant: a system assistant, or one that the filter includes."""
        if not isinstance(name_or_id, str) or name_or_id in self.services.graphs.graph_ids():
            return True
        assistant_id = parse_id(name_or_id)
        if assistant_id in {system_assistant_id(graph) for graph in self.services.graphs.graph_ids()}:
            return True
        return await self.is_visible(row_filter, "assistants", assistant_id)


def parse_id(text: object) -> str | None:
    """Return a UUID in its stored form, None for anything else."""
    return text.lower() if isinstance(text, str) and is_uuid(text) else None


def as_uuid(text: object) -> UUID | None:
    """Return an id as a UUID object, as handlers receive it; None for anything else."""
    row_id = parse_id(text)
    return None if row_id is None else UUID(row_id)


# Components whose endpoints refuse invalid bodies in their own protocols.
UNCHECKED_BODIES = frozenset({"JsonRpcMessage", "ProtocolCommand", "EventStreamRequest"})

Rule = Callable[[AuthRequest], Awaitable[None]]


def authorized_handler(handler: Handler, rule: Rule, body: str | None, handlers: AuthHandlers) -> Handler:
    """Return a handler that first requires a user and applies a rule."""
    schema = body_schema(body) if body is not None and body not in UNCHECKED_BODIES else None

    async def answer(request: Request) -> ASGIApp:
        user = request.scope.get("user")
        if not isinstance(user, User):
            raise Unauthenticated("Unauthorized")
        data = b"" if request.method in ("GET", "HEAD") else await read_limited_body(request, BODY_LIMIT)
        original = _parse_or_none(data)
        if schema is not None and original is not None:
            # Checked first: auth handlers rely on metadata being an object.
            schema.check(original)
        # Parsed again for the auth handlers, which may change it: a deep copy takes twenty times as long.
        auth = AuthRequest(request, handlers, user, get_services(request), _parse_or_none(data))
        await rule(auth)
        changed = data if auth.body == original else dumps(auth.body)
        caller = replace(current_caller(), run_metadata=auth.run_metadata, thread_filter=auth.run_threads)
        with use_filters(auth.filters), use_caller(caller):
            return await handler(Request(request.scope, replay_body(changed, request.receive)))

    return answer


def _parse_or_none(data: bytes) -> object:
    """Parse a body; return None for an invalid one, which the endpoint refuses itself."""
    try:
        return parse_json(data) if data else None
    except InvalidRequest:
        return None
