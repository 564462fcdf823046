"""Every outcome of a tool call is an envelope, in time and without internal details (parts of C-06, C-07)."""

import asyncio
import gc
import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal

import mcp.types
import pytest
import pytest_asyncio
from fastmcp import Client, FastMCP
from fastmcp.tools import ToolResult
from loguru import logger
from pydantic import Field

from tests.fixtures.mcp_server import held
from toolweave.errors import PersistenceError
from toolweave.servers.error_codes import ERROR_CODES, GUARDRAIL, NOT_CONFIGURED, ToolFailed
from toolweave.servers.tool_server import EnvelopeMiddleware, success

SECRET = "postgresql://user:secret@db/internal"


class Slow:
    """A tool that runs until it is stopped, with events for its start and its end."""

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
    return success([n, words, flag, nested, ratio], extra="value")


def fails(how: Literal["error", "validation", "time-out", "database"]) -> ToolResult:
    """Fail in one of several ways."""
    match how:
        case "error":
            raise RuntimeError(SECRET)
        case "validation":
            mcp.types.Tool.model_validate({"secret": SECRET})
        case "time-out":
            raise TimeoutError(SECRET)
        case "database":
            raise PersistenceError("The database is busy.")
    return success(None)


def returns_much(size: int) -> ToolResult:
    """Return text of a size."""
    return success("x" * size)


def returns_invalid_text() -> ToolResult:
    """Return half a character, after a secret."""
    return success(f"{SECRET}\ud800")


def returns_infinity() -> ToolResult:
    """Return numbers that JSON does not have."""
    return success([float("nan"), float("inf")])


def is_refused() -> ToolResult:
    """Refuse for a reason that anybody may read."""
    raise ToolFailed(GUARDRAIL, "The rule 'no secrets' refuses the query.")


def is_refused_with_advice() -> ToolResult:
    """Refuse and say what to do."""
    raise ToolFailed(NOT_CONFIGURED, "There is no folder to read.", "Set TOOLWEAVE_FILE_ROOTS.")


TOOLS = (count, fails, returns_much, returns_invalid_text, returns_infinity, is_refused, is_refused_with_advice)


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
    assert result.structuredContent["metadata"] == {"extra": "value"}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [*(("fails", {"how": how}) for how in ("error", "validation", "time-out")), ("returns_invalid_text", {})],
)
async def test_an_unexpected_failure_shows_nothing_of_its_reason(
    client: Client[Any], name: str, arguments: dict[str, Any]
) -> None:
    found = await error(client, name, arguments)
    assert (found["type"], found["code"]) == ("internal", "internal_error")
    assert "log" in found["suggestion"]


async def test_a_refusal_has_its_code_and_its_own_advice_or_that_of_the_code(client: Client[Any]) -> None:
    found = await error(client, "is_refused")
    assert (found["type"], found["code"]) == ("guardrail", "guardrail")
    assert found["message"] == "The rule 'no secrets' refuses the query."
    assert found["suggestion"] == GUARDRAIL.suggestion
    found = await error(client, "is_refused_with_advice")
    assert (found["type"], found["code"]) == ("unavailable", "not_configured")
    assert found["suggestion"] == "Set TOOLWEAVE_FILE_ROOTS."
    found = await error(client, "fails", {"how": "database"})
    assert (found["type"], found["message"]) == ("unavailable", "The database is busy.")


async def test_only_an_unexpected_failure_leaves_a_trace_in_the_log(client: Client[Any]) -> None:
    traces: list[str] = []
    watch = logging.Handler()
    watch.emit = lambda record: traces.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("fastmcp.server.server").addHandler(watch)
    for name in ("is_refused", "is_refused_with_advice", "count"):
        await error(client, name)
    await error(client, "fails", {"how": "error"})
    logging.getLogger("fastmcp.server.server").removeHandler(watch)
    assert traces == ["Error calling tool 'fails'"]


async def test_a_response_that_is_too_large_becomes_an_error_with_its_size(
    client: Client[Any], log: list[dict[str, Any]]
) -> None:
    result = await client.call_tool_mcp("returns_much", {"size": 900})
    assert not result.isError
    found = await error(client, "returns_much", {"size": 20_000_000})
    assert (found["type"], found["code"]) == ("content", "too_large")
    assert "20,000,0" in found["message"]
    assert "at most 1,000" in found["message"]
    assert [line["code"] for line in log] == [None, "too_large"]


async def test_numbers_that_json_does_not_have_are_null(client: Client[Any]) -> None:
    result = await client.call_tool_mcp("returns_infinity", {})
    assert isinstance(result.content[0], mcp.types.TextContent)
    assert json.loads(result.content[0].text, parse_constant=pytest.fail)["data"] == [None, None]


async def test_an_unknown_tool_is_named_within_bounds(client: Client[Any]) -> None:
    found = await error(client, "no\nsuch" + "x" * 1000)
    assert (found["type"], found["code"]) == ("not_found", "unknown_tool")
    assert "no?such" in found["message"]
    assert len(found["message"]) < 200


async def test_a_slow_tool_is_stopped_and_its_clean_up_delays_no_response(tool: Slow) -> None:
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
async def test_a_session_survives_a_cancellation_at_any_moment_of_a_call(
    client: Client[Any], name: str, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    outcomes: set[bool | str] = set()
    async with asyncio.timeout(60):
        for turns in range(80):
            call = asyncio.create_task(client.call_tool_mcp(name, arguments))
            for _ in range(turns):
                await asyncio.sleep(0)
            await cancel_the_newest(client)
            try:
                outcomes.add((await call).isError)
            except mcp.McpError as cancelled:
                outcomes.add(str(cancelled))
            await client.ping()
    assert outcomes == {"Request cancelled", name == "nothing" or arguments["n"] > 10}
    gc.collect()
    assert "never retrieved" not in caplog.text


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
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
        (
            {"n": 1, "words": ["\ud800"]},
            "invalid_parameter",
            "Parameter 'words' must be valid Unicode text, without lone surrogates.",
        ),
        ({"n": 1, "flag": "perhaps"}, "invalid_parameter", "Parameter 'flag' must be true or false."),
        ({"n": 1, "nested": []}, "invalid_parameter", "Parameter 'nested' must be an object."),
        ({"n": 1, "ratio": -1}, "invalid_parameter", "Parameter 'ratio' must be at least 0.0."),
    ],
)
async def test_a_wrong_parameter_is_named_with_what_it_must_be(
    client: Client[Any], arguments: dict[str, Any], code: str, message: str
) -> None:
    found = await error(client, "count", arguments)
    assert (found["code"], found["message"]) == (code, message)


async def test_at_most_five_wrong_parameters_are_listed(client: Client[Any]) -> None:
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
