import asyncio
import json
import os
import signal
from itertools import pairwise

import pytest

from tests.fixtures.forked_python import REAL_PYTHON
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
from toolweave.servers.connections.plane import open_tool_plane
from toolweave.servers.connections.status import Timing

REFUSED = "The tool server 'peer' is temporarily unavailable. Please try again in a few seconds."
RESTING = Timing(connect_wait_s=BOUND_S, reconnect_delays_s=(0.0,), stable_s=60.0, long_delay_s=600.0)


@pytest.mark.requirement("D-1")
async def test_all_calls_go_to_one_process_until_it_is_killed_and_then_to_its_successor() -> None:
    async with plane_of(misbehaving()) as plane:
        [pid] = {await pid_of(plane) for _ in range(5)}
        os.kill(pid, signal.SIGKILL)
        await until(plane, "down")
        assert plane.health()["peer"]["last_error"] == "its process was ended by SIGKILL"
        # This call waits for the successor.
        successor = await pid_of(plane)
        assert successor != pid
        os.kill(successor, signal.SIGKILL)
        await until(plane, "down")
        # No call is needed.
        await until(plane, "ready")


@pytest.mark.requirement("T-11")
async def test_a_call_is_answered_while_slower_ones_are_open_on_the_same_session() -> None:
    async with open_tool_plane([misbehaving(timeout_s=BOUND_S)], timing=QUICK) as plane:
        slow = [asyncio.create_task(call(plane, "wait")) for _ in range(20)]
        await call(plane, "entered", calls=20)
        quick = await call(plane, "echo", a=1)
        assert text_of(quick) == '{"a": 1}'
        assert not any(task.done() for task in slow)
        await call(plane, "release")
        assert {text_of(result) for result in await asyncio.gather(*slow)} == {"released"}


async def test_max_concurrency_makes_the_next_call_wait_within_its_deadline() -> None:
    server = misbehaving(timeout_s=LIMIT_S, max_concurrency=1)
    async with plane_of(server) as plane:
        results = await overdue(plane, call(plane, "wait"), call(plane, "echo"))
    assert [failure_kind(result) for result in results] == ["timeout", "timeout"]


@pytest.mark.requirement("T-05")
async def test_a_slow_tool_is_cut_at_the_deadline_and_the_server_is_told_which_request() -> None:
    async with open_tool_plane([misbehaving(timeout_s=LIMIT_S)], timing=QUICK) as plane:
        before = json.loads(text_of(await call(plane, "cancelled")))
        [result] = await overdue(plane, call(plane, "wait"))
        assert failure_kind(result) == "timeout"
        assert "took longer than 30 seconds" in text_of(result)
        after = json.loads(text_of(await call(plane, "cancelled")))
        assert after["cancelled"] == [before["this"] + 1]
        assert plane.health()["peer"]["state"] == "ready"


async def test_a_cancelled_caller_gets_its_cancellation_and_the_server_is_told() -> None:
    async with open_tool_plane([misbehaving(timeout_s=600)], timing=QUICK) as plane:
        this = json.loads(text_of(await call(plane, "cancelled")))["this"]
        calling = asyncio.create_task(call(plane, "wait"))
        meanwhile = json.loads(text_of(await call(plane, "cancelled")))["this"]
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        told = json.loads(text_of(await call(plane, "cancelled")))["cancelled"]
        assert told == [number for number in (this + 1, this + 2) if number != meanwhile]


async def test_a_late_answer_of_a_cut_call_is_not_taken_for_the_answer_of_another() -> None:
    async with plane_of(misbehaving(timeout_s=LIMIT_S)) as plane:
        [cut] = await overdue(plane, call(plane, "wait"))
        assert failure_kind(cut) == "timeout"
        await call(plane, "release")
        answers = [text_of(await call(plane, "echo", n=n)) for n in range(200)]
    assert answers == [f'{{"n": {n}}}' for n in range(200)]


async def test_a_server_of_another_protocol_is_down_with_the_reason() -> None:
    # What it has started outlives it: that it ended is known before its end is through.
    async with open_tool_plane([misbehaving("old-protocol", "leaves-a-child")], timing=QUICK) as plane:
        await until(plane, "down")
        assert "1999-01-01" in str(plane.health()["peer"]["last_error"])


