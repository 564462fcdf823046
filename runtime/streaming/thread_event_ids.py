"""Number the events of a thread's stream so that a client can come back to where it was (langgraph_api.md 6.3)."""

import re
import time
from dataclasses import dataclass

from toolweave.runtime.persistence.json_text import to_micros
from toolweave.runtime.streaming.thread_hub import ThreadEvent

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
