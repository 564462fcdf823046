"""Log the events of runs and threads: publish them live, store them, and replay them without a gap.

Each run numbers its own events. In the newer protocol a thread numbers the events of all its runs. Listeners receive an
event before its batch is on disk (docs/decisions/0003).
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Generic, TypeVar

from sqlalchemy import Connection

from toolweave.runtime.codec import dumps
from toolweave.runtime.events.channel import Channel, EventFilter, EventPredicate, Subscription
from toolweave.runtime.models import JsonObject, Namespace, Run, StreamEvent
from toolweave.runtime.persistence.database import RuntimeDatabase, SqliteDatabase
from toolweave.runtime.persistence.events import (
    append_events,
    append_thread_events,
    channel_method,
    prune_thread_events,
    read_events,
    read_last_seq,
    read_lifecycle,
    read_thread_events,
    start_new_blocks,
)

EventT = TypeVar("EventT")
RUN_FLUSH_INTERVAL_S = 0.05
THREAD_FLUSH_INTERVAL_S = 0.02
REPLAY_BATCH_SIZE = 500
PRUNE_EVERY_EVENTS = 200
ENDED_RETENTION_S = 60.0
MAX_ENDED_BYTES = 64 * 1024 * 1024


class EventBatch(Generic[EventT]):
    """A buffer of events that the database writer stores together, after an interval at the latest."""

    def __init__(
        self, database: RuntimeDatabase, append: Callable[[Connection, Sequence[EventT]], None], interval_s: float
    ) -> None:
        self._database = database
        self._append = append
        self._interval_s = interval_s
        self._events: list[EventT] = []
        self._timer: asyncio.TimerHandle | None = None
        # On PostgreSQL other processes wait for events: after a pause the first one is not delayed.
        self._delays_first = isinstance(database, SqliteDatabase)
        self._flushed_at = 0.0

    def add(self, event: EventT) -> None:
        """Add an event to the batch."""
        self._events.append(event)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            wait = self._interval_s if self._delays_first else self._flushed_at + self._interval_s - loop.time()
            self._timer = loop.call_later(max(0.0, wait), self.flush)

    def flush(self) -> None:
        """Queue the batch for the database writer, before all later writes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        events, self._events = self._events, []
        if events:
            self._flushed_at = asyncio.get_running_loop().time()
            self._database.queue_write(lambda connection: self._append(connection, events))


async def stored_batches(
    database: RuntimeDatabase, read: Callable[..., list[StreamEvent]], after: int
) -> AsyncGenerator[list[StreamEvent]]:
    """Yield the stored events after a number, in batches."""
    while True:
        # Read through the writer, so that events flushed just before are included.
        events = await database.write(partial(read, after=after, limit=REPLAY_BATCH_SIZE), after_queued=True)
        if events:
            after = events[-1].seq
            yield events
        if len(events) < REPLAY_BATCH_SIZE:
            return


async def live_batches(live: Subscription, after: int) -> AsyncGenerator[list[StreamEvent]]:
    """Yield the live events after a number, which skips events that were read from disk already."""
    async with aclosing(live.batches()) as batches:
        async for batch in batches:
            # Events are in the order of their numbers: after the first new one, all are new.
            fresh = batch if batch[0].seq > after else [event for event in batch if event.seq > after]
            if fresh:
                yield fresh


@dataclass(frozen=True, slots=True)
class EndedRun:
    """The events of an ended run, and its metadata, which authorization filters check."""

    events: Sequence[StreamEvent]
    metadata: JsonObject
    size: int


class EndedRunCache:
    """A cache of the events of recent runs whose temporary threads are deleted, for clients that reconnect.

    A run's events stay in memory for `retention_s`; all together take up to `max_bytes`.
    """

    def __init__(self, *, retention_s: float = ENDED_RETENTION_S, max_bytes: int = MAX_ENDED_BYTES) -> None:
        self._retention_s = retention_s
        self._max_bytes = max_bytes
        self._bytes = 0
        # Oldest first: all have the same retention.
        self._ended: dict[str, EndedRun] = {}

    def store(self, run_id: str, events: Sequence[StreamEvent], metadata: JsonObject) -> None:
        """Store a run's events; remove the oldest runs if necessary."""
        self._remove(run_id)
        ended = self._ended[run_id] = EndedRun(events, metadata, sum(len(event.data) for event in events))
        self._bytes += ended.size
        asyncio.get_running_loop().call_later(self._retention_s, self._remove, run_id)
        while self._bytes > self._max_bytes:
            self._remove(next(iter(self._ended)))

    def find(self, run_id: str) -> EndedRun | None:
        """Return a run's events in order and its metadata; None if they are not stored."""
        return self._ended.get(run_id)

    def _remove(self, run_id: str) -> None:
        ended = self._ended.pop(run_id, None)
        if ended is not None:
            self._bytes -= ended.size


