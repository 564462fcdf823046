"""Endpoints of runs, stateful and stateless: create, list, join, cancel and delete them."""

from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import suppress

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.langgraph.answers import EventStream, KeepAliveJson, json_answer, run_filter, select_fields
from toolweave.api.langgraph.auth import rules
from toolweave.api.langgraph.endpoints import SSE, Endpoints
from toolweave.api.langgraph.json_schema import FLAG, STRING, list_of, one_of
from toolweave.api.langgraph.requests import (
    LIMIT_PARAM,
    OFFSET_PARAM,
    Body,
    QueryParam,
    checked_body,
    ignored_header,
    is_uuid,
    parse_uuid,
    path_uuid,
    query_list,
    read_body,
)
from toolweave.api.langgraph.run_requests import (
    STATEFUL_RUN,
    STATELESS_RUN,
    RunRequest,
    check_run_fields,
    disconnect_callback,
    run_request,
)
from toolweave.api.langgraph.run_schemas import RUN_FIELDS, RUN_STATUSES, STREAM_MODES
from toolweave.api.langgraph.services import ApiServices, get_services
from toolweave.api.langgraph.thread_states import require_start_checkpoint
from toolweave.errors import NotFound
from toolweave.runtime.codec import dumps
from toolweave.runtime.events.channel import EventFilter, parse_event_id
from toolweave.runtime.models import CancelAction, Run, StreamEvent, run_json
from toolweave.runtime.runs.engine import RunEngine

RUN_PATH = "/threads/{thread_id}/runs/{run_id}"
CANCEL_PATH, CANCEL_MANY_PATH = f"{RUN_PATH}/cancel", "/runs/cancel"
NOTHING_TO_CANCEL = "No runs found to cancel."
# Sent with status 200, as by the reference server: clients of join read the error from the body.
UNKNOWN_RUN = {"error": "HTTPException", "message": "404: Run not found"}

endpoints = Endpoints("Thread Runs", "disable_runs")
stateless = Endpoints("Stateless Runs", "disable_runs")
_ERRORS = (400, 404, 409, 422)
_STATELESS_ERRORS = (400, 404, 422)
_LIST_QUERY = (
    LIMIT_PARAM,
    OFFSET_PARAM,
    QueryParam("status", one_of(*RUN_STATUSES)),
    QueryParam("select", list_of(one_of(*RUN_FIELDS))),
)
_CANCEL_ON_DISCONNECT, _WAIT = QueryParam("cancel_on_disconnect", FLAG), QueryParam("wait", FLAG)
_ACTION = QueryParam("action", {**one_of("interrupt", "rollback"), "default": "interrupt"})
_STREAM_QUERY = (QueryParam("namespace", list_of(STRING)),)
_JOIN_QUERY = (
    QueryParam("stream_mode", list_of(one_of(*STREAM_MODES))),
    *_STREAM_QUERY,
    # Accepted and ignored: the whole run is replayed.
    QueryParam("checkpoint_id", STRING),
    QueryParam("Last-Event-ID", STRING, "header"),
    _CANCEL_ON_DISCONNECT,
)


@stateless("POST /runs", rules.create_run, "RunCreateStateless", "Run", read=False, errors=_STATELESS_ERRORS)
@endpoints("POST /threads/{thread_id}/runs", rules.create_run, "RunCreateStateful", "Run", read=False, errors=_ERRORS)
async def create_run(request: Request) -> Response:
    """Create a run.

    Respond at once; the run executes in the background.
    """
    services = get_services(request)
    requested = await _read_run_request(request, services)
    run = (await services.engine.start_run(requested.new_run)).run
    return json_answer(run_json(run), headers={"content-location": _client_path(request, run), **requested.headers})


@endpoints("GET /threads/{thread_id}/runs", rules.list_runs, answer="Run[]", query=_LIST_QUERY)
async def list_runs(request: Request, thread_id: str) -> Response:
    """List runs.

    Newest first.
    """
    limit, offset, status, select = (each.read(request) for each in _LIST_QUERY)
    found = await get_services(request).persistence.runs.list(thread_id, limit=limit, offset=offset, status=status)
    return json_answer([select_fields(run_json(run), select) for run in found])


