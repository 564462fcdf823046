"""Deliver the events of a run or a thread from memory to its listeners, each with its own filter."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection
from dataclasses import dataclass

from toolweave.runtime.models import Namespace, NewRun, Run, StreamEvent
from toolweave.runtime.persistence.events import CUSTOM_PREFIX, SEQS_PER_ATTEMPT, event_id

# A listener with more unread bytes is disconnected; a run never waits for a listener.
MAX_UNREAD_BYTES = 64 * 1024 * 1024
# In a burst, this many batches are sent at once, and later ones at this interval.
MAX_UNDELAYED_BATCHES = 8
BATCH_INTERVAL_S = 0.005
# A subscription to all of these channels gets a plain graph's steps as the reference server sends them: once each, as
# values, messages, lifecycle and input. A subscription to some of them gets all events of these channels.
ALL_DATA_CHANNELS = frozenset({"values", "updates", "tasks", "custom", "checkpoints"})
# The stream modes of a run that the newer protocol started; `lifecycle` is not a mode of the older API.
PROTOCOL_MODES = ("values", "updates", "messages", "tools", "lifecycle", "custom", "tasks", "checkpoints")
CHANNELS = ("values", "updates", "messages", "tools", "custom", "lifecycle", "input", "tasks", "checkpoints")
# Events of a run, not of a graph: the start of a stream, and its failure.
RUN_EVENTS = frozenset({"metadata", "error"})

EventPredicate = Callable[[StreamEvent], bool]


def uses_protocol(run: Run | NewRun) -> bool:
    """Return whether the newer protocol started this run."""
    return "lifecycle" in (run.kwargs.get("stream_mode") or ())


def is_channel(name: object) -> bool:
    """Return whether this is a channel of the newer protocol that clients can subscribe to."""
    return isinstance(name, str) and (name in CHANNELS or (name.startswith(CUSTOM_PREFIX) and name != CUSTOM_PREFIX))


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events to send: channels (None: all), namespaces (empty: all) and levels below them (None: all).

    The channel of an event of the older API is its stream mode. With `exact`, namespaces below are left out.
    """

    channels: frozenset[str] | None = None
    namespaces: Collection[Namespace] = ()
    depth: int | None = None
    exact: bool = False

    def matches(self, event: StreamEvent) -> bool:
        """Return whether the filter lets an event through."""
        channel, namespace = (event.channel, event.namespace) if event.channel else _parse_event_name(event.event)
        if self.channels is not None:
            if channel not in self.channels and not (channel.startswith(CUSTOM_PREFIX) and "custom" in self.channels):
                return False
            if event.detail and self.channels >= ALL_DATA_CHANNELS:
                return False
        if not self.namespaces or namespace is None:
            return True
        if self.exact:
            return namespace in self.namespaces
        return any(self._is_below(namespace, prefix) for prefix in self.namespaces)

    def _is_below(self, namespace: Namespace, prefix: Namespace) -> bool:
        """Compare step by step; a prefix step without a task id matches all tasks of that name."""
        below = len(namespace) - len(prefix)
        if below < 0 or (self.depth is not None and below > self.depth):
            return False
        return all(
            step == expected or (":" not in expected and step.partition(":")[0] == expected)
            for step, expected in zip(namespace, prefix, strict=False)
        )


def _parse_event_name(name: str) -> tuple[str, Namespace | None]:
    """Return stream mode and namespace of an event name of the older API: `messages/partial|child:<task id>`."""
    mode, _, steps = name.partition("|")
    if mode in RUN_EVENTS:
        return mode, None
    channel = "messages-tuple" if mode == "messages" else mode.partition("/")[0]
    return channel, tuple(steps.split("|")) if steps else ()


