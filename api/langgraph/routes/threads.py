"""Endpoints of threads, their states, events and storage."""

from functools import partial
from typing import Any, get_args
from uuid import uuid4

from langchain_core.utils.uuid import uuid7
from langgraph.types import StateUpdate
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from toolweave.api.langgraph.answers import EventStream, json_answer, page_answer
from toolweave.api.langgraph.auth import rules
from toolweave.api.langgraph.endpoints import SSE, Endpoints
from toolweave.api.langgraph.json_schema import FLAG, STRING, list_of, one_of, page_fields
from toolweave.api.langgraph.requests import Body, QueryParam, parse_uuid, query_list
from toolweave.api.langgraph.serialization import select_state_fields, thread_json
from toolweave.api.langgraph.services import ApiServices, get_services
from toolweave.api.langgraph.thread_states import parse_state_update, read_history, read_state, write_states
from toolweave.errors import Conflict, InvalidRequest, NotFound, ToolweaveError
from toolweave.runtime.events.thread_stream import StreamPosition, ThreadStreamMode, parse_position
from toolweave.runtime.models import JsonObject, Thread, ThreadTtl, timestamp
from toolweave.runtime.runs.cleanup import prune_threads

STREAM_MODES: tuple[ThreadStreamMode, ...] = get_args(ThreadStreamMode)
_SELECT = QueryParam("select", list_of(STRING))
_SUBGRAPHS = QueryParam("subgraphs", FLAG)
_LIMIT = QueryParam("limit", {**page_fields()["limit"], "default": 1})

endpoints = Endpoints("Threads", "disable_threads")


@endpoints("POST /threads/prune", rules.prune_threads, "ThreadPruneRequest", "ThreadsPruned")
async def prune(request: Request, body: Body) -> Response:
    """Delete threads or their histories.

    Unknown ids are not counted.
    """
    ids = [parse_uuid(thread_id, "thread") for thread_id in body.fields["thread_ids"]]
    pruned = await prune_threads(get_services(request).engine, ids, body.get("strategy", "delete"))
    return json_answer({"pruned_count": pruned})


@endpoints("GET /threads/{thread_id}/storage", rules.read_thread, answer="ThreadStorage")
async def get_storage(request: Request, thread_id: str) -> Response:
    """Measure a thread's storage.

    Return the bytes of its checkpoints.
    """
    persistence = get_services(request).persistence
    await persistence.threads.get(thread_id)
    size = await persistence.checkpointer.measure_storage(thread_id)
    by_channel = {
        name: {"versions": len(versions), "bytes": size.channel_bytes.get(name, 0)}
        for name, versions in size.channel_versions.items()
    }
    channel_bytes = sum(channel["bytes"] for channel in by_channel.values())
    channels = {
        "count": sum(map(len, size.channel_versions.values())),
        "bytes": channel_bytes,
        "by_channel": by_channel,
    }
    return json_answer(
        {
            "thread_id": thread_id,
            "total_bytes": size.checkpoint_bytes + channel_bytes + size.write_bytes,
            "checkpoints": {"count": size.checkpoints, "bytes": size.checkpoint_bytes},
            "channel_values": channels,
            "pending_writes": {"count": size.writes, "bytes": size.write_bytes},
        }
    )


@endpoints("POST /threads", rules.create_thread, "ThreadCreate", "Thread", errors=(201, 400, 409, 422))
async def create_thread(request: Request, body: Body) -> Response:
    """Create a thread.

    `supersteps` write its first state.
    """
    services = get_services(request)
    thread_id = parse_uuid(body.fields["thread_id"], "thread") if "thread_id" in body.fields else str(uuid7())
    threads = services.persistence.threads
    ttl = requested_ttl(body, threads.default_ttl)
    thread = await threads.create(
        thread_id, metadata=body.get("metadata", {}), if_exists=body.get("if_exists", "raise"), ttl=ttl
    )
    headers = body.ignored_header(*ineffective_fields(body, ttl))
    if body.get("supersteps"):
        return await _write_supersteps(services, thread_id, body.fields["supersteps"], headers)
    return json_answer(thread_json(thread), headers=headers)


async def _write_supersteps(
    services: ApiServices, thread_id: str, supersteps: list[JsonObject], headers: dict[str, str]
) -> Response:
    try:
        steps = [[parse_state_update(update) for update in step["updates"]] for step in supersteps]
        await write_states(services, thread_id, steps)
    except ToolweaveError as error:
        text = f"Thread {thread_id} was created, but there were problems updating the state: {error}"
        return json_answer({"detail": text}, status=201, headers=headers)
    return json_answer(thread_json(await services.persistence.threads.get(thread_id)), headers=headers)