@stateless(
    "POST /runs/stream",
    rules.create_run,
    "RunCreateStateless",
    read=False,
    media_type=SSE,
    errors=_STATELESS_ERRORS,
    query=_STREAM_QUERY,
)
@endpoints(
    "POST /threads/{thread_id}/runs/stream",
    rules.create_run,
    "RunCreateStateful",
    read=False,
    media_type=SSE,
    errors=_ERRORS,
    query=_STREAM_QUERY,
)
async def create_and_stream_run(request: Request) -> EventStream:
    """Create a run and stream its events.

    The stream starts with the first event.
    """
    if "thread_id" in request.path_params and not is_uuid(request.path_params["thread_id"]):
        raise HTTPException(400, "badly formed hexadecimal UUID string")
    services = get_services(request)
    requested = await _read_run_request(request, services)
    started = await services.engine.start_run(requested.new_run, listen=True)
    assert started.events is not None  # noqa: S101 - started with listen
    headers = {**_headers(_client_path(request, started.run), "stream"), **requested.headers}
    # `namespace`, repeated or a JSON list; `stream_mode` is in the body.
    shown = run_filter((), _namespaces(request))
    on_disconnect = disconnect_callback(services.engine, started.run, enabled=requested.cancel_on_disconnect)
    return EventStream(started.events.batches(), headers, only=shown, on_disconnect=on_disconnect)


@stateless("POST /runs/batch", rules.create_runs, "RunBatchCreate", "Run[]", errors=_STATELESS_ERRORS)
async def create_runs(request: Request, body: Body) -> Response:
    """Create several runs.

    If one of them is invalid, no run is created.
    """
    services = get_services(request)
    bodies = [await _check_body(checked_body(given, STATELESS_RUN), services, stateless=True) for given in body.value]
    requests = [await _build_run_request(each, services, None) for each in bodies]
    runs = [(await services.engine.start_run(each.new_run)).run for each in requests]
    ignored = dict.fromkeys(name for each in requests for name in each.ignored)
    return json_answer([run_json(run) for run in runs], headers=ignored_header(tuple(ignored)))


@stateless("POST /runs/wait", rules.create_run, "RunCreateStateless", "Any", read=False, errors=_STATELESS_ERRORS)
@endpoints(
    "POST /threads/{thread_id}/runs/wait", rules.create_run, "RunCreateStateful", "Any", read=False, errors=_ERRORS
)
async def create_and_wait_for_run(request: Request) -> KeepAliveJson:
    """Create a run and wait for it.

    Return its result.
    """
    services = get_services(request)
    requested = await _read_run_request(request, services)
    started = await services.engine.start_run(requested.new_run, awaited=True)
    on_disconnect = disconnect_callback(services.engine, started.run, enabled=requested.cancel_on_disconnect)
    headers = {**_headers(run_path(started.run), "join"), **requested.headers}
    return KeepAliveJson(_result_or_unknown(started.result()), headers, on_disconnect=on_disconnect)


@endpoints(f"GET {RUN_PATH}", rules.read_run, answer="Run")
async def get_run(request: Request, thread_id: str, run_id: str) -> Response:
    """Get a run."""
    return json_answer(run_json(await get_services(request).persistence.runs.get(thread_id, run_id)))


@endpoints(f"DELETE {RUN_PATH}", rules.delete_run, status=204, errors=(404, 409, 422))
async def delete_run(request: Request, thread_id: str, run_id: str) -> Response:
    """Delete a run.

    Delete its checkpoints, too; stop it first if it is running.
    """
    await get_services(request).engine.delete_run(thread_id, run_id)
    return Response(None, 204)


