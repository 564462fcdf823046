"""Who calls decides which headers a remote server gets, and nobody ever uses the session of somebody else."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fixtures.caller_recorder import Recorder, caller_recorder
from tests.fixtures.loop_clock import pass_time
from tests.fixtures.mcp_server import http_mcp_server
from tests.servers.connections.calling import TOKEN, call_as, eventually, seen_as, sessions, user
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
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.observability import CallRecord

WHOAMI = str(Path(__file__).parents[2] / "fixtures" / "whoami_server.py")
WITH_DEFAULT = {"Authorization": "Bearer {user:github_token:-service-token}"}


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with caller_recorder() as server:
        yield server


async def test_fifty_users_at_once_each_have_one_session_with_their_own_token(recorder: Recorder) -> None:
    names = [f"user-{number}" for number in range(50)]
    # Fifty sessions that open at once keep this machine too busy for quick pings.
    timing = replace(QUICK, remote_ping_interval_s=BOUND_S)
    config = recorder.config(headers={**TOKEN, "X-Team": "blue"}, timeout_s=BOUND_S)
    async with plane_of(config, timing=timing) as plane:
        await asyncio.gather(*(seen_as(plane, user(name)) for name in names for _ in range(3)))
        assert recorder.opened == 51, "one for each user, and one to look what the server has"
        owners: dict[str, set[str]] = {}
        for request in recorder.calls:
            owners.setdefault(request.session or "", set()).add(request.headers["authorization"])
        assert sorted(owner for (owner,) in owners.values()) == sorted(f"Bearer token-of-{name}" for name in names)
        assert all(recorder.sessions[session] in owner for session, owner in owners.items())
    assert recorder.sessions == {}, "the plane has closed them all"
    assert {request.headers["x-team"] for request in recorder.requests} == {"blue"}


async def test_a_default_is_used_for_callers_without_a_value_over_the_shared_session(recorder: Recorder) -> None:
    async with plane_of(recorder.config(headers=WITH_DEFAULT)) as plane:
        anonymous = await seen_as(plane, {})
        again = await seen_as(plane, user("eve", github_token=""))
        ada = await seen_as(plane, user("ada"))
        opened = recorder.opened
    assert anonymous["authorization"] == again["authorization"] == "Bearer service-token"
    assert anonymous["session"] == again["session"] != ada["session"]
    assert ada["authorization"] == "Bearer token-of-ada"
    assert opened == 2


async def test_a_server_without_templates_has_one_session_for_everybody(recorder: Recorder) -> None:
    async with plane_of(recorder.config(headers={"Authorization": "Bearer fixed"})) as plane:
        seen = [await seen_as(plane, user(name)) for name in ("ada", "bob")]
    assert seen[0] == seen[1] == {"authorization": "Bearer fixed", "tenant": None, "session": seen[0]["session"]}


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


@pytest.mark.parametrize("value", ["", None, True, ["a"], {"a": "b"}])
async def test_what_is_no_text_is_no_value(recorder: Recorder, value: object) -> None:
    async with plane_of(recorder.config(headers=TOKEN)) as plane:
        result = await call_as(plane, user("ada", github_token=value))
    assert "needs github_token of the signed-in user" in text_of(result)


async def test_a_caller_who_lacks_a_value_reads_what_is_needed_and_nothing_is_sent(recorder: Recorder) -> None:
    records: list[CallRecord] = []
    headers = {**TOKEN, "X-Tenant": "{configurable:x-tenant}"}
    async with plane_of(recorder.config(headers=headers), observers=[records.append]) as plane:
        before = len(recorder.requests)
        result = await call_as(plane, {"github_token": "mine", "user": {"github_token": "mine"}})
        assert len(recorder.requests) == before
    assert failure_kind(result) == "transport"
    assert text_of(result) == (
        "The call was not sent: the tool 'whoami' of the server 'peer' needs github_token of the signed-in user and "
        "x-tenant given with the request. Please sign in, or ask the operator."
    )
    assert [(record.outcome, record.attempts) for record in records] == [("refused", 0)]


@pytest.mark.parametrize("value", ["a\r\nX-Admin: yes", "a\nb", "a\0b", "a\x7fb", "key-→", "x" * 20_000])
async def test_a_value_that_no_header_can_hold_is_refused_and_not_shown(recorder: Recorder, value: str) -> None:
    async with plane_of(recorder.config(headers=TOKEN)) as plane:
        before = len(recorder.requests)
        with log_records() as records:
            result = await call_as(plane, user("eve", github_token=value))
        assert len(recorder.requests) == before
        assert not (await call_as(plane, user("ada"))).isError
    assert "value for the header 'Authorization' of the server" in text_of(result)
    assert value not in text_of(result) + json.dumps([record["message"] for record in records])


async def test_a_refused_token_hurts_nobody_else_and_opens_no_breaker(recorder: Recorder) -> None:
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
        asked = len(recorder.requests)
        recorder.refused.clear()
        assert (await seen_as(plane, user("eve")))["authorization"] == "Bearer token-of-eve"
    assert asked < 40, "a token that is not taken is not tried again by itself"
    assert "token-of-eve" not in json.dumps(records)


async def test_a_server_that_hangs_for_one_user_holds_up_neither_the_others_nor_the_end(recorder: Recorder) -> None:
    recorder.frozen.add("Bearer token-of-eve")
    async with plane_of(recorder.config(headers=TOKEN, timeout_s=LIMIT_S)) as plane:
        slow = asyncio.create_task(call_as(plane, user("eve")))
        assert not (await call_as(plane, user("ada"))).isError
        pass_time(LIMIT_S)
        assert failure_kind(await slow) == "timeout"
        assert connection(plane).breaker.state == "CLOSED"
        async with asyncio.timeout(BOUND_S):
            await plane.stop()


async def test_a_token_that_expires_is_said_at_once_and_its_session_left(recorder: Recorder) -> None:
    async with plane_of(recorder.config(headers=TOKEN)) as plane:
        await seen_as(plane, user("ada"))
        recorder.refused.add("Bearer token-of-ada")
        assert "please sign in again" in text_of(await call_as(plane, user("ada")))
        assert not (await call_as(plane, user("bob"))).isError
        assert (await seen_as(plane, user("ada", github_token="newer")))["authorization"] == "Bearer newer"


async def test_a_session_goes_when_it_was_idle_for_long_and_a_second_token_replaces_the_first(
    recorder: Recorder,
) -> None:
    # Shorter than the limit of an HTTP request: a ping under way must outlive the time that passes.
    idle_s = LIMIT_S / 2
    async with plane_of(recorder.config(headers=TOKEN), timing=replace(QUICK, caller_idle_timeout_s=idle_s)) as plane:
        await seen_as(plane, user("ada"))
        await seen_as(plane, user("ada", github_token="newer"))
        assert sorted(filter(None, recorder.sessions.values())) == ["Bearer newer", "Bearer token-of-ada"]
        pass_time(idle_s)
        # Not what the server has: it keeps a session whose ping was under way when the time passed.
        await eventually(lambda: len(sessions(plane)._sessions) == 0)
        assert (await seen_as(plane, user("ada", github_token="newer")))["authorization"] == "Bearer newer"


async def test_a_session_that_does_not_connect_goes_earlier(recorder: Recorder) -> None:
    config = replace(recorder.config(headers=TOKEN), url="http://127.0.0.1:1/mcp")
    async with plane_of(config, timing=replace(QUICK, long_delay_s=LIMIT_S / 2)) as plane:
        assert (await call_as(plane, user("ada"))).isError
        pass_time(LIMIT_S / 2)
        await eventually(lambda: len(sessions(plane)._sessions) == 0)


async def test_a_session_in_use_is_not_idle(recorder: Recorder) -> None:
    config = recorder.config(headers=TOKEN, timeout_s=BOUND_S)
    async with plane_of(config, timing=replace(QUICK, caller_idle_timeout_s=0.0)) as plane:
        held = asyncio.create_task(seen_as(plane, user("ada"), "hold"))
        assert await asyncio.to_thread(recorder.entered.acquire, timeout=BOUND_S)
        session = (await seen_as(plane, user("ada")))["session"]
        assert recorder.sessions[session] == "Bearer token-of-ada"
        recorder.gate.set()
        assert (await held)["session"] == session
        await eventually(lambda: session not in recorder.sessions)


async def test_the_longest_idle_session_makes_room_and_a_full_house_refuses(recorder: Recorder) -> None:
    config = recorder.config(headers=TOKEN, timeout_s=BOUND_S)
    async with plane_of(config, timing=replace(QUICK, max_caller_sessions=2)) as plane:
        for name in ("ada", "bob", "ada", "eve"):
            await seen_as(plane, user(name))
        await eventually(lambda: "Bearer token-of-bob" not in recorder.sessions.values())
        assert sorted(filter(None, recorder.sessions.values())) == ["Bearer token-of-ada", "Bearer token-of-eve"]

        busy = [asyncio.create_task(seen_as(plane, user(name), "hold")) for name in ("ada", "eve")]
        for _ in busy:
            assert await asyncio.to_thread(recorder.entered.acquire, timeout=BOUND_S)
        refused = await call_as(plane, user("bob"))
        assert "Too many users call the tool server 'peer'" in text_of(refused)
        recorder.gate.set()
        await asyncio.gather(*busy)
        assert not (await call_as(plane, user("bob"))).isError


async def test_the_limit_of_concurrent_calls_is_the_servers_not_each_users(recorder: Recorder) -> None:
    async with plane_of(recorder.config(headers=TOKEN, timeout_s=BOUND_S, max_concurrency=1)) as plane:
        await seen_as(plane, user("bob"))
        first = asyncio.create_task(seen_as(plane, user("ada"), "hold"))
        assert await asyncio.to_thread(recorder.entered.acquire, timeout=BOUND_S)
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


async def test_a_plane_with_many_sessions_closes_them_all_and_open_calls_end(recorder: Recorder) -> None:
    tasks = set(asyncio.all_tasks())
    async with plane_of(recorder.config(headers=TOKEN, timeout_s=BOUND_S)) as plane:
        await asyncio.gather(*(seen_as(plane, user(f"user-{number}")) for number in range(40)))
        held = [asyncio.create_task(call_as(plane, user(f"user-{number}"), "hold")) for number in range(10)]
        for _ in held:
            assert await asyncio.to_thread(recorder.entered.acquire, timeout=BOUND_S)
    results = await asyncio.gather(*held)
    assert all(result.isError for result in results)
    assert recorder.sessions == {}
    assert asyncio.all_tasks() - set(held) <= tasks
    assert failure_kind(await call_as(plane, user("ada"))) == "transport"


async def test_a_call_refused_once_is_tried_again_over_the_same_session_with_the_same_correlation_id(
    recorder: Recorder,
) -> None:
    recorder.failing = 2
    records: list[CallRecord] = []
    timing = replace(QUICK, retry_delays_s=(0.01, 0.01, 0.01), retry_connect_timeout_s=BOUND_S)
    async with plane_of(recorder.config(headers=TOKEN), timing=timing, observers=[records.append]) as plane:
        await seen_as(plane, user("ada"))
    first, *rest = recorder.calls
    assert len(rest) == 2
    assert {call.meta["correlation_id"] for call in rest} == {first.meta["correlation_id"]}
    assert {call.headers["authorization"] for call in rest} == {"Bearer token-of-ada"}
    assert (records[0].attempts, records[0].context.correlation_id) == (3, first.meta["correlation_id"])


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


async def test_secrets_are_neither_in_representations_nor_in_the_log(recorder: Recorder) -> None:
    recorder.description = "whose is token-of-ada?"
    with log_records() as records:
        async with plane_of(recorder.config(headers=TOKEN)) as plane:
            await seen_as(plane, user("ada", github_token="token-of-ada" + "x" * 3_000))
            recorder.failing = 1
            await call_as(plane, user("ada"))
            held = next(iter(sessions(plane)._sessions.values())).connection
            shown = repr(held.config) + repr(CallContext.from_configurable(user("ada"), None)) + str(plane.health())
    assert "token-of-ada" not in shown + json.dumps(records)


async def test_a_template_with_an_unsendable_default_makes_the_server_misconfigured(recorder: Recorder) -> None:
    async with plane_of(recorder.config(headers={"X-Tenant": "{user:tenant:-→}"})) as plane:
        await until(plane, "misconfigured")
        assert "X-Tenant" in str(plane.health()["peer"]["last_error"])
        assert failure_kind(await call_as(plane, user("ada"))) == "transport"
