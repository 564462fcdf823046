"""What a caller gets when a stdio server answers with something else than an answer (mcp.md 3.1)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
import uvloop

from tests.servers.connections.peers import (
    LIMIT_S,
    QUICK,
    call,
    failure_kind,
    log_records,
    misbehaving,
    overdue,
    pid_of,
    text_of,
    until,
)
from toolweave.servers.connections.plane import open_tool_plane

PINGING = replace(QUICK, ping_timeout_s=5.0)
NOT_UNDERSTOOD = "The tool server 'peer' gave an answer that could not be understood."


@pytest.mark.parametrize("tool", ["garbage", "wrong_id"])
async def test_an_answer_nobody_can_match_is_a_timeout_and_the_session_lives_on(tool: str) -> None:
    async with open_tool_plane([misbehaving(timeout_s=LIMIT_S)], timing=QUICK) as plane:
        pid = await pid_of(plane)
        [result] = await overdue(plane, call(plane, tool))
        assert failure_kind(result) == "timeout"
        assert await pid_of(plane) == pid


@pytest.mark.parametrize("tool", ["wrong_shape", "rpc_error"])
async def test_an_answer_that_is_not_a_result_is_a_protocol_failure_in_general_words(tool: str) -> None:
    with log_records() as records:
        async with open_tool_plane([misbehaving()], timing=QUICK) as plane:
            result = await call(plane, tool, code=-32603)
            assert text_of(await call(plane, "echo")) == "{}"
    assert failure_kind(result) == "protocol"
    assert text_of(result) == NOT_UNDERSTOOD
    assert not [record for record in records if "is down" in record["message"]]


async def test_the_raw_words_of_an_internal_error_are_in_the_log() -> None:
    with log_records() as records:
        async with open_tool_plane([misbehaving()], timing=QUICK) as plane:
            await call(plane, "rpc_error", code=-32603)
    [record] = [record for record in records if record["extra"].get("outcome") == "protocol"]
    assert "the server's own words" in record["message"]
    assert record["extra"]["tool"] == "rpc_error"


@pytest.mark.parametrize("code", [-32602, -32601])
async def test_a_refused_request_reaches_the_model_in_the_servers_words(code: int) -> None:
    async with open_tool_plane([misbehaving()], timing=QUICK) as plane:
        result = await call(plane, "rpc_error", code=code)
        unknown = await call(plane, "no_such_tool")
    assert failure_kind(result) == "tool"
    assert text_of(result) == "the server's own words"
    assert "no_such_tool" in text_of(unknown)


@pytest.mark.parametrize("tool", ["noise", "invalid_utf8"])
async def test_noise_on_stdout_does_not_keep_the_answer_from_the_caller(tool: str) -> None:
    async with open_tool_plane([misbehaving()], timing=QUICK) as plane:
        assert text_of(await call(plane, tool)) == "after all"


@pytest.mark.parametrize("value", ["\ud800", {"deep": ["\udfff"]}, object()])
async def test_arguments_that_cannot_be_sent_are_refused_and_the_session_lives_on(value: object) -> None:
    async with open_tool_plane([misbehaving()], timing=QUICK) as plane:
        pid = await pid_of(plane)
        refused = await call(plane, "echo", text=value)
        assert await pid_of(plane) == pid
    assert failure_kind(refused) == "invalid_arguments"
    assert text_of(refused).startswith("The call was not sent: a ")


async def test_a_tools_own_error_is_passed_on_as_it_is() -> None:
    async with open_tool_plane([misbehaving()], timing=QUICK) as plane:
        result = await call(plane, "fail")
    assert failure_kind(result) is None
    assert text_of(result) == "the disk is full"


async def test_a_large_answer_arrives_whole() -> None:
    async with open_tool_plane([misbehaving(timeout_s=60)], timing=QUICK) as plane:
        assert len(text_of(await call(plane, "huge", size=3_000_000))) == 3_000_000


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_server_that_closes_its_output_but_lives_is_replaced(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    # Under uvloop the child holds a second copy of the closed end: nothing but the ping tells.
    async def scenario() -> None:
        async with open_tool_plane([misbehaving(timeout_s=5.0)], timing=PINGING) as plane:
            await plane.wait_for_servers()
            pid = await pid_of(plane)
            assert failure_kind(await call(plane, "close_stdout")) in ("transport", "timeout")
            await until(plane, "down")
            await until(plane, "ready")
            assert await pid_of(plane) != pid

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_server_that_reads_no_more_is_replaced_and_its_callers_are_cut_at_the_deadline(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def scenario() -> None:
        async with open_tool_plane([misbehaving(timeout_s=5.0)], timing=PINGING) as plane:
            await plane.wait_for_servers()
            pid = await pid_of(plane)
            await call(plane, "stop_reading")
            results = await asyncio.gather(*(call(plane, "echo", text="x" * 300_000) for _ in range(3)))
            assert {failure_kind(result) for result in results} <= {"timeout", "transport"}
            await until(plane, "down")
            await until(plane, "ready")
            assert await pid_of(plane) != pid

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())
