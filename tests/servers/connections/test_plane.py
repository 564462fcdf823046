import asyncio

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
from toolweave.servers.connections.plane import open_tool_plane
from toolweave.servers.connections.status import Timing

MISSING = McpServerConfig(name="missing", transport="stdio", command="/no/such/command-here")
HANGING = misbehaving("hang-initialize", name="hanging")


@pytest.mark.requirement("A-07")
async def test_tools_of_all_servers_are_offered_in_configuration_order_then_by_name() -> None:
    servers = [misbehaving(name="zeta", include=("pi*", "echo")), misbehaving(name="alpha", include=("sleep", "fail"))]
    async with open_tool_plane(servers, timing=QUICK) as plane:
        assert [tool.name for tool in await plane.tools()] == ["zeta_echo", "zeta_pid", "alpha_fail", "alpha_sleep"]
        assert [tool.name for tool in await plane.tools(["alpha"])] == ["alpha_fail", "alpha_sleep"]
        assert await plane.tools(["nobody"]) == []


async def test_a_tool_that_the_filters_leave_out_is_not_called_whoever_asks_for_it() -> None:
    servers = [misbehaving(name="some", include=("e*",)), misbehaving(name="rest", exclude=("pid",))]
    records: list[CallRecord] = []
    async with plane_of(*servers, observers=[records.append]) as plane:
        refused = [await call(plane, "pid", server=server) for server in ("some", "rest")]
        assert text_of(await call(plane, "echo", server="some")) == "{}"
    assert [failure_kind(result) for result in refused] == ["transport"] * 2
    assert text_of(refused[0]) == "The tool server 'some' offers no tool named 'pid'. Use another tool."
    assert [(record.outcome, record.attempts) for record in records] == [("refused", 0), ("refused", 0), ("ok", 1)]


@pytest.mark.requirement("A-07")
async def test_a_server_that_does_not_answer_is_reported_and_not_waited_for() -> None:
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


async def test_tools_of_a_server_that_connects_late_appear_without_a_restart() -> None:
    async with open_tool_plane([misbehaving()], timing=Timing(connect_wait_s=0.0)) as plane:
        assert await plane.tools() == []
        await until(plane, "ready")
        assert [tool.name for tool in await plane.tools()]


async def test_health_shows_disabled_and_misconfigured_servers_which_are_left_alone() -> None:
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
    assert ["disabled" in text_of(refused[0]), "misconfigured" in text_of(refused[1])] == [True, True]


@pytest.mark.requirement("D-2")
async def test_an_empty_prefix_offers_the_servers_own_names() -> None:
    async with open_tool_plane([misbehaving(prefix="", include=("echo",))], timing=QUICK) as plane:
        assert [tool.name for tool in await plane.tools()] == ["echo"]


@pytest.mark.requirement("D-2")
async def test_a_name_collision_makes_the_later_server_misconfigured_whichever_connects_first() -> None:
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


async def test_a_tool_listed_twice_is_offered_once_and_one_without_description_gets_one() -> None:
    with log_records() as records:
        async with open_tool_plane([misbehaving("duplicate-tools")], timing=QUICK) as plane:
            tools = await plane.tools()
    assert [tool.name for tool in tools] == ["peer_echo", "peer_pid"]
    assert all(tool.description for tool in tools)
    assert [record["message"] for record in records if "more than once" in record["message"]]


async def test_a_tool_list_in_pages_is_read_to_its_end() -> None:
    async with plane_of(misbehaving(name="whole"), misbehaving("paged", name="paged")) as plane:
        health = plane.health()
    assert health["paged"]["tools"] == health["whole"]["tools"] > 5


async def test_a_tool_list_without_end_makes_the_server_down() -> None:
    async with open_tool_plane([misbehaving("endless-pages")], timing=QUICK) as plane:
        await until(plane, "down")
        assert "pages" in str(plane.health()["peer"]["last_error"])


@pytest.mark.requirement("T-01")
async def test_the_discovered_tools_are_logged() -> None:
    with log_records() as records:
        async with open_tool_plane([misbehaving(include=("echo", "pid"))], timing=QUICK) as plane:
            await plane.tools()
    messages = [record["message"] for record in records if record["extra"].get("server") == "peer"]
    assert "MCP server peer is ready with 2 tools: peer_echo, peer_pid" in messages


async def test_reconnect_opens_a_new_session_and_says_how_that_went() -> None:
    async with plane_of(misbehaving(), MISSING) as plane:
        before = text_of(await call(plane, "pid"))
        async with asyncio.timeout(BOUND_S):
            assert (await plane.reconnect("peer"))["state"] == "ready"
            assert (await plane.reconnect("missing"))["state"] == "down"
        assert text_of(await call(plane, "pid")) != before
        with pytest.raises(ServerUnavailable, match="nobody"):
            await plane.reconnect("nobody")


async def test_the_plane_serves_callers_on_another_event_loop() -> None:
    async with open_tool_plane([misbehaving()], timing=QUICK) as plane:
        await plane.tools()

        async def elsewhere() -> tuple[int, str, str]:
            tools = {tool.name: tool for tool in await plane.tools()}
            answer = await tools["peer_echo"].ainvoke({"a": 1})
            await plane.reconnect("peer")
            return len(tools), answer, text_of(await call(plane, "echo", b=2))

        count, by_tool, by_plane = await asyncio.to_thread(asyncio.run, elsewhere())
        assert count == plane.health()["peer"]["tools"]
    assert (by_tool, by_plane) == ('{"a": 1}', '{"b": 2}')


async def test_a_closed_plane_refuses_calls_and_has_no_tools() -> None:
    async with open_tool_plane([misbehaving()], timing=QUICK) as plane:
        [tool, *_] = await plane.tools()
    assert await plane.tools() == []
    assert failure_kind(await call(plane, "echo")) == "transport"
    assert "not available" in await tool.ainvoke({})
    assert connection(plane).status.state == "down"