@endpoints(f"GET {RUN_PATH}/join", rules.join_run, answer="Any", errors=(422,), query=(_CANCEL_ON_DISCONNECT,))
async def join_run(request: Request, thread_id: str, run_id: str) -> KeepAliveJson:
    """Wait for a run.

    Return its result as soon as it has ended (5.2).
    """
    services = get_services(request)
    headers = _headers(f"/threads/{thread_id}/runs/{run_id}", "join")
    try:
        run = await services.persistence.runs.get(thread_id, run_id)
    except NotFound:
        return KeepAliveJson(_unknown_run(), headers)
    on_disconnect = disconnect_callback(services.engine, run, enabled=_CANCEL_ON_DISCONNECT.read(request))
    return KeepAliveJson(_result_or_unknown(services.engine.wait_for_run(run)), headers, on_disconnect=on_disconnect)


@endpoints(f"GET {RUN_PATH}/stream", rules.join_run, media_type=SSE, errors=(422,), query=_JOIN_QUERY)
async def join_run_stream(request: Request, thread_id: str, run_id: str) -> EventStream:
    """Stream a run's events.

    Those of a resumable run start after Last-Event-ID, as far as they are stored (`_join_events`).
    """
    services = get_services(request)
    path = f"/threads/{thread_id}/runs/{run_id}"
    try:
        run = await services.persistence.runs.get(thread_id, run_id)
    except NotFound:
        return EventStream(_events(StreamEvent(1, "error", dumps(UNKNOWN_RUN), None)), _headers(path, "stream"))
    return await _join_events(request, services, run, path)


@stateless("GET /runs/{run_id}/stream", rules.read_stateless_run, media_type=SSE, query=_JOIN_QUERY)
async def join_stateless_stream(request: Request, run_id: str) -> EventStream:
    """Stream a run's events.

    The Location of a stateless stream is this path; stored events as in `_join_events`.
    """
    services = get_services(request)
    path = f"/runs/{run_id}"
    run = await services.persistence.runs.find(run_id)
    if run is not None:
        return await _join_events(request, services, run, path)
    ended = await services.engine.find_ended_run(run_id)
    if ended is None:
        raise NotFound("Run not found")
    # The retained events of a run that was deleted.
    _, after = _last_event_id(request)
    events = () if after is None else [event for event in ended.events if event.seq > after]
    return EventStream(_events(*events), _headers(path, "stream"), only=_join_filter(request))


@endpoints(
    f"POST {CANCEL_PATH}",
    rules.cancel_run,
    answer="Any",
    errors=(202, 404, 422),
    # `reason` marks input as handled elsewhere, for servers that record that; ignored here.
    query=(_WAIT, _ACTION, QueryParam("reason", STRING)),
)
async def cancel_run(request: Request, thread_id: str, run_id: str) -> Response | KeepAliveJson:
    """Cancel a run.

    With `wait` the response is sent when it has ended (5.8).
    """
    action = _ACTION.read(request)
    waits = _WAIT.read(request)
    services = get_services(request)
    try:
        run = await services.persistence.runs.get(thread_id, run_id)
        await services.engine.cancel_run(
            run.thread_id, run.run_id, action, wait=False, reason=_reason(action, CANCEL_PATH)
        )
    except NotFound:
        raise NotFound(NOTHING_TO_CANCEL) from None
    return (
        KeepAliveJson(_run_end(services.engine, run), _headers(run_path(run), "join")) if waits else Response(None, 202)
    )


@endpoints(f"POST {CANCEL_MANY_PATH}", rules.cancel_runs, "RunsCancel", status=204, errors=(404, 422), query=(_ACTION,))
async def cancel_runs(request: Request, body: Body) -> Response:
    """Cancel runs.

    Ended runs are skipped, but at least one must be cancelled.
    """
    action = _ACTION.read(request)
    services = get_services(request)
    cancelled = 0
    for thread_id, run_id in await _select_runs(body, services):
        with suppress(NotFound):
            await services.engine.cancel_run(
                thread_id, run_id, action, wait=False, reason=_reason(action, CANCEL_MANY_PATH)
            )
            cancelled += 1
    if not cancelled:
        raise NotFound(NOTHING_TO_CANCEL)
    return Response(None, 204)


