import asyncio
import json
import os
import signal
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from loguru import logger

from tests.servers.connections.peers import (
    BOUND_S,
    LIMIT_S,
    QUICK,
    call,
    connection,
    failure_kind,
    log_records,
    misbehaving,
    overdue,
    pid_of,
    plane_of,
    text_of,
    until,
)
from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane
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


async def requests_of(plane: ToolPlane, *, cancelled: int = 0) -> dict[str, Any]:
    """Wait until the server was notified of cancelled requests; return their ids and the id of this request."""
    async with asyncio.timeout(BOUND_S):
        while True:
            found: dict[str, Any] = json.loads(text_of(await call(plane, "cancelled")))
            if len(found["cancelled"]) >= cancelled:
                return found


@pytest.mark.requirement("T-05")
async def test_the_server_is_notified_of_the_calls_that_end_at_their_deadline_or_with_their_caller() -> None:
    # Without pings, which have request ids, too.
    timing = replace(QUICK, local_ping_interval_s=600.0)
    async with plane_of(misbehaving(timeout_s=LIMIT_S), timing=timing) as plane:
        first = (await requests_of(plane))["this"]
        calling = asyncio.create_task(call(plane, "wait"))
        await call(plane, "entered", calls=1)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        before = await requests_of(plane, cancelled=1)
        [left] = before["cancelled"]
        assert left in (first + 1, first + 2)
        [cut] = await overdue(plane, call(plane, "wait"))
        assert failure_kind(cut) == "timeout"
        assert "took longer than 30 seconds" in text_of(cut)
        after = await requests_of(plane, cancelled=2)
        assert after["cancelled"] == [left, before["this"] + 1]
        assert plane.health()["peer"]["state"] == "ready"


async def test_the_late_response_of_a_cut_call_is_not_used_for_another_call() -> None:
    async with plane_of(misbehaving(timeout_s=LIMIT_S)) as plane:
        [cut] = await overdue(plane, call(plane, "wait"))
        assert failure_kind(cut) == "timeout"
        await call(plane, "release")
        answers = [text_of(await call(plane, "echo", n=n)) for n in range(200)]
    assert answers == [f'{{"n": {n}}}' for n in range(200)]


async def test_calls_to_a_server_that_failed_to_initialise_are_refused_before_its_process_has_ended() -> None:
    peer = misbehaving("old-protocol", "stubborn", timeout_s=600)
    async with open_tool_plane([peer], timing=QUICK) as plane:
        assert text_of(await call(plane, "echo")) == REFUSED
        # Not before it has been left and its process has been killed does it show as down.
        assert plane.health()["peer"]["state"] == "connecting"


async def test_a_command_that_exits_at_once_five_times_rests_until_a_reconnect() -> None:
    with log_records() as records:
        async with open_tool_plane([misbehaving("exit-at-once")], timing=RESTING) as plane:
            async with asyncio.timeout(BOUND_S):
                while connection(plane).failed_connects < RESTING.max_quick_exits:
                    await connection(plane).status.wait_for_change()
                assert (await plane.reconnect("peer"))["state"] == "down"
            assert "no key: set MISBEHAVING_KEY" in str(plane.health()["peer"]["last_error"])
    starts = [record["level"]["name"] for record in records if record["message"] == "peer: no key: set MISBEHAVING_KEY"]
    assert starts == ["DEBUG"] * (RESTING.max_quick_exits + 1), "the reason shows its last lines"
    # One line for each reason, and one more after the reconnect, but not one for each exit.
    downs = [record["message"] for record in records if "is down" in record["message"]]
    assert max(Counter(downs).values()) <= 2


NOISES = {
    "stdout": "for _ in range(20): print('starting', _)",
    "stderr": "import os, sys\nfor _ in range(40): print('session', os.urandom(8).hex(), file=sys.stderr)\nsys.exit(1)",
}


@pytest.mark.requirement("U-06")
@pytest.mark.parametrize("program", NOISES)
async def test_a_server_that_never_starts_writes_few_lines_to_the_log(program: str) -> None:
    server = McpServerConfig(name="peer", transport="stdio", command=sys.executable, args=("-c", NOISES[program]))
    with log_records() as records:
        async with open_tool_plane([server], timing=RESTING) as plane, asyncio.timeout(BOUND_S):
            while connection(plane).failed_connects < RESTING.max_quick_exits:
                await connection(plane).status.wait_for_change()
    assert len(lines_above_debug(records)) <= 8, lines_above_debug(records)


@pytest.mark.requirement("U-06")
async def test_a_server_that_dies_soon_again_and_again_writes_few_lines_to_the_log() -> None:
    starts = 5
    with log_records() as records:
        async with plane_of(misbehaving(timeout_s=600)) as plane:
            for _ in range(starts):
                await call(plane, "whisper", pieces=["one\ntwo\n", "three\n"])
                await call(plane, "crash")
                await until(plane, "ready")
    peer = [line for line in lines_above_debug(records) if line.startswith(("peer: ", "MCP server peer is"))]
    assert len(peer) <= 8, peer


def lines_above_debug(records: list[dict[str, Any]]) -> list[str]:
    return [record["message"] for record in records if record["level"]["no"] > logger.level("DEBUG").no]


async def test_closing_a_plane_does_not_wait_for_the_end_of_a_rest() -> None:
    slow = Timing(connect_wait_s=BOUND_S, stable_s=600.0, max_quick_exits=1, long_delay_s=600.0, close_timeout_s=600.0)
    async with asyncio.timeout(BOUND_S), open_tool_plane([misbehaving()], timing=slow) as plane:
        # A close before the session was stable counts as an exit, after which the server would rest.
        await plane.wait_for_servers()


async def test_a_repeated_list_of_the_same_tools_is_not_logged() -> None:
    with log_records() as records:
        async with plane_of(misbehaving("storm")) as plane:
            async with asyncio.timeout(BOUND_S):
                for _ in range(3):
                    await connection(plane).status.wait_for_change()
    assert sum("is ready with" in record["message"] for record in records) == 1


async def test_the_environment_of_a_server_is_the_configured_one_and_little_else() -> None:
    async with open_tool_plane([misbehaving(env={"CONFIGURED": "${HOME}"})], timing=QUICK) as plane:
        environment = json.loads(text_of(await call(plane, "env")))
    assert environment["CONFIGURED"] == "${HOME}"
    allowed = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "CONFIGURED", "LC_CTYPE", "TOOLWEAVE_LOG_LEVEL"}
    assert {name for name in environment if not name.startswith("FASTMCP_")} <= allowed
