"""Every way in which a tool call can end is an envelope, in time and without inner details (parts of C-06, C-07)."""

import asyncio
import gc
import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import mcp.types
import pytest
import pytest_asyncio
from fastmcp import Client, FastMCP
from fastmcp.tools import ToolResult
from loguru import logger
from pydantic import Field

from tests.fixtures.mcp_server import held
from toolweave.errors import PersistenceError
from toolweave.servers.envelope import success
from toolweave.servers.error_codes import ERROR_CODES, GUARDRAIL, NOT_CONFIGURED, ToolFailed
from toolweave.servers.tool_server import EnvelopeMiddleware

SECRET = "postgresql://user:secret@db/internal"


class Slow:
    """A tool that lasts until it is stopped, and tells when it runs and when it has ended."""

    def __init__(self) -> None:
        self.runs = asyncio.Event()
        self.has_ended = asyncio.Event()
        self.may_end = asyncio.Event()

    async def slow(self) -> ToolResult:
        """Wait for ever."""
        self.runs.set()
        try:
            await asyncio.Event().wait()
        finally:
            await self.may_end.wait()
            self.has_ended.set()
        return success(None)


def count(
    n: Annotated[int, Field(ge=1, le=10)],
    words: Annotated[list[Annotated[str, Field(max_length=3)]], Field(max_length=2)] | None = None,
    flag: bool = False,
    nested: dict[str, int] | None = None,
    ratio: Annotated[float, Field(ge=0)] = 0,
) -> ToolResult:
    """Count."""
    return success([n, words, flag, nested, ratio], extra="kept")


def fails() -> ToolResult:
    """Fail."""
    raise RuntimeError(SECRET)


def fails_validating() -> ToolResult:
    """Fail where nobody's parameters are wrong."""
    mcp.types.Tool.model_validate({"secret": SECRET})
    return success(None)


def times_out_inside() -> ToolResult:
    """Fail with a time-out that is not the call's."""
    raise TimeoutError(SECRET)


def answers_much(size: int) -> ToolResult:
    """Answer text of a size."""
    return success("x" * size)


def answers_what_is_no_json() -> ToolResult:
    """Answer half a character, after a secret."""
    return success(f"{SECRET}\ud800")


def answers_infinity() -> ToolResult:
    """Answer numbers that JSON does not have."""
    return success([float("nan"), float("inf")])


def is_refused() -> ToolResult:
    """Refuse for a reason that anybody may read."""
    raise ToolFailed(GUARDRAIL, "The rule 'no secrets' refuses the query.")


def is_refused_with_advice() -> ToolResult:
    """Refuse and say what to do."""
    raise ToolFailed(NOT_CONFIGURED, "There is no folder to read.", "Set TOOLWEAVE_FILE_ROOTS.")


def is_unavailable() -> ToolResult:
    """Fail to reach the database."""
    raise PersistenceError("The database is busy.")


TOOLS = (
    count,
    fails,
    fails_validating,
    times_out_inside,
    answers_much,
    answers_what_is_no_json,
    answers_infinity,
    is_refused,
    is_refused_with_advice,
    is_unavailable,
)


@pytest.fixture
def tool() -> Slow:
    return Slow()


@pytest_asyncio.fixture(loop_scope="module")
async def client() -> AsyncIterator[Client[Any]]:
    server: FastMCP[None] = FastMCP(
        "test", middleware=[EnvelopeMiddleware(timeout_s=60, max_bytes=1000)], mask_error_details=True
    )
    for function in TOOLS:
        server.tool(function)
    async with held(Client(server)) as connected:
        yield connected


