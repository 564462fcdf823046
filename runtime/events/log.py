"""Log the events of runs and of threads: live ones from memory, stored ones from disk, replayed without a gap.

Each run numbers its own events. In the newer protocol a thread numbers the events of all its runs. Listeners get an
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
from toolweave.runtime.persistence.database import SqliteDatabase
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
    """Events on their way to the disk: queued together for the database writer, after a pause at the latest."""

    def __init__(
        self, database: SqliteDatabase, append: Callable[[Connection, Sequence[EventT]], None], interval_s: float
    ) -> None:
        self._database = database
        self._append = append
        self._interval_s = interval_s
        self._events: list[EventT] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, event: EventT) -> None:
        """Put an event into the batch."""
        self._events.append(event)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval_s, self.flush)

    def flush(self) -> None:
        """Queue the batch for the database writer, ahead of whatever is queued after it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        events, self._events = self._events, []
        if events:
            self._database.queue_write(lambda connection: self._append(connection, events))


async def stored_batches(
    database: SqliteDatabase, read: Callable[..., list[StreamEvent]], after: int
) -> AsyncGenerator[list[StreamEvent]]:
    """Read the stored events after a number, in batches."""
    while True:
        # Through the writer, so that what was flushed a moment ago is seen.
        events = await database.write(partial(read, after=after, limit=REPLAY_BATCH_SIZE))
        if events:
            after = events[-1].seq
            yield events
        if len(events) < REPLAY_BATCH_SIZE:
            return


async def live_batches(live: Subscription, after: int) -> AsyncGenerator[list[StreamEvent]]:
    """Give the live events after a number: those that came while stored ones were read are told apart by it."""
    async with aclosing(live.batches()) as batches:
        async for batch in batches:
            # In the order of their numbers: once one is new, all that follow are.
            fresh = batch if batch[0].seq > after else [event for event in batch if event.seq > after]
            if fresh:
                yield fresh


@dataclass(frozen=True, slots=True)
class EndedRun:
    """The events of one run, and its metadata, by which it is known whose it was."""

    events: Sequence[StreamEvent]
    metadata: JsonObject
    size: int


class EndedRunCache:
    """The events of the last runs that are gone with their temporary threads, for a client that was cut off.

    They stay in memory for `seconds`, and `most_bytes` of them together.
    """

    def __init__(self, *, retention_s: float = ENDED_RETENTION_S, max_bytes: int = MAX_ENDED_BYTES) -> None:
        self._retention_s = retention_s
        self._max_bytes = max_bytes
        self._bytes = 0
        # Oldest first: each stays for the same time.
        self._ended: dict[str, EndedRun] = {}

    def store(self, run_id: str, events: Sequence[StreamEvent], metadata: JsonObject) -> None:
        """Store a run's events; the oldest ones make room."""
        self._remove(run_id)
        ended = self._ended[run_id] = EndedRun(events, metadata, sum(len(event.data) for event in events))
        self._bytes += ended.size
        asyncio.get_running_loop().call_later(self._retention_s, self._remove, run_id)
        while self._bytes > self._max_bytes:
            self._remove(next(iter(self._ended)))

    def find(self, run_id: str) -> EndedRun | None:
        """Give a run's events in order, and its metadata; None when they are not here."""
        return self._ended.get(run_id)

    def _remove(self, run_id: str) -> None:
        ended = self._ended.pop(run_id, None)
        if ended is not None:
            self._bytes -= ended.size


class EventLog:
    """Hold one channel per run that has not ended, and store the events of resumable runs.

    The engine calls `flush` before a run's final transaction, so that an ended run can always be replayed whole. After
    a kill, listeners may have received events of the last `flush_seconds` that no replay contains.
    """

    def __init__(self, database: SqliteDatabase, *, flush_interval_s: float = RUN_FLUSH_INTERVAL_S) -> None:
        self._database = database
        self._channels: dict[str, Channel] = {}
        self._unstored = EventBatch(database, append_events, flush_interval_s)
        self.flush = self._unstored.flush
        self.ended_runs = EndedRunCache()

    def open(self, run_id: str, *, resumable: bool, created_at: datetime) -> Channel:
        """Open a run's channel; the same one when it is open already."""
        channel = self._channels.get(run_id)
        if channel is None:
            channel = Channel(run_id, id_prefix=_id_prefix(created_at) if resumable else None)
            self._channels[run_id] = channel
        return channel

    def publish(self, channel: Channel, event: str, data: bytes) -> None:
        """Hand an event to the listeners and, for a resumable run, to the next batch for the disk."""
        published = channel.publish(event, data)
        if channel.resumable:
            self._unstored.add(published)

    async def wait_until_stored(self, run_id: str) -> None:
        """Wait until all that a resumable run has published so far is on disk.

        To be done before a checkpoint is saved: what was done before it is not done again after a crash, so its events
        would be missing from every later replay.
        """
        channel = self._channels.get(run_id)
        if channel is None or not channel.resumable or channel.stored_seq == channel.last_seq:
            return
        published = channel.last_seq
        self.flush()
        await self._database.write(_no_op)
        channel.stored_seq = max(channel.stored_seq, published)

    def close(self, run_id: str) -> None:
        """End the listeners of a run and forget its channel."""
        channel = self._channels.pop(run_id, None)
        if channel is not None:
            channel.close()

    async def replay(self, run: Run, after: int) -> AsyncGenerator[Sequence[StreamEvent]]:
        """Give a resumable run's events after a sequence number: the stored ones, then the live ones, no gap.

        What a killed process had published and not stored is not among them.
        """
        channel = self._channels.get(run.run_id)
        live = channel.listen() if channel is not None else None
        try:
            async with aclosing(self.read_stored(run, after)) as stored:
                async for batch in stored:
                    after = batch[-1].seq
                    yield batch
            # Its row may have gone while the stored ones were read.
            gone = self.ended_runs.find(run.run_id)
            if gone is not None:
                yield [event for event in gone.events if event.seq > after]
            elif live is not None:
                async with aclosing(live_batches(live, after)) as fresh:
                    async for batch in fresh:
                        yield batch
        finally:
            if live is not None:
                live.close()

    def read_stored(self, run: Run, after: int) -> AsyncGenerator[list[StreamEvent]]:
        """Read the stored events of a run after a number, in batches."""
        self.flush()
        read = partial(read_events, run_id=run.run_id, id_prefix=_id_prefix(run.created_at))
        return stored_batches(self._database, read, after)

    async def cache_ended(self, run: Run) -> None:
        """Keep the events of a run whose row is about to be deleted, for those who come back for the rest."""
        async with aclosing(self.read_stored(run, 0)) as stored:
            events = [event async for batch in stored for event in batch]
        self.ended_runs.store(run.run_id, events, run.metadata)


