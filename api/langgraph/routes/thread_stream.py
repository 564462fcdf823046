"""Endpoint that streams all runs of a thread, one after the other (langgraph_api.md 6.3)."""

from typing import get_args

from starlette.requests import Request
from starlette.types import ASGIApp

from toolweave.api.langgraph.answers import EventStream
from toolweave.api.langgraph.endpoint import Endpoint, Query
from toolweave.api.langgraph.json_schema import STRING, list_of, one_of
from toolweave.api.langgraph.requests import path_uuid, query_words
from toolweave.api.langgraph.served import served
from toolweave.errors import InvalidRequest
from toolweave.runtime.events.thread_hub import Position, ThreadStreamMode, parse_position
from toolweave.runtime.runs.thread_stream import thread_events

MODES: tuple[ThreadStreamMode, ...] = get_args(ThreadStreamMode)


async def stream(request: Request) -> ASGIApp:
    """Send what happens on a thread until the client leaves or the thread is deleted."""
    here = served(request)
    thread_id = path_uuid(request, "thread")
    modes, after = _modes(request), _position(request)
    await here.persistence.threads.get(thread_id)
    return EventStream(thread_events(here.engine, thread_id, modes, after), {})


def _modes(request: Request) -> frozenset[ThreadStreamMode]:
    """Read the modes under both names that clients use: one by one, as a list, or separated by commas."""
    written = [*query_words(request, "stream_modes"), *query_words(request, "stream_mode")]
    words = [word.strip() for text in written for word in text.split(",")]
    for word in words:
        if word not in MODES:
            raise InvalidRequest(f"Invalid stream mode: {word[:200]}")
    return frozenset(mode for mode in MODES if mode in words) or frozenset({"run_modes"})


def _position(request: Request) -> Position | None:
    last_id = request.headers.get("last-event-id")
    if not last_id:
        return None
    position = parse_position(last_id)
    if position is None:
        raise InvalidRequest("Invalid last-event-id: must be the id of an event of this stream, or - for its beginning")
    return position


ENDPOINTS = (
    Endpoint(
        "GET",
        "/threads/{thread_id}/stream",
        stream,
        "Stream all runs of a thread",
        "Threads",
        answer="Any",
        media_type="text/event-stream",
        errors=(404, 422),
        query=(
            Query("stream_modes", list_of(one_of(*MODES))),
            Query("stream_mode", list_of(one_of(*MODES))),
            Query("Last-Event-ID", STRING, where="header"),
        ),
    ),
)
