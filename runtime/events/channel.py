"""Hand the events of one run to its listeners from memory, and frame them for clients (langgraph_api.md section 6)."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Self

# A listener who reads nothing while this much piles up is cut off; the run itself never waits for a reader.
MAX_UNREAD_BYTES = 64 * 1024 * 1024
# In a burst, as many batches go out at once, and the following ones with this pause in between.
PROMPT_BATCHES = 8
PAUSE_SECONDS = 0.005
# Each attempt of a run numbers its events in a block of its own, so that ids given out before a crash,
# whose events were never stored, are not given out again.
ATTEMPT_BLOCK = 100_000_000


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One event of a run; `data` is JSON, `id` the SSE id (None for runs that cannot be resumed)."""

    seq: int
    event: str
    data: bytes
    id: str | None


class Subscription:
    """The events that one listener has not read yet, in order; ends when the channel closes."""

    def __init__(self, channel: "Channel") -> None:
        self._channel = channel
        self._unread: deque[LoggedEvent] = deque()
        self._unread_bytes = 0
        self._wakeup = asyncio.Event()
        self._ended = False
        self._in_a_row = 0
        self._pause: asyncio.TimerHandle | None = None

    def push(self, event: LoggedEvent) -> None:
        """Queue an event; a listener too far behind is ended instead."""
        if self._unread_bytes > MAX_UNREAD_BYTES:
            self.end()
            return
        self._unread.append(event)
        self._unread_bytes += len(event.data)
        if self._pause is None:
            self._wakeup.set()

    def end(self) -> None:
        """Let the listener finish what is queued, then stop."""
        self._ended = True
        self._wakeup.set()

    def close(self) -> None:
        """Stop listening."""
        self._channel.leave(self)
        if self._pause is not None:
            self._pause.cancel()

    async def batches(self) -> AsyncGenerator[list[LoggedEvent]]:
        """Give the events as they come; those of a burst in batches, one every few milliseconds.

        A wake-up and a write per token would cost more than the token. The first events, and those that come slower
        than that, are not held back.
        """
        try:
            while not self._ended or self._unread:
                if self._unread and (self._pause is None or self._ended):
                    yield self._take()
                else:
                    self._wakeup.clear()
                    await self._wakeup.wait()
        finally:
            self.close()

    def _take(self) -> list[LoggedEvent]:
        events = list(self._unread)
        self._unread.clear()
        self._unread_bytes = 0
        self._in_a_row += 1
        if self._in_a_row > PROMPT_BATCHES and not self._ended:
            self._pause = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._go_on)
        return events

    def _go_on(self) -> None:
        self._pause = None
        if self._unread:
            self._wakeup.set()
        else:
            self._in_a_row = 0

    def __aiter__(self) -> AsyncIterator[LoggedEvent]:
        return self

    async def __anext__(self) -> LoggedEvent:
        while not self._unread:
            if self._ended:
                raise StopAsyncIteration
            self._wakeup.clear()
            await self._wakeup.wait()
        event = self._unread.popleft()
        self._unread_bytes -= len(event.data)
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Channel:
    """The live side of one run: numbers its events and hands each to all listeners at once."""

    def __init__(self, run_id: str, *, id_prefix: str | None) -> None:
        self.run_id = run_id
        self.resumable = id_prefix is not None
        self.closed = False
        # The number of the last event, and of the last one that is known to be on disk.
        self.seq = 0
        self.stored = 0
        self._id_prefix = id_prefix
        self._listeners: set[Subscription] = set()

    @property
    def is_read(self) -> bool:
        """Say whether events are stored or anybody is listening."""
        return self.resumable or bool(self._listeners)

    @property
    def has_listeners(self) -> bool:
        """Say whether anybody is listening."""
        return bool(self._listeners)

    def begin_attempt(self, attempt: int) -> None:
        """Number what follows in the attempt's own block (attempt 1 is the first)."""
        self.seq = (attempt - 1) * ATTEMPT_BLOCK

    def publish(self, event: str, data: bytes) -> LoggedEvent:
        """Number an event and hand it to all listeners."""
        self.seq += 1
        logged = LoggedEvent(self.seq, event, data, event_id(self._id_prefix, self.seq))
        for listener in tuple(self._listeners):
            listener.push(logged)
        return logged

    def listen(self) -> Subscription:
        """Hear everything published from now on."""
        subscription = Subscription(self)
        self.admit(subscription)
        return subscription

    def admit(self, subscription: Subscription) -> None:
        """Let a listener hear everything published from now on."""
        if self.closed:
            subscription.end()
        else:
            self._listeners.add(subscription)

    def leave(self, subscription: Subscription) -> None:
        """Forget a listener."""
        self._listeners.discard(subscription)

    def close(self) -> None:
        """End all listeners after what they have queued."""
        self.closed = True
        for listener in tuple(self._listeners):
            listener.end()
        self._listeners.clear()


def event_id(prefix: str | None, seq: int) -> str | None:
    """Give the SSE id `<prefix>-<seq>`: unique in its run, and it sorts as text."""
    return None if prefix is None else f"{prefix}-{seq:010d}"


def parse_event_id(text: str) -> int | None:
    """Read the sequence number out of a Last-Event-ID: 0 for "-1" (from the start), None for garbage."""
    if text.strip() == "-1":
        return 0
    _, _, seq = text.strip().rpartition("-")
    return int(seq) if seq.isascii() and seq.isdigit() and len(seq) <= 18 else None


HEARTBEAT = b": heartbeat\r\n\r\n"
HEARTBEAT_SECONDS = 5.0


def frame(event: str, data: bytes, event_id: str | None = None) -> bytes:
    r"""Frame one event: `event`, `data`, then `id` when there is one, with CRLF line ends.

    `data` is compact JSON and so has no line breaks of its own.
    """
    head = b"event: " + event.encode() + b"\r\ndata: " + data + b"\r\n"
    if event_id is None:
        return head + b"\r\n"
    return head + b"id: " + event_id.encode() + b"\r\n\r\n"
