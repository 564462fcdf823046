"""How one call, the deadline and the breaker play together, with real servers and a clock of our own (D-5, D-6)."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

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

UNAVAILABLE = "The tool server 'peer' is temporarily unavailable. Please try again in a few seconds."


class Clock:
    """Time for breakers that stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def plane_at(
    clock: Clock, *servers: McpServerConfig, failures: int = 3
) -> AsyncIterator[tuple[ToolPlane, list[CallRecord]]]:
    records: list[CallRecord] = []
    rules = BreakerRules(failures=failures)
    configs = [replace(server, breaker=rules) for server in servers]
    async with plane_of(*configs, timing=replace(QUICK, clock=clock), observers=[records.append]) as plane:
        yield plane, records


def breaker(plane: ToolPlane, name: str = "peer") -> str:
    return connection(plane, name).breaker.state


def calls_in(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


async def break_protocol(plane: ToolPlane, times: int = 3) -> None:
    for _ in range(times):
        assert failure_kind(await call(plane, "wrong_shape")) == "protocol"


@pytest.mark.requirement("D-6")
@pytest.mark.requirement("T-04")
async def test_three_failed_calls_in_a_row_have_the_next_refused_at_once_and_no_other_server_notices() -> None:
    async with plane_at(Clock(), misbehaving(), misbehaving(name="other")) as (plane, records):
        pid = await pid_of(plane)
        await break_protocol(plane)
        refused = await call(plane, "echo")
        assert text_of(await call(plane, "echo", server="other")) == "{}"
        assert (breaker(plane), breaker(plane, "other")) == ("OPEN", "CLOSED")
        # An answer that is none is no reason to restart a server.
        assert connection(plane).status.state == "ready"
        assert is_running(pid)
    assert (failure_kind(refused), text_of(refused)) == ("transport", UNAVAILABLE)
    assert [(record.outcome, record.attempts) for record in records[-2:]] == [("refused", 0), ("ok", 1)]


@pytest.mark.requirement("D-6")
async def test_errors_of_the_tools_themselves_are_answers_and_keep_it_closed() -> None:
    async with plane_at(Clock(), misbehaving()) as (plane, _):
        for _ in range(2):
            await break_protocol(plane, 2)
            assert text_of(await call(plane, "fail")) == "the disk is full"
        await break_protocol(plane, 2)
        assert "no_such_tool" in text_of(await call(plane, "no_such_tool"))
        await break_protocol(plane, 2)
        assert breaker(plane) == "CLOSED"


async def test_a_call_that_was_never_sent_for_its_arguments_decides_nothing() -> None:
    clock = Clock()
    async with plane_at(clock, misbehaving()) as (plane, records):
        await break_protocol(plane, 2)
        await call(plane, "echo", text="\ud800")
        await break_protocol(plane, 1)
        assert breaker(plane) == "OPEN"
        clock.now = 2.0
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
async def test_of_fifty_callers_at_once_exactly_one_finds_out_whether_the_server_is_back(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "calls"
    async with plane_at(clock, misbehaving()) as (plane, records):
        await call(plane, "flaky", file=str(file))
        await break_protocol(plane)
        clock.now = 2.0
        results = await asyncio.gather(*(call(plane, "flaky", file=str(file)) for _ in range(50)))
        assert breaker(plane) == "CLOSED"
    assert calls_in(file) == 2
    assert sorted(text_of(result) for result in results) == [UNAVAILABLE] * 49 + ["call 2"]
    assert [record.outcome for record in records].count("refused") == 49


async def test_a_new_session_is_worth_one_call_of_fifty_and_no_proof_that_the_server_works(tmp_path: Path) -> None:
    file = tmp_path / "calls"
    async with plane_at(Clock(), misbehaving()) as (plane, _):
        await call(plane, "flaky", file=str(file))
        await break_protocol(plane)
        await plane.reconnect("peer")
        assert breaker(plane) == "HALF_OPEN"
        results = await asyncio.gather(*(call(plane, "flaky", file=str(file), crashes=2) for _ in range(50)))
        assert [text_of(result) for result in results].count(UNAVAILABLE) == 49
        assert calls_in(file) == 2
        # The call that went through ended the process. Another session, another probe.
        await until(plane, "ready")
        assert breaker(plane) == "HALF_OPEN"


async def test_a_probe_whose_caller_leaves_makes_room_for_the_next() -> None:
    clock = Clock()
    async with plane_at(clock, misbehaving(timeout_s=600)) as (plane, _):
        await call(plane, "sleep", seconds=0)
        await break_protocol(plane)
        clock.now = 2.0
        probe = asyncio.create_task(call(plane, "sleep", seconds=600))
        await asyncio.sleep(0)
        assert text_of(await call(plane, "echo")) == UNAVAILABLE
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        assert breaker(plane) == "HALF_OPEN"
        assert text_of(await call(plane, "echo")) == "{}"
        assert breaker(plane) == "CLOSED"


async def test_a_call_that_outlasts_the_opening_of_the_breaker_does_not_close_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    async with plane_at(Clock(), misbehaving(timeout_s=600)) as (plane, _):
        await call(plane, "sleep", seconds=0)
        slow = asyncio.create_task(call(plane, "fifo", path=str(pipe)))
        await asyncio.sleep(0)
        await break_protocol(plane)
        # Calls are refused by now, so that none can release it.
        await asyncio.to_thread(pipe.write_text, "at last", "utf-8")
        assert text_of(await slow) == "at last"
        assert breaker(plane) == "OPEN"


async def test_three_deadlines_in_a_row_have_the_server_replaced() -> None:
    with log_records() as records:
        async with plane_at(Clock(), misbehaving(timeout_s=LIMIT_S)) as (plane, _):
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
    clock = Clock()
    server = misbehaving(timeout_s=LIMIT_S, max_concurrency=max_concurrency)
    async with plane_at(clock, server, failures=failures) as (plane, _):
        pid = await pid_of(plane)
        for count in calls:
            late = await overdue(plane, *(call(plane, "wait") for _ in range(count)))
            assert {failure_kind(result) for result in late} == {"timeout"}
            assert breaker(plane) == state
            clock.now += 2.0
            assert await pid_of(plane) == pid
