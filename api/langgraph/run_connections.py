"""Connect a client to a run: its events, its result, and what happens when the client leaves."""

from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import suppress

from starlette.requests import Request

from toolweave.api.langgraph.event_filter import EventFilter, joined_stream_filter
from toolweave.api.langgraph.live_answers import EventStream, SlowJson, WhenGone
from toolweave.api.langgraph.run_request import RunRequest
from toolweave.api.langgraph.served import Served
from toolweave.errors import NotFound
from toolweave.runtime.codec import dumps
from toolweave.runtime.events.channel import LoggedEvent, parse_event_id
from toolweave.runtime.models import Run
from toolweave.runtime.runs.engine import EmbeddedEngine

# In a 200 answer, where the reference server has it: clients of join read the error out of the body.
UNKNOWN_RUN = {"error": "HTTPException", "message": "404: Run not found"}
# What a webhook hears, in the reference server's words: receivers tell the cases apart by them.
CLIENT_GONE = "client disconnected from the run stream (on_disconnect=cancel)"


def run_path(run: Run) -> str:
    """Give the path of a run on its thread."""
    return f"/threads/{run.thread_id}/runs/{run.run_id}"


async def stream_new_run(here: Served, wanted: RunRequest, shown: EventFilter, *, stateless: bool) -> EventStream:
    """Create a run and send its events from the very first."""
    started = await here.engine.start(wanted.new, listen=True)
    run = started.run
    assert started.events is not None  # noqa: S101 - asked for
    path = f"/runs/{run.run_id}" if stateless else run_path(run)
    headers = {"location": f"{path}/stream", "content-location": path, **wanted.headers}
    when_gone = cancelling(here.engine, run) if wanted.cancel_on_disconnect else None
    return EventStream(started.events.batches(), headers, shown=shown, when_gone=when_gone)


async def wait_for_new_run(here: Served, wanted: RunRequest) -> SlowJson:
    """Create a run and answer with its result."""
    started = await here.engine.start(wanted.new)
    when_gone = cancelling(here.engine, started.run) if wanted.cancel_on_disconnect else None
    headers = {**_joinable(started.run), **wanted.headers}
    return SlowJson(_or_unknown(started.result()), headers, when_gone=when_gone)


def join_result(here: Served, run: Run, when_gone: WhenGone | None) -> SlowJson:
    """Answer with a run's result as soon as it has ended (5.2)."""
    return SlowJson(_or_unknown(here.engine.wait(run)), _joinable(run), when_gone=when_gone)


def join_events(request: Request, here: Served, run: Run, *, path: str, when_gone: WhenGone | None) -> EventStream:
    """Send a run's events: all after Last-Event-ID when it is resumable, else those from now on (6.2).

    After a kill of the server, the client may have received one to five events that are not sent again: they were not
    on disk yet (docs/compatibility.md, "Replay after a crash").
    """
    headers = {"location": f"{path}/stream", "content-location": path}
    last_id, after = _position(request)
    found = _only() if last_id is not None and after is None else here.engine.event_batches(run, after)
    return EventStream(found, headers, shown=joined_stream_filter(request), when_gone=when_gone)


def ended_run_events(request: Request, events: Sequence[LoggedEvent], *, path: str) -> EventStream:
    """Send what is left, after Last-Event-ID, of a stream whose run is gone."""
    headers = {"location": f"{path}/stream", "content-location": path}
    _, after = _position(request)
    left = () if after is None else [event for event in events if event.seq > after]
    return EventStream(_only(*left), headers, shown=joined_stream_filter(request))


def unknown_run_events(thread_id: str, run_id: str) -> EventStream:
    """Send the one error event that joining an unknown run gives."""
    path = f"/threads/{thread_id}/runs/{run_id}"
    headers = {"location": f"{path}/stream", "content-location": path}
    return EventStream(_only(LoggedEvent(1, "error", dumps(UNKNOWN_RUN), None)), headers)


def unknown_run_result(thread_id: str, run_id: str) -> SlowJson:
    """Answer with the error that joining an unknown run gives."""
    path = f"/threads/{thread_id}/runs/{run_id}"
    return SlowJson(_unknown(), {"location": f"{path}/join", "content-location": path})


def cancelling(engine: EmbeddedEngine, run: Run) -> WhenGone:
    """Cancel the run when its client leaves; a run that has ended meanwhile is left alone (5.10)."""

    async def cancel() -> None:
        with suppress(NotFound):
            await engine.cancel(run.thread_id, run.run_id, "interrupt", wait=False, why=CLIENT_GONE)

    return cancel


def _joinable(run: Run) -> dict[str, str]:
    path = run_path(run)
    return {"location": f"{path}/join", "content-location": path}


async def _or_unknown(result: Awaitable[bytes]) -> bytes:
    try:
        return await result
    except NotFound:
        return await _unknown()


def _position(request: Request) -> tuple[str | None, int | None]:
    """Read Last-Event-ID: as it is, and the number after which to go on (None without one, and for garbage)."""
    last_id = request.headers.get("last-event-id")
    return last_id, None if last_id is None else parse_event_id(last_id)


async def _unknown() -> bytes:
    return dumps({"__error__": UNKNOWN_RUN})


async def _only(*events: LoggedEvent) -> AsyncGenerator[Sequence[LoggedEvent]]:
    yield events
