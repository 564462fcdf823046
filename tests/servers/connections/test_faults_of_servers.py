"""What becomes of callers and of the plane when a server dies, freezes, refuses or starts badly, over any transport."""

import asyncio
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fixtures.loop_clock import pass_time
from tests.fixtures.mcp_server import child_pids
from tests.servers.connections.faulty import TIMING, TRANSPORTS, Faulty, faulty
from tests.servers.connections.peers import (
    BOUND_S,
    LIMIT_S,
    MISBEHAVING,
    call,
    failure_kind,
    is_running,
    open_files,
    overdue,
    pid_of,
    text_of,
    until,
)
from tests.servers.connections.test_termination import nothing_left
from toolweave.config.mcp_entry import Transport
from toolweave.servers.connections.sessions.http import STREAM_INTERVAL_S

over_all = pytest.mark.parametrize("transport", TRANSPORTS)
over_http = pytest.mark.parametrize("transport", ["http", "sse"])


@over_all
async def test_a_server_that_dies_fails_its_open_calls_and_is_used_again_when_it_is_back(transport: Transport) -> None:
    async with faulty(transport) as peer:
        echo = next(tool for tool in await peer.plane.tools(["peer"]) if tool.name == "peer_echo")
        waiting = [asyncio.create_task(peer.call("wait")) for _ in range(5)]
        await peer.call("entered", calls=5)
        await peer.kill()
        async with asyncio.timeout(BOUND_S):
            results = await asyncio.gather(*waiting)
        assert {failure_kind(result) for result in results} == {"transport"}
        assert all("may or may not have been carried out" in text_of(result) for result in results)
        await peer.bring_back()
        # While no call is open.
        await peer.kill()
        await until(peer.plane, "down")
        await peer.bring_back()
        # By itself, in a call.
        assert failure_kind(await peer.call("crash")) == "transport"
        if peer.remote is not None:
            await peer.kill()
        await peer.bring_back()
        # A tool of the first session stays valid.
        assert await echo.ainvoke({}) == "{}"


@over_all
async def test_a_frozen_server_costs_a_call_its_deadline_and_is_replaced_or_used_again(transport: Transport) -> None:
    async with faulty(transport, timeout_s=LIMIT_S, timing=replace(TIMING, ping_timeout_s=5.0)) as peer:
        pid = await pid_of(peer.plane)
        os.kill(pid, signal.SIGSTOP)
        [frozen] = await overdue(peer.plane, peer.call("echo"))
        assert failure_kind(frozen) in ("timeout", "transport")
        # A ping that was sent beside the call waits as long as the call.
        pass_time(LIMIT_S)
        await until(peer.plane, "down")
        if peer.remote is not None:
            os.kill(pid, signal.SIGCONT)
        await peer.recovered()
        assert is_running(pid) == (peer.remote is not None)


@over_http
@pytest.mark.parametrize("code", [401, 404, 503])
async def test_a_server_that_refuses_everything_for_a_while_is_used_again_by_itself(
    transport: Transport, code: int
) -> None:
    async with faulty(transport) as peer:
        await peer.call("refuse", code=code, times=6)
        assert failure_kind(await peer.call("wait")) == "transport"
        await peer.recovered()


@over_all
async def test_an_initialise_that_hangs_is_given_up_and_tried_again(transport: Transport, tmp_path: Path) -> None:
    hangs = tmp_path / "hangs"
    hangs.touch()
    async with faulty(transport, str(hangs), timing=replace(TIMING, connect_timeout_s=LIMIT_S), settled=False) as peer:
        pass_time(LIMIT_S)
        await until(peer.plane, "down")
        assert peer.plane.health()["peer"]["last_error"] == "it was not ready within 30 s"
        assert failure_kind(await peer.call("echo")) == "transport"
        hangs.unlink()
        await peer.recovered()


@over_all
async def test_a_server_of_another_protocol_is_down_with_the_reason(transport: Transport) -> None:
    async with faulty(transport, "old-protocol", settled=False) as peer:
        await until(peer.plane, "down")
        assert "1999-01-01" in str(peer.plane.health()["peer"]["last_error"])


@over_all
@pytest.mark.parametrize(
    ("behave", "tools"),
    [
        ("no-tools", []),
        ("no-tools-method", []),
        ("duplicate-tools", ["peer_echo", "peer_pid"]),
    ],
)
async def test_odd_lists_of_tools_are_the_same_over_each_transport(
    transport: Transport, behave: str, tools: list[str]
) -> None:
    async with faulty(transport, behave) as peer:
        assert [tool.name for tool in await peer.plane.tools(["peer"])] == tools
        assert peer.plane.health()["peer"]["state"] == "ready"


@over_all
async def test_tools_without_a_description_can_be_called(transport: Transport) -> None:
    async with faulty(transport, "undescribed") as peer:
        echo = next(tool for tool in await peer.plane.tools(["peer"]) if tool.name == "peer_echo")
        assert echo.description
        assert await echo.ainvoke({}) == "{}"


