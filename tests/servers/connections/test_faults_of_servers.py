"""A server that dies, freezes, refuses or starts badly fails its own calls, and is used again, over each transport."""

import asyncio
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from tests.fixtures.caller_recorder import caller_recorder
from tests.fixtures.loop_clock import pass_time
from tests.fixtures.mcp_server import child_pids, free_port
from tests.fixtures.misbehaving_tools import TOGETHER
from tests.servers.connections.faulty import TIMING, TRANSPORTS, faulty
from tests.servers.connections.peers import (
    BOUND_S,
    LIMIT_S,
    MISBEHAVING,
    QUICK,
    call,
    failure_kind,
    is_running,
    log_records,
    misbehaving_http,
    open_files,
    overdue,
    pid_of,
    plane_of,
    text_of,
    until,
)
from tests.servers.connections.test_termination import nothing_left
from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import Transport
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.sessions.http import STREAM_INTERVAL_S
from toolweave.servers.connections.sessions.monitor import SessionMonitor
from toolweave.servers.connections.sessions.session import open_session

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
async def test_a_call_to_a_frozen_server_ends_at_its_deadline_and_the_server_recovers(transport: Transport) -> None:
    timing = replace(TIMING, ping_timeout_s=5.0, list_timeout_s=5.0)
    async with faulty(transport, timeout_s=LIMIT_S, timing=timing) as peer:
        pid = await pid_of(peer.plane)
        os.kill(pid, signal.SIGSTOP)
        [frozen] = await overdue(peer.plane, peer.call("echo"))
        assert failure_kind(frozen) in ("timeout", "transport")
        # A ping, or the list that follows a new stream, waits beside a call as long as the call.
        pass_time(LIMIT_S)
        await until(peer.plane, "down")
        reason = str(peer.plane.health()["peer"]["last_error"])
        late_list = () if transport == "stdio" else ("it did not list its tools within ",)
        assert reason.startswith(("it did not answer a ping within ", *late_list))
        if peer.remote is not None:
            os.kill(pid, signal.SIGCONT)
        await peer.recovered()
        assert is_running(pid) == (peer.remote is not None)


async def test_closing_the_plane_is_not_delayed_by_a_frozen_server() -> None:
    # Only the end of the DELETE may release the session: the limit of closing is longer than that of the test.
    timing = replace(QUICK, close_timeout_s=600)
    async with misbehaving_http() as peer:
        async with asyncio.timeout(BOUND_S), plane_of(peer.config, timing=timing):
            os.kill(peer.pid, signal.SIGSTOP)
        os.kill(peer.pid, signal.SIGCONT)


async def test_closing_the_plane_is_not_delayed_by_a_response_without_end() -> None:
    timing = replace(QUICK, close_timeout_s=600)
    with caller_recorder() as server:
        server.floods_after_delete = True
        async with asyncio.timeout(BOUND_S), plane_of(server.config(), timing=timing):
            assert len(server.sessions) == 1
        assert server.sessions == {}


async def test_a_plane_that_closes_while_a_session_closes_ends_it_on_the_server() -> None:
    with caller_recorder() as server:
        for turns in range(3, 12):
            async with plane_of(server.config()) as plane:
                reconnecting = asyncio.create_task(plane.reconnect("peer"))
                for _ in range(turns):
                    await asyncio.sleep(0)
            assert server.sessions == {}
            await reconnecting


async def test_a_session_whose_transport_fails_while_it_closes_ends_on_the_server() -> None:
    with caller_recorder() as server:
        config = server.config()
        with anyio.CancelScope() as transport:
            async with open_session(config, SessionMonitor("peer", Redaction(config))):
                assert len(server.sessions) == 1
                transport.cancel()
        assert server.sessions == {}


async def test_an_http_server_that_lost_our_session_gets_a_new_one_for_the_call() -> None:
    async with misbehaving_http() as peer, plane_of(peer.config) as plane:
        await call(plane, "forget")
        assert text_of(await call(plane, "echo")) == "{}"


async def test_an_http_server_that_cannot_be_used_is_down_with_the_reason_and_without_secrets() -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp?key=hunter2hunter2"
    absent = McpServerConfig(name="absent", transport="http", url=url)
    async with misbehaving_http("unauthorized") as peer, plane_of(peer.config, absent) as plane:
        health = plane.health()
    assert health["peer"]["last_error"] == "HTTP 401 Unauthorized"
    assert "ConnectError" in str(health["absent"]["last_error"])
    assert "hunter2" not in str(health)