@endpoints("POST /threads/search", rules.search_threads, "ThreadSearchRequest", "Thread[]")
async def search_threads(request: Request, body: Body) -> Response:
    """Search threads.

    Last changed first unless the body sorts otherwise.
    """
    paths: dict[str, str] = body.get("extract", {})
    repository = get_services(request).persistence.threads
    filters = {"metadata": body.get("metadata"), "values": body.get("values"), "status": body.get("status")}
    # An empty list of ids does not filter, as in the reference server.
    ids = [parse_uuid(thread_id, "thread") for thread_id in body.get("ids", ())] or None
    as_stored = not any(path.startswith("values") for path in paths.values())
    find = partial(repository.search, ids=ids, **filters, raw_values=as_stored)
    return await page_answer(body, find, partial(repository.count, **filters), thread_json, extract=paths)


@endpoints("POST /threads/count", rules.search_threads, "ThreadCountRequest", "Count")
async def count_threads(request: Request, body: Body) -> Response:
    """Count threads."""
    found = await get_services(request).persistence.threads.count(
        metadata=body.get("metadata"), values=body.get("values"), status=body.get("status")
    )
    return json_answer(found)


@endpoints("GET /threads/{thread_id}", rules.read_thread, answer="Thread", query=(QueryParam("include", STRING),))
async def get_thread(request: Request, thread_id: str) -> Response:
    """Get a thread.

    `include=ttl` adds its time to live.
    """
    thread = await get_services(request).persistence.threads.get(thread_id)
    included = {word.strip() for text in query_list(request, "include") for word in text.split(",")}
    return json_answer({**thread_json(thread), **(ttl_json(thread) if "ttl" in included else {})})


@endpoints("PATCH /threads/{thread_id}", rules.update_thread, "ThreadPatch", "Thread", errors=(204, 404, 422))
async def patch_thread(request: Request, thread_id: str, body: Body) -> Response:
    """Change a thread.

    Merge metadata into its metadata, and set its time to live.
    """
    threads = get_services(request).persistence.threads
    ttl = requested_ttl(body, threads.default_ttl)
    thread = await threads.patch(thread_id, body.get("metadata", {}), ttl)
    headers = body.ignored_header(*ineffective_fields(body, ttl))
    if "return=minimal" in request.headers.get("prefer", ""):
        return Response(None, 204, headers)
    return json_answer(thread_json(thread), headers=headers)


@endpoints("POST /threads/{thread_id}/copy", rules.copy_thread, answer="Thread", errors=(409, 422))
async def copy_thread(request: Request, thread_id: str) -> Response:
    """Copy a thread.

    Copy its history, but not its runs; the response has no values.
    """
    services = get_services(request)
    persistence = services.persistence
    try:
        source = await persistence.threads.get(thread_id)
    except NotFound:
        raise Conflict("Conflict") from None
    target = str(uuid4())
    # Create the row first: a sweep deletes checkpoints without one.
    created = thread_json(await persistence.threads.create(target, metadata=source.metadata))
    async with services.engine.claim_thread(target) as claim:
        await persistence.copy_thread_contents(thread_id, claim)
    return json_answer({name: item for name, item in created.items() if name != "values"})


@endpoints("DELETE /threads/{thread_id}", rules.delete_thread, status=204)
async def delete_thread(request: Request, thread_id: str) -> Response:
    """Delete a thread.

    Delete everything it owns; stop its runs first.
    """
    await get_services(request).engine.delete_thread(thread_id)
    return Response(None, 204)


@endpoints(
    "GET /threads/{thread_id}/stream",
    rules.read_thread,
    answer="Any",
    media_type=SSE,
    query=(
        QueryParam("stream_modes", list_of(one_of(*STREAM_MODES))),
        QueryParam("stream_mode", list_of(one_of(*STREAM_MODES))),
        QueryParam("Last-Event-ID", STRING, location="header"),
    ),
)
async def stream_thread(request: Request, thread_id: str) -> ASGIApp:
    """Stream all runs of a thread.

    Send events until the client disconnects or the thread is deleted.
    """
    modes, after = _parse_modes(request), _parse_last_event_id(request)
    batches = get_services(request).engine.thread_events(thread_id, modes, after)
    # The response starts when the stream misses nothing.
    await anext(batches)
    return EventStream(batches, {})


def _parse_modes(request: Request) -> frozenset[ThreadStreamMode]:
    """Parse the stream modes from both parameter names: repeated, as a list, or separated by commas."""
    texts = [*query_list(request, "stream_modes"), *query_list(request, "stream_mode")]
    words = [word.strip() for text in texts for word in text.split(",")]
    for word in words:
        if word not in STREAM_MODES:
            raise InvalidRequest(f"Invalid stream mode: {word[:200]}")
    return frozenset(mode for mode in STREAM_MODES if mode in words) or frozenset({"run_modes"})


def _parse_last_event_id(request: Request) -> StreamPosition | None:
    last_id = request.headers.get("last-event-id")
    if not last_id:
        return None
    position = parse_position(last_id)
    if position is None:
        raise InvalidRequest("Invalid last-event-id: must be the id of an event of this stream, or - for its beginning")
    return position


