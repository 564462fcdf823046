"""Hand what happens on threads to everybody who follows one: the events of its runs, one after the other."""

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

from toolweave.runtime.codec import dumps, to_micros
from toolweave.runtime.events.channel import MAX_UNREAD_BYTES, Channel, LoggedEvent, Subscription
from toolweave.runtime.models import Run

ThreadStreamMode = Literal["run_modes", "lifecycle", "state_update"]
# Larger than the number of any event of a run: no run has more attempts than that many blocks.
RUN_DONE_SEQ = 9_999_999_999


class ThreadEvent(NamedTuple):
    """One event on a thread: number `seq` of a run, or, without a run, one of the thread itself."""

    run: Run | None
    seq: int
    event: str
    data: bytes


def run_done(run: Run) -> ThreadEvent:
    """Say that a run has ended, however it did (langgraph_api.md 6.3)."""
    return ThreadEvent(run, RUN_DONE_SEQ, "metadata", dumps({"status": "run_done", "run_id": run.run_id}))


class ThreadSubscription:
    """What one follower has not read yet, in order; ends with its thread, or when it falls too far behind."""

    def __init__(self, hub: "ThreadHub", thread_id: str, modes: frozenset[ThreadStreamMode]) -> None:
        self.thread_id = thread_id
        self.modes = modes
        self._hub = hub
        self._ears: dict[str, _Ear] = {}
        self._unread: deque[ThreadEvent] = deque()
        self._unread_bytes = 0
        self._wakeup = asyncio.Event()
        self._ended = False

    @property
    def runs(self) -> frozenset[str]:
        """Name the runs it listens to."""
        return frozenset(self._ears)

    def follow(self, run: Run, channel: Channel, *, begun: bool) -> None:
        """Hear a run's events from now on; `begun` says that it has had some."""
        if self.modes & {"run_modes", "lifecycle"}:
            # A run that is taken up once more has a new channel.
            known = self._ears.get(run.run_id)
            begun = begun or (known is not None and known.begun)
            ear = self._ears[run.run_id] = _Ear(self, run, channel, begun=begun)
            channel.admit(ear)

    def run_ended(self, run: Run) -> None:
        """Hear that a run is over; one that never began was never there."""
        ear = self._ears.pop(run.run_id, None)
        if ear is not None and ear.begun:
            self.hear(run_done(run))

    def shows(self, event: ThreadEvent) -> bool:
        """Say whether its modes let an event through."""
        if event.run is None:
            return "state_update" in self.modes
        return "run_modes" in self.modes or ("lifecycle" in self.modes and event.event == "metadata")

    def hear(self, event: ThreadEvent) -> None:
        """Queue an event."""
        if self._ended or not self.shows(event):
            return
        if self._unread_bytes > MAX_UNREAD_BYTES:
            self.end()
            return
        self._unread.append(event)
        self._unread_bytes += len(event.data)
        self._wakeup.set()

    def end(self) -> None:
        """Let the follower finish what is queued, then stop."""
        self._ended = True
        self._wakeup.set()

    def close(self) -> None:
        """Stop listening, to the thread and to its runs."""
        self._hub.leave(self)
        for ear in self._ears.values():
            ear.close()
        self._ears.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> AsyncIterator[list[ThreadEvent]]:
        return self

    async def __anext__(self) -> list[ThreadEvent]:
        while not self._unread:
            if self._ended:
                raise StopAsyncIteration
            self._wakeup.clear()
            await self._wakeup.wait()
        events = list(self._unread)
        self._unread.clear()
        self._unread_bytes = 0
        return events


class ThreadHub:
    """Everybody who follows a thread; the engine tells it when runs come and go."""

    def __init__(self) -> None:
        self._followers: dict[str, set[ThreadSubscription]] = {}

    def listen(self, thread_id: str, modes: frozenset[ThreadStreamMode]) -> ThreadSubscription:
        """Follow a thread from now on; the runs that it has already are to be given with `follow`."""
        follower = ThreadSubscription(self, thread_id, modes)
        self._followers.setdefault(thread_id, set()).add(follower)
        return follower

    def leave(self, follower: ThreadSubscription) -> None:
        """Forget a follower."""
        followers = self._followers.get(follower.thread_id, set())
        followers.discard(follower)
        if not followers:
            self._followers.pop(follower.thread_id, None)

    def run_opened(self, run: Run, channel: Channel) -> None:
        """Let a thread's followers hear a run that has not begun."""
        for follower in self._followers.get(run.thread_id, ()):
            follower.follow(run, channel, begun=False)

    def run_ended(self, run: Run) -> None:
        """Tell a thread's followers that a run is over."""
        for follower in self._followers.get(run.thread_id, ()):
            follower.run_ended(run)

    def publish(self, thread_id: str, event: str, data: bytes) -> None:
        """Hand an event of the thread itself to its followers."""
        for follower in self._followers.get(thread_id, ()):
            follower.hear(ThreadEvent(None, 0, event, data))

    def has_followers(self, thread_id: str) -> bool:
        """Say whether anybody follows a thread."""
        return thread_id in self._followers

    def close(self, thread_id: str) -> None:
        """End the streams of a thread that is gone."""
        for follower in self._followers.get(thread_id, ()):
            follower.end()

    def close_all(self) -> None:
        """End all streams: the server stops."""
        for thread_id in self._followers:
            self.close(thread_id)


class _Ear(Subscription):
    """Hands one run's events to a follower of its thread."""

    def __init__(self, follower: ThreadSubscription, run: Run, channel: Channel, *, begun: bool) -> None:
        super().__init__(channel)
        self.begun = begun
        self._follower = follower
        self._run = run

    def push(self, event: LoggedEvent) -> None:
        self.begun = True
        self._follower.hear(ThreadEvent(self._run, event.seq, event.event, event.data))

    def end(self) -> None:
        """Do nothing: the channel also closes when the server stops, or a run is to be taken up once more."""


# `<milliseconds>` or `<milliseconds>-<number>`; the second part of ours is the run's creation and the event's number.
WRITTEN = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,27}))?")
# More than a run has events: see RUN_DONE_SEQ.
SEQ_BLOCK = 10_000_000_000
# What the official API's description says, and what its run streams say.
FROM_THE_START = ("-", "-1")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where a client is in a thread's stream; ids sort in the order in which they were given out."""

    milliseconds: int
    number: int

    @property
    def created_at(self) -> int:
        """Give the microsecond in which the event's run was created; 0 for an event of the thread itself."""
        return self.number // SEQ_BLOCK

    @property
    def seq(self) -> int:
        """Give the event's number in its run."""
        return self.number % SEQ_BLOCK

    def __str__(self) -> str:
        return f"{self.milliseconds}-{self.number}"


def parse_position(text: str) -> Position | None:
    """Read a Last-Event-ID; "-" and "-1" are the start. None for what cannot be one."""
    if text.strip() in FROM_THE_START:
        return Position(0, 0)
    found = WRITTEN.fullmatch(text.strip())
    return Position(int(found[1]), int(found[2] or 0)) if found else None


class EventIds:
    """Gives one stream's events their ids: by the clock, unique and rising, also across a reconnection."""

    def __init__(self, last: Position | None) -> None:
        self._last = last or Position(0, 0)

    def next(self, event: ThreadEvent) -> str:
        """Give the next event's id."""
        number = 0 if event.run is None else to_micros(event.run.created_at) * SEQ_BLOCK + event.seq
        position = Position(max(time.time_ns() // 1_000_000, self._last.milliseconds), number)
        if position <= self._last:
            position = Position(self._last.milliseconds + 1, number)
        self._last = position
        return str(position)
