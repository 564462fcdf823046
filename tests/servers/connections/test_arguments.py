"""Arguments are checked before they are sent, and the model reads what to correct (T-10)."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from mcp.types import CallToolResult

from tests.servers.connections.peers import QUICK, call, connection, failure_kind, log_records, talkative, text_of
from toolweave.servers.connections.observability import CallRecord
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane


@pytest.fixture(scope="module")
def records() -> list[CallRecord]:
    return []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(records: list[CallRecord]) -> AsyncIterator[ToolPlane]:
    async with open_tool_plane([talkative()], timing=QUICK, observers=[records.append]) as opened:
        yield opened


async def talk(plane: ToolPlane, tool: str, **arguments: Any) -> CallToolResult:
    return await call(plane, tool, server="talk", **arguments)


async def created(plane: ToolPlane) -> int:
    return int(text_of(await talk(plane, "created_so_far")))


@pytest.mark.requirement("T-10")
async def test_invalid_arguments_are_refused_with_the_field_and_what_it_must_be_and_not_sent(
    plane: ToolPlane, records: list[CallRecord]
) -> None:
    before = await created(plane)

    result = await talk(plane, "create_todo", priority="urgent", position="first")

    assert failure_kind(result) == "invalid_arguments"
    assert text_of(result) == (
        "The call of 'create_todo' was not sent, its arguments do not fit: "
        "priority must be one of low, medium, high; got 'urgent'; position must be an integer; got 'first'; "
        "title is required. Correct them and call the tool again."
    )
    assert (records[-1].outcome, records[-1].attempts) == ("invalid_arguments", 0)
    assert await created(plane) == before


@pytest.mark.requirement("T-10")
async def test_invalid_arguments_do_not_open_the_breaker_and_valid_ones_are_sent_unchanged(plane: ToolPlane) -> None:
    for _ in range(20):
        assert failure_kind(await talk(plane, "create_todo")) == "invalid_arguments"
    assert connection(plane, "talk").breaker.state == "CLOSED"
    arguments = {"title": "Buy milk", "tags": ["home"], "position": 1}
    assert json.loads(text_of(await talk(plane, "create_todo", **arguments))) == arguments


async def test_the_text_for_the_model_is_short_and_the_log_quotes_no_arguments(plane: ToolPlane) -> None:
    many = {f"\x1b[31munknown_{number}": "secret" * 10_000 for number in range(2_000)}
    with log_records() as lines:
        text = text_of(await talk(plane, "create_todo", title="hunter2" * 100, **many))
    assert len(text.encode()) <= 2_000
    assert "\x1b" not in text
    assert "title must satisfy maxLength: 200" in text
    assert "unknown_0" in text
    assert not [line["text"] for line in lines if "hunter2" in line["message"] or "secret" in line["message"]]


@pytest.mark.parametrize("tool", ["remote_reference", "circle", "no_schema", "monster"])
async def test_arguments_of_a_tool_with_an_unusable_schema_are_sent_unchecked(plane: ToolPlane, tool: str) -> None:
    with log_records() as lines:
        results = [await talk(plane, tool, a={"b": 1}) for _ in range(3)]
    assert [text_of(result) for result in results] == ['{"a": {"b": 1}}'] * 3
    about_it = [line["message"] for line in lines if f"talk/{tool} are not checked" in line["message"]]
    assert len(about_it) == (1 if tool == "no_schema" else 0)
    assert all("its schema cannot be used" in warning for warning in about_it)


async def test_a_pattern_that_backtracks_endlessly_elsewhere_is_checked_at_once(plane: ToolPlane) -> None:
    assert failure_kind(await talk(plane, "slow_pattern", a="a" * 100_000 + "!")) == "invalid_arguments"
    assert text_of(await talk(plane, "slow_pattern", a="aaa")) == '{"a": "aaa"}'


async def test_a_call_of_a_tool_that_is_not_listed_is_sent(plane: ToolPlane) -> None:
    assert text_of(await talk(plane, "unlisted", anything=1)) == '{"anything": 1}'


async def test_compiled_schemas_stay_while_the_list_of_tools_stays_the_same(plane: ToolPlane) -> None:
    server = connection(plane, "talk")
    assert server._session is not None
    assert await server._session.list_tools() is server.tools