async def test_an_http_server_is_notified_of_many_cancelled_calls_at_once() -> None:
    async with misbehaving_http("gathers") as peer, plane_of(replace(peer.config, timeout_s=600)) as plane:
        waiting = [asyncio.create_task(call(plane, "wait")) for _ in range(TOGETHER)]
        await call(plane, "entered", calls=TOGETHER)
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        async with asyncio.timeout(BOUND_S):
            while len(json.loads(text_of(await call(plane, "cancelled")))["cancelled"]) < TOGETHER:
                pass  # each check is a round trip


@over_http
@pytest.mark.parametrize("code", [401, 404, 503])
async def test_a_server_that_refuses_all_requests_for_a_while_is_used_again(transport: Transport, code: int) -> None:
    async with faulty(transport) as peer:
        await peer.call("refuse", code=code, times=6)
        assert failure_kind(await peer.call("wait")) == "transport"
        await peer.recovered()


@over_all
async def test_a_server_that_hangs_in_initialize_is_tried_again(transport: Transport, tmp_path: Path) -> None:
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
    # What it has started outlives it: that it ended is known before its end is through.
    async with faulty(transport, "old-protocol", "leaves-a-child", settled=False) as peer:
        await until(peer.plane, "down")
        assert "1999-01-01" in str(peer.plane.health()["peer"]["last_error"])


@over_all
@pytest.mark.parametrize(
    ("behave", "tools"),
    [
        ("no-tools", []),
        ("no-tools-method", []),
        ("duplicate-tools", ["peer_echo", "peer_pid"]),
        ("undescribed", ["peer_echo", "peer_pid"]),
    ],
)
async def test_odd_lists_of_tools_are_the_same_over_each_transport(
    transport: Transport, behave: str, tools: list[str]
) -> None:
    with log_records() as records:
        async with faulty(transport, behave) as peer:
            offered = await peer.plane.tools(["peer"])
            assert [tool.name for tool in offered] == tools
            for tool in offered:
                assert tool.description
                assert await tool.ainvoke({})
            assert peer.plane.health()["peer"]["state"] == "ready"
    assert any("more than once" in record["message"] for record in records) == (behave == "duplicate-tools")


@pytest.mark.parametrize(
    ("transport", "streams_end"),
    [("stdio", False), ("http", False), ("sse", False), pytest.param("http", True, id="no-stream-of-announcements")],
)
async def test_new_tools_appear_when_the_server_announces_them(transport: Transport, streams_end: bool) -> None:
    async with faulty(transport) as peer:
        assert "peer_extra" not in {tool.name for tool in await peer.plane.tools(["peer"])}
        if streams_end:
            await peer.call("refuse_streams")
        await peer.call("grow")
        status = peer.plane._connections["peer"].status
        async with asyncio.timeout(BOUND_S):
            while "peer_extra" not in {tool.name for tool in await peer.plane.tools(["peer"])}:
                await status.wait_for_change()
        assert not (await peer.call("echo")).isError


async def test_a_server_that_ends_its_stream_repeatedly_is_not_reconnected_in_a_busy_loop() -> None:
    async with faulty("http", "ends-streams") as peer:
        begun = asyncio.get_running_loop().time()
        before = int(text_of(await peer.call("streams")))
        async with asyncio.timeout(BOUND_S):
            while (opened := int(text_of(await peer.call("streams")))) < before + 4:
                pass
        assert opened - before <= (asyncio.get_running_loop().time() - begun) / STREAM_INTERVAL_S + 1


@over_http
async def test_responses_in_event_streams_are_read_and_limited(transport: Transport) -> None:
    async with faulty(transport, "streams") as peer:
        assert text_of(await peer.call("echo", number=1)) == json.dumps({"number": 1})
        assert failure_kind(await peer.call("huge", size=34_000_000)) == "protocol"
        await peer.recovered()


@over_all
async def test_calls_succeed_during_a_storm_of_list_changed(transport: Transport) -> None:
    async with faulty(transport, "storm") as peer:
        for number in range(20):
            assert text_of(await peer.call("echo", number=number)) == json.dumps({"number": number})
        assert peer.plane.health()["peer"]["state"] == "ready"


@over_all
async def test_a_request_of_the_server_gets_a_response(transport: Transport) -> None:
    async with faulty(transport) as peer:
        methods = ["ping", "roots/list", "sampling/createMessage", "no/such/method"]
        replies = json.loads(text_of(await peer.call("asks", methods=methods)))
    by_id = {reply["id"]: reply for reply in replies}
    assert by_id["ask-0"]["result"] == {}
    for number in (1, 2, 3):
        assert by_id[f"ask-{number}"]["error"]["code"] < 0


@over_all
async def test_a_flood_of_messages_in_one_call_does_not_delay_another_server(transport: Transport) -> None:
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


async def test_a_server_has_ended_although_its_child_holds_its_output_open() -> None:
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
