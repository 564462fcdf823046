"""Count the calls of a tool plane: outcomes, retries, how long they took, how many are under way (T-06).

A call costs a few microseconds. What servers send bounds nothing: beyond `MOST_TOOLS` names of one server the calls
are counted together.
"""

import threading
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from toolweave.servers.connections.call_record import CallRecord, Outcome

MOST_TOOLS = 256
LONGEST_NAME = 128
OTHER_TOOLS = "(other)"
LATENCIES = 512
ERRORS = 10
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the histogram's buckets; one more, for what took longer, follows."""

ANSWERED: frozenset[Outcome] = frozenset({"ok", "tool_error"})
NOT_FAILED: frozenset[Outcome] = frozenset({"ok", "cancelled"})


@dataclass(frozen=True, slots=True)
class CallError:
    """One failed call: when it had begun, of which tool, how it ended, and the operator's text, redacted."""

    time: datetime
    tool: str
    outcome: Outcome
    reason: str


@dataclass(slots=True)
class ToolFigures:
    """The calls of one tool since the start; `buckets` counts the answered ones by `SECONDS`, `seconds` sums them."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    retries: int = 0
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))

    @property
    def calls(self) -> int:
        """Return how many calls have ended."""
        return self.outcomes.total()

    @property
    def failures(self) -> int:
        """Return how many of them failed; one that its caller gave up did not."""
        return sum(count for outcome, count in self.outcomes.items() if outcome not in NOT_FAILED)

    def copy(self) -> "ToolFigures":
        """Return the figures of this moment."""
        return ToolFigures(self.outcomes.copy(), self.retries, self.seconds, [*self.buckets])


@dataclass(frozen=True, slots=True)
class Latency:
    """How long the newest successful calls of a server took, in milliseconds."""

    p50: float
    p99: float


@dataclass(slots=True)
class ServerFigures:
    """The calls of one server by the tools' own names, and how many are under way."""

    tools: dict[str, ToolFigures] = field(default_factory=dict)
    in_flight: int = 0
    errors: deque[CallError] = field(default_factory=lambda: deque(maxlen=ERRORS))
    _latencies: deque[float] = field(default_factory=lambda: deque(maxlen=LATENCIES))

    def latency(self) -> Latency | None:
        """Return the latency of the newest successful calls; None before the first."""
        ordered = sorted(self._latencies)
        if not ordered:
            return None
        return Latency(ordered[(len(ordered) - 1) // 2], ordered[(len(ordered) * 99 - 1) // 100])

    def count(self, record: CallRecord) -> None:
        """Take in a call that has ended."""
        name = record.tool[:LONGEST_NAME]
        tool = self.tools.get(name)
        if tool is None:
            name = name if len(self.tools) < MOST_TOOLS else OTHER_TOOLS
            tool = self.tools.setdefault(name, ToolFigures())
        tool.outcomes[record.outcome] += 1
        tool.retries += max(record.attempts - 1, 0)
        if record.outcome in ANSWERED:
            seconds = record.duration_ms / 1000
            tool.seconds += seconds
            tool.buckets[bisect_left(SECONDS, seconds)] += 1
        if record.outcome == "ok":
            self._latencies.append(record.duration_ms)
        elif record.outcome != "cancelled":
            self.errors.append(CallError(record.started, name, record.outcome, record.reason))

    def copy(self) -> "ServerFigures":
        """Return the figures of this moment."""
        tools = {name: figures.copy() for name, figures in self.tools.items()}
        return ServerFigures(tools, self.in_flight, self.errors.copy(), self._latencies.copy())


class Figures:
    """The figures of all servers of one plane; may be read from any thread while calls go on."""

    def __init__(self, servers: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._servers = {name: ServerFigures() for name in servers}

    def __call__(self, record: CallRecord) -> None:
        """Take in a call that has ended."""
        with self._lock:
            self._servers[record.server].count(record)

    @contextmanager
    def under_way(self, server: str) -> Iterator[None]:
        """Count one call as under way while the block runs."""
        with self._lock:
            self._servers[server].in_flight += 1
        try:
            yield
        finally:
            with self._lock:
                self._servers[server].in_flight -= 1

    def of(self, server: str) -> ServerFigures:
        """Return the figures of one server at this moment."""
        with self._lock:
            return self._servers[server].copy()

    def latency(self, server: str) -> Latency | None:
        """Return how long the newest successful calls of a server took; None before the first."""
        with self._lock:
            return self._servers[server].latency()

    def all(self) -> dict[str, ServerFigures]:
        """Return the figures of every server at this moment, in configuration order."""
        with self._lock:
            return {name: figures.copy() for name, figures in self._servers.items()}
