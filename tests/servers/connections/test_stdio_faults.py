"""The failures of calls to a stdio server (mcp.md 3.1), beside those of `test_faults_in_answers`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
import pytest_asyncio
import uvloop

from tests.servers.connections.peers import (
    BOUND_S,
    QUICK,
    call,
    failure_kind,
    log_records,
    misbehaving,
    pid_of,
    plane_of,
    text_of,
    until,
)
from toolweave.servers.connections.plane import ToolPlane

NOT_UNDERSTOOD = "The tool server 'peer' gave an answer that could not be understood."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane() -> AsyncIterator[ToolPlane]:
    async with plane_of(misbehaving(timeout_s=BOUND_S)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (-32603, "protocol", NOT_UNDERSTOOD),
        (-32602, "tool", "the server's own words"),
        (-32601, "tool", "the server's own words"),
    ],
)
async def test_an_internal_error_gets_a_general_text_and_an_invalid_request_the_text_of_the_server(
    plane: ToolPlane, code: int, kind: str, text: str
) -> None:
    pid = await pid_of(plane)
    with log_records() as records:
        result = await call(plane, "rpc_error", code=code)
        assert (failure_kind(result), text_of(result)) == (kind, text)
        assert await pid_of(plane) == pid
    assert not [record for record in records if "is down" in record["message"]]
    protocol_lines = [record["message"] for record in records if record["extra"].get("outcome") == "protocol"]
    assert len(protocol_lines) == (kind == "protocol")
    assert all("the server's own words" in message for message in protocol_lines)


@pytest.mark.parametrize("value", ["\ud800", {"deep": ["\udfff"]}, object()])
async def test_arguments_that_cannot_be_sent_are_refused_in_an_open_session(plane: ToolPlane, value: object) -> None:
    pid = await pid_of(plane)
    refused = await call(plane, "echo", text=value)
    assert await pid_of(plane) == pid
    assert failure_kind(refused) == "invalid_arguments"
    assert text_of(refused).startswith("The call was not sent: a ")


async def test_a_large_response_is_complete(plane: ToolPlane) -> None:
    assert len(text_of(await call(plane, "huge", size=3_000_000))) == 3_000_000


async def close_output(plane: ToolPlane) -> None:
    assert failure_kind(await call(plane, "close_stdout")) in ("transport", "timeout")


async def stop_reading(plane: ToolPlane) -> None:
    await call(plane, "stop_reading")
    results = await asyncio.gather(*(call(plane, "echo", text="x" * 300_000) for _ in range(3)))
    assert {failure_kind(result) for result in results} <= {"timeout", "transport"}


# Under uvloop the child holds a second copy of its closed output: only the ping detects it.
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("fail", [close_output, stop_reading])
def test_a_server_that_closes_its_output_or_stops_reading_is_replaced(
    new_loop: Callable[[], asyncio.AbstractEventLoop], fail: Callable[[ToolPlane], Awaitable[None]]
) -> None:
    async def scenario() -> None:
        timing = replace(QUICK, ping_timeout_s=5.0)
        async with plane_of(misbehaving(timeout_s=5.0), timing=timing) as plane:
            pid = await pid_of(plane)
            await fail(plane)
            await until(plane, "down")
            await until(plane, "ready")
            assert await pid_of(plane) != pid

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())
