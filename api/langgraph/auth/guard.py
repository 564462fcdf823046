"""Stand before every endpoint: nobody gets to its handler without a user and the permission of its rule."""

from collections.abc import Iterable
from dataclasses import replace

from starlette.requests import Request
from starlette.types import ASGIApp

from toolweave.api.body_limit import replaying
from toolweave.api.langgraph.auth.asking import Asked
from toolweave.api.langgraph.auth.authentication import OPEN
from toolweave.api.langgraph.auth.handlers import AuthHandlers
from toolweave.api.langgraph.auth.rules import RULES
from toolweave.api.langgraph.endpoint import Endpoint, Handler
from toolweave.api.langgraph.json_body import parsed, read_bytes
from toolweave.api.langgraph.schemas.components import body_schema
from toolweave.api.langgraph.served import served
from toolweave.errors import Forbidden, InvalidRequest, Unauthenticated
from toolweave.runtime.caller import User, calling, current_caller
from toolweave.runtime.codec import dumps
from toolweave.runtime.persistence.search import showing_only

# Their endpoints refuse bodies in ways of their own.
CHECKED_LATER = frozenset({"JsonRpcMessage", "ProtocolCommand", "EventStreamRequest"})


def guarded(endpoints: Iterable[Endpoint], handlers: AuthHandlers | None) -> tuple[Endpoint, ...]:
    """Put the guard before every endpoint that is not open to all; without authentication nothing changes."""
    if handlers is None:
        return tuple(endpoints)
    return tuple(
        endpoint if endpoint.path in OPEN else replace(endpoint, handler=_guard(endpoint, handlers))
        for endpoint in endpoints
    )


def _guard(endpoint: Endpoint, handlers: AuthHandlers) -> Handler:
    checked = endpoint.body is not None and endpoint.body not in CHECKED_LATER
    schema = body_schema(endpoint.body) if endpoint.body is not None and checked else None

    async def handler(request: Request) -> ASGIApp:
        user = request.scope.get("user")
        if not isinstance(user, User):
            raise Unauthenticated("Unauthorized")
        rule = RULES.get(f"{endpoint.method} {endpoint.path}")
        if rule is None:
            raise Forbidden("Forbidden")
        data = await read_bytes(request) if endpoint.method != "GET" else b""
        body = _parsed(data)
        if schema is not None and body is not None:
            # Before the handlers see it: they rely on metadata that is an object.
            schema.check(body)
        # The handlers get values of their own, parsed anew: a deep copy takes twenty times as long.
        asked = Asked(request, handlers, user, served(request), _parsed(data))
        await rule(asked)
        changed = data if asked.body == body else dumps(asked.body)
        caller = replace(current_caller(), run_metadata=asked.run_metadata, run_threads=asked.run_threads)
        with showing_only(asked.filters), calling(caller):
            return await endpoint.handler(Request(request.scope, replaying(changed, request.receive)))

    return handler


def _parsed(data: bytes) -> object:
    """Decode a body; what is no JSON, or too deep for it, the endpoint refuses itself."""
    try:
        return parsed(data) if data else None
    except InvalidRequest:
        return None