@endpoints(
    "POST /threads/{thread_id}/state",
    rules.update_state,
    "ThreadStateUpdate",
    "ThreadStateUpdated",
    errors=(400, 404, 409, 422),
)
async def update_state(request: Request, thread_id: str, body: Body) -> Response:
    """Update the state.

    Write values as if a node had returned them.
    """
    checkpoint = dict(body.get("checkpoint", {}))
    if "checkpoint_id" in body.fields:
        checkpoint["checkpoint_id"] = body.fields["checkpoint_id"]
    step = [StateUpdate(body.get("values"), body.get("as_node"))]
    written = await write_states(get_services(request), thread_id, [step], checkpoint)
    return json_answer({"checkpoint": written, "configurable": written, "checkpoint_id": written["checkpoint_id"]})


@endpoints(
    "POST /threads/{thread_id}/state/checkpoint", rules.read_thread, "ThreadStateCheckpointRequest", "ThreadState"
)
async def get_state_at(request: Request, thread_id: str, body: Body) -> Response:
    """Get the state at a checkpoint.

    The checkpoint may lie in a subgraph.
    """
    state = await read_state(
        get_services(request), thread_id, body.fields["checkpoint"], subgraphs=body.get("subgraphs", False)
    )
    return json_answer(select_state_fields(state, body.get("select", ())))


@endpoints(
    "GET /threads/{thread_id}/state/{checkpoint_id}",
    rules.read_thread,
    answer="ThreadState",
    query=(_SUBGRAPHS, _SELECT),
    summary="Get the state at a checkpoint",
)
@endpoints("GET /threads/{thread_id}/state", rules.read_thread, answer="ThreadState", query=(_SUBGRAPHS, _SELECT))
async def get_state(request: Request, thread_id: str) -> Response:
    """Get the state.

    The newest one, or that at the path's checkpoint; for an unknown checkpoint it is empty.
    """
    checkpoint = {"checkpoint_id": request.path_params.get("checkpoint_id")}
    state = await read_state(get_services(request), thread_id, checkpoint, subgraphs=_SUBGRAPHS.read(request))
    return json_answer(select_state_fields(state, query_list(request, "select")))


@endpoints(
    "GET /threads/{thread_id}/history",
    rules.read_thread,
    answer="ThreadState[]",
    query=(_LIMIT, QueryParam("before", STRING), _SELECT),
)
async def get_history(request: Request, thread_id: str) -> Response:
    """Get the history.

    Newest state first.
    """
    before = request.query_params.get("before")
    states = await read_history(get_services(request), thread_id, limit=_LIMIT.read(request), before=before)
    return json_answer([select_state_fields(state, query_list(request, "select")) for state in states])


@endpoints("POST /threads/{thread_id}/history", rules.read_thread, "ThreadStateSearch", "ThreadState[]")
async def search_history(request: Request, thread_id: str, body: Body) -> Response:
    """Search the history.

    Newest state first.
    """
    states = await read_history(
        get_services(request),
        thread_id,
        limit=body.get("limit", 1),
        before=_parse_before(body),
        metadata=body.get("metadata"),
        checkpoint=body.get("checkpoint"),
    )
    return json_answer([select_state_fields(state, body.get("select", ())) for state in states])


def _parse_before(body: Body) -> str | None:
    """Parse `before` in the forms that SDKs send: an id, a checkpoint, or a config with one."""
    before: Any = body.get("before")
    if isinstance(before, dict):
        before = before.get("configurable", before)
    if isinstance(before, dict):
        before = before.get("checkpoint_id")
    return before if isinstance(before, str) and before else None


def requested_ttl(body: Body, default: ThreadTtl | None) -> ThreadTtl | None:
    """Parse `ttl`: minutes, or {ttl, strategy}; the default for minutes is the server's, if it has one."""
    ttl = body.get("ttl")
    if not isinstance(ttl, dict):
        return None if ttl is None else ThreadTtl(float(ttl))
    minutes, strategy = ttl.get("ttl"), ttl.get("strategy")
    if minutes is not None:
        return ThreadTtl(float(minutes), strategy or "delete")
    return default and ThreadTtl(default.minutes, strategy or default.strategy)


def ineffective_fields(body: Body, ttl: ThreadTtl | None) -> tuple[str, ...]:
    """Return `ttl` if it has no effect: a strategy without minutes, on a server without a default."""
    return ("ttl",) if "ttl" in body.fields and ttl is None else ()


def ttl_json(thread: Thread) -> JsonObject:
    """Return what `?include=ttl` adds to a thread: nothing if it does not expire."""
    if thread.ttl is None:
        return {}
    expires_at = None if thread.expires_at is None else timestamp(thread.expires_at)
    return {"ttl": {"strategy": thread.ttl.strategy, "ttl_minutes": thread.ttl.minutes, "expires_at": expires_at}}
