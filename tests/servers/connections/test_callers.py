"""The caller determines the headers of a remote server, and never uses the session or the tools of another caller."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.types import CallToolResult

from tests.fixtures.caller_recorder import Recorder, caller_recorder, seen_in
from tests.fixtures.loop_clock import pass_time
from tests.fixtures.mcp_server import http_mcp_server
from tests.servers.connections.peers import (
    BOUND_S,
    LIMIT_S,
    QUICK,
    connection,
    failure_kind,
    log_records,
    plane_of,
    text_of,
    until,
)
from toolweave.config.variables import parse_template
from toolweave.servers.connections.callers import CallerSessions
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.observability import CallRecord
from toolweave.servers.connections.plane import ToolPlane

WHOAMI = str(Path(__file__).parents[2] / "fixtures" / "whoami_server.py")
TOKEN = {"Authorization": "Bearer {user:github_token}"}
WITH_DEFAULT = {"Authorization": "Bearer {user:github_token:-service-token}"}


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with caller_recorder() as server:
        yield server


def user(name: str, **members: Any) -> dict[str, Any]:
    known = {"identity": name, "github_token": f"token-of-{name}", **members}
    return {"langgraph_auth_user": known, "langgraph_auth_user_id": name}


async def call_as(
    plane: ToolPlane, configurable: dict[str, Any], tool: str = "whoami", server: str = "peer"
) -> CallToolResult:
    async with asyncio.timeout(BOUND_S):
        return await plane.call(server, tool, {}, CallContext.from_configurable(configurable, None))


async def seen_as(
    plane: ToolPlane, configurable: dict[str, Any], tool: str = "whoami", server: str = "peer"
) -> dict[str, Any]:
    result = await call_as(plane, configurable, tool, server)
    assert not result.isError, text_of(result)
    return seen_in(text_of(result))


def sessions(plane: ToolPlane, name: str = "peer") -> CallerSessions:
    return plane._callers.sessions[name]


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait, bounded, for what a server in a thread has received: it gives no signal."""
    async with asyncio.timeout(BOUND_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def hold(recorder: Recorder, plane: ToolPlane, *names: str) -> list[asyncio.Task[dict[str, Any]]]:
    """Begin one call of each user, which lasts until the recorder's gate opens."""
    begun = [asyncio.create_task(seen_as(plane, user(name), "hold")) for name in names]
    for _ in begun:
        assert await asyncio.to_thread(recorder.entered.acquire, timeout=BOUND_S)
    return begun


async def test_each_of_fifty_concurrent_users_has_one_session_with_their_own_token(recorder: Recorder) -> None:
    names = [f"user-{number}" for number in range(50)]
    # Fifty sessions that open at once delay quick pings.
    timing = replace(QUICK, remote_ping_interval_s=BOUND_S)
    config = recorder.config(headers={**TOKEN, "X-Team": "blue"}, timeout_s=BOUND_S)
    tasks = asyncio.all_tasks()
    async with plane_of(config, timing=timing) as plane:
        await asyncio.gather(*(seen_as(plane, user(name)) for name in names for _ in range(3)))
        assert recorder.opened == 51, "one for each user, and one to list the tools"
        owners: dict[str, set[str]] = {}
        for request in recorder.calls:
            owners.setdefault(request.session or "", set()).add(request.headers["authorization"])
        assert sorted(owner for (owner,) in owners.values()) == sorted(f"Bearer token-of-{name}" for name in names)
        assert all(recorder.sessions[session] in owner for session, owner in owners.items())
    assert recorder.sessions == {}, "the plane has closed them all"
    assert asyncio.all_tasks() <= tasks
    assert {request.headers["x-team"] for request in recorder.requests} == {"blue"}


async def test_callers_with_the_same_headers_share_a_session(recorder: Recorder) -> None:
    fixed = recorder.config(headers={"Authorization": "Bearer fixed"}, name="fixed")
    async with plane_of(recorder.config(headers=WITH_DEFAULT), fixed) as plane:
        default, empty, ada = [await seen_as(plane, who) for who in ({}, user("eve", github_token=""), user("ada"))]
        first, second = [await seen_as(plane, user(name), server="fixed") for name in ("ada", "bob")]
        opened = recorder.opened
    assert default["authorization"] == empty["authorization"] == "Bearer service-token"
    assert default["session"] == empty["session"] != ada["session"]
    assert ada["authorization"] == "Bearer token-of-ada"
    assert first == second == {"authorization": "Bearer fixed", "tenant": None, "session": first["session"]}
    assert opened == 3


OBJECT = SimpleNamespace(identity="ada", github_token="of-an-object", _secret="x")


@pytest.mark.parametrize(
    ("headers", "configurable", "expected"),
    [
        pytest.param(
            {"Authorization": "{user:accounts.github.token}", "X-Tenant": "{configurable:x-tenant}-{user:level:-0}"},
            user("ada", accounts={"github": {"token": "deep"}}, level=3) | {"x-tenant": "blue"},
            ("deep", "blue-3"),
            id="the-user-and-the-configuration-of-the-run",
        ),
        pytest.param(TOKEN, {"langgraph_auth_user": OBJECT}, ("Bearer of-an-object", None), id="an-object-as-the-user"),
        pytest.param(
            {"Authorization": "{user:github_token}", "X-Tenant": "{configurable:x-tenant:-}"},
            user("ada", github_token=" clé \t"),
            ("clé", None),
            id="latin-letters-blanks-and-empty-values",
        ),
    ],
)
async def test_a_template_takes_its_values_from_the_caller(
    recorder: Recorder, headers: dict[str, str], configurable: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    async with plane_of(recorder.config(headers=headers)) as plane:
        seen = await seen_as(plane, configurable)
    assert (seen["authorization"], seen["tenant"]) == expected
    assert recorder.calls[-1].meta["user_id"] == "ada"


@pytest.mark.parametrize(
    "configurable",
    [
        {"github_token": "mine", "user": {"github_token": "mine"}},
        *[user("ada", github_token=value) for value in ("", None, True, ["a"], {"a": "b"})],
    ],
)
async def test_a_call_without_a_required_value_is_refused_with_what_it_needs(
    recorder: Recorder, configurable: dict[str, Any]
) -> None:
    records: list[CallRecord] = []
    headers = {**TOKEN, "X-Tenant": "{configurable:x-tenant}"}
    async with plane_of(recorder.config(headers=headers), observers=[records.append]) as plane:
        before = len(recorder.requests)
        result = await call_as(plane, configurable)
        assert len(recorder.requests) == before
    assert failure_kind(result) == "transport"
    assert text_of(result) == (
        "The call was not sent: the tool 'whoami' of the server 'peer' needs github_token of the signed-in user and "
        "x-tenant given with the request. Please sign in, or ask the operator."
    )
    assert [(record.outcome, record.attempts) for record in records] == [("refused", 0)]


@pytest.mark.parametrize("value", ["a\r\nX-Admin: yes", "a\0b", "a\x7fb", "key-→", "x" * 20_000])
async def test_a_value_that_no_header_can_hold_is_refused_and_not_shown(recorder: Recorder, value: str) -> None:
    async with plane_of(recorder.config(headers=TOKEN)) as plane:
        before = len(recorder.requests)
        with log_records() as records:
            result = await call_as(plane, user("eve", github_token=value))
        assert len(recorder.requests) == before
        assert not (await call_as(plane, user("ada"))).isError
    assert "value for the header 'Authorization' of the server" in text_of(result)
    assert value not in text_of(result) + json.dumps([record["message"] for record in records])


async def test_a_refused_token_affects_no_other_caller_and_opens_no_breaker(recorder: Recorder) -> None:
    recorder.refused.add("Bearer token-of-eve")
    async with plane_of(recorder.config(headers=WITH_DEFAULT)) as plane:
        ada = await seen_as(plane, user("ada"))
        with log_records() as records:
            refused = [await call_as(plane, user("eve")) for _ in range(5)]
        assert all("does not accept the credentials" in text_of(result) for result in refused)
        assert (await seen_as(plane, user("ada")))["session"] == ada["session"]
        assert not (await call_as(plane, {})).isError
        assert connection(plane).breaker.state == "CLOSED"
        assert plane.health()["peer"]["state"] == "ready"
        await eventually(lambda: len(sessions(plane)._sessions) == 1)
        requests = len(recorder.requests)
        recorder.refused.clear()
        assert (await seen_as(plane, user("eve")))["authorization"] == "Bearer token-of-eve"
        # A token that expires in an open session.
        recorder.refused.add("Bearer token-of-ada")
        assert "please sign in again" in text_of(await call_as(plane, user("ada")))
        assert (await seen_as(plane, user("ada", github_token="newer")))["authorization"] == "Bearer newer"
    assert requests < 40, "a refused token is not retried without a call"
    assert "token-of-eve" not in json.dumps(records)


async def test_a_server_that_hangs_for_one_user_delays_neither_the_others_nor_the_close(recorder: Recorder) -> None:
    recorder.frozen.add("Bearer token-of-eve")
    async with plane_of(recorder.config(headers=TOKEN, timeout_s=LIMIT_S)) as plane:
        slow = asyncio.create_task(call_as(plane, user("eve")))
        assert not (await call_as(plane, user("ada"))).isError
        pass_time(LIMIT_S)
        assert failure_kind(await slow) == "timeout"
        assert connection(plane).breaker.state == "CLOSED"
        async with asyncio.timeout(BOUND_S):
            await plane.stop()


async def test_idle_sessions_are_closed_and_a_second_token_opens_a_second_session(recorder: Recorder) -> None:
    # Shorter than the limit of an HTTP request: an active ping must outlive the time that passes.
    idle_s = LIMIT_S / 2
    async with plane_of(recorder.config(headers=TOKEN), timing=replace(QUICK, caller_idle_timeout_s=idle_s)) as plane:
        await seen_as(plane, user("ada"))
        await seen_as(plane, user("ada", github_token="newer"))
        assert sorted(filter(None, recorder.sessions.values())) == ["Bearer newer", "Bearer token-of-ada"]
        pass_time(idle_s)
        # Not the sessions of the server: it keeps one whose ping was active when the time passed.
        await eventually(lambda: len(sessions(plane)._sessions) == 0)
        assert (await seen_as(plane, user("ada", github_token="newer")))["authorization"] == "Bearer newer"


async def test_a_session_that_does_not_connect_is_closed_earlier(recorder: Recorder) -> None:
    config = replace(recorder.config(headers=TOKEN), url="http://127.0.0.1:1/mcp")
    async with plane_of(config, timing=replace(QUICK, long_delay_s=LIMIT_S / 2)) as plane:
        assert (await call_as(plane, user("ada"))).isError
        pass_time(LIMIT_S / 2)
        await eventually(lambda: len(sessions(plane)._sessions) == 0)
        assert plane.health()["peer"]["state"] == "down"
        assert await plane.tools(configurable=user("ada")) == []


async def test_a_session_in_use_is_not_idle(recorder: Recorder) -> None:
    config = recorder.config(headers=TOKEN, timeout_s=BOUND_S)
    async with plane_of(config, timing=replace(QUICK, caller_idle_timeout_s=0.0)) as plane:
        [open_call] = await hold(recorder, plane, "ada")
        session = (await seen_as(plane, user("ada")))["session"]
        assert recorder.sessions[session] == "Bearer token-of-ada"
        recorder.gate.set()
        assert (await open_call)["session"] == session
        await eventually(lambda: session not in recorder.sessions)


async def test_at_the_limit_the_longest_idle_session_is_closed_or_the_caller_is_refused(recorder: Recorder) -> None:
    config = recorder.config(headers=TOKEN, timeout_s=BOUND_S)
    async with plane_of(config, timing=replace(QUICK, max_caller_sessions=2)) as plane:
        for name in ("ada", "bob", "ada", "eve"):
            await seen_as(plane, user(name))
        await eventually(lambda: "Bearer token-of-bob" not in recorder.sessions.values())
        assert sorted(filter(None, recorder.sessions.values())) == ["Bearer token-of-ada", "Bearer token-of-eve"]

        busy = await hold(recorder, plane, "ada", "eve")
        refused = await call_as(plane, user("bob"))
        assert "Too many users call the tool server 'peer'" in text_of(refused)
        recorder.gate.set()
        await asyncio.gather(*busy)
        assert not (await call_as(plane, user("bob"))).isError


async def test_the_limit_of_concurrent_calls_applies_to_all_users_of_a_server_together(recorder: Recorder) -> None:
    async with plane_of(recorder.config(headers=TOKEN, timeout_s=BOUND_S, max_concurrency=1)) as plane:
        await seen_as(plane, user("bob"))
        [first] = await hold(recorder, plane, "ada")
        second = asyncio.create_task(seen_as(plane, user("bob")))
        done, _ = await asyncio.wait({second}, timeout=0.2)
        assert not done
        recorder.gate.set()
        await asyncio.gather(first, second)


async def test_a_reconnect_closes_the_sessions_that_are_not_in_use(recorder: Recorder) -> None:
    async with plane_of(recorder.config(headers=TOKEN)) as plane:
        before = (await seen_as(plane, user("ada")))["session"]
        async with asyncio.timeout(BOUND_S):
            await plane.reconnect("peer")
        assert (await seen_as(plane, user("ada")))["session"] != before


async def test_a_closing_plane_ends_open_calls_of_callers_and_closes_all_sessions(recorder: Recorder) -> None:
    tasks = asyncio.all_tasks()
    async with plane_of(recorder.config(headers=TOKEN, timeout_s=BOUND_S)) as plane:
        await asyncio.gather(*(seen_as(plane, user(f"user-{number}")) for number in range(10)))
        open_calls = [asyncio.create_task(call_as(plane, user(f"user-{number}"), "hold")) for number in range(5)]
        for _ in open_calls:
            assert await asyncio.to_thread(recorder.entered.acquire, timeout=BOUND_S)
    assert all(result.isError for result in await asyncio.gather(*open_calls))
    assert asyncio.all_tasks() <= tasks
    await eventually(lambda: recorder.sessions == {})
    assert failure_kind(await call_as(plane, user("ada"))) == "transport"


async def test_callers_on_another_loop_have_their_sessions_too(recorder: Recorder) -> None:
    recorder.needs_token = True
    async with plane_of(recorder.config(headers=TOKEN)) as plane:
        seen: list[Any] = []

        async def elsewhere() -> None:
            tools = await plane.tools(configurable=user("ada"))
            seen.append([tool.name for tool in tools])
            seen.append(await seen_as(plane, user("ada")))

        await asyncio.to_thread(asyncio.run, elsewhere())
        assert seen[0] == ["peer_hold", "peer_whoami"]
        assert seen[1]["authorization"] == "Bearer token-of-ada"


async def test_over_sse_each_user_has_their_own_session_too() -> None:
    async with http_mcp_server(WHOAMI, "sse", "{port}", transport="sse", name="peer") as server:
        templates = {name: parse_template(text, {}) for name, text in TOKEN.items()}
        config = replace(server.config, caller_headers={name: each for name, each in templates.items() if each})
        async with plane_of(config) as plane:
            names = ["ada", "bob", "ada", "bob"]
            seen = await asyncio.gather(*(seen_as(plane, user(name)) for name in names))
            assert len(sessions(plane)._sessions) == 2
    assert [each["authorization"] for each in seen] == [f"Bearer token-of-{name}" for name in names]


async def test_retries_have_one_token_and_secrets_are_neither_in_representations_nor_in_the_log(
    recorder: Recorder,
) -> None:
    recorder.description = "whose is token-of-ada?"
    with log_records() as records:
        async with plane_of(recorder.config(headers=TOKEN)) as plane:
            await seen_as(plane, user("ada", github_token="token-of-ada" + "x" * 3_000))
            recorder.failing = 2
            await seen_as(plane, user("ada"))
            caller = next(iter(sessions(plane)._sessions.values())).connection
            shown = repr(caller.config) + repr(CallContext.from_configurable(user("ada"), None)) + str(plane.health())
    assert "token-of-ada" not in shown + json.dumps(records)
    attempts = recorder.calls[1:]
    same = {(call.headers["authorization"], call.session, call.meta["correlation_id"]) for call in attempts}
    assert (len(attempts), len(same)) == (3, 1)


async def test_a_template_with_an_unsendable_default_makes_the_server_misconfigured(recorder: Recorder) -> None:
    async with plane_of(recorder.config(headers={"X-Tenant": "{user:tenant:-→}"})) as plane:
        await until(plane, "misconfigured")
        assert "X-Tenant" in str(plane.health()["peer"]["last_error"])
        assert failure_kind(await call_as(plane, user("ada"))) == "transport"


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


async def test_a_caller_whose_token_is_refused_is_offered_what_the_others_have(recorder: Recorder) -> None:
    recorder.needs_token = True
    recorder.refused.add("Bearer token-of-eve")
    other = replace(recorder.config(name="other"), headers={"Authorization": "Bearer fixed"})
    async with plane_of(recorder.config(headers=TOKEN), other) as plane:
        shared = await plane.tools()
        offered = [tool.name for tool in await plane.tools(configurable=user("eve"))]
        both = await plane.tools(configurable=user("ada"))
    assert offered == ["other_hold", "other_whoami"]
    assert [tool.name for tool in both] == ["peer_hold", "peer_whoami", *offered]
    assert all(one is other for one, other in zip(both[2:], shared, strict=True)), "shared tools are built once"


async def test_names_of_an_earlier_server_win_over_those_of_a_callers_tools(recorder: Recorder) -> None:
    recorder.needs_token = True
    first = replace(recorder.config(name="first", prefix=""), headers={"Authorization": "Bearer fixed"})
    async with plane_of(first, recorder.config(headers=TOKEN, prefix="")) as plane:
        with log_records() as records:
            tools = await plane.tools(configurable=user("ada"))
    assert [getattr(tool, "server", None) for tool in tools] == ["first", "first"]
    assert [record["message"] for record in records if "offers a caller no tools" in record["message"]]


async def test_a_description_that_repeats_a_callers_token_is_shown_without_it(recorder: Recorder) -> None:
    recorder.lists_nothing_without_token = True
    recorder.description = "Works with token-of-ada for blue-and-large"
    headers = {"Authorization": "Bearer {user:login}", "X-Mine": "{user:github_token}", "X-Tenant": "{user:tenant}"}
    async with plane_of(recorder.config(headers=headers)) as plane:
        assert await plane.tools() == []
        ada = await plane.tools(configurable=user("ada", login="the-name-of-ada", tenant="blue-and-large"))
    assert {tool.description for tool in ada} == {"Works with *** for blue-and-large"}
