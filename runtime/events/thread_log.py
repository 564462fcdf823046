"""Log the events of threads: hand them on, keep them on disk, replay them without a gap."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from toolweave.runtime.codec import dumps, loads
from toolweave.runtime.events.channel import Channel, LoggedEvent, Subscription
from toolweave.runtime.models import Run
from toolweave.runtime.persistence.database import Database
from toolweave.runtime.persistence.events import (
    StoredThreadEvent,
    append_thread_events,
    begin_new_blocks,
    forget_old_events,
    last_seq,
    read_lifecycle,
    read_thread_events,
)

# What a run started by this protocol shows as its stream modes; `lifecycle` is no mode of the older API.
PROTOCOL_MODES = ("values", "updates", "messages", "tools", "lifecycle", "custom", "tasks", "checkpoints")
CHANNELS = ("values", "updates", "messages", "tools", "custom", "lifecycle", "input", "tasks", "checkpoints")
NAMED = "custom:"
# Who asks for all of these at once is shown a plain graph's steps as the reference server shows them: once each, as
# values, messages, lifecycle and input. Who asks for some of them gets what they name.
EVERYTHING = frozenset({"values", "updates", "tasks", "custom", "checkpoints"})


def speaks_protocol(run: Run) -> bool:
    """Say whether a run was started by this protocol."""
    return "lifecycle" in (run.kwargs.get("stream_mode") or ())


def is_channel(name: object) -> bool:
    """Say whether this is a channel that can be subscribed to."""
    return isinstance(name, str) and (name in CHANNELS or (name.startswith(NAMED) and name != NAMED))


def method_of(channel: str) -> str:
    """Give the method under which a channel's events are sent."""
    if channel == "input":
        return "input.requested"
    return "custom" if channel.startswith(NAMED) else channel


Namespace = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NewEvent:
    """What is to be told; `data` is JSON. Without an id it gets one of its own; `detail` see `modes.EVERYTHING`."""

    run_id: str
    channel: str
    namespace: Namespace
    data: bytes
    event_id: str | None = None
    detail: bool = False


@dataclass(frozen=True, slots=True)
class ThreadEvent:
    """An event with its number; `data` is the whole envelope as JSON."""

    seq: int
    run_id: str
    channel: str
    namespace: Namespace
    detail: bool
    data: bytes

    def logged(self) -> LoggedEvent:
        """Give the event as streams carry it: its method, and its number as the SSE id."""
        return LoggedEvent(self.seq, method_of(self.channel), self.data, str(self.seq))

    def stored(self, thread_id: str) -> StoredThreadEvent:
        """Give the event's row."""
        namespace = dumps(list(self.namespace)).decode()
        return StoredThreadEvent(thread_id, self.seq, self.run_id, self.channel, namespace, int(self.detail), self.data)


def numbered(new: NewEvent, seq: int, at_ms: int) -> ThreadEvent:
    """Put an event into its envelope: {type, event_id, seq, method, params: {namespace, timestamp, data}}."""
    head = dumps(
        {
            "type": "event",
            "event_id": new.event_id or f"{at_ms}-{seq}",
            "seq": seq,
            "method": method_of(new.channel),
            "params": {"namespace": list(new.namespace), "timestamp": at_ms},
        }
    )
    data = b'%b,"data":%b}}' % (head[:-2], new.data)
    return ThreadEvent(seq, new.run_id, new.channel, new.namespace, new.detail, data)


def from_row(row: StoredThreadEvent) -> ThreadEvent:
    """Make the event of a row."""
    return ThreadEvent(row.seq, row.run_id, row.channel, tuple(loads(row.namespace)), bool(row.detail), row.data)


Shows = Callable[[ThreadEvent], bool]


