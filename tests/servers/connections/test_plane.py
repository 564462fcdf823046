"""What a plane offers, says of its servers and does for callers on any event loop."""

import asyncio
import json
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from tests.servers.connections.peers import (
    BOUND_S,
    QUICK,
    call,
    connection,
    failure_kind,
    log_records,
    misbehaving,
    plane_of,
    text_of,
    until,
)
from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import BreakerRules
from toolweave.errors import ServerUnavailable
from toolweave.servers.connections.observability import CallRecord
from toolweave.servers.connections.plane import PlaneLoop, open_tool_plane
from toolweave.servers.connections.status import Timing

T = TypeVar("T")
MISSING = McpServerConfig(name="missing", transport="stdio", command="/no/such/command-here")
HANGING = misbehaving("hang-initialize", name="hanging")


@pytest.mark.requirement("A-07")
async def test_tools_of_all_servers_are_offered_in_configuration_order_then_by_name() -> None:
    servers = [misbehaving(name="zeta", include=("pi*", "echo")), misbehaving(name="alpha", include=("sleep", "fail"))]
    async with open_tool_plane(servers, timing=QUICK) as plane:
        assert [tool.name for tool in await plane.tools()] == ["zeta_echo", "zeta_pid", "alpha_fail", "alpha_sleep"]
        assert [tool.name for tool in await plane.tools(["alpha"])] == ["alpha_fail", "alpha_sleep"]
        assert await plane.tools(["nobody"]) == []


async def test_a_tool_that_the_filters_exclude_cannot_be_called() -> None:
    servers = [misbehaving(name="some", include=("e*",)), misbehaving(name="rest", exclude=("pid",))]
    records: list[CallRecord] = []
    async with plane_of(*servers, observers=[records.append]) as plane:
        refused = [await call(plane, "pid", server=server) for server in ("some", "rest")]
        assert text_of(await call(plane, "echo", server="some")) == "{}"
    assert [failure_kind(result) for result in refused] == ["transport"] * 2
    assert text_of(refused[0]) == "The tool server 'some' offers no tool named 'pid'. Use another tool."
    assert [(record.outcome, record.attempts) for record in records] == [("refused", 0), ("refused", 0), ("ok", 1)]


@pytest.mark.requirement("A-07")
async def test_a_server_that_does_not_respond_is_reported_and_delays_nothing() -> None:
    timing = Timing(connect_wait_s=0.05, connect_timeout_s=BOUND_S)
    async with open_tool_plane([misbehaving(), HANGING, MISSING], timing=timing) as plane:
        await until(plane, "ready")
        await until(plane, "down", name="missing")
        assert {tool.name for tool in await plane.tools()} >= {"peer_echo", "peer_pid"}
        health = plane.health()
    assert health["hanging"]["state"] == "connecting"
    assert health["missing"]["state"] == "down"
    assert health["missing"]["last_error"] == "/no/such/command-here was not found"
    assert health["missing"]["tools"] == 0


async def test_health_shows_disabled_and_misconfigured_servers_and_they_are_not_started() -> None:
    rules, records = BreakerRules(failures=1), list[CallRecord]()
    off = misbehaving(name="off", enabled=False, breaker=rules)
    bad = misbehaving(name="bad", misconfigured="KEY is not set.", breaker=rules)
    async with plane_of(off, bad, observers=[records.append]) as plane:
        assert await plane.tools() == []
        refused = [await call(plane, "echo", server=server) for server in ("off", "bad", "nobody")]
        health = plane.health()
    assert health["off"] | {"since": ""} == {
        "state": "disabled",
        "breaker": "CLOSED",
        "tools": 0,
        "last_error": None,
        "since": "",
    }
    bad_health = health["bad"]
    assert (bad_health["state"], bad_health["last_error"]) == ("misconfigured", "KEY is not set.")
    assert bad_health["breaker"] == "CLOSED"
    assert {(record.outcome, record.attempts) for record in records} == {("refused", 0)}
    assert [failure_kind(result) for result in refused] == ["transport"] * 3
    assert "disabled" in text_of(refused[0])
    assert "misconfigured" in text_of(refused[1])


