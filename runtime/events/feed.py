"""Deliver events that other processes have stored in PostgreSQL to the listeners of this process.

A notification names runs and threads. The feed reads the new events of all named runs in one statement and delivers
them to channels in memory. It also reads at intervals, because notifications can be lost.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from loguru import logger
from sqlalchemy import Connection

from toolweave.errors import PersistenceError
from toolweave.runtime.events.channel import Channel, EventPredicate, Subscription
from toolweave.runtime.events.log import ThreadLog
from toolweave.runtime.events.thread_stream import ThreadHub
from toolweave.runtime.models import TERMINAL_STATUSES, Run, StreamEvent, Watch
from toolweave.runtime.persistence.events import (
    END_SEQ,
    event_id,
    read_last_seq,
    read_rolled_back_ends,
    read_thread_events,
)
from toolweave.runtime.persistence.postgres.database import PostgresDatabase

POLLING_INTERVAL_S = 1.0
MAX_EVENTS_PER_READ = 500
READ_RUNS = f"""
SELECT f.run_id, r.status, e.seq, e.event, e.data
FROM unnest(%(run_ids)s::text[], %(afters)s::bigint[]) AS f(run_id, after)
LEFT JOIN runs AS r ON r.run_id = f.run_id
LEFT JOIN LATERAL (
    SELECT seq, event, data FROM run_events WHERE run_id = f.run_id AND seq > f.after
    ORDER BY seq LIMIT {MAX_EVENTS_PER_READ}
) AS e ON true
ORDER BY f.run_id, e.seq
"""  # noqa: S608 - constants
# Receives the stored end of a run, or None if the run has ended without one or is deleted.
OnEnd = Callable[[str, bytes | None], None]
FollowThread = Callable[[str], Awaitable[object]]


@dataclass(slots=True)
class FollowedRun:
    """A run whose events go to a channel; `is_created` is false until its row is committed."""

    channel: Channel
    after: int
    id_prefix: str | None
    is_created: bool = True


@dataclass(slots=True)
class Feed:
    """The runs and threads that this process follows."""

    database: PostgresDatabase
    on_end: OnEnd = lambda _run_id, _end: None
    runs: dict[str, FollowedRun] = field(default_factory=dict)
    threads: dict[str, Channel] = field(default_factory=dict)
    named_runs: set[str] = field(default_factory=set)
    named_threads: set[str] = field(default_factory=set)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def name_run(self, run_id: str) -> None:
        """Read a run's new events soon, if it is followed."""
        if run_id in self.runs:
            self.named_runs.add(run_id)
            self.wake.set()

    def name_thread(self, thread_id: str) -> None:
        """Read a thread's new protocol events soon, if it is followed."""
        if thread_id in self.threads:
            self.named_threads.add(thread_id)
            self.wake.set()

    def name_all(self) -> None:
        """Read the new events of everything that is followed."""
        self.named_runs.update(self.runs)
        self.named_threads.update(self.threads)
        self.wake.set()

    async def run(self) -> None:
        """Read and deliver until cancelled."""
        loop = asyncio.get_running_loop()
        next_poll = loop.time() + POLLING_INTERVAL_S
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.wake.wait(), max(0.0, next_poll - loop.time()))
            if loop.time() >= next_poll:
                next_poll = loop.time() + POLLING_INTERVAL_S
                self.name_all()
            self.wake.clear()
            run_ids, self.named_runs = self.named_runs, set()
            thread_ids, self.named_threads = self.named_threads, set()
            try:
                await self._read_runs([run_id for run_id in run_ids if run_id in self.runs])
                for thread_id in thread_ids:
                    await self._read_thread(thread_id)
            except PersistenceError as error:
                logger.warning("the events of other processes cannot be read yet: {}", error)

    async def _read_runs(self, run_ids: Sequence[str]) -> None:
        if not run_ids:
            return
        # Before the read: a run that is created meanwhile has no row in its snapshot.
        created = {run_id for run_id in run_ids if self.runs[run_id].is_created}
        parameters = {"run_ids": list(run_ids), "afters": [self.runs[run_id].after for run_id in run_ids]}
        rows = await self.database.execute(READ_RUNS, parameters)
        by_run: dict[str, list[Any]] = {}
        for run_id, *rest in rows:
            by_run.setdefault(run_id, []).append(rest)
        for run_id, found in by_run.items():
            if run_id in self.runs:
                self._deliver(run_id, found, is_created=run_id in created)

    def _deliver(self, run_id: str, rows: Iterable[Any], *, is_created: bool) -> None:
        followed = self.runs[run_id]
        number, status = 0, None
        for status, seq, event, data in rows:  # noqa: B007 - the last status counts
            if seq is None:
                continue
            number += 1
            if seq == END_SEQ:
                del self.runs[run_id]
                self.on_end(run_id, bytes(data))
                return
            followed.after = seq
            followed.channel.last_seq = seq
            published = StreamEvent(seq, event, bytes(data), event_id(followed.id_prefix, seq), run_id)
            followed.channel.deliver(published)
        if number == MAX_EVENTS_PER_READ:
            self.name_run(run_id)
        elif is_created and (status is None or status in TERMINAL_STATUSES):
            del self.runs[run_id]
            self.on_end(run_id, None)

    async def _read_thread(self, thread_id: str) -> None:
        channel = self.threads.get(thread_id)
        if channel is None:
            return
        after = channel.last_seq

        def read(connection: Connection) -> list[StreamEvent]:
            stored = read_thread_events(connection, thread_id, after, MAX_EVENTS_PER_READ, None)
            return sorted([*stored, *read_rolled_back_ends(connection, thread_id, after)])

        events = await self.database.read(read)
        for event in events:
            channel.last_seq = max(channel.last_seq, event.seq)
            channel.deliver(event)
        if len(events) >= MAX_EVENTS_PER_READ:
            self.name_thread(thread_id)