class EventLog:
    """The channels of the runs that have not ended, and the stored events of resumable runs.

    The engine calls `flush` before a run's final transaction, so that an ended run can be replayed completely. If the
    process is killed, listeners may have received events of the last `flush_interval_s` that no replay contains.
    """

    def __init__(self, database: RuntimeDatabase, *, flush_interval_s: float = RUN_FLUSH_INTERVAL_S) -> None:
        self._database = database
        self._channels: dict[str, Channel] = {}
        self._unstored = EventBatch(database, append_events, flush_interval_s)
        self.flush = self._unstored.flush
        self.ended_runs = EndedRunCache()

    def open_channel(self, run_id: str, *, resumable: bool, created_at: datetime) -> Channel:
        """Return a run's channel; create it if it is not open."""
        channel = self._channels.get(run_id)
        if channel is None:
            channel = Channel(run_id, id_prefix=run_id_prefix(created_at) if resumable else None)
            self._channels[run_id] = channel
        return channel

    def publish(self, channel: Channel, event: str, data: bytes) -> None:
        """Deliver an event to the listeners and, for a resumable run, add it to the next batch for the disk."""
        published = channel.publish(event, data)
        if channel.is_stored:
            self._unstored.add(published)

    async def wait_until_stored(self, run_id: str) -> None:
        """Wait until all events that a resumable run has published are on disk.

        Call it before a checkpoint is saved: after a crash, the steps before it are not repeated, so their events would
        be missing from each later replay.
        """
        channel = self._channels.get(run_id)
        if channel is None or not channel.is_stored or channel.stored_seq == channel.last_seq:
            return
        published = channel.last_seq
        self.flush()
        await self._database.write(_no_op, after_queued=True)
        channel.stored_seq = max(channel.stored_seq, published)

    def close_channel(self, run_id: str) -> None:
        """End the listeners of a run and remove its channel."""
        channel = self._channels.pop(run_id, None)
        if channel is not None:
            channel.close()

    async def replay(self, run: Run, after: int, channel: Channel | None) -> AsyncGenerator[Sequence[StreamEvent]]:
        """Yield a resumable run's events after a sequence number: the stored ones, then the live ones, without a gap.

        `channel` is that of an unfinished run. Events that a killed process published but did not store are missing.
        """
        live = channel.listen() if channel is not None else None
        try:
            async with aclosing(self.read_stored(run, after)) as stored:
                async for batch in stored:
                    after = batch[-1].seq
                    yield batch
            # The run's row may have been deleted while the stored events were read.
            ended = self.ended_runs.find(run.run_id)
            if ended is not None:
                yield [event for event in ended.events if event.seq > after]
            elif live is not None:
                async with aclosing(live_batches(live, after)) as fresh:
                    async for batch in fresh:
                        yield batch
        finally:
            if live is not None:
                live.close()

    def read_stored(self, run: Run, after: int) -> AsyncGenerator[list[StreamEvent]]:
        """Yield the stored events of a run after a number, in batches."""
        self.flush()
        read = partial(read_events, run_id=run.run_id, id_prefix=run_id_prefix(run.created_at))
        return stored_batches(self._database, read, after)

    async def cache_ended(self, run: Run) -> None:
        """Copy the events of a run whose row is about to be deleted to memory, for clients that reconnect."""
        async with aclosing(self.read_stored(run, 0)) as stored:
            events = [event async for batch in stored for event in batch]
        self.ended_runs.store(run.run_id, events, run.metadata)


def _no_op(_: Connection) -> None:
    """Do nothing; awaiting this write waits for all earlier ones."""


def run_id_prefix(created_at: datetime) -> str:
    """Return the common part of the SSE ids of a run's events: its creation in epoch milliseconds."""
    return str(int(created_at.timestamp() * 1000))


