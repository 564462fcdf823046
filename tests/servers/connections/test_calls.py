"""The deadline, the breaker and the retries of one call, with real servers and a clock of the test (D-5, D-6)."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.servers.connections.peers import (
    BOUND_S,
    LIMIT_S,
    QUICK,
    call,
    connection,
    failure_kind,
    is_running,
    log_records,
    misbehaving,
    misbehaving_http,
    overdue,
    pid_of,
    plane_of,
    text_of,
    until,
)
from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import BreakerRules
from toolweave.servers.connections.observability import CallRecord
from toolweave.servers.connections.plane import ToolPlane
from toolweave.servers.connections.status import DEFAULT_TIMING, Timing

UNAVAILABLE = "The tool server 'peer' is temporarily unavailable. Please try again in a few seconds."


@asynccontextmanager
async def recorded(
    *servers: McpServerConfig, timing: Timing = QUICK
) -> AsyncIterator[tuple[ToolPlane, list[CallRecord]]]:
    """Open a plane; yield it with the records of its calls."""
    records: list[CallRecord] = []
    async with plane_of(*servers, timing=timing, observers=[records.append]) as plane:
        yield plane, records


def breaker(plane: ToolPlane, name: str = "peer") -> str:
    return connection(plane, name).breaker.state


def at(now: list[float]) -> Timing:
    """Let breakers read their time from `now`."""
    return replace(QUICK, clock=lambda: now[0])


def calls_in(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


async def break_protocol(plane: ToolPlane, times: int = 3) -> None:
    for _ in range(times):
        assert failure_kind(await call(plane, "wrong_shape")) == "protocol"


@pytest.mark.requirement("D-6")
@pytest.mark.requirement("T-04")
async def test_after_three_failed_calls_in_a_row_the_next_is_refused_and_other_servers_are_not_affected() -> None:
    async with recorded(misbehaving(), misbehaving(name="other"), timing=at([0.0])) as (plane, records):
        pid = await pid_of(plane)
        await break_protocol(plane)
        refused = await call(plane, "echo")
        assert text_of(await call(plane, "echo", server="other")) == "{}"
        assert (breaker(plane), breaker(plane, "other")) == ("OPEN", "CLOSED")
        # A malformed response is no reason to restart a server.
        assert connection(plane).status.state == "ready"
        assert is_running(pid)
    assert (failure_kind(refused), text_of(refused)) == ("transport", UNAVAILABLE)
    assert [(record.outcome, record.attempts) for record in records[-2:]] == [("refused", 0), ("ok", 1)]


@pytest.mark.requirement("D-6")
async def test_errors_of_tools_count_as_responses_and_the_breaker_stays_closed() -> None:
    async with recorded(misbehaving(), timing=at([0.0])) as (plane, _):
        for _ in range(2):
            await break_protocol(plane, 2)
            assert text_of(await call(plane, "fail")) == "the disk is full"
        await break_protocol(plane, 2)
        assert "no_such_tool" in text_of(await call(plane, "no_such_tool"))
        await break_protocol(plane, 2)
        assert breaker(plane) == "CLOSED"


async def test_a_call_that_is_not_sent_because_of_its_arguments_does_not_count_for_the_breaker() -> None:
    now = [0.0]
    async with recorded(misbehaving(), timing=at(now)) as (plane, records):
        await break_protocol(plane, 2)
        await call(plane, "echo", text="\ud800")
        await break_protocol(plane, 1)
        assert breaker(plane) == "OPEN"
        now[0] = 2.0
        await call(plane, "echo", text="\ud800")
        assert breaker(plane) == "HALF_OPEN"
        assert text_of(await call(plane, "echo")) == "{}"
        assert breaker(plane) == "CLOSED"
    assert [record.outcome for record in records if record.tool == "echo"] == [
        "invalid_arguments",
        "invalid_arguments",
        "ok",
    ]


@pytest.mark.requirement("D-6")
async def test_one_of_fifty_concurrent_calls_probes_whether_the_server_is_back(tmp_path: Path) -> None:
    now, file = [0.0], tmp_path / "calls"
    async with recorded(misbehaving(), timing=at(now)) as (plane, records):
        await call(plane, "flaky", file=str(file))
        await break_protocol(plane)
        now[0] = 2.0
        results = await asyncio.gather(*(call(plane, "flaky", file=str(file)) for _ in range(50)))
        assert breaker(plane) == "CLOSED"
    assert calls_in(file) == 2
    assert sorted(text_of(result) for result in results) == [UNAVAILABLE] * 49 + ["call 2"]
    assert [record.outcome for record in records].count("refused") == 49


async def test_after_a_cancelled_probe_the_next_call_is_the_probe() -> None:
    now = [0.0]
    async with recorded(misbehaving(timeout_s=600), timing=at(now)) as (plane, _):
        await call(plane, "sleep", seconds=0)
        await break_protocol(plane)
        now[0] = 2.0
        probe = asyncio.create_task(call(plane, "sleep", seconds=600))
        await asyncio.sleep(0)
        assert text_of(await call(plane, "echo")) == UNAVAILABLE
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        assert breaker(plane) == "HALF_OPEN"
        assert text_of(await call(plane, "echo")) == "{}"
        assert breaker(plane) == "CLOSED"


async def test_a_server_is_replaced_after_three_deadlines_in_a_row() -> None:
    with log_records() as records:
        async with recorded(misbehaving(timeout_s=LIMIT_S), timing=at([0.0])) as (plane, _):
            pid = await pid_of(plane)
            for _ in range(3):
                [late] = await overdue(plane, call(plane, "wait"))
                assert failure_kind(late) == "timeout"
            async with asyncio.timeout(BOUND_S):
                while breaker(plane) == "OPEN":
                    await connection(plane).status.wait_for_change()
            assert not is_running(pid)
            assert breaker(plane) == "HALF_OPEN"
    reasons = [record["message"] for record in records if "is down" in record["message"]]
    assert reasons == ["MCP server peer is down: 3 calls in a row timed out"]


@pytest.mark.parametrize(
    ("failures", "max_concurrency", "calls", "state"),
    [
        pytest.param(1, 8, [1], "OPEN", id="one-however-soon-the-breaker-opens"),
        pytest.param(3, 8, [2, 2], "CLOSED", id="two-before-each-answer"),
        # One waits for its answer, seven for their turn: they were never sent, so they do not count.
        pytest.param(3, 1, [8], "OPEN", id="one-that-was-sent"),
    ],
)
async def test_fewer_than_three_deadlines_in_a_row_leave_the_process_running(
    failures: int, max_concurrency: int, calls: list[int], state: str
) -> None:
    now = [0.0]
    server = misbehaving(timeout_s=LIMIT_S, max_concurrency=max_concurrency, breaker=BreakerRules(failures=failures))
    async with recorded(server, timing=at(now)) as (plane, _):
        pid = await pid_of(plane)
        for count in calls:
            late = await overdue(plane, *(call(plane, "wait") for _ in range(count)))
            assert {failure_kind(result) for result in late} == {"timeout"}
            assert breaker(plane) == state
            now[0] += 2.0
            assert await pid_of(plane) == pid


class Pauses:
    """Replace `asyncio.sleep`: record each pause, and run the next plan of the test in it."""

    def __init__(self, *plans: Callable[[], Awaitable[None]]) -> None:
        self.lengths_s: list[float] = []
        self.begun = asyncio.Event()
        self._plans = list(plans)

    async def __call__(self, seconds: float) -> None:
        self.lengths_s.append(seconds)
        self.begun.set()
        if self._plans:
            await self._plans.pop(0)()


def patient(pauses: Pauses, **changes: Any) -> Timing:
    """Return limits with which only calls notice that a server is lost, and retries make these pauses."""
    pings: dict[str, Any] = {"local_ping_interval_s": 600.0, "remote_ping_interval_s": 600.0}
    return replace(QUICK, **pings, retry_delays_s=DEFAULT_TIMING.retry_delays_s, sleep=pauses, **changes)


async def forever() -> None:
    """Wait without end."""
    await asyncio.get_running_loop().create_future()


@pytest.mark.requirement("D-5")
@pytest.mark.requirement("T-04")
async def test_a_call_to_an_absent_server_makes_four_attempts_and_opens_the_breaker_until_the_server_is_back() -> None:
    pauses = Pauses(lambda: until(plane, "down"))
    async with misbehaving_http() as peer, recorded(peer.config, timing=patient(pauses)) as (plane, records):
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
async def test_a_retry_succeeds_when_the_server_is_back_and_the_breaker_stays_closed() -> None:
    async with misbehaving_http() as peer:
        pauses = Pauses(lambda: until(plane, "down"), peer.start)
        async with recorded(peer.config, timing=patient(pauses)) as (plane, records):
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
    async with misbehaving_http() as peer, recorded(peer.config, timing=patient(pauses)) as (plane, records):
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
    async with recorded(misbehaving(), timing=patient(pauses, reconnect_delays_s=(600.0,))) as (plane, records):
        assert text in text_of(await call(plane, tool, file=str(file), crashes=crashes))
        assert connection(plane).breaker.state == breaker
    assert pauses.lengths_s == expected_pauses
    assert calls_in(file) == records[0].attempts == len(expected_pauses) + 1


@pytest.mark.requirement("D-5")
async def test_calls_to_a_server_that_is_known_to_be_down_are_refused_and_three_of_them_open_the_breaker() -> None:
    pauses = Pauses()
    timing = patient(pauses, reconnect_delays_s=(600.0,))
    async with recorded(misbehaving("exit-at-once", timeout_s=600), timing=timing) as (plane, records):
        results = [await call(plane, "echo") for _ in range(3)]
        assert connection(plane).breaker.state == "OPEN"
    assert {text_of(result) for result in results} == {UNAVAILABLE}
    assert pauses.lengths_s == []
    assert {(record.outcome, record.attempts) for record in records} == {("refused", 0)}


async def test_a_call_ends_at_its_deadline_while_the_server_still_connects() -> None:
    pauses = Pauses()
    timing = patient(pauses, connect_wait_s=0.0, connect_timeout_s=600)
    async with recorded(misbehaving("hang-initialize", timeout_s=0.2), timing=timing) as (plane, records):
        result = await call(plane, "echo")
    assert failure_kind(result) == "timeout"
    assert "was not ready for the call within 0.2 seconds" in text_of(result)
    assert (pauses.lengths_s, records[0].attempts) == ([], 1)


async def test_retries_do_not_wait_long_for_a_server_that_hangs_while_it_restarts(tmp_path: Path) -> None:
    pauses, file = Pauses(), tmp_path / "calls"
    timing = patient(pauses, connect_timeout_s=600, retry_connect_timeout_s=0.05)
    async with recorded(misbehaving(str(file), timeout_s=600), timing=timing) as (plane, records):
        # Its first crash writes the file whose existence makes the next start hang.
        result = await call(plane, "flaky_read", file=str(file), crashes=99)
    assert failure_kind(result) == "transport"
    assert pauses.lengths_s == [1.0, 2.0, 4.0]
    assert records[0].attempts == 4


async def test_retries_end_early_when_the_failed_attempts_take_long(tmp_path: Path) -> None:
    now = [0.0]

    async def much_later() -> None:
        now[0] += 12.0

    pauses, file = Pauses(much_later), tmp_path / "calls"
    async with recorded(misbehaving(), timing=patient(pauses, clock=lambda: now[0])) as (plane, records):
        result = await call(plane, "flaky_read", file=str(file), crashes=99)
        assert connection(plane).breaker.state != "CLOSED"
    assert "did not respond to 2 attempts" in text_of(result)
    assert (calls_in(file), records[0].attempts) == (2, 2)


async def test_retries_do_not_restart_a_server_that_rests_after_repeated_exits(tmp_path: Path) -> None:
    pauses, file = Pauses(), tmp_path / "calls"
    timing = patient(pauses, stable_s=600.0, max_quick_exits=1, long_delay_s=600.0)
    async with recorded(misbehaving(timeout_s=600), timing=timing) as (plane, _):
        result = await call(plane, "flaky_read", file=str(file), crashes=1)
        assert connection(plane).status.state == "down"
        assert not connection(plane)._is_connecting
    assert failure_kind(result) == "transport"
    assert (pauses.lengths_s, calls_in(file)) == ([1.0, 2.0, 4.0], 1)


async def test_a_plane_that_closes_ends_a_call_between_two_attempts_with_a_result(tmp_path: Path) -> None:
    pauses = Pauses(forever)
    async with recorded(misbehaving(), timing=patient(pauses)) as (plane, records):
        calling = asyncio.create_task(call(plane, "flaky_read", file=str(tmp_path / "calls"), crashes=1))
        await pauses.begun.wait()
    result = await calling
    assert failure_kind(result) == "transport"
    assert "is being closed" in text_of(result)
    assert [(record.outcome, record.attempts) for record in records] == [("transport", 1)]


async def test_a_call_cancelled_between_two_attempts_does_not_count_for_the_breaker(tmp_path: Path) -> None:
    pauses = Pauses(forever)
    timing = patient(pauses, reconnect_delays_s=(0.0,))
    async with recorded(misbehaving(breaker=BreakerRules(failures=1)), timing=timing) as (plane, records):
        calling = asyncio.create_task(call(plane, "flaky_read", file=str(tmp_path / "calls"), crashes=1))
        await pauses.begun.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert connection(plane).breaker.state == "CLOSED"
    assert [(record.outcome, record.attempts) for record in records] == [("cancelled", 1)]


async def test_hundreds_of_calls_during_a_kill_are_all_answered_by_the_next_process(tmp_path: Path) -> None:
    pauses = Pauses()
    file = tmp_path / "calls"
    async with recorded(misbehaving(timeout_s=BOUND_S), timing=patient(pauses)) as (plane, records):
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
