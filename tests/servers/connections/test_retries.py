"""Which calls are tried again, how often, after which pauses, and what their callers read in the end (D-5)."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.servers.connections.peers import (
    BOUND_S,
    call,
    connection,
    failure_kind,
    misbehaving,
    misbehaving_http,
    pid_of,
    plane_of,
    text_of,
    until,
)
from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import BreakerRules
from toolweave.servers.connections.observability import CallRecord
from toolweave.servers.connections.plane import ToolPlane
from toolweave.servers.connections.status import Timing

# Nothing but the calls themselves notices what becomes of a server; no wait of a retry ends before it must.
PATIENT = Timing(
    connect_timeout_s=BOUND_S,
    list_timeout_s=BOUND_S,
    connect_wait_s=BOUND_S,
    local_ping_interval_s=600,
    remote_ping_interval_s=600,
    reconnect_delays_s=(0.05,),
    stable_s=0.0,
    retry_connect_timeout_s=BOUND_S,
)


class Pauses:
    """Stand in for `asyncio.sleep`: note each pause and do in it what the test has planned, in order."""

    def __init__(self, *plans: Callable[[], Awaitable[None]]) -> None:
        self.lengths_s: list[float] = []
        self.begun = asyncio.Event()
        self._plans = list(plans)

    async def __call__(self, seconds: float) -> None:
        self.lengths_s.append(seconds)
        self.begun.set()
        if self._plans:
            await self._plans.pop(0)()


async def forever() -> None:
    """Let a pause never end."""
    await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def plane_with(
    pauses: Pauses, *servers: McpServerConfig, timing: Timing = PATIENT
) -> AsyncIterator[tuple[ToolPlane, list[CallRecord]]]:
    records: list[CallRecord] = []
    async with plane_of(*servers, timing=replace(timing, sleep=pauses), observers=[records.append]) as plane:
        yield plane, records


def lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


@pytest.mark.requirement("D-5")
@pytest.mark.requirement("T-04")
async def test_a_server_that_cannot_be_reached_is_tried_four_times_refused_and_used_again_when_it_is_back() -> None:
    pauses = Pauses(lambda: until(plane, "down"))
    async with misbehaving_http() as peer, plane_with(pauses, peer.config) as (plane, records):
        await peer.kill()
        result = await call(plane, "echo")
        refused = await call(plane, "echo")
        await peer.start()
        async with asyncio.timeout(BOUND_S):
            while connection(plane).breaker.state == "OPEN":
                await connection(plane).status.wait_for_change()
        assert text_of(await call(plane, "echo")) == "{}"
        assert connection(plane).breaker.state == "CLOSED"
    assert failure_kind(result) == "transport"
    assert "did not respond to 4 attempts" in text_of(result)
    assert pauses.lengths_s == [1.0, 2.0, 4.0]
    assert "temporarily unavailable" in text_of(refused)
    assert [(record.outcome, record.attempts) for record in records] == [("transport", 4), ("refused", 0), ("ok", 1)]


@pytest.mark.requirement("T-04")
async def test_a_server_that_is_back_after_the_first_retry_answers_the_call_and_the_breaker_stays_closed() -> None:
    async with misbehaving_http() as peer:
        pauses = Pauses(lambda: until(plane, "down"), peer.start)
        async with plane_with(pauses, peer.config) as (plane, records):
            await peer.kill()
            assert await pid_of(plane) == peer.pid
            assert connection(plane).breaker.state == "CLOSED"
    assert pauses.lengths_s[:2] == [1.0, 2.0]
    assert [record.outcome for record in records] == ["ok"]
    assert records[0].attempts == len(pauses.lengths_s) + 1


@pytest.mark.parametrize(
    ("code", "times", "expected_pauses", "outcome", "text"),
    [
        pytest.param(429, 2, [1.0, 2.0], "ok", "after 2", id="busy"),
        pytest.param(413, 1, [], "transport", "with other arguments", id="too-large"),
        pytest.param(422, 1, [], "transport", "with other arguments", id="invalid"),
        pytest.param(503, 1, [], "transport", "may or may not have been carried out", id="perhaps-begun"),
    ],
)
async def test_a_request_that_the_server_refuses_is_repeated_only_if_the_server_was_busy(
    code: int, times: int, expected_pauses: list[float], outcome: str, text: str
) -> None:
    pauses = Pauses()
    async with misbehaving_http() as peer, plane_with(pauses, peer.config) as (plane, records):
        assert text in text_of(await call(plane, "busy", times=times, code=code))
        assert connection(plane).breaker.state == "CLOSED"
    assert pauses.lengths_s == expected_pauses
    assert [(record.outcome, record.attempts) for record in records] == [(outcome, len(expected_pauses) + 1)]


@pytest.mark.requirement("D-5")
@pytest.mark.parametrize(
    ("tool", "crashes", "expected_pauses", "breaker", "text"),
    [
        ("flaky", 1, [], "CLOSED", "may or may not have been carried out"),
        ("flaky_read", 2, [1.0, 2.0], "CLOSED", "call 3"),
        ("flaky_repeatable", 2, [1.0, 2.0], "CLOSED", "call 3"),
        ("flaky_read", 99, [1.0, 2.0, 4.0], "OPEN", "did not respond to 4 attempts"),
    ],
)
async def test_a_call_lost_on_its_way_is_repeated_only_if_the_tool_is_read_only_or_idempotent(
    tool: str, crashes: int, expected_pauses: list[float], breaker: str, text: str, tmp_path: Path
) -> None:
    pauses, file = Pauses(), tmp_path / "calls"
    # Each retry has the server started at once instead of at the end of the back-off.
    timing = replace(PATIENT, reconnect_delays_s=(600.0,))
    async with plane_with(pauses, misbehaving(), timing=timing) as (plane, records):
        assert text in text_of(await call(plane, tool, file=str(file), crashes=crashes))
        assert connection(plane).breaker.state == breaker
    assert pauses.lengths_s == expected_pauses
    assert lines(file) == records[0].attempts == len(expected_pauses) + 1


@pytest.mark.requirement("D-5")
async def test_a_server_known_to_be_down_is_not_waited_for_and_three_such_refusals_open_the_breaker() -> None:
    pauses = Pauses()
    timing = replace(PATIENT, reconnect_delays_s=(600.0,))
    async with plane_with(pauses, misbehaving("exit-at-once", timeout_s=600), timing=timing) as (plane, records):
        results = [await call(plane, "echo") for _ in range(3)]
        assert connection(plane).breaker.state == "OPEN"
    assert {text_of(result) for result in results} == {
        "The tool server 'peer' is temporarily unavailable. Please try again in a few seconds."
    }
    assert pauses.lengths_s == []
    assert {(record.outcome, record.attempts) for record in records} == {("refused", 0)}


async def test_a_connection_that_does_not_come_within_the_deadline_ends_the_call() -> None:
    pauses = Pauses()
    timing = replace(PATIENT, connect_wait_s=0.0, connect_timeout_s=600)
    async with plane_with(pauses, misbehaving("hang-initialize", timeout_s=0.2), timing=timing) as (plane, records):
        result = await call(plane, "echo")
    assert failure_kind(result) == "timeout"
    assert "was not ready for the call within 0.2 seconds" in text_of(result)
    assert (pauses.lengths_s, records[0].attempts) == ([], 1)


async def test_retries_do_not_wait_long_for_a_server_that_hangs_as_it_starts_again(tmp_path: Path) -> None:
    pauses, file = Pauses(), tmp_path / "calls"
    timing = replace(PATIENT, connect_timeout_s=600, retry_connect_timeout_s=0.05)
    async with plane_with(pauses, misbehaving(str(file), timeout_s=600), timing=timing) as (plane, records):
        # Its first crash writes the file whose existence makes the next start hang.
        result = await call(plane, "flaky_read", file=str(file), crashes=99)
    assert failure_kind(result) == "transport"
    assert pauses.lengths_s == [1.0, 2.0, 4.0]
    assert records[0].attempts == 4


async def test_retries_end_early_when_the_failures_themselves_take_long(tmp_path: Path) -> None:
    now = [0.0]

    async def much_later() -> None:
        now[0] += 12.0

    pauses, file = Pauses(much_later), tmp_path / "calls"
    timing = replace(PATIENT, clock=lambda: now[0])
    async with plane_with(pauses, misbehaving(), timing=timing) as (plane, records):
        result = await call(plane, "flaky_read", file=str(file), crashes=99)
        assert connection(plane).breaker.state != "CLOSED"
    assert "did not respond to 2 attempts" in text_of(result)
    assert (lines(file), records[0].attempts) == (2, 2)


async def test_retries_leave_a_server_alone_that_rests_because_it_always_exits_at_once(tmp_path: Path) -> None:
    pauses, file = Pauses(), tmp_path / "calls"
    timing = replace(PATIENT, stable_s=600.0, max_quick_exits=1, long_delay_s=600.0)
    async with plane_with(pauses, misbehaving(timeout_s=600), timing=timing) as (plane, _):
        result = await call(plane, "flaky_read", file=str(file), crashes=1)
        assert connection(plane).status.state == "down"
        assert not connection(plane)._is_connecting
    assert failure_kind(result) == "transport"
    assert (pauses.lengths_s, lines(file)) == ([1.0, 2.0, 4.0], 1)


async def test_a_plane_that_closes_ends_a_call_between_two_attempts_with_a_result(tmp_path: Path) -> None:
    pauses = Pauses(forever)
    async with plane_with(pauses, misbehaving()) as (plane, records):
        calling = asyncio.create_task(call(plane, "flaky_read", file=str(tmp_path / "calls"), crashes=1))
        await pauses.begun.wait()
    result = await calling
    assert failure_kind(result) == "transport"
    assert "is being closed" in text_of(result)
    assert [(record.outcome, record.attempts) for record in records] == [("transport", 1)]


async def test_a_caller_that_leaves_between_two_attempts_tells_nothing_about_the_server(tmp_path: Path) -> None:
    pauses = Pauses(forever)
    timing = replace(PATIENT, reconnect_delays_s=(0.0,))
    async with plane_with(pauses, misbehaving(breaker=BreakerRules(failures=1)), timing=timing) as (plane, records):
        calling = asyncio.create_task(call(plane, "flaky_read", file=str(tmp_path / "calls"), crashes=1))
        await pauses.begun.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert connection(plane).breaker.state == "CLOSED"
    assert [(record.outcome, record.attempts) for record in records] == [("cancelled", 1)]


async def test_hundreds_of_callers_at_the_moment_of_death_are_all_answered_by_the_next_process(tmp_path: Path) -> None:
    pauses = Pauses()
    file = tmp_path / "calls"
    async with plane_with(pauses, misbehaving(timeout_s=BOUND_S)) as (plane, records):
        pid = await pid_of(plane)
        records.clear()
        calling = [asyncio.create_task(call(plane, "flaky_read", file=str(file))) for _ in range(300)]
        # The first of them to be answered, while the others are on their way or wait to be written.
        await asyncio.wait(calling, return_when=asyncio.FIRST_COMPLETED)
        os.kill(pid, signal.SIGKILL)
        results = await asyncio.gather(*calling)
        assert await pid_of(plane) != pid
        assert connection(plane).breaker.state == "CLOSED"
    assert not any(result.isError for result in results)
    assert len([record for record in records if record.attempts > 1]) > 0