@pytest.mark.requirement("D-2")
@pytest.mark.requirement("T-01")
async def test_a_name_collision_makes_the_later_server_misconfigured_in_any_order_of_connection() -> None:
    servers = [misbehaving(name="first", prefix="", include=("echo", "pid")), misbehaving(name="second", prefix="")]
    with log_records() as records:
        async with open_tool_plane(servers, timing=QUICK) as plane:
            await until(plane, "ready", name="second")
            assert [tool.name for tool in await plane.tools()] == ["echo", "pid"]
            health = plane.health()
    assert health["first"]["state"] == "ready"
    assert health["second"]["state"] == "misconfigured"
    assert health["second"]["tools"] == 0
    assert "echo, pid" in str(health["second"]["last_error"])
    assert "first" in str(health["second"]["last_error"])
    assert [record["level"]["name"] for record in records if "misconfigured" in record["message"]] == ["ERROR"]
    messages = [record["message"] for record in records if record["extra"].get("server") == "first"]
    assert "MCP server first is ready with 2 tools: echo, pid" in messages


async def test_all_pages_of_a_tool_list_are_read_unless_they_are_endless() -> None:
    names = {"whole": (), "paged": ("paged",), "endless": ("endless-pages",)}
    async with plane_of(*(misbehaving(*behave, name=name) for name, behave in names.items())) as plane:
        health = plane.health()
    assert health["paged"]["tools"] == health["whole"]["tools"] > 5
    assert health["endless"]["state"] == "down"
    assert "pages" in str(health["endless"]["last_error"])


async def test_reconnect_opens_a_new_session_and_returns_the_health_after_it() -> None:
    async with plane_of(misbehaving(), MISSING) as plane:
        before = text_of(await call(plane, "pid"))
        async with asyncio.timeout(BOUND_S):
            assert (await plane.reconnect("peer"))["state"] == "ready"
            assert (await plane.reconnect("missing"))["state"] == "down"
        assert text_of(await call(plane, "pid")) != before
        with pytest.raises(ServerUnavailable, match="nobody"):
            await plane.reconnect("nobody")


async def on_another_loop(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` on another event loop, in another thread."""
    return await asyncio.to_thread(asyncio.run, work)


async def test_the_plane_serves_callers_on_another_event_loop() -> None:
    async def use() -> tuple[int, str, str]:
        tools = {tool.name: tool for tool in await plane.tools()}
        answer = await tools["peer_echo"].ainvoke({"a": 1})
        await plane.reconnect("peer")
        return len(tools), answer, text_of(await call(plane, "echo", b=2))

    async with plane_of(misbehaving()) as plane:
        count, by_tool, by_plane = await on_another_loop(use())
        assert count == plane.health()["peer"]["tools"]
    assert (by_tool, by_plane) == ('{"a": 1}', '{"b": 2}')


async def test_a_call_on_another_loop_is_cancelled_with_its_caller() -> None:
    async def leave() -> None:
        calling = asyncio.create_task(call(plane, "wait"))
        await call(plane, "entered", calls=1)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    async with plane_of(misbehaving(timeout_s=600)) as plane, asyncio.timeout(BOUND_S):
        await on_another_loop(leave())
        while not json.loads(text_of(await call(plane, "cancelled")))["cancelled"]:
            pass  # each check is a round trip


async def test_a_closed_loop_rejects_new_work_and_waits_for_submitted_work_until_its_limit() -> None:
    async def work() -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    home, begun = PlaneLoop(), asyncio.Event()
    submitted = asyncio.create_task(on_another_loop(home.run(work())))
    await begun.wait()
    home.close()
    with pytest.raises(ServerUnavailable, match="being closed"):
        await on_another_loop(home.run(work()))
    async with asyncio.timeout(BOUND_S):
        await home.drain(0.01)
        with pytest.raises(asyncio.CancelledError):
            await submitted


async def test_callers_on_other_loops_are_answered_while_the_plane_closes_and_the_breaker_does_not_open() -> None:
    are_open = threading.Event()
    with log_records() as records:
        async with plane_of(misbehaving(timeout_s=600)) as plane:

            async def many() -> list[str | None]:
                calling = [asyncio.create_task(call(plane, "sleep", seconds=600)) for _ in range(20)]
                await call(plane, "echo")
                are_open.set()
                results = await asyncio.gather(*calling)
                late = [await call(plane, "echo") for _ in range(20)]
                return [failure_kind(result) for result in (*results, *late)]

            many_callers = asyncio.create_task(on_another_loop(many()))
            await asyncio.to_thread(are_open.wait, BOUND_S)
        assert await many_callers == ["transport"] * 40
    assert not [record for record in records if "breaker" in record["extra"]]


async def test_a_closed_plane_refuses_calls_and_has_no_tools() -> None:
    async with open_tool_plane([misbehaving()], timing=QUICK) as plane:
        [tool, *_] = await plane.tools()
    assert await plane.tools() == []
    assert failure_kind(await call(plane, "echo")) == "transport"
    assert "not available" in await tool.ainvoke({})
    assert connection(plane).status.state == "down"