class ThreadLog:
    """Number the events of each thread over all its runs, and store the newest of them (langgraph_api.md section 7).

    The engine calls `flush` before it stores a run's end, so that all events of an ended run can be replayed.
    """

    def __init__(self, database: RuntimeDatabase, *, flush_interval_s: float = THREAD_FLUSH_INTERVAL_S) -> None:
        self._database = database
        self._channels: dict[str, Channel] = {}
        self._unstored = EventBatch(database, append_thread_events, flush_interval_s)
        self.flush = self._unstored.flush

    async def skip_used_seqs(self) -> None:
        """Skip the numbers that an earlier process may have used; call it before any run executes."""
        await self._database.write(start_new_blocks)

    def is_followed(self, run: Run) -> bool:
        """Return whether somebody listens to the run's thread."""
        channel = self._channels.get(run.thread_id)
        return channel is not None and channel.has_listeners

    def last_seq(self, thread_id: str) -> int:
        """Return the last event number of a thread whose channel is open, otherwise 0."""
        channel = self._channels.get(thread_id)
        return 0 if channel is None else channel.last_seq

    async def open_channel(self, thread_id: str) -> Channel:
        """Open a thread's channel for publishing; the caller must `release` it."""
        channel = self._channels.setdefault(thread_id, Channel(thread_id))
        channel.user_count += 1
        try:
            stored = await self._database.write(partial(read_last_seq, thread_id=thread_id), after_queued=True)
        except BaseException:
            self.release(channel)
            raise
        channel.last_seq = max(channel.last_seq, stored)
        return channel

    def release(self, channel: Channel) -> None:
        """Release a channel; it is removed after its last user."""
        channel.user_count -= 1
        if channel.user_count == 0 and self._channels.get(channel.key) is channel:
            # Queue unstored events before the next read of the thread's last number.
            self.flush()
            del self._channels[channel.key]

    def publish(
        self,
        channel: Channel,
        run_id: str,
        name: str,
        namespace: Namespace,
        data: bytes,
        *,
        event_id: str | None = None,
        detail: bool = False,
        deferred: bool = False,
    ) -> StreamEvent:
        """Number an event on the channel `name`, store and deliver it, unless that is `deferred` to the caller.

        Its envelope is {type, event_id, seq, method, params: {namespace, timestamp, data}}. Without an `event_id` one
        is generated.
        """
        channel.last_seq += 1
        seq, at_ms, method = channel.last_seq, int(time.time() * 1000), channel_method(name)
        head = dumps(
            {
                "type": "event",
                "event_id": event_id or f"{at_ms}-{seq}",
                "seq": seq,
                "method": method,
                "params": {"namespace": list(namespace), "timestamp": at_ms},
            }
        )
        envelope = b'%b,"data":%b}}' % (head[:-2], data)
        event = StreamEvent(seq, method, envelope, str(seq), run_id, name, namespace, detail)
        if not deferred:
            self._unstored.add((channel.key, channel.attempt, event))
            self._deliver(channel, event)
        return event

    def _deliver(self, channel: Channel, event: StreamEvent) -> None:
        channel.deliver(event)

    def prune_old(self, channel: Channel, since: int) -> None:
        """Delete all but a thread's newest events if `PRUNE_EVERY_EVENTS` was passed after the number `since`."""
        if channel.last_seq // PRUNE_EVERY_EVENTS > since // PRUNE_EVERY_EVENTS:
            self._database.queue_write(partial(prune_thread_events, thread_id=channel.key))

    def close_channel(self, thread_id: str) -> None:
        """End the listeners of a deleted thread."""
        channel = self._channels.pop(thread_id, None)
        if channel is not None:
            channel.close()

    @asynccontextmanager
    async def listen(self, thread_id: str, predicate: EventPredicate) -> AsyncIterator[Subscription]:
        """Subscribe to a thread's events from now on inside the block; the thread need not exist yet."""
        live = Subscription(predicate)
        # Subscribe before the last number is read, so that no event is missed.
        self._channels.setdefault(thread_id, Channel(thread_id)).add_listener(live)
        try:
            channel = await self.open_channel(thread_id)
            try:
                yield live
            finally:
                self.release(channel)
        finally:
            live.close()

    async def read_stored(self, thread_id: str, selected: EventFilter, after: int) -> AsyncGenerator[list[StreamEvent]]:
        """Yield the stored events after a number that match the filter, in batches."""
        self.flush()
        read = partial(read_thread_events, thread_id=thread_id, channels=selected.channels)
        async with aclosing(stored_batches(self._database, read, after)) as batches:
            async for batch in batches:
                if shown := [event for event in batch if selected.matches(event)]:
                    yield shown

    async def replay(self, thread_id: str, selected: EventFilter, after: int) -> AsyncGenerator[list[StreamEvent]]:
        """Yield a thread's events after a number: the stored ones, then the live ones, each exactly once.

        It ends when the thread is deleted, or when the listener has too many unread events. The first batch is empty:
        runs that start after it miss no event.
        """
        async with self.listen(thread_id, selected.matches) as live:
            yield []
            async with aclosing(self.read_stored(thread_id, selected, after)) as stored:
                async for batch in stored:
                    after = batch[-1].seq
                    yield batch
            async with aclosing(live_batches(live, after)) as fresh:
                async for batch in fresh:
                    yield batch

    async def lifecycle(self, thread_id: str, run_id: str | None = None) -> list[StreamEvent]:
        """Return the stored lifecycle events of a run, or of the thread's last run without an id."""
        self.flush()
        return await self._database.write(
            partial(read_lifecycle, thread_id=thread_id, run_id=run_id), after_queued=True
        )
