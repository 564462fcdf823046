"""Ask an application's auth handlers about a request before its endpoint answers."""

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
from toolweave.api.request_bodies import read_limited, replay_body
from toolweave.errors import InvalidRequest, NotFound, Unauthenticated
from toolweave.runtime.caller import User, calling, current_caller
from toolweave.runtime.codec import dumps
from toolweave.runtime.models import JsonObject
from toolweave.runtime.persistence.assistants import system_assistant_id
from toolweave.runtime.persistence.search import Filtered, MetadataFilter, allows, showing_only

Resource = Literal["threads", "assistants"]


@dataclass(slots=True)
class AuthRequest:
    """One request while it is being authorized.

    `body` is its JSON, None when it has none or cannot be read; handlers change it in place. `filters` are in force
    for the searches of the endpoint, `run_metadata` for every run that it creates, `run_threads` says which threads
    runs may be created on.
    """

    request: Request
    handlers: AuthHandlers
    user: User
    services: ApiServices
    body: Any = None
    filters: dict[Filtered, MetadataFilter | None] = field(default_factory=dict)
    run_metadata: JsonObject = field(default_factory=dict)
    run_threads: MetadataFilter | None = None

    @property
    def fields(self) -> JsonObject:
        """Give the body if it is an object; whatever else it is, the endpoint refuses."""
        return self.body if isinstance(self.body, dict) else {}

    def id_in_path(self, what: str) -> str | None:
        """Give the id `{what}_id` of the path; None when it is none, which the endpoint refuses."""
        return parse_id(self.request.path_params.get(f"{what}_id"))

    async def permit(self, resource: str, action: str, value: dict[str, Any]) -> MetadataFilter | None:
        """Ask the handler; raises Forbidden or what it raises."""
        return await self.handlers.permit(self.user, resource, action, value)

    async def permit_with_changes(self, resource: str, action: str, value: dict[str, Any]) -> MetadataFilter | None:
        """Ask the handler, and write what it changed in `value` into the body's fields of the same names."""
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
    ) -> MetadataFilter | None:
        """Ask about one thread or assistant; raises `hidden`, else NotFound, when it is there and not for this user."""
        arguments = {f"{resource.removesuffix('s')}_id": row_id and UUID(row_id)} if value is None else value
        row_filter = await self.permit(resource, action, arguments)
        await self.require_visible(row_filter, resource, row_id, error)
        return row_filter

    async def require_visible(
        self, row_filter: MetadataFilter | None, resource: Resource, row_id: str | None, error: Exception | None = None
    ) -> None:
        """Raise `hidden`, else NotFound, when a filter does not let a thread or an assistant through."""
        if not await self.is_visible(row_filter, resource, row_id):
            raise error or NotFound(f"Thread with ID {row_id} not found" if resource == "threads" else "Not Found")

    async def is_visible(self, row_filter: MetadataFilter | None, resource: Resource, row_id: str | None) -> bool:
        """Tell whether a filter lets a thread or an assistant through; one that is not there is for its endpoint."""
        if row_filter is None or row_id is None:
            return True
        repository = getattr(self.services.persistence, resource)
        try:
            return allows(row_filter, (await repository.get(row_id)).metadata)
        except NotFound:
            return True

    async def may_run_assistant(self, row_filter: MetadataFilter | None, name_or_id: object) -> bool:
        """Tell whether a user may run an assistant: every graph's own is for all, others go by the filter."""
        if not isinstance(name_or_id, str) or name_or_id in self.services.graphs.names():
            return True
        assistant_id = parse_id(name_or_id)
        if assistant_id in {system_assistant_id(graph) for graph in self.services.graphs.names()}:
            return True
        return await self.is_visible(row_filter, "assistants", assistant_id)


def parse_id(text: object) -> str | None:
    """Give a UUID as it is stored; None for anything else."""
    return text.lower() if isinstance(text, str) and is_uuid(text) else None


def as_uuid(text: object) -> UUID | None:
    """Give the form in which handlers get ids."""
    known = parse_id(text)
    return None if known is None else UUID(known)


# Their endpoints refuse bodies in ways of their own.
UNCHECKED_BODIES = frozenset({"JsonRpcMessage", "ProtocolCommand", "EventStreamRequest"})

Rule = Callable[[AuthRequest], Awaitable[None]]


def authorized_handler(handler: Handler, rule: Rule, body: str | None, handlers: AuthHandlers) -> Handler:
    """Ask a rule before a handler: nobody gets to it without a user and the rule's permission."""
    schema = body_schema(body) if body is not None and body not in UNCHECKED_BODIES else None

    async def answer(request: Request) -> ASGIApp:
        user = request.scope.get("user")
        if not isinstance(user, User):
            raise Unauthenticated("Unauthorized")
        data = b"" if request.method in ("GET", "HEAD") else await read_limited(request, BODY_LIMIT)
        given = _parse_or_none(data)
        if schema is not None and given is not None:
            # Before the handlers see it: they rely on metadata that is an object.
            schema.check(given)
        # The handlers get values of their own, parsed anew: a deep copy takes twenty times as long.
        auth = AuthRequest(request, handlers, user, get_services(request), _parse_or_none(data))
        await rule(auth)
        changed = data if auth.body == given else dumps(auth.body)
        caller = replace(current_caller(), run_metadata=auth.run_metadata, run_threads=auth.run_threads)
        with showing_only(auth.filters), calling(caller):
            return await handler(Request(request.scope, replay_body(changed, request.receive)))

    return answer


def _parse_or_none(data: bytes) -> object:
    """Decode a body; what is no JSON, or too deep for it, the endpoint refuses itself."""
    try:
        return parse_json(data) if data else None
    except InvalidRequest:
        return None