class ThreadChannel(Channel):
    """The live side of one thread; `last_seq` is the last number given out, `users` counts who needs it open."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(thread_id, id_prefix=None)
        self.last_seq = 0
        self.users = 0
        self._shows: dict[Subscription, Shows] = {}

    def hear(self, shows: Shows) -> Subscription:
        """Hear every event from now on that `shows` lets through."""
        subscription = self.listen()
        if not self.closed:
            self._shows[subscription] = shows
        return subscription

    def deliver(self, event: ThreadEvent) -> None:
        """Hand an event to those who asked for it; one too far behind is ended instead of it."""
        heard = event.logged()
        for subscription, shows in tuple(self._shows.items()):
            if shows(event):
                subscription.push(heard)

    def leave(self, subscription: Subscription) -> None:
        """Forget a listener."""
        super().leave(subscription)
        self._shows.pop(subscription, None)

    def close(self) -> None:
        """End all listeners after what they have queued."""
        super().close()
        self._shows.clear()


@dataclass(frozen=True, slots=True)
class EventFilter:
    """The channels, namespace prefixes (none: all) and levels below a prefix (None: all) that are asked for."""

    channels: frozenset[str]
    namespaces: tuple[Namespace, ...] = ()
    depth: int | None = None

    def shows(self, event: ThreadEvent) -> bool:
        """Say whether an event is sent."""
        if event.channel not in self.channels and not (event.channel.startswith(NAMED) and "custom" in self.channels):
            return False
        if event.detail and self.channels >= EVERYTHING:
            return False
        return not self.namespaces or any(self._reaches(event.namespace, prefix) for prefix in self.namespaces)

    def _reaches(self, namespace: Namespace, prefix: Namespace) -> bool:
        if not _begins_with(namespace, prefix):
            return False
        return self.depth is None or len(namespace) - len(prefix) <= self.depth


def _begins_with(namespace: Namespace, prefix: Sequence[str]) -> bool:
    """Compare step by step; a prefix step without a task id stands for all tasks of that name."""
    return len(prefix) <= len(namespace) and all(
        step == wanted or (":" not in wanted and step.partition(":")[0] == wanted)
        for step, wanted in zip(namespace, prefix, strict=False)
    )


FLUSH_SECONDS = 0.02
REPLAY_BATCH = 500
FORGET_EVERY = 200


class ThreadLog:
    """Number the events of each thread over all its runs, and keep the newest of them.

    Listeners hear an event before its batch is on disk. `flush` puts the rest there; it is called before a run's end
    is written, so that what an ended run has told can be replayed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._channels: dict[str, ThreadChannel] = {}
        self._unstored: list[StoredThreadEvent] = []
        self._timer: asyncio.TimerHandle | None = None

    async def recover(self) -> None:
        """Skip the numbers that an earlier process may have given out; call it before any run is taken up."""
        await self._database.write(begin_new_blocks)

    def has_listeners(self, thread_id: str) -> bool:
        """Say whether anybody listens to a thread."""
        channel = self._channels.get(thread_id)
        return channel is not None and channel.has_listeners

    def last_seq(self, thread_id: str) -> int:
        """Give the last number given out on a thread that somebody uses; 0 when nobody does."""
        channel = self._channels.get(thread_id)
        return 0 if channel is None else channel.last_seq

    async def open(self, thread_id: str) -> ThreadChannel:
        """Open a thread's channel for writing; give it back by `release`."""
        channel = self._use(thread_id)
        try:
            await self._load(channel)
        except BaseException:
            self.release(channel)
            raise
        return channel

    def release(self, channel: ThreadChannel) -> None:
        """Give a channel back; it goes when nobody needs it."""
        channel.users -= 1
        if channel.users == 0 and self._channels.get(channel.run_id) is channel:
            # What it has not stored yet is ahead of whoever reads the last number next.
            self.flush()
            del self._channels[channel.run_id]

    def write(self, channel: ThreadChannel, new: NewEvent, *, held: bool = False) -> ThreadEvent:
        """Number an event and put it into the next batch for the disk; a held one is delivered by the caller."""
        channel.last_seq += 1
        event = numbered(new, channel.last_seq, int(time.time() * 1000))
        self._unstored.append(event.stored(channel.run_id))
        if not held:
            channel.deliver(event)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)
        return event

    def flush(self) -> None:
        """Queue everything unstored for the database writer, ahead of whatever is queued after it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        stored, self._unstored = self._unstored, []
        if stored:
            self._database.write_soon(partial(append_thread_events, events=stored))

    def forget_old(self, channel: ThreadChannel, since: int) -> None:
        """Keep no more than a thread's newest events; looked after every so many that it tells."""
        if channel.last_seq // FORGET_EVERY > since // FORGET_EVERY:
            self._database.write_soon(partial(forget_old_events, thread_id=channel.run_id))

    def close(self, thread_id: str) -> None:
        """End the listeners of a thread that is gone."""
        channel = self._channels.pop(thread_id, None)
        if channel is not None:
            channel.close()

    @asynccontextmanager
    async def listen(self, thread_id: str, shows: Shows) -> AsyncIterator[Subscription]:
        """Hear a thread's events from now on while the block runs; the thread need not exist yet."""
        channel = self._use(thread_id)
        heard = channel.hear(shows)
        try:
            await self._load(channel)
            yield heard
        finally:
            heard.close()
            self.release(channel)

    async def stored(self, thread_id: str, wanted: EventFilter, after: int) -> AsyncGenerator[list[LoggedEvent], None]:
        """Give the kept events after a number that the filter shows, in batches."""
        self.flush()
        while True:
            # Through the writer, so that what was flushed a moment ago is seen.
            read = partial(
                read_thread_events, thread_id=thread_id, after=after, limit=REPLAY_BATCH, channels=wanted.channels
            )
            rows = await self._database.write(read)
            events = [from_row(row) for row in rows]
            shown = [event.logged() for event in events if wanted.shows(event)]
            if shown:
                yield shown
            if len(rows) < REPLAY_BATCH:
                return
            after = rows[-1].seq

    async def replay(self, thread_id: str, wanted: EventFilter, after: int) -> AsyncGenerator[list[LoggedEvent], None]:
        """Give a thread's events after a number: the kept ones, then the live ones, none twice and none left out.

        Listening starts before the first read, and what is heard twice is told apart by its number. It ends when the
        thread is deleted, or when the listener is too far behind.
        """
        async with self.listen(thread_id, wanted.shows) as heard:
            async with aclosing(self.stored(thread_id, wanted, after)) as kept:
                async for batch in kept:
                    after = batch[-1].seq
                    yield batch
            async with aclosing(heard.batches()) as live:
                async for batch in live:
                    fresh = [event for event in batch if event.seq > after]
                    if fresh:
                        yield fresh

    async def lifecycle(self, thread_id: str, run_id: str | None = None) -> list[ThreadEvent]:
        """Give what is kept of how a run's graphs began and ended; of the thread's last run without an id."""
        self.flush()
        rows = await self._database.write(partial(read_lifecycle, thread_id=thread_id, run_id=run_id))
        return [from_row(row) for row in rows]

    def _use(self, thread_id: str) -> ThreadChannel:
        channel = self._channels.get(thread_id)
        if channel is None:
            channel = self._channels[thread_id] = ThreadChannel(thread_id)
        channel.users += 1
        return channel

    async def _load(self, channel: ThreadChannel) -> None:
        stored = await self._database.write(partial(last_seq, thread_id=channel.run_id))
        channel.last_seq = max(channel.last_seq, stored)
