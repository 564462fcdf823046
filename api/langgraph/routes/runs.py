"""Endpoints of the runs on a thread."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.langgraph.answers import (
    EventStream,
    SlowJson,
    empty_answer,
    json_answer,
    new_stream_filter,
    selected,
)
from toolweave.api.langgraph.endpoint import Endpoint, Query
from toolweave.api.langgraph.json_schema import BOOLEAN, MAX_LIMIT, STRING, list_of, one_of
from toolweave.api.langgraph.requests import (
    is_uuid,
    path_uuid,
    query_choice,
    query_flag,
    query_page,
    query_words,
    read_body,
)
from toolweave.api.langgraph.run_requests import (
    STATEFUL,
    RunRequest,
    cancelling,
    check_run_fields,
    join_events,
    join_result,
    run_path,
    run_request,
    stream_new_run,
    unknown_run_events,
    unknown_run_result,
    wait_for_new_run,
)
from toolweave.api.langgraph.run_schemas import RUN_FIELDS, RUN_STATUSES, STREAM_MODES
from toolweave.api.langgraph.served import Served, served
from toolweave.api.langgraph.thread_states import require_checkpoint, state_config
from toolweave.api.langgraph.wire import run_json
from toolweave.errors import InvalidRequest, NotFound
from toolweave.runtime.models import Run


async def create(request: Request) -> Response:
    """Create a run and answer at once; it runs in the background."""
    here = served(request)
    wanted = await _wanted(request, here)
    run = (await here.engine.start(wanted.new)).run
    return json_answer(run_json(run), headers={"content-location": run_path(run), **wanted.headers})


async def stream(request: Request) -> EventStream:
    """Create a run and stream its events."""
    if not is_uuid(request.path_params["thread_id"]):
        raise HTTPException(400, "badly formed hexadecimal UUID string")
    here = served(request)
    return await stream_new_run(here, await _wanted(request, here), new_stream_filter(request), stateless=False)


async def wait(request: Request) -> SlowJson:
    """Create a run and answer with its result."""
    here = served(request)
    return await wait_for_new_run(here, await _wanted(request, here))


async def list_runs(request: Request) -> Response:
    """List a thread's runs, newest first."""
    thread_id = path_uuid(request, "thread")
    limit, offset = query_page(request)
    status = query_choice(request, "status", RUN_STATUSES)
    select = query_words(request, "select")
    for name in select:
        if name not in RUN_FIELDS:
            raise InvalidRequest(f"Invalid select value: must be among {', '.join(RUN_FIELDS)}")
    found = await served(request).persistence.runs.list(thread_id, limit=limit, offset=offset, status=status)
    return json_answer([selected(run_json(run), select or None) for run in found])


async def get(request: Request) -> Response:
    """Give a run."""
    return json_answer(run_json(await requested_run(request, served(request))))


async def delete(request: Request) -> Response:
    """Delete a run with its checkpoints; a running one is stopped first."""
    thread_id, run_id = path_uuid(request, "thread"), path_uuid(request, "run")
    await served(request).engine.delete_run(thread_id, run_id)
    return empty_answer(204)


async def join(request: Request) -> SlowJson:
    """Answer with a run's result as soon as it has ended."""
    here = served(request)
    leaves = query_flag(request, "cancel_on_disconnect")
    try:
        run = await requested_run(request, here)
    except NotFound:
        return unknown_run_result(path_uuid(request, "thread"), path_uuid(request, "run"))
    return join_result(here, run, cancelling(here.engine, run) if leaves else None)


async def join_stream(request: Request) -> EventStream:
    """Stream a run's events; a resumable one's from Last-Event-ID on, as far as they were stored (`join_events`)."""
    here = served(request)
    leaves = query_flag(request, "cancel_on_disconnect")
    try:
        run = await requested_run(request, here)
    except NotFound:
        return unknown_run_events(path_uuid(request, "thread"), path_uuid(request, "run"))
    when_gone = cancelling(here.engine, run) if leaves else None
    return join_events(request, here, run, path=run_path(run), when_gone=when_gone)


async def _wanted(request: Request, here: Served) -> RunRequest:
    thread_id = path_uuid(request, "thread")
    body = await read_body(request, STATEFUL)
    check_run_fields(body, stateless=False)
    await here.webhooks.require(body.get("webhook"))
    try:
        assistant = await here.assistant(body.fields["assistant_id"])
    except NotFound:
        raise NotFound("Thread or assistant not found.") from None
    wanted = run_request(body, assistant, thread_id, here.graphs.metadata(assistant.graph_id))
    start = wanted.new.kwargs["config"]["configurable"]
    if start.get("checkpoint_id"):
        checkpoint = {name: str(start.get(name) or "") for name in ("checkpoint_id", "checkpoint_ns")}
        await require_checkpoint(here, state_config(thread_id, checkpoint))
    return wanted


async def requested_run(request: Request, here: Served) -> Run:
    """Read the run that the path names. Raises NotFound."""
    return await here.persistence.runs.get(path_uuid(request, "thread"), path_uuid(request, "run"))


_TAG = "Thread Runs"
_RUNS = "/threads/{thread_id}/runs"
_ONE = f"{_RUNS}/{{run_id}}"
_BOTH = (404, 422)
_CREATED = (400, 404, 409, 422)
_LIST_QUERY = (
    Query("limit", {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 10}),
    Query("offset", {"type": "integer", "minimum": 0, "default": 0}),
    Query("status", one_of(*RUN_STATUSES)),
    Query("select", list_of(one_of(*RUN_FIELDS))),
)
_CANCEL_ON_DISCONNECT = Query("cancel_on_disconnect", BOOLEAN)
NEW_STREAM_QUERY = (Query("namespace", list_of(STRING)),)
JOIN_STREAM_QUERY = (
    Query("stream_mode", list_of(one_of(*STREAM_MODES))),
    Query("namespace", list_of(STRING)),
    # Allowed to be ignored by those who send it: the whole run is replayed.
    Query("checkpoint_id", STRING),
    Query("Last-Event-ID", STRING, "header"),
    _CANCEL_ON_DISCONNECT,
)
_SSE = "text/event-stream"

ENDPOINTS = (
    Endpoint("POST", _RUNS, create, "Create a run", _TAG, "RunCreateStateful", "Run", errors=_CREATED),
    Endpoint("GET", _RUNS, list_runs, "List runs", _TAG, None, "Run", True, errors=_BOTH, query=_LIST_QUERY),
    Endpoint(
        "POST",
        f"{_RUNS}/stream",
        stream,
        "Create a run and stream its events",
        _TAG,
        "RunCreateStateful",
        media_type=_SSE,
        errors=_CREATED,
        query=NEW_STREAM_QUERY,
    ),
    Endpoint(
        "POST", f"{_RUNS}/wait", wait, "Create a run and wait for it", _TAG, "RunCreateStateful", "Any", errors=_CREATED
    ),
    Endpoint("GET", _ONE, get, "Get a run", _TAG, answer="Run", errors=_BOTH),
    Endpoint("DELETE", _ONE, delete, "Delete a run", _TAG, status=204, errors=(404, 409, 422)),
    Endpoint("GET", f"{_ONE}/join", join, "Wait for a run", _TAG, answer="Any", query=(_CANCEL_ON_DISCONNECT,)),
    Endpoint(
        "GET", f"{_ONE}/stream", join_stream, "Stream a run's events", _TAG, media_type=_SSE, query=JOIN_STREAM_QUERY
    ),
)
