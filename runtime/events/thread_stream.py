"""Stream the events of all runs of a thread, from the position that a client has reached (langgraph_api.md 6.3)."""

import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Literal, Self

from toolweave.runtime.codec import dumps, to_micros
from toolweave.runtime.events.channel import Channel, EventFilter, Subscription
from toolweave.runtime.events.log import EventLog
from toolweave.runtime.models import TERMINAL_STATUSES, Run, StreamEvent
from toolweave.runtime.persistence.data_folder import Persistence
from toolweave.runtime.persistence.events import END_SEQ
from toolweave.runtime.persistence.runs import resumable_runs

ThreadStreamMode = Literal["run_modes", "lifecycle", "state_update"]
# `<milliseconds>` or `<milliseconds>-<number>`; the number combines the run's creation and the event's number.
POSITION_PATTERN = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,27}))?")
# More than the events of a run: see END_SEQ in persistence/events.py.
SEQS_PER_RUN = 10_000_000_000
# "-" is in the official API's description; its run streams use "-1".
START_POSITIONS = ("-", "-1")
RUN_STREAM_MODES = frozenset({"run_modes", "lifecycle"})
RUN_START_FILTER = EventFilter(frozenset({"metadata", "state_update"}))


class ThreadSubscription(Subscription):
    """The queue of unread events of a thread and its runs for one follower; ends with the thread."""

    def __init__(self, hub: "ThreadHub", thread_id: str, modes: frozenset[ThreadStreamMode]) -> None:
        super().__init__(None if "run_modes" in modes else RUN_START_FILTER.matches)
        self.thread_id = thread_id
        self.modes = modes
        # The runs that have not ended, and the creation times of all runs with events in this queue.
        self.runs: dict[str, Run] = {}
        self.run_created_at: dict[str, int] = {}
        self._started_run_ids: set[str] = set()
        self._hub = hub

    def add_run(self, run: Run, channel: Channel, *, has_started: bool) -> None:
        """Subscribe to a run's events from now on; `has_started` if it has published some."""
        if self.modes & RUN_STREAM_MODES:
            self.runs[run.run_id] = run
            self.run_created_at[run.run_id] = to_micros(run.created_at)
            if has_started:
                self._started_run_ids.add(run.run_id)
            channel.add_listener(self)

    def push(self, event: StreamEvent) -> None:
        """Queue an event."""
        self._started_run_ids.add(event.run_id)
        super().push(event)

    def on_channel_closed(self, channel: Channel) -> None:
        """Forget a run's channel and stay open: it also closes when the server stops or the run is executed again."""
        self._channels.discard(channel)

    def on_run_ended(self, run: Run) -> None:
        """Queue the event of a run's end, unless the run never started."""
        if self.runs.pop(run.run_id, None) is not None and run.run_id in self._started_run_ids:
            self._started_run_ids.discard(run.run_id)
            super().push(run_done_event(run))

    def close(self) -> None:
        """Unsubscribe from the thread and its runs."""
        self._hub.remove(self)
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(slots=True)
class RunCursor:
    """The newest run (`seq`) of a followed thread that was read from the database, and later runs opened before."""

    seq: int
    run_ids: set[str]


class ThreadHub:
    """The followers of all threads; the engine reports when runs are created and end.

    `cursors` are those of the followed threads whose runs other processes create.
    """

    def __init__(self) -> None:
        self._followers: dict[str, set[ThreadSubscription]] = {}
        self.cursors: dict[str, RunCursor] = {}

    def listen(self, thread_id: str, modes: frozenset[ThreadStreamMode]) -> ThreadSubscription:
        """Subscribe to a thread from now on; the caller adds the thread's present runs with `add_run`."""
        follower = ThreadSubscription(self, thread_id, modes)
        self._followers.setdefault(thread_id, set()).add(follower)
        return follower

    def remove(self, follower: ThreadSubscription) -> None:
        """Remove a follower."""
        followers = self._followers.get(follower.thread_id, set())
        followers.discard(follower)
        if not followers:
            self._followers.pop(follower.thread_id, None)
            self.cursors.pop(follower.thread_id, None)

    def on_run_opened(self, run: Run, channel: Channel) -> None:
        """Subscribe a thread's followers to a run."""
        if (cursor := self.cursors.get(run.thread_id)) is not None:
            cursor.run_ids.add(run.run_id)
        for follower in self._followers.get(run.thread_id, ()):
            follower.add_run(run, channel, has_started=run.status == "running")

    def on_run_ended(self, run: Run) -> None:
        """Notify a thread's followers that a run has ended."""
        for follower in self._followers.get(run.thread_id, ()):
            follower.on_run_ended(run)

    def forget_run(self, run: Run) -> None:
        """Forget a run that was opened but could not be created."""
        if (cursor := self.cursors.get(run.thread_id)) is not None:
            cursor.run_ids.discard(run.run_id)
        for follower in self._followers.get(run.thread_id, ()):
            follower.runs.pop(run.run_id, None)
            follower.run_created_at.pop(run.run_id, None)

    def publish(self, thread_id: str, event: str, data: bytes) -> None:
        """Deliver an event of the thread itself to its followers."""
        for follower in self._followers.get(thread_id, ()):
            if event in follower.modes:
                follower.push(StreamEvent(0, event, data))

    def has_followers(self, thread_id: str) -> bool:
        """Return whether a thread has followers."""
        return thread_id in self._followers

    def close_thread(self, thread_id: str) -> None:
        """End the streams of a deleted thread."""
        for follower in self._followers.get(thread_id, ()):
            follower.finish()

    def close_all(self) -> None:
        """End all streams, because the server stops."""
        for thread_id in self._followers:
            self.close_thread(thread_id)


