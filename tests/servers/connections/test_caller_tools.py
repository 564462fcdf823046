"""A server that tells only its callers which tools it has: each is offered what their own session lists."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.fixtures.caller_recorder import Recorder, caller_recorder, seen_in
from tests.servers.connections.calling import TOKEN, call_as, user
from tests.servers.connections.peers import failure_kind, log_records, plane_of


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with caller_recorder() as server:
        yield server


async def test_a_server_that_needs_a_caller_to_connect_is_ready_and_lists_tools_to_callers(recorder: Recorder) -> None:
    recorder.needs_token = True
    recorder.own_tools["Bearer token-of-ada"] = "only_for_ada"
    async with plane_of(recorder.config(headers=TOKEN)) as plane:
        health = plane.health()["peer"]
        assert (health["state"], health["tools"]) == ("ready", 0)
        assert "signed-in callers only: HTTP 401" in str(health["last_error"])
        assert await plane.tools() == await plane.tools(configurable={}) == []
        ada = await plane.tools(configurable=user("ada"))
        assert [tool.name for tool in ada] == ["peer_hold", "peer_only_for_ada", "peer_whoami"]
        assert [tool.name for tool in await plane.tools(configurable=user("bob"))] == ["peer_hold", "peer_whoami"]
        again = await plane.tools(["peer"], configurable=user("ada"))
        assert all(one is other for one, other in zip(again, ada, strict=True)), "they are not built anew each turn"
        seen = await ada[2].ainvoke({}, {"configurable": user("ada")})
        assert seen_in(seen)["authorization"] == "Bearer token-of-ada"
        assert recorder.opened == 2


async def test_a_server_that_lists_nothing_to_strangers_lists_its_tools_to_callers(recorder: Recorder) -> None:
    recorder.lists_nothing_without_token = True
    async with plane_of(recorder.config(headers=TOKEN)) as plane:
        assert await plane.tools() == []
        assert len(await plane.tools(configurable=user("ada"))) == 2


async def test_a_caller_whose_token_is_refused_is_offered_what_the_others_have(recorder: Recorder) -> None:
    recorder.needs_token = True
    recorder.refused.add("Bearer token-of-eve")
    other = replace(recorder.config(name="other"), headers={"Authorization": "Bearer fixed"})
    async with plane_of(recorder.config(headers=TOKEN), other) as plane:
        offered = [tool.name for tool in await plane.tools(configurable=user("eve"))]
        both = [tool.name for tool in await plane.tools(configurable=user("ada"))]
    assert offered == ["other_hold", "other_whoami"]
    assert both == ["peer_hold", "peer_whoami", *offered]


async def test_a_callers_tools_yield_to_those_of_an_earlier_server(recorder: Recorder) -> None:
    recorder.needs_token = True
    first = replace(recorder.config(name="first", prefix=""), headers={"Authorization": "Bearer fixed"})
    async with plane_of(first, recorder.config(headers=TOKEN, prefix="")) as plane:
        with log_records() as records:
            tools = await plane.tools(configurable=user("ada"))
    assert [getattr(tool, "server", None) for tool in tools] == ["first", "first"]
    assert [record["message"] for record in records if "offers a caller no tools" in record["message"]]


async def test_a_server_that_is_down_is_down_whoever_asks(recorder: Recorder) -> None:
    gone = replace(recorder.config(headers=TOKEN), url="http://127.0.0.1:9/mcp")
    async with plane_of(gone) as plane:
        assert plane.health()["peer"]["state"] == "down"
        assert await plane.tools(configurable=user("ada")) == []
        assert failure_kind(await call_as(plane, user("ada"))) == "transport"


async def test_a_server_that_repeats_a_callers_token_is_quoted_without_it_whatever_its_header_is_called(
    recorder: Recorder,
) -> None:
    recorder.lists_nothing_without_token = True
    recorder.description = "Works with token-of-ada for blue-and-large"
    headers = {"Authorization": "Bearer {user:login}", "X-Mine": "{user:github_token}", "X-Tenant": "{user:tenant}"}
    async with plane_of(recorder.config(headers=headers)) as plane:
        ada = await plane.tools(configurable=user("ada", login="the-name-of-ada", tenant="blue-and-large"))
    assert {tool.description for tool in ada} == {"Works with *** for blue-and-large"}