# Events are stored together in batches of at most this many seconds.
SHARED_FLUSH_INTERVAL_S = 0.01
# The number of a thread's last event until it has been read: nothing is newer.
UNKNOWN_SEQ = 2**62


class SharedThreadLog(ThreadLog):
    """A thread log whose listeners get all events from the database, also those of runs in this process."""

    def __init__(self, database: PostgresDatabase, feed: Feed) -> None:
        super().__init__(database, flush_interval_s=SHARED_FLUSH_INTERVAL_S)
        self._feed = feed
        self._reads: WeakKeyDictionary[Channel, asyncio.Lock] = WeakKeyDictionary()
        # Tells all processes that a thread's events are needed here; set by the engine.
        self.follow: FollowThread = _follow_nothing

    def is_followed(self, run: Run) -> bool:
        """Return whether a process listened to the run's thread when the run started."""
        return bool(run.watch & Watch.THREAD)

    def last_seq(self, thread_id: str) -> int:
        """Return the last event number that was delivered here, 0 if nobody listens."""
        channel = self._feed.threads.get(thread_id)
        return 0 if channel is None else channel.last_seq

    def close_channel(self, thread_id: str) -> None:
        """End the listeners of a deleted thread."""
        channel = self._feed.threads.pop(thread_id, None)
        if channel is not None:
            channel.close()

    @asynccontextmanager
    async def listen(self, thread_id: str, predicate: EventPredicate) -> AsyncIterator[Subscription]:
        """Subscribe to a thread's events from now on inside the block; the thread need not exist yet."""
        live = Subscription(predicate)
        channel = self._feed.threads.get(thread_id)
        if channel is None:
            channel = self._feed.threads[thread_id] = Channel(thread_id)
            channel.last_seq = UNKNOWN_SEQ
        channel.add_listener(live)
        channel.user_count += 1
        try:
            # All listeners wait for the number: what one read before it, up to the number, nobody would deliver.
            async with self._reads.setdefault(channel, asyncio.Lock()):
                if channel.last_seq == UNKNOWN_SEQ:
                    channel.last_seq = await self._database.read(partial(read_last_seq, thread_id=thread_id))
                    self._feed.name_thread(thread_id)
            await self.follow(thread_id)
            yield live
        finally:
            live.close()
            channel.user_count -= 1
            if channel.user_count == 0 and self._feed.threads.get(thread_id) is channel:
                del self._feed.threads[thread_id]

    def _deliver(self, channel: Channel, event: StreamEvent) -> None:
        """Leave the event to the feed."""


async def _follow_nothing(_thread_id: str) -> None:
    """Return at once; without an engine no run publishes."""


class NoticeChannel(Channel):
    """A channel whose events are those of a thread itself, for its followers."""

    def __init__(self, hub: ThreadHub, thread_id: str) -> None:
        super().__init__(thread_id)
        self._hub = hub

    def deliver(self, event: StreamEvent) -> None:
        """Deliver an event to the thread's followers."""
        self._hub.publish(self.key, event.event, event.data)