@pytest.fixture
def log() -> Iterator[list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = []
    # Once an earlier test has set up our log, the libraries' own lines come this way, too.
    ours = "toolweave.servers.tool_server"
    sink = logger.add(lambda text: lines.append(text.record["extra"]), level="INFO", filter=ours)
    yield lines
    logger.remove(sink)


async def error(client: Client[Any], tool: str, arguments: dict[str, Any] | None = None) -> dict[str, str]:
    result = await client.call_tool_mcp(tool, arguments or {})
    assert result.isError
    assert isinstance(result.content[0], mcp.types.TextContent)
    assert json.loads(result.content[0].text) == result.structuredContent
    assert result.structuredContent is not None
    assert SECRET not in result.model_dump_json()
    found: dict[str, str] = result.structuredContent["error"]
    return found


async def test_a_success_keeps_its_data_and_metadata_and_gets_its_duration(client: Client[Any]) -> None:
    result = await client.call_tool_mcp("count", {"n": 3, "words": ["a"]})
    assert not result.isError
    assert result.structuredContent is not None
    assert result.structuredContent["data"] == [3, ["a"], False, None, 0]
    assert result.structuredContent["metadata"].pop("duration_ms") >= 0
    assert result.structuredContent["metadata"] == {"extra": "kept"}


@pytest.mark.parametrize("tool_name", ["fails", "fails_validating", "times_out_inside", "answers_what_is_no_json"])
async def test_an_unexpected_failure_shows_nothing_of_its_reason(client: Client[Any], tool_name: str) -> None:
    found = await error(client, tool_name)
    assert (found["type"], found["code"]) == ("internal", "internal_error")
    assert "log" in found["suggestion"]


async def test_an_unusable_database_is_told_in_its_own_words(client: Client[Any]) -> None:
    found = await error(client, "is_unavailable")
    assert (found["type"], found["message"]) == ("unavailable", "The database is busy.")


async def test_a_refusal_is_told_with_its_code_and_its_own_advice_or_that_of_the_code(client: Client[Any]) -> None:
    found = await error(client, "is_refused")
    assert (found["type"], found["code"]) == ("guardrail", "guardrail")
    assert found["message"] == "The rule 'no secrets' refuses the query."
    assert found["suggestion"] == GUARDRAIL.suggestion
    found = await error(client, "is_refused_with_advice")
    assert (found["type"], found["code"]) == ("unavailable", "not_configured")
    assert found["suggestion"] == "Set TOOLWEAVE_FILE_ROOTS."


async def test_only_what_is_unexpected_leaves_a_trace_in_the_log(client: Client[Any]) -> None:
    traces: list[str] = []
    watch = logging.Handler()
    watch.emit = lambda record: traces.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("fastmcp.server.server").addHandler(watch)
    for name in ("is_refused", "is_refused_with_advice", "fails", "count"):
        await error(client, name)
    logging.getLogger("fastmcp.server.server").removeHandler(watch)
    assert traces == ["Error calling tool 'fails'"]


async def test_an_answer_that_is_too_large_becomes_the_error_that_says_how_large(
    client: Client[Any], log: list[dict[str, Any]]
) -> None:
    result = await client.call_tool_mcp("answers_much", {"size": 900})
    assert not result.isError
    found = await error(client, "answers_much", {"size": 20_000_000})
    assert (found["type"], found["code"]) == ("content", "too_large")
    assert "20,000,0" in found["message"]
    assert "at most 1,000" in found["message"]
    assert [line["code"] for line in log] == [None, "too_large"]


async def test_numbers_that_json_does_not_have_are_null(client: Client[Any]) -> None:
    result = await client.call_tool_mcp("answers_infinity", {})
    assert isinstance(result.content[0], mcp.types.TextContent)
    assert json.loads(result.content[0].text, parse_constant=pytest.fail)["data"] == [None, None]


async def test_half_a_character_is_refused_before_the_tool_sees_it(client: Client[Any]) -> None:
    found = await error(client, "count", {"n": 1, "words": ["\ud800"]})
    assert found["message"] == "Parameter 'words' must be valid Unicode text, without lone surrogates."


async def test_an_unknown_tool_is_named_within_bounds(client: Client[Any]) -> None:
    found = await error(client, "no\nsuch" + "x" * 1000)
    assert (found["type"], found["code"]) == ("not_found", "unknown_tool")
    assert "no?such" in found["message"]
    assert len(found["message"]) < 200


async def test_a_slow_tool_is_stopped_and_its_tidying_up_keeps_nobody_waiting(tool: Slow) -> None:
    server: FastMCP[None] = FastMCP("test", middleware=[EnvelopeMiddleware(timeout_s=0.3)], mask_error_details=True)
    server.tool(tool.slow)
    async with Client(server) as client:
        found = await error(client, "slow")
        assert (found["type"], found["code"]) == ("timeout", "tool_timeout")
        assert "0.3 s" in found["message"]
        assert not tool.has_ended.is_set()
        tool.may_end.set()
        async with asyncio.timeout(60):
            await tool.has_ended.wait()


async def cancel_the_newest(client: Client[Any]) -> None:
    request_id = client.session._request_id - 1
    await client.session.send_notification(
        mcp.types.ClientNotification(
            mcp.types.CancelledNotification(params=mcp.types.CancelledNotificationParams(requestId=request_id))
        )
    )


async def test_a_call_that_its_caller_cancels_is_stopped(tool: Slow, log: list[dict[str, Any]]) -> None:
    server: FastMCP[None] = FastMCP("test", middleware=[EnvelopeMiddleware(timeout_s=600)])
    server.tool(tool.slow)
    tool.may_end.set()
    async with Client(server) as client, asyncio.timeout(60):
        call = asyncio.create_task(client.call_tool_mcp("slow", {}))
        await tool.runs.wait()
        await cancel_the_newest(client)
        with pytest.raises(mcp.McpError):
            await call
        await tool.has_ended.wait()
    assert [line["outcome"] for line in log if line.get("tool") == "slow"] == ["cancelled"]


@pytest.mark.parametrize(("name", "arguments"), [("count", {"n": 3}), ("count", {"n": 30}), ("nothing", {})])
async def test_a_session_outlives_a_cancellation_in_whatever_moment_of_a_call(
    client: Client[Any], name: str, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    answers: set[bool | str] = set()
    async with asyncio.timeout(60):
        for turns in range(80):
            call = asyncio.create_task(client.call_tool_mcp(name, arguments))
            for _ in range(turns):
                await asyncio.sleep(0)
            await cancel_the_newest(client)
            try:
                answers.add((await call).isError)
            except mcp.McpError as cancelled:
                answers.add(str(cancelled))
            await client.ping()
    assert answers == {"Request cancelled", name == "nothing" or arguments["n"] > 10}
    gc.collect()
    assert "never retrieved" not in caplog.text


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ({}, "missing_parameter", "Parameter 'n' is required."),
        ({"n": 11}, "invalid_parameter", "Parameter 'n' must be at most 10."),
        ({"n": "x"}, "invalid_parameter", "Parameter 'n' must be a whole number."),
        (
            {"n": 1, "m": 2},
            "unknown_parameter",
            "There is no parameter 'm'; the tool takes n, words, flag, nested, ratio.",
        ),
        ({"n": 1, "words": ["a", "b", "c"]}, "invalid_parameter", "Parameter 'words' must hold 2 or fewer."),
        (
            {"n": 1, "words": ["long", 1]},
            "invalid_parameter",
            "Parameter 'words[0]' must have 3 or fewer characters. Parameter 'words[1]' must be a string.",
        ),
        ({"n": 1, "flag": "perhaps"}, "invalid_parameter", "Parameter 'flag' must be true or false."),
        ({"n": 1, "nested": []}, "invalid_parameter", "Parameter 'nested' must be an object."),
        ({"n": 1, "ratio": -1}, "invalid_parameter", "Parameter 'ratio' must be at least 0.0."),
    ],
)
async def test_a_wrong_parameter_is_named_with_what_it_must_be(
    client: Client[Any], arguments: dict[str, Any], code: str, says: str
) -> None:
    found = await error(client, "count", arguments)
    assert (found["code"], found["message"]) == (code, says)


async def test_no_more_than_five_wrong_parameters_are_listed(client: Client[Any]) -> None:
    found = await error(client, "count", {f"p{number}": 1 for number in range(50)})
    assert found["message"].count("'") <= 10


async def test_each_call_is_one_log_line_with_the_ids_of_its_meta(
    client: Client[Any], log: list[dict[str, Any]]
) -> None:
    meta = {"thread_id": "t", "run_id": "r", "user_id": "a\x1b[2J", "correlation_id": 7, "secret": SECRET}
    await client.call_tool_mcp("count", {"n": 3}, meta=meta)
    await client.call_tool_mcp("count", {"n": 30})
    assert [(line["tool"], line["outcome"], line["code"], line["meta"]) for line in log] == [
        ("count", "success", None, {"thread_id": "t", "run_id": "r"}),
        ("count", "error", "invalid_parameter", {}),
    ]


def test_the_table_of_codes_is_complete_and_unambiguous() -> None:
    codes = [row.code for row in ERROR_CODES]
    assert len(codes) == len(set(codes))
    assert all(row.meaning.endswith(".") and row.suggestion.endswith(".") for row in ERROR_CODES)
