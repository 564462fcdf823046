"""The circuit breaker of one MCP server (D-6).

CLOSED permits every call. It opens after a number of consecutive failed calls, or after one call that used up its
retries. OPEN refuses calls. After `recovery_s`, or when the server has reconnected, it is HALF_OPEN: it permits
one call, the probe, and refuses all others; the outcome of the probe closes or opens it. All transitions are
synchronous and run on one event loop.
"""

from collections.abc import Callable
from typing import Literal

from loguru import logger

from toolweave.config.mcp_entry import BreakerRules

BreakerState = Literal["CLOSED", "OPEN", "HALF_OPEN"]

BreakerOutcome = Literal["success", "failure", "exhausted", "cancelled"]
"""How a call ended. `success`: the server sent any response, also an error of the tool. `exhausted`: the call failed
after all retries. `cancelled`: does not count."""


class Permit:
    """Permission for one call; the first outcome that is recorded counts."""

    __slots__ = ("_breaker", "_is_recorded", "epoch")

    def __init__(self, breaker: "Breaker", epoch: int) -> None:
        self._breaker = breaker
        self._is_recorded = False
        self.epoch = epoch

    def record_outcome(self, outcome: BreakerOutcome, reason: str = "") -> None:
        """Record how the call ended; `reason` is the redacted cause of a failure, for the log."""
        if not self._is_recorded:
            self._is_recorded = True
            self._breaker._record_outcome(self, outcome, reason)  # noqa: SLF001 - the other half of the breaker


class Breaker:
    """The circuit breaker of one server.

    Args:
        server: the server's name.
        rules: the number of failures that opens the breaker, and the seconds that it stays open.
        clock: a monotonic clock in seconds.
    """

    def __init__(self, server: str, rules: BreakerRules, clock: Callable[[], float]) -> None:
        self._server = server
        self._rules = rules
        self._clock = clock
        self._state: BreakerState = "CLOSED"
        self._failures = 0
        self._opened_at = 0.0
        self._probe: Permit | None = None
        # Counts transitions: the outcome of a call that was permitted before the last transition is ignored.
        self._epoch = 0

    @property
    def state(self) -> BreakerState:
        """Return the state that applies to a call now: OPEN becomes HALF_OPEN after `recovery_s`."""
        return "HALF_OPEN" if self._is_recovery_due() else self._state

    @property
    def refuses_calls(self) -> bool:
        """Return whether a call is refused now: the breaker is OPEN, or its probe is in flight."""
        return self.state == "OPEN" or self._probe is not None

    def acquire_permit(self) -> Permit | None:
        """Return a permit for one call, or None if the call is refused."""
        if self._is_recovery_due():
            self._transition("HALF_OPEN", f"{self._rules.recovery_s:g} s have passed")
        if self.refuses_calls:
            return None
        permit = Permit(self, self._epoch)
        if self._state == "HALF_OPEN":
            self._probe = permit
        return permit

    def on_reconnect(self) -> None:
        """Permit a probe, because a new session with the server opened; that does not prove that its tools work."""
        if self._state == "OPEN":
            self._transition("HALF_OPEN", "the server has reconnected")

    def _is_recovery_due(self) -> bool:
        return self._state == "OPEN" and self._clock() - self._opened_at >= self._rules.recovery_s

    def _record_outcome(self, permit: Permit, outcome: BreakerOutcome, reason: str) -> None:
        if permit.epoch != self._epoch:
            return
        if permit is self._probe:
            self._probe = None
        match outcome:
            case "success":
                self._on_success()
            case "failure" | "exhausted":
                self._on_failure(outcome, reason)
            case "cancelled":
                pass

    def _on_success(self) -> None:
        self._failures = 0
        if self._state == "HALF_OPEN":
            self._transition("CLOSED", "the probe was answered")

    def _on_failure(self, outcome: BreakerOutcome, reason: str) -> None:
        self._failures += 1
        if self._state == "HALF_OPEN":
            self._transition("OPEN", f"the probe failed: {reason}")
        elif outcome == "exhausted":
            self._transition("OPEN", f"a call failed after all its retries: {reason}")
        elif self._failures >= self._rules.failures:
            self._transition("OPEN", f"{self._failures} consecutive calls failed, the last one: {reason}")

    def _transition(self, state: BreakerState, reason: str) -> None:
        logger.bind(server=self._server, breaker=state, before=self._state, reason=reason).log(
            "WARNING" if state == "OPEN" else "INFO",
            "Breaker of MCP server {}: {} → {}: {}",
            self._server,
            self._state,
            state,
            reason,
        )
        self._state = state
        self._epoch += 1
        self._probe = None
        if state == "OPEN":
            self._opened_at = self._clock()
