"""Stop calling a server that keeps failing, and let one call at a time find out whether it is back (D-6).

CLOSED lets every call through; a number of failed calls in a row, or one whose retries were exhausted, opens it. OPEN
refuses. After `recovery_s`, or once the server was connected anew, it is HALF_OPEN: one call, the probe, goes through
and the others are refused; how the probe ends decides. All transitions are synchronous and belong to one event loop.
"""

from collections.abc import Callable
from typing import Literal

from loguru import logger

from toolweave.config.mcp_entry import BreakerRules

BreakerState = Literal["CLOSED", "OPEN", "HALF_OPEN"]

BreakerOutcome = Literal["success", "failure", "exhausted", "cancelled"]
"""How a call ended, for the breaker: `success` is any answer of the server, its own errors included; `exhausted` is a
failure in spite of all retries; `cancelled` says nothing about the server."""


class Permit:
    """The right to make one call, settled with the call's end; the first verdict counts."""

    __slots__ = ("_breaker", "_is_recorded", "epoch")

    def __init__(self, breaker: "Breaker", epoch: int) -> None:
        self._breaker = breaker
        self._is_recorded = False
        self.epoch = epoch

    def record_outcome(self, outcome: BreakerOutcome, reason: str = "") -> None:
        """Report how the call ended; `reason` is a failure in the operator's words, fit for the log."""
        if not self._is_recorded:
            self._is_recorded = True
            self._breaker._record_outcome(self, outcome, reason)  # noqa: SLF001 - the other half of the breaker


class Breaker:
    """The breaker of one server.

    Args:
        server: its name.
        rules: after how many failures it opens, and for how long.
        clock: seconds that only ever grow.
    """

    def __init__(self, server: str, rules: BreakerRules, clock: Callable[[], float]) -> None:
        self._server = server
        self._rules = rules
        self._clock = clock
        self._state: BreakerState = "CLOSED"
        self._failures = 0
        self._opened_at = 0.0
        self._probe: Permit | None = None
        # Counts transitions: a call that was let through before the last one has nothing to say any more.
        self._epoch = 0

    @property
    def state(self) -> BreakerState:
        """Return the state a call would meet now: OPEN ends by itself when its time is over."""
        return "HALF_OPEN" if self._is_recovery_due() else self._state

    @property
    def refuses_calls(self) -> bool:
        """Return whether a call would be refused now: the breaker is OPEN, or its probe is in flight."""
        return self.state == "OPEN" or self._probe is not None

    def acquire_permit(self) -> Permit | None:
        """Let a call through, or return None at once to refuse it."""
        if self._is_recovery_due():
            self._transition("HALF_OPEN", f"{self._rules.recovery_s:g} s are over")
        if self.refuses_calls:
            return None
        permit = Permit(self, self._epoch)
        if self._state == "HALF_OPEN":
            self._probe = permit
        return permit

    def on_reconnect(self) -> None:
        """Note that a session with the server was opened: worth a probe, no proof that its tools work."""
        if self._state == "OPEN":
            self._transition("HALF_OPEN", "the server was connected anew")

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
            self._transition("OPEN", f"a call failed in spite of its retries: {reason}")
        elif self._failures >= self._rules.failures:
            self._transition("OPEN", f"{self._failures} calls in a row failed, the last: {reason}")

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
