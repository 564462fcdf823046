"""The event log of processes that share a PostgreSQL database: events reach listeners through it only."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from weakref import WeakKeyDictionary

from toolweave.runtime.events.channel import Channel, EventPredicate, Subscription
from toolweave.runtime.events.feed import Feed
from toolweave.runtime.events.log import ThreadLog
from toolweave.runtime.models import Run, StreamEvent, Watch
from toolweave.runtime.persistence.database import RuntimeDatabase
from toolweave.runtime.persistence.events import read_last_seq

# Events are stored together in batches of at most this many seconds.
SHARED_FLUSH_INTERVAL_S = 0.01
# The number of a thread's last event until it has been read: nothing is newer.
UNKNOWN_SEQ = 2**62
FollowThread = Callable[[str], Awaitable[None]]


class SharedThreadLog(ThreadLog):
    """A thread log whose listeners get all events from the database, also those of runs in this process."""

    def __init__(self, database: RuntimeDatabase, feed: Feed) -> None:
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