@dataclass(frozen=True, slots=True, order=True)
class StreamPosition:
    """A client's position in a thread's stream; ids sort in the order in which they were sent."""

    milliseconds: int
    number: int

    @property
    def run_created_at(self) -> int:
        """Return the creation of the event's run in microseconds; 0 for an event of the thread itself."""
        return self.number // SEQS_PER_RUN

    @property
    def run_seq(self) -> int:
        """Return the event's number in its run."""
        return self.number % SEQS_PER_RUN

    def __str__(self) -> str:
        return f"{self.milliseconds}-{self.number}"


def parse_position(text: str) -> StreamPosition | None:
    """Parse a Last-Event-ID; "-" and "-1" are the start. None for invalid text."""
    if text.strip() in START_POSITIONS:
        return StreamPosition(0, 0)
    found = POSITION_PATTERN.fullmatch(text.strip())
    return StreamPosition(int(found[1]), int(found[2] or 0)) if found else None


def run_done_event(run: Run) -> StreamEvent:
    """Return the event that a run has ended, with any status (langgraph_api.md 6.3)."""
    data = dumps({"status": "run_done", "run_id": run.run_id})
    return StreamEvent(END_SEQ, "metadata", data, run_id=run.run_id)


async def thread_events(
    subscribe: Callable[[], ThreadSubscription],
    prepare: Callable[[str], Awaitable[None]],
    log: EventLog,
    persistence: Persistence,
    after: StreamPosition | None,
) -> AsyncGenerator[Sequence[StreamEvent]]:
    """Yield a thread's live events until it is deleted; with `after`, first the stored events behind that position.

    The first batch is empty: runs that start after it miss no event. Raises NotFound before it if there is no thread.
    Only events of resumable runs are stored. Other runs' events and `state_update` reach current listeners only. Ids
    rise with the clock and are unique, also after a reconnection.
    """
    last = after or StreamPosition(0, 0)

    def with_id(event: StreamEvent, created_at: int) -> StreamEvent:
        nonlocal last
        number = created_at * SEQS_PER_RUN + event.seq if event.run_id else 0
        position = StreamPosition(max(time.time_ns() // 1_000_000, last.milliseconds), number)
        last = position if position > last else StreamPosition(last.milliseconds + 1, number)
        return event._replace(id=str(last))

    with subscribe() as subscription:
        await persistence.threads.get(subscription.thread_id)
        await prepare(subscription.thread_id)
        yield ()
        seen: dict[str, int] = {}
        if after is not None and subscription.modes & RUN_STREAM_MODES:
            async with aclosing(_stored_events(log, persistence, subscription, after)) as stored:
                async for run, event in stored:
                    seen[run.run_id] = event.seq
                    if subscription.predicate is None or subscription.predicate(event):
                        yield (with_id(event, to_micros(run.created_at)),)
        async for events in subscription.batches():
            fresh = [
                with_id(event, subscription.run_created_at.get(event.run_id, 0))
                for event in events
                if not event.run_id or event.seq > seen.get(event.run_id, 0)
            ]
            if fresh:
                yield fresh
            for event in events:
                if event.seq == END_SEQ:
                    subscription.run_created_at.pop(event.run_id, None)


async def _stored_events(
    log: EventLog, persistence: Persistence, subscription: ThreadSubscription, after: StreamPosition
) -> AsyncGenerator[tuple[Run, StreamEvent]]:
    """Yield the stored events after a position, with their runs; the subscription queues events published meanwhile."""
    live = frozenset(subscription.runs)
    find = partial(
        resumable_runs,
        thread_id=subscription.thread_id,
        from_created_at=after.run_created_at,
        from_moment=after.milliseconds * 1000,
    )
    for run in await persistence.app.read(find):
        seq = after.run_seq if to_micros(run.created_at) == after.run_created_at else 0
        async with aclosing(log.read_stored(run, seq)) as batches:
            async for batch in batches:
                for event in batch:
                    yield run, event
        if run.run_id not in live and run.status in TERMINAL_STATUSES and seq < END_SEQ:
            yield run, run_done_event(run)