async def _read_run_request(request: Request, services: ApiServices) -> RunRequest:
    """Read the request for a run, on the thread of the path or stateless."""
    if "thread_id" not in request.path_params:
        return await _build_run_request(
            await _check_body(await read_body(request, STATELESS_RUN), services, stateless=True), services, None
        )
    thread_id = path_uuid(request, "thread")
    body = await _check_body(await read_body(request, STATEFUL_RUN), services, stateless=False)
    requested = await _build_run_request(body, services, thread_id)
    await require_start_checkpoint(services, requested.new_run)
    return requested


async def _check_body(body: Body, services: ApiServices, *, stateless: bool) -> Body:
    check_run_fields(body, stateless=stateless)
    await services.webhooks.check_url(body.get("webhook"))
    return body


async def _build_run_request(body: Body, services: ApiServices, thread_id: str | None) -> RunRequest:
    try:
        assistant = await services.find_assistant(body.fields["assistant_id"])
    except NotFound:
        raise NotFound("Thread or assistant not found.") from None
    return await run_request(services, body, assistant, thread_id)


async def _select_runs(body: Body, services: ApiServices) -> list[tuple[str, str]]:
    """Return thread and run ids of the runs to cancel, newest first, so that no pending run starts in between."""
    if status := body.get("status"):
        statuses = ("pending", "running") if status == "all" else (status,)
        active = await services.persistence.runs.list_active()
        return [(run.thread_id, run.run_id) for run in reversed(active) if run.status in statuses]
    thread_id = parse_uuid(body.fields["thread_id"], "thread")
    return [
        (thread_id, run_id)
        for run_id in sorted({parse_uuid(given, "run") for given in body.get("run_ids")}, reverse=True)
    ]


async def _join_events(request: Request, services: ApiServices, run: Run, path: str) -> EventStream:
    """Stream a run's events: all after Last-Event-ID if it is resumable, else those from now on (6.2).

    After a kill of the server, the client may have received one to five events that are not replayed: they were not
    on disk yet (docs/compatibility.md, "Replay after a crash").
    """
    await services.engine.prepare_stream(run)
    last_id, after = _last_event_id(request)
    events = _events() if last_id is not None and after is None else services.engine.event_batches(run, after)
    on_disconnect = disconnect_callback(services.engine, run, enabled=_CANCEL_ON_DISCONNECT.read(request))
    return EventStream(events, _headers(path, "stream"), only=_join_filter(request), on_disconnect=on_disconnect)


def _join_filter(request: Request) -> EventFilter:
    """Return the filter of a joined stream: the union of all given `stream_mode` and `namespace` values."""
    return run_filter(query_list(request, "stream_mode"), _namespaces(request))


def _namespaces(request: Request) -> Sequence[str]:
    return query_list(request, "namespace", keep_empty=True)


def _last_event_id(request: Request) -> tuple[str | None, int | None]:
    """Return Last-Event-ID, and its sequence number (None if it is missing or invalid)."""
    last_id = request.headers.get("last-event-id")
    return last_id, None if last_id is None else parse_event_id(last_id)


def run_path(run: Run) -> str:
    """Return the path of a run on its thread."""
    return f"/threads/{run.thread_id}/runs/{run.run_id}"


def _client_path(request: Request, run: Run) -> str:
    return run_path(run) if "thread_id" in request.path_params else f"/runs/{run.run_id}"


def _headers(path: str, action: str) -> dict[str, str]:
    return {"location": f"{path}/{action}", "content-location": path}


def _reason(action: CancelAction, path: str) -> str:
    return f"{action} requested via POST {path}"


async def _result_or_unknown(result: Awaitable[bytes]) -> bytes:
    try:
        return await result
    except NotFound:
        return await _unknown_run()


async def _unknown_run() -> bytes:
    return dumps({"__error__": UNKNOWN_RUN})


async def _run_end(engine: RunEngine, run: Run) -> bytes:
    with suppress(NotFound):
        await engine.wait_for_run(run)
    return b"{}"


async def _events(*events: StreamEvent) -> AsyncGenerator[Sequence[StreamEvent]]:
    yield events
