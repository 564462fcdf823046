"""Decide how long a connection waits before it tries again (D-6)."""

import random

from toolweave.servers.connections.pace import Pace


class Backoff:
    """Count what went wrong in a row and answer with the next delay.

    Delays are `pace.reconnect_s` with up to a fifth of jitter taken off. A command that ended by itself
    `pace.exits_before_rest` times in a row rests `pace.rest_s` each time after that.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._failures = 0
        self._quick_exits = 0

    @property
    def is_resting(self) -> bool:
        """Say whether the command ended by itself so often that nothing but time or an operator helps."""
        return self._quick_exits >= self._pace.exits_before_rest

    def reset(self) -> None:
        """Forget all failures: the connection was up, or an operator asks for it."""
        self._failures = 0
        self._quick_exits = 0

    def next_delay(self, *, exited: bool) -> float:
        """Return the delay in seconds after one more failure.

        Args:
            exited: the server's own process ended, as opposed to not answering.
        """
        self._quick_exits = self._quick_exits + 1 if exited else 0
        if self.is_resting:
            return self._pace.rest_s
        step = min(self._failures, len(self._pace.reconnect_s) - 1)
        self._failures += 1
        return self._pace.reconnect_s[step] * random.uniform(0.8, 1.0)  # noqa: S311 - spreads load, guards nothing
