"""Endpoints of the newer protocol: commands, and a thread's events as a stream."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.langgraph.answers import empty_answer, json_answer
from toolweave.api.langgraph.endpoint import Endpoint
from toolweave.api.langgraph.json_body import read_json
from toolweave.api.langgraph.live_answers import EventStream
from toolweave.api.langgraph.protocol.commands import carry_out, subscribe_without_connection
from toolweave.api.langgraph.protocol.envelopes import malformed, read_command, refused, success
from toolweave.api.langgraph.protocol.subscribing import ALLOWED, event_filter, listed_channels, since, unsupported
from toolweave.api.langgraph.request_values import path_uuid
from toolweave.api.langgraph.served import Served, served
from toolweave.errors import BadRequest, InvalidRequest, NotFound, ToolweaveError
from toolweave.runtime.events.channel import LoggedEvent
from toolweave.runtime.persistence.search import MetadataFilter, allows, filter_in_force


async def command(request: Request) -> Response:
    """Carry out a command; refusals are 200 as well, only what is no command at all is 400."""
    value = await _json(request)
    given = read_command(value)
    if given is None:
        return json_answer(malformed(value), status=400)
    here = served(request)
    try:
        result = subscribe_without_connection(given)
        if result is None:
            result = await carry_out(here, path_uuid(request, "thread"), given)
    except ToolweaveError as error:
        return json_answer(refused(given, error))
    return json_answer(success(given, result))


async def events(request: Request) -> EventStream:
    """Send the thread's events from the first one kept, or after `since`, until the thread is deleted.

    The thread need not exist yet: clients listen first and then start the run that creates it.
    """
    thread_id = path_uuid(request, "thread")
    value = await _json(request)
    params = value if isinstance(value, dict) else {}
    channels = listed_channels(params)
    if channels is None:
        raise BadRequest("channels is required and must be a non-empty array")
    wrong = unsupported(channels)
    if wrong is not None:
        raise BadRequest(f"channels contains unsupported entries: {wrong}. Allowed: {ALLOWED}.")
    log = served(request).engine.runtime.announcements.log
    batches = log.replay(thread_id, event_filter(params, channels), since(params))
    wanted = filter_in_force("threads")
    return EventStream(batches if wanted is None else _shown_to(wanted, served(request), thread_id, batches), {})


async def _shown_to(
    wanted: MetadataFilter, here: Served, thread_id: str, batches: AsyncGenerator[list[LoggedEvent]]
) -> AsyncGenerator[list[LoggedEvent]]:
    """Give the events of a thread that the filter lets through: it may have been created after the client came."""
    async with aclosing(batches):
        shown = False
        async for batch in batches:
            shown = shown or await _shows(wanted, here, thread_id)
            if not shown:
                return
            yield batch


async def _shows(wanted: MetadataFilter, here: Served, thread_id: str) -> bool:
    try:
        return allows(wanted, (await here.persistence.threads.get(thread_id)).metadata)
    except NotFound:
        return False


async def admit(request: Request) -> Response:
    """Let a WebSocket client in."""
    path_uuid(request, "thread")
    return empty_answer(204)


async def _json(request: Request) -> Any:
    try:
        return await read_json(request)
    except InvalidRequest as error:
        raise BadRequest("Invalid JSON body" if str(error).startswith("Invalid JSON") else str(error)) from None


_TAG = "Thread Protocol"
_THREAD = "/threads/{thread_id}"

ENDPOINTS = (
    Endpoint(
        "POST",
        f"{_THREAD}/commands",
        command,
        "Send a protocol command",
        _TAG,
        "ProtocolCommand",
        "ProtocolAnswer",
        errors=(400,),
        error_answers={400: "ProtocolRefusal"},
    ),
    Endpoint(
        "POST",
        f"{_THREAD}/stream/events",
        events,
        "Stream a thread's protocol events",
        _TAG,
        "EventStreamRequest",
        media_type="text/event-stream",
        errors=(400, 422),
    ),
)

# What stands behind the WebSocket on the path of the events; not published, as OpenAPI knows no WebSockets.
SOCKET_ENDPOINTS = (
    Endpoint("GET", f"{_THREAD}/stream/events", admit, "Speak the protocol over a WebSocket", _TAG, status=101),
    ENDPOINTS[0],
)