@over_all
async def test_new_tools_appear_when_the_server_announces_them(transport: Transport) -> None:
    async with faulty(transport) as peer:
        assert "peer_extra" not in {tool.name for tool in await peer.plane.tools(["peer"])}
        await peer.call("grow")
        await extra_tool(peer)


async def extra_tool(peer: Faulty) -> None:
    """Wait, bounded, until the tool that `grow` adds is offered."""
    status = peer.plane._connections["peer"].status
    async with asyncio.timeout(BOUND_S):
        while "peer_extra" not in {tool.name for tool in await peer.plane.tools(["peer"])}:
            await status.wait_for_change()


async def test_new_tools_appear_though_the_stream_of_announcements_cannot_be_opened_again() -> None:
    async with faulty("http") as peer:
        await peer.call("refuse_streams")
        await peer.call("grow")
        await extra_tool(peer)
        assert not (await peer.call("echo")).isError


async def test_a_server_that_ends_its_stream_again_and_again_does_not_keep_us_busy() -> None:
    async with faulty("http", "ends-streams") as peer:
        begun = asyncio.get_running_loop().time()
        before = int(text_of(await peer.call("streams")))
        async with asyncio.timeout(BOUND_S):
            while (opened := int(text_of(await peer.call("streams")))) < before + 4:
                pass
        assert opened - before <= (asyncio.get_running_loop().time() - begun) / STREAM_INTERVAL_S + 1


@over_http
async def test_answers_that_come_as_event_streams_are_answers(transport: Transport) -> None:
    async with faulty(transport, "streams") as peer:
        assert text_of(await peer.call("echo", number=1)) == json.dumps({"number": 1})
        assert failure_kind(await peer.call("huge", size=34_000_000)) == "protocol"
        await peer.recovered()


@over_all
async def test_a_storm_of_list_changed_keeps_nobody_from_calling(transport: Transport) -> None:
    async with faulty(transport, "storm") as peer:
        for number in range(20):
            assert text_of(await peer.call("echo", number=number)) == json.dumps({"number": number})
        assert peer.plane.health()["peer"]["state"] == "ready"


@over_all
async def test_what_a_server_asks_of_us_is_answered(transport: Transport) -> None:
    async with faulty(transport) as peer:
        methods = ["ping", "roots/list", "sampling/createMessage", "no/such/method"]
        replies = json.loads(text_of(await peer.call("asks", methods=methods)))
    by_id = {reply["id"]: reply for reply in replies}
    assert by_id["ask-0"]["result"] == {}
    for number in (1, 2, 3):
        assert by_id[f"ask-{number}"]["error"]["code"] < 0


@over_all
async def test_a_flood_of_messages_in_one_call_holds_up_no_other_server(transport: Transport) -> None:
    async with faulty(transport) as peer:
        flood = asyncio.create_task(peer.call("flood", times=2_000))
        for _ in range(20):
            assert not (await call(peer.plane, "echo", server="bystander")).isError
        assert not (await flood).isError


@over_all
async def test_calls_that_are_cut_leave_no_connection_behind(transport: Transport) -> None:
    async def cut(calls: int) -> None:
        waiting = [asyncio.create_task(peer.call("wait")) for _ in range(calls)]
        await peer.call("entered", calls=calls)
        pass_time(LIMIT_S)
        assert {failure_kind(result) for result in await asyncio.gather(*waiting)} == {"timeout"}

    async with faulty(transport, timeout_s=LIMIT_S) as peer:
        await cut(1)
        await peer.recovered()
        files = open_files()
        await cut(10)
        async with asyncio.timeout(BOUND_S):
            # No event tells when the last connection has closed.
            while open_files() > files + 2:
                await peer.call("echo")


async def test_a_server_is_gone_though_what_it_started_holds_its_output_open() -> None:
    async with faulty("stdio", "leaves-a-child") as peer:
        waiting = asyncio.create_task(peer.call("wait"))
        await peer.call("entered", calls=1)
        pid = await pid_of(peer.plane)
        left = int(text_of(await peer.call("child")))
        await peer.kill()
        async with asyncio.timeout(BOUND_S):
            assert failure_kind(await waiting) == "transport"
        await peer.recovered()
        assert not is_running(pid)
        assert not is_running(left)


@over_all
async def test_nothing_is_left_of_a_server_that_misbehaved(transport: Transport) -> None:
    async def misbehave() -> None:
        async with faulty(transport, timeout_s=0.3) as peer:
            await asyncio.gather(*(peer.call(tool) for tool in ("garbage", "wrong_id", "odd_messages", "wrong_shape")))
            await peer.call("refuse", code=503, times=3)
            await peer.call("echo")
            await peer.recovered()
            await peer.call("crash")
            if peer.remote is not None:
                await peer.kill()
            await peer.bring_back()

    await misbehave()
    async with nothing_left():
        await misbehave()
    assert child_pids(MISBEHAVING) == []