class Subscription:
    """The queue of events that a listener has not read yet; it ends when its channel closes."""

    def __init__(self, predicate: EventPredicate | None = None) -> None:
        self.predicate = predicate
        self._channels: set[Channel] = set()
        self._unread: deque[StreamEvent] = deque()
        self._unread_bytes = 0
        self._wakeup = asyncio.Event()
        self._ended = False
        self._batches_in_burst = 0
        self._pause: asyncio.TimerHandle | None = None

    def push(self, event: StreamEvent) -> None:
        """Queue an event that matches the filter; end the subscription if too much is unread."""
        if self._ended or (self.predicate is not None and not self.predicate(event)):
            return
        if self._unread_bytes > MAX_UNREAD_BYTES:
            self.finish()
            return
        self._unread.append(event)
        self._unread_bytes += len(event.data)
        if self._pause is None:
            self._wakeup.set()

    def add_channel(self, channel: "Channel") -> None:
        """Add a channel that this subscription leaves when it is closed."""
        self._channels.add(channel)

    def on_channel_closed(self, channel: "Channel") -> None:
        """Leave a closed channel, and end the subscription after its queued events."""
        self._channels.discard(channel)
        self.finish()

    def finish(self) -> None:
        """End the subscription after its queued events."""
        self._ended = True
        self._wakeup.set()

    def close(self) -> None:
        """Stop listening."""
        for channel in self._channels:
            channel.remove_listener(self)
        self._channels.clear()
        if self._pause is not None:
            self._pause.cancel()

    async def batches(self) -> AsyncGenerator[list[StreamEvent]]:
        """Yield events as they arrive; in a burst one batch every few milliseconds.

        A wake-up and a write per token would cost more than the token. The first events, and events that arrive more
        slowly, are not delayed.
        """
        try:
            while not self._ended or self._unread:
                if self._unread and (self._pause is None or self._ended):
                    yield self._take_batch()
                else:
                    self._wakeup.clear()
                    await self._wakeup.wait()
        finally:
            self.close()

    def _take_batch(self) -> list[StreamEvent]:
        events = list(self._unread)
        self._unread.clear()
        self._unread_bytes = 0
        self._batches_in_burst += 1
        if self._batches_in_burst > MAX_UNDELAYED_BATCHES and not self._ended:
            self._pause = asyncio.get_running_loop().call_later(BATCH_INTERVAL_S, self._on_pause_end)
        return events

    def _on_pause_end(self) -> None:
        self._pause = None
        if self._unread:
            self._wakeup.set()
        else:
            self._batches_in_burst = 0


class Channel:
    """The live events of a run or a thread: numbers them and delivers each to all listeners at once."""

    def __init__(self, key: str, *, id_prefix: str | None = None) -> None:
        self.key = key
        self.resumable = id_prefix is not None
        # Whether events are stored, for later replays or for other processes.
        self.is_stored = self.resumable
        self.closed = False
        # The number of the last event, and of the last one that is certainly on disk.
        self.last_seq = 0
        self.stored_seq = 0
        # The attempt of the run that publishes to a thread's channel.
        self.attempt = 0
        # How many users need a thread's channel open.
        self.user_count = 0
        self._id_prefix = id_prefix
        self._listeners: set[Subscription] = set()

    @property
    def has_listeners(self) -> bool:
        """Return whether the channel has listeners."""
        return bool(self._listeners)

    @property
    def has_consumers(self) -> bool:
        """Return whether events are stored or the channel has listeners."""
        return self.is_stored or bool(self._listeners)

    def start_attempt(self, attempt: int) -> None:
        """Number the next events in the attempt's own block (attempts count from 1)."""
        self.last_seq = (attempt - 1) * SEQS_PER_ATTEMPT

    def publish(self, event: str, data: bytes) -> StreamEvent:
        """Number an event of a run and deliver it to all listeners."""
        self.last_seq += 1
        published = StreamEvent(self.last_seq, event, data, event_id(self._id_prefix, self.last_seq), self.key)
        self.deliver(published)
        return published

    def deliver(self, event: StreamEvent) -> None:
        """Deliver an event to all listeners; one with too much unread is ended instead."""
        for listener in tuple(self._listeners):
            listener.push(event)

    def listen(self, predicate: EventPredicate | None = None) -> Subscription:
        """Subscribe to the events from now on for which `predicate` is true."""
        subscription = Subscription(predicate)
        self.add_listener(subscription)
        return subscription

    def add_listener(self, subscription: Subscription) -> None:
        """Add a listener."""
        if self.closed:
            subscription.on_channel_closed(self)
        else:
            self._listeners.add(subscription)
            subscription.add_channel(self)

    def remove_listener(self, subscription: Subscription) -> None:
        """Remove a listener."""
        self._listeners.discard(subscription)

    def close(self) -> None:
        """End all listeners after their queued events."""
        self.closed = True
        for listener in tuple(self._listeners):
            listener.on_channel_closed(self)
        self._listeners.clear()


def parse_event_id(text: str) -> int | None:
    """Parse the sequence number in a Last-Event-ID: 0 for "-1" (from the start), None for invalid text."""
    if text.strip() == "-1":
        return 0
    _, _, seq = text.strip().rpartition("-")
    return int(seq) if seq.isascii() and seq.isdigit() and len(seq) <= 18 else None
