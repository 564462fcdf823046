"""Keep the events of runs that are gone with their temporary threads, for a client that was cut off near the end."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from toolweave.runtime.models import JsonObject
from toolweave.runtime.streaming.channel import LoggedEvent

KEPT_SECONDS = 60.0
KEPT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Ended:
    """The events of one run, what it said of itself, and when they are forgotten."""

    events: Sequence[LoggedEvent]
    metadata: JsonObject
    size: int
    expiry: asyncio.TimerHandle


class EndedStreams:
    """The whole streams of the last ended runs, in memory: for `seconds`, and `most_bytes` of them together."""

    def __init__(self, *, seconds: float = KEPT_SECONDS, most_bytes: int = KEPT_BYTES) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._bytes = 0
        # Oldest first: each is kept for the same time.
        self._ended: dict[str, Ended] = {}

    def keep(self, run_id: str, events: Sequence[LoggedEvent], metadata: JsonObject) -> None:
        """Keep a run's events; the oldest ones make room."""
        self.forget(run_id)
        expiry = asyncio.get_running_loop().call_later(self._seconds, self.forget, run_id)
        kept = Ended(events, metadata, sum(len(event.data) for event in events), expiry)
        self._ended[run_id] = kept
        self._bytes += kept.size
        while self._bytes > self._most_bytes:
            self.forget(next(iter(self._ended)))

    def find(self, run_id: str) -> Sequence[LoggedEvent] | None:
        """Give a run's events in order, or None when they are not kept."""
        kept = self._ended.get(run_id)
        return None if kept is None else kept.events

    def metadata(self, run_id: str) -> JsonObject | None:
        """Give a run's metadata, by which it is known whose it was; None when its events are not kept."""
        kept = self._ended.get(run_id)
        return None if kept is None else kept.metadata

    def forget(self, run_id: str) -> None:
        """Drop a run's events."""
        kept = self._ended.pop(run_id, None)
        if kept is not None:
            kept.expiry.cancel()
            self._bytes -= kept.size

    def clear(self) -> None:
        """Drop everything."""
        for run_id in tuple(self._ended):
            self.forget(run_id)
