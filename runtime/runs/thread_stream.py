"""Stream everything that happens on a thread, run after run, from where a client was (langgraph_api.md 6.3)."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial

from toolweave.errors import NotFound
from toolweave.runtime.codec import to_micros
from toolweave.runtime.events.channel import LoggedEvent
from toolweave.runtime.events.run_log import REPLAY_BATCH
from toolweave.runtime.events.thread_hub import (
    RUN_DONE_SEQ,
    EventIds,
    Position,
    ThreadEvent,
    ThreadStreamMode,
    ThreadSubscription,
    run_done,
)
from toolweave.runtime.models import TERMINAL, Run
from toolweave.runtime.persistence.events import read_events
from toolweave.runtime.persistence.runs import resumable_runs
from toolweave.runtime.runs.engine import EmbeddedEngine


async def thread_events(
    engine: EmbeddedEngine, thread_id: str, modes: frozenset[ThreadStreamMode], after: Position | None
) -> AsyncGenerator[Sequence[LoggedEvent]]:
    """Give a thread's events from now on, or after a position as far as they are kept; ends with the thread.

    Kept are the events of resumable runs: those of other runs, and `state_update`, only reach who listens.
    """
    with engine.follow_thread(thread_id, modes) as heard:
        try:
            await engine.runtime.persistence.threads.get(thread_id)
        except NotFound:
            return
        ids, seen = EventIds(after), dict[str, int]()
        if after is not None:
            async with aclosing(_kept(engine, heard, after, seen)) as kept:
                async for event in kept:
                    if heard.shows(event):
                        yield (_logged(event, ids),)
        async for events in heard:
            fresh = [_logged(event, ids) for event in events if not _is_repeated(event, seen)]
            if fresh:
                yield fresh


async def _kept(
    engine: EmbeddedEngine, heard: ThreadSubscription, after: Position, seen: dict[str, int]
) -> AsyncGenerator[ThreadEvent]:
    """Give the stored events that follow a position, noting in `seen` how far; what happens meanwhile is heard."""
    live = heard.runs
    find = partial(
        resumable_runs,
        thread_id=heard.thread_id,
        from_created_at=after.created_at,
        from_moment=after.milliseconds * 1000,
    )
    for run in await engine.runtime.persistence.app.read(find):
        seq = after.seq if to_micros(run.created_at) == after.created_at else 0
        async with aclosing(_stored(engine, run, seq)) as stored:
            async for event in stored:
                seen[run.run_id] = event.seq
                yield event
        if run.run_id not in live and run.status in TERMINAL and seq < RUN_DONE_SEQ:
            seen[run.run_id] = RUN_DONE_SEQ
            yield run_done(run)


async def _stored(engine: EmbeddedEngine, run: Run, after: int) -> AsyncGenerator[ThreadEvent]:
    engine.runtime.log.flush()
    while True:
        read = partial(read_events, run_id=run.run_id, after=after, limit=REPLAY_BATCH)
        # Through the writer, so that what was flushed a moment ago is seen.
        rows = await engine.runtime.persistence.app.write(read)
        for row in rows:
            after = row.seq
            yield ThreadEvent(run, row.seq, row.event, row.data)
        if len(rows) < REPLAY_BATCH:
            return


def _is_repeated(event: ThreadEvent, seen: dict[str, int]) -> bool:
    return event.run is not None and event.seq <= seen.get(event.run.run_id, 0)


def _logged(event: ThreadEvent, ids: EventIds) -> LoggedEvent:
    return LoggedEvent(event.seq, event.event, event.data, ids.next(event))
