"""Keep a server that talks without end from filling our log and our time."""

import time
from collections.abc import Callable


class LogBudget:
    """Admit `burst` lines at once and `per_s` a second in the long run; what is not admitted is counted.

    Args:
        burst: how many lines may come at once.
        per_s: how many a second may follow.
        clock: tells the time in seconds.
    """

    def __init__(self, burst: int = 500, per_s: float = 50.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = burst
        self._per_s = per_s
        self._clock = clock
        self._left = float(burst)
        self._at = clock()
        self._left_out = 0

    def admits(self) -> bool:
        """Say whether one more line may be written; count it either way."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left < 1:
            self._left_out += 1
            return False
        self._left -= 1
        return True

    def left_out(self) -> int:
        """Return how many lines were not admitted since this was last asked."""
        count, self._left_out = self._left_out, 0
        return count