def _no_op(_: Connection) -> None:
    """Come after all that is queued."""


def _id_prefix(created_at: datetime) -> str:
    """Give the part of the SSE ids that all events of a run share: its creation in epoch milliseconds."""
    return str(int(created_at.timestamp() * 1000))


class ThreadLog:
    """Number the events of each thread over all its runs, and keep the newest of them (langgraph_api.md section 7).

    `flush` is called before a run's end is written, so that what an ended run has published can be replayed.
    """

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._channels: dict[str, Channel] = {}
        self._unstored = EventBatch(database, append_thread_events, THREAD_FLUSH_INTERVAL_S)
        self.flush = self._unstored.flush

    async def skip_used_seqs(self) -> None:
        """Skip the numbers that an earlier process may have given out; call it before any run is taken up."""
        await self._database.write(start_new_blocks)

    def has_listeners(self, thread_id: str) -> bool:
        """Say whether anybody listens to a thread."""
        channel = self._channels.get(thread_id)
        return channel is not None and channel.has_listeners

    def last_seq(self, thread_id: str) -> int:
        """Give the last number given out on a thread that somebody uses; 0 when nobody does."""
        channel = self._channels.get(thread_id)
        return 0 if channel is None else channel.last_seq

    async def open(self, thread_id: str) -> Channel:
        """Open a thread's channel for writing; give it back by `release`."""
        channel = self._channels.setdefault(thread_id, Channel(thread_id))
        channel.user_count += 1
        try:
            stored = await self._database.write(partial(read_last_seq, thread_id=thread_id))
        except BaseException:
            self.release(channel)
            raise
        channel.last_seq = max(channel.last_seq, stored)
        return channel

    def release(self, channel: Channel) -> None:
        """Give a channel back; it goes when nobody needs it."""
        channel.user_count -= 1
        if channel.user_count == 0 and self._channels.get(channel.key) is channel:
            # What it has not stored yet is ahead of whoever reads the last number next.
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
        """Number an event on the channel `name` and put it into the next batch; a held one is delivered by the caller.

        Its envelope is {type, event_id, seq, method, params: {namespace, timestamp, data}}. Without an id it gets one
        of its own.
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
        self._unstored.add((channel.key, event))
        if not deferred:
            channel.deliver(event)
        return event

    def prune_old(self, channel: Channel, since: int) -> None:
        """Keep no more than a thread's newest events; looked after every so many events."""
        if channel.last_seq // PRUNE_EVERY_EVENTS > since // PRUNE_EVERY_EVENTS:
            self._database.queue_write(partial(prune_thread_events, thread_id=channel.key))

    def close(self, thread_id: str) -> None:
        """End the listeners of a thread that is gone."""
        channel = self._channels.pop(thread_id, None)
        if channel is not None:
            channel.close()

    @asynccontextmanager
    async def listen(self, thread_id: str, predicate: EventPredicate) -> AsyncIterator[Subscription]:
        """Listen to a thread's events from now on while the block runs; the thread need not exist yet."""
        live = Subscription(predicate)
        # Before the last number is read, so that nothing is missed.
        self._channels.setdefault(thread_id, Channel(thread_id)).add_listener(live)
        try:
            channel = await self.open(thread_id)
            try:
                yield live
            finally:
                self.release(channel)
        finally:
            live.close()

    async def read_stored(self, thread_id: str, selected: EventFilter, after: int) -> AsyncGenerator[list[StreamEvent]]:
        """Give the stored events after a number that the filter shows, in batches."""
        self.flush()
        read = partial(read_thread_events, thread_id=thread_id, channels=selected.channels)
        async with aclosing(stored_batches(self._database, read, after)) as batches:
            async for batch in batches:
                if shown := [event for event in batch if selected.matches(event)]:
                    yield shown

    async def replay(self, thread_id: str, selected: EventFilter, after: int) -> AsyncGenerator[list[StreamEvent]]:
        """Give a thread's events after a number: the stored ones, then the live ones, none twice and none left out.

        It ends when the thread is deleted, or when the listener is too far behind.
        """
        async with self.listen(thread_id, selected.matches) as live:
            async with aclosing(self.read_stored(thread_id, selected, after)) as stored:
                async for batch in stored:
                    after = batch[-1].seq
                    yield batch
            async with aclosing(live_batches(live, after)) as fresh:
                async for batch in fresh:
                    yield batch

    async def lifecycle(self, thread_id: str, run_id: str | None = None) -> list[StreamEvent]:
        """Give what is stored of how a run's graphs began and ended; of the thread's last run without an id."""
        self.flush()
        return await self._database.write(partial(read_lifecycle, thread_id=thread_id, run_id=run_id))
