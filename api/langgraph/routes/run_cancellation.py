"""Endpoints that cancel runs: one, several of a thread, or all of a status (langgraph_api.md 2.3, 5.8)."""

from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.langgraph.answers import SlowJson, empty_answer
from toolweave.api.langgraph.components import body_schema
from toolweave.api.langgraph.endpoint import Endpoint, Query
from toolweave.api.langgraph.json_schema import BOOLEAN, STRING, one_of
from toolweave.api.langgraph.requests import Body, query_choice, query_flag, read_body, uuid_of
from toolweave.api.langgraph.routes.runs import requested_run
from toolweave.api.langgraph.run_requests import run_path
from toolweave.api.langgraph.served import Served, served
from toolweave.errors import InvalidRequest, NotFound
from toolweave.runtime.models import CancelAction, Run
from toolweave.runtime.runs.engine import EmbeddedEngine

ACTIONS: tuple[CancelAction, ...] = ("interrupt", "rollback")
NOTHING_TO_CANCEL = "No runs found to cancel."
STATUS_ALONE = "A `status` cancels all runs that have it, of every thread: leave out `thread_id` and `run_ids`."
STATUS_OR_RUNS = "Either `status`, or both `thread_id` and `run_ids`, must be given."

MANY = body_schema("RunsCancel")


async def cancel(request: Request) -> Response | SlowJson:
    """Cancel a run; with `wait` the answer comes when it has ended (5.8)."""
    action = query_choice(request, "action", ACTIONS) or "interrupt"
    waits = query_flag(request, "wait")
    here = served(request)
    try:
        run = await requested_run(request, here)
        await here.engine.cancel(run.thread_id, run.run_id, action, wait=False, why=_why(action, _ONE))
    except NotFound:
        raise NotFound(NOTHING_TO_CANCEL) from None
    if not waits:
        return empty_answer(202)
    path = run_path(run)
    return SlowJson(_ended(here.engine, run), {"location": f"{path}/join", "content-location": path})


async def cancel_many(request: Request) -> Response:
    """Cancel runs; those that have ended by now are passed over, but one at least must be there to cancel."""
    action = query_choice(request, "action", ACTIONS) or "interrupt"
    here = served(request)
    chosen = await _chosen(await read_body(request, MANY), here)
    cancelled = 0
    for thread_id, run_id in chosen:
        with suppress(NotFound):
            await here.engine.cancel(thread_id, run_id, action, wait=False, why=_why(action, _MANY))
            cancelled += 1
    if not cancelled:
        raise NotFound(NOTHING_TO_CANCEL)
    return empty_answer(204)


async def _chosen(body: Body, here: Served) -> list[tuple[str, str]]:
    """Name the runs to cancel by thread and run id, the last to start first: no run begins on a freed thread."""
    status, thread_id, run_ids = (body.get(name) for name in ("status", "thread_id", "run_ids"))
    if status is not None:
        if thread_id is not None or run_ids is not None:
            raise InvalidRequest(STATUS_ALONE)
        wanted = ("pending", "running") if status == "all" else (status,)
        active = await here.persistence.runs.active()
        return [(run.thread_id, run.run_id) for run in reversed(active) if run.status in wanted]
    if thread_id is None or run_ids is None:
        raise InvalidRequest(STATUS_OR_RUNS)
    thread_id = uuid_of(thread_id, "thread")
    return [(thread_id, run_id) for run_id in sorted({uuid_of(given, "run") for given in run_ids}, reverse=True)]


def _why(action: CancelAction, path: str) -> str:
    return f"{action} requested via POST {path}"


async def _ended(engine: EmbeddedEngine, run: Run) -> bytes:
    with suppress(NotFound):
        await engine.wait(run)
    return b"{}"


_ACTION = Query("action", one_of(*ACTIONS))
_ONE = "/threads/{thread_id}/runs/{run_id}/cancel"
_MANY = "/runs/cancel"
# `reason` marks input as taken up elsewhere, for servers that keep a record of that.
_ONE_QUERY = (Query("wait", BOOLEAN), _ACTION, Query("reason", STRING))

ENDPOINTS = (
    Endpoint(
        "POST", _ONE, cancel, "Cancel a run", "Thread Runs", answer="Any", errors=(202, 404, 422), query=_ONE_QUERY
    ),
    Endpoint(
        "POST",
        _MANY,
        cancel_many,
        "Cancel runs",
        "Thread Runs",
        "RunsCancel",
        status=204,
        errors=(404, 422),
        query=(_ACTION,),
    ),
)