async def test_a_server_that_could_not_be_initialised_refuses_calls_though_its_process_is_not_gone_yet() -> None:
    peer = misbehaving("old-protocol", "stubborn", timeout_s=600)
    async with open_tool_plane([peer], timing=QUICK) as plane:
        assert text_of(await call(plane, "echo")) == REFUSED
        # Not before it has been left and its process has been killed does it show as down.
        assert plane.health()["peer"]["state"] == "connecting"


async def test_a_command_that_exits_at_once_five_times_rests_until_a_reconnect_is_asked_for() -> None:
    with log_records() as records:
        async with open_tool_plane([misbehaving("exit-at-once")], timing=RESTING) as plane:
            async with asyncio.timeout(BOUND_S):
                while connection(plane)._failed_connects < RESTING.max_quick_exits:
                    await connection(plane).status.wait_for_change()
                assert (await plane.reconnect("peer"))["state"] == "down"
            assert "no key: set MISBEHAVING_KEY" in str(plane.health()["peer"]["last_error"])
    starts = [record for record in records if record["message"] == "peer: no key: set MISBEHAVING_KEY"]
    assert len(starts) == RESTING.max_quick_exits + 1
    # Again for another reason, and once more because an operator wanted to know, but not for each exit.
    downs = [record["message"] for record in records if "is down" in record["message"]]
    assert downs
    assert sum(one == following for one, following in pairwise(downs)) <= 1


async def test_closing_a_plane_does_not_wait_for_the_end_of_a_rest() -> None:
    slow = Timing(connect_wait_s=BOUND_S, stable_s=600.0, max_quick_exits=1, long_delay_s=600.0, close_timeout_s=600.0)
    async with asyncio.timeout(BOUND_S), open_tool_plane([misbehaving()], timing=slow) as plane:
        # What is left before it lasted counts as an exit, after which this one would rest.
        await plane.wait_for_servers()


async def test_a_server_that_leaves_as_soon_as_it_is_ready_rests_too() -> None:
    async with open_tool_plane([misbehaving("gone-after-list")], timing=RESTING) as plane:
        async with asyncio.timeout(BOUND_S):
            while connection(plane)._backoff._quick_exits < RESTING.max_quick_exits:
                await connection(plane).status.wait_for_change()
        assert plane.health()["peer"]["state"] == "down"


async def test_a_list_that_is_read_anew_and_has_the_same_tools_is_no_news() -> None:
    with log_records() as records:
        async with plane_of(misbehaving("storm")) as plane:
            async with asyncio.timeout(BOUND_S):
                for _ in range(3):
                    await connection(plane).status.wait_for_change()
    assert sum("is ready with" in record["message"] for record in records) == 1


@pytest.mark.requirement("T-09")
async def test_a_server_that_ignores_every_request_to_end_is_killed() -> None:
    timing = Timing(connect_wait_s=BOUND_S, close_timeout_s=0.3)
    async with open_tool_plane([misbehaving("stubborn", command=REAL_PYTHON)], timing=timing) as plane:
        pid = await pid_of(plane)
    assert not is_running(pid)


async def test_the_environment_of_a_server_is_the_configured_one_and_little_else() -> None:
    async with open_tool_plane([misbehaving(env={"CONFIGURED": "${HOME}"})], timing=QUICK) as plane:
        environment = json.loads(text_of(await call(plane, "env")))
    assert environment["CONFIGURED"] == "${HOME}"
    allowed = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "CONFIGURED", "LC_CTYPE"}
    assert {name for name in environment if not name.startswith("FASTMCP_")} <= allowed


async def test_what_a_server_writes_to_stderr_is_in_our_log_with_its_name_and_without_its_secrets() -> None:
    server = misbehaving(env={"API_KEY": "hunter2-hunter2"})
    with log_records() as records:
        async with open_tool_plane([server], timing=QUICK) as plane:
            await call(plane, "say", text="key hunter2-hunter2\nsecond \x1b[31mline")
    said = [record["message"] for record in records if record["message"].startswith("peer: ")]
    assert said == ["peer: key ***", "peer: second [31mline"]
