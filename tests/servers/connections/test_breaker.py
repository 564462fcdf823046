"""The breaker against a model that follows the rules of D-6, and the log lines of its transitions."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.servers.connections.peers import log_records
from toolweave.config.mcp_entry import BreakerRules
from toolweave.servers.connections.breaker import Breaker, BreakerOutcome, Permit

VERDICTS: list[BreakerOutcome] = ["success", "failure", "exhausted", "cancelled"]


class BreakerMachine(RuleBasedStateMachine):
    """Calls that begin, end late, are cancelled or settled twice, reconnects and time that passes, in any order."""

    permits = Bundle("permits")

    @initialize(failures=st.integers(1, 4))
    def begin(self, failures: int) -> None:
        self.now = 0.0
        rules = BreakerRules(failures=failures, recovery_s=2.0)
        self.breaker = Breaker("peer", rules, lambda: self.now)
        self.failures = failures
        self.state = "CLOSED"
        self.bad: int = 0
        self.open_until = 0.0
        self.probe: Permit | None = None
        self.current: set[Permit] = set()

    @rule(target=permits)
    def acquire(self) -> Permit | None:
        if self.state == "OPEN" and self.now >= self.open_until:
            self._turn("HALF_OPEN")
        allowed = self.state == "CLOSED" or (self.state == "HALF_OPEN" and self.probe is None)
        permit = self.breaker.acquire_permit()
        assert (permit is not None) == allowed
        if permit is not None:
            self.current.add(permit)
            self.probe = permit if self.state == "HALF_OPEN" else None
        return permit

    @rule(permit=consumes(permits), verdict=st.sampled_from(VERDICTS), again=st.sampled_from(VERDICTS))
    def settle(self, permit: Permit | None, verdict: BreakerOutcome, again: BreakerOutcome) -> None:
        if permit is None:
            return
        permit.record_outcome(verdict, "boom")
        if permit in self.current:
            self._count(permit, verdict)
        permit.record_outcome(again)

    @rule()
    def reconnect(self) -> None:
        self.breaker.on_reconnect()
        if self.state == "OPEN":
            self._turn("HALF_OPEN")

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def the_state_is_the_models(self) -> None:
        if hasattr(self, "breaker"):
            is_over = self.state == "OPEN" and self.now >= self.open_until
            assert self.breaker.state == ("HALF_OPEN" if is_over else self.state)

    def _count(self, permit: Permit, verdict: BreakerOutcome) -> None:
        self.current.discard(permit)
        if permit is self.probe:
            self.probe = None
        if verdict == "success":
            self.bad = 0
            if self.state == "HALF_OPEN":
                self._turn("CLOSED")
        elif verdict != "cancelled":
            self.bad += 1
            if self.state == "HALF_OPEN" or verdict == "exhausted" or self.bad >= self.failures:
                self.open_until = self.now + 2.0
                self._turn("OPEN")

    def _turn(self, state: str) -> None:
        self.state = state
        self.probe = None
        self.current.clear()


@pytest.mark.requirement("D-6")
def test_the_breaker_has_the_states_of_its_model() -> None:
    run_state_machine_as_test(BreakerMachine, settings=settings(stateful_step_count=40))


def fail(breaker: Breaker, times: int = 1, verdict: BreakerOutcome = "failure") -> None:
    for _ in range(times):
        permit = breaker.acquire_permit()
        assert permit is not None
        permit.record_outcome(verdict, "it was slow")


def test_a_reconnect_forgets_no_failure_and_a_call_from_before_the_opening_does_not_count() -> None:
    breaker = Breaker("peer", BreakerRules(), lambda: 0.0)
    early = breaker.acquire_permit()
    fail(breaker, 2)
    breaker.on_reconnect()
    fail(breaker)
    states = [breaker.state]
    breaker.on_reconnect()
    probe = breaker.acquire_permit()
    assert early is not None
    assert probe is not None
    early.record_outcome("success")
    states.append(breaker.state)
    probe.record_outcome("failure")
    assert [*states, breaker.state] == ["OPEN", "HALF_OPEN", "OPEN"]


def test_every_change_is_one_log_line_with_server_and_reason() -> None:
    now = [0.0]
    with log_records() as records:
        breaker = Breaker("peer", BreakerRules(), lambda: now[0])
        fail(breaker, 3)
        now[0] = 2.0
        fail(breaker)
        breaker.on_reconnect()
        fail(breaker, verdict="success")
        fail(breaker, verdict="exhausted")
    assert [(record["extra"]["breaker"], record["extra"]["reason"]) for record in records] == [
        ("OPEN", "3 consecutive calls failed, the last one: it was slow"),
        ("HALF_OPEN", "2 s have passed"),
        ("OPEN", "the probe failed: it was slow"),
        ("HALF_OPEN", "the server has reconnected"),
        ("CLOSED", "the probe was answered"),
        ("OPEN", "a call failed after all its retries: it was slow"),
    ]
    assert {record["extra"]["server"] for record in records} == {"peer"}
    assert {record["level"]["name"] for record in records if record["extra"]["breaker"] == "OPEN"} == {"WARNING"}
