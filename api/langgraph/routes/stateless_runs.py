"""Endpoints of runs that bring a thread of their own."""

from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.langgraph.answers import EventStream, SlowJson, json_answer, new_stream_filter
from toolweave.api.langgraph.endpoint import Endpoint
from toolweave.api.langgraph.requests import (
    Body,
    checked_body,
    ignored_header,
    path_uuid,
    query_flag,
    read_body,
    read_json,
)
from toolweave.api.langgraph.routes.runs import JOIN_STREAM_QUERY, NEW_STREAM_QUERY
from toolweave.api.langgraph.run_requests import (
    BATCH,
    STATELESS,
    RunRequest,
    cancelling,
    check_run_fields,
    ended_run_events,
    join_events,
    run_request,
    stream_new_run,
    wait_for_new_run,
)
from toolweave.api.langgraph.served import Served, served
from toolweave.api.langgraph.wire import run_json
from toolweave.errors import NotFound


async def create(request: Request) -> Response:
    """Create a run and answer at once; it runs in the background."""
    here = served(request)
    wanted = await _wanted(request, here)
    run = (await here.engine.start(wanted.new)).run
    return json_answer(run_json(run), headers={"content-location": f"/runs/{run.run_id}", **wanted.headers})


async def batch(request: Request) -> Response:
    """Create several runs; none when one of them is not valid."""
    here = served(request)
    bodies = await read_json(request)
    BATCH.check(bodies)
    checked = [await _checked(checked_body(body, STATELESS), here) for body in bodies]
    wanted = [await _found(body, here) for body in checked]
    runs = [(await here.engine.start(one.new)).run for one in wanted]
    ignored = dict.fromkeys(name for one in wanted for name in one.ignored)
    return json_answer([run_json(run) for run in runs], headers=ignored_header(tuple(ignored)))


async def stream(request: Request) -> EventStream:
    """Create a run and stream its events."""
    here = served(request)
    return await stream_new_run(here, await _wanted(request, here), new_stream_filter(request), stateless=True)


async def wait(request: Request) -> SlowJson:
    """Create a run and answer with its result."""
    here = served(request)
    return await wait_for_new_run(here, await _wanted(request, here))


async def join_stream(request: Request) -> EventStream:
    """Stream a run's events, as the Location of a stateless stream promises; stored ones as `join_events`."""
    here = served(request)
    leaves = query_flag(request, "cancel_on_disconnect")
    run_id = path_uuid(request, "run")
    path = f"/runs/{run_id}"
    run = await here.persistence.runs.find(run_id)
    if run is None:
        ended = here.engine.ended_events(run_id)
        if ended is None:
            raise NotFound("Run not found")
        return ended_run_events(request, ended, path=path)
    when_gone = cancelling(here.engine, run) if leaves else None
    return join_events(request, here, run, path=path, when_gone=when_gone)


async def _wanted(request: Request, here: Served) -> RunRequest:
    return await _found(await _checked(await read_body(request, STATELESS), here), here)


async def _checked(body: Body, here: Served) -> Body:
    check_run_fields(body, stateless=True)
    await here.webhooks.require(body.get("webhook"))
    return body


async def _found(body: Body, here: Served) -> RunRequest:
    try:
        assistant = await here.assistant(body.fields["assistant_id"])
    except NotFound:
        raise NotFound("Thread or assistant not found.") from None
    return run_request(body, assistant, None, here.graphs.metadata(assistant.graph_id))


_TAG = "Stateless Runs"
_BODY = "RunCreateStateless"
_SSE = "text/event-stream"
_CREATED = (400, 404, 422)

ENDPOINTS = (
    Endpoint("POST", "/runs", create, "Create a run", _TAG, _BODY, "Run", errors=_CREATED),
    Endpoint(
        "POST",
        "/runs/stream",
        stream,
        "Create a run and stream its events",
        _TAG,
        _BODY,
        media_type=_SSE,
        errors=_CREATED,
        query=NEW_STREAM_QUERY,
    ),
    Endpoint(
        "POST",
        "/runs/batch",
        batch,
        "Create several runs",
        _TAG,
        "RunBatchCreate",
        "Run",
        answers_list=True,
        errors=_CREATED,
    ),
    Endpoint("POST", "/runs/wait", wait, "Create a run and wait for it", _TAG, _BODY, "Any", errors=_CREATED),
    Endpoint(
        "GET",
        "/runs/{run_id}/stream",
        join_stream,
        "Stream a run's events",
        _TAG,
        media_type=_SSE,
        errors=(404, 422),
        query=JOIN_STREAM_QUERY,
    ),
)
