import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from tests.servers.connections.peers import QUICK, log_records, misbehaving, talkative
from toolweave.servers.connections.plane import open_tool_plane
from toolweave.servers.connections.tool import McpTool

Tools = dict[str, BaseTool]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools() -> AsyncIterator[Tools]:
    async with open_tool_plane([misbehaving(prefix="")], timing=QUICK) as plane:
        yield {tool.name: tool for tool in await plane.tools()}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def talker() -> AsyncIterator[Tools]:
    async with open_tool_plane([talkative(prefix="")], timing=QUICK) as plane:
        yield {tool.name: tool for tool in await plane.tools()}


async def invoke(tool: BaseTool, configurable: dict[str, object] | None = None, /, **arguments: Any) -> ToolMessage:
    call = {"type": "tool_call", "id": "call-1", "name": tool.name, "args": arguments}
    message = await tool.ainvoke(call, {"configurable": configurable or {}})
    assert isinstance(message, ToolMessage)
    return message


@pytest.mark.parametrize("name", ["config", "runtime", "run_manager", "callbacks", "self", "tool_input", "type"])
async def test_an_argument_reaches_the_server_whatever_its_name(tools: Tools, name: str) -> None:
    message = await invoke(tools["echo"], **{name: "value"})
    assert json.loads(str(message.content)) == {name: "value"}


NOT_UNDERSTOOD = "The tool server 'peer' gave an answer that could not be understood."
IMAGE = [{"type": "image", "base64": "AAAA", "mime_type": "image/x"}, {"type": "text", "text": "and text"}]
TOTAL = {"structured_content": {"total": 3}}


@pytest.mark.parametrize(
    ("tool", "content", "status", "artifact"),
    [
        ("echo", "{}", "success", None),
        ("fail", "the disk is full", "error", None),
        ("wrong_shape", NOT_UNDERSTOOD, "error", None),
        ("audio", "[audio of type audio/x, 3 bytes, not shown]\nand text", "success", None),
        ("image", IMAGE, "success", None),
        ("structured", '{"total": 3}', "success", TOTAL),
    ],
)
async def test_a_result_of_any_kind_becomes_a_message(
    tools: Tools, tool: str, content: object, status: str, artifact: object
) -> None:
    message = await invoke(tools[tool])
    assert (message.content, message.status, message.tool_call_id) == (content, status, "call-1")
    assert message.artifact == artifact


SEEN = "red\n👩\u200d💻 שלום"
SENT = "\x1b[31mred\x1b[0m\r\n\u202e👩\u200d💻 \u2066שלום\u2069\U000e0068\U000e0069"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ({"type": "text", "text": SENT}, SEEN),
        ({"type": "resource", "resource": {"uri": "file:///a", "text": SENT}}, SEEN),
        ({"type": "resource_link", "uri": "file:///a", "name": SENT}, f"[resource {SEEN}, file:///a, not shown]"),
        ({"type": "audio", "data": "AAAA", "mimeType": SENT}, f"[audio of type {SEEN}, 3 bytes, not shown]"),
    ],
)
@pytest.mark.parametrize("is_error", [False, True])
async def test_what_nobody_sees_reaches_no_model(talker: Tools, content: Any, shown: str, is_error: bool) -> None:
    message = await invoke(talker["whole"], result={"content": [content], "isError": is_error})
    assert (message.content, message.status) == (shown, "error" if is_error else "success")


async def test_structured_content_is_cleaned_where_a_model_reads_it_and_stays_as_it_is_for_programs(
    talker: Tools,
) -> None:
    message = await invoke(talker["whole"], result={"content": [], "structuredContent": {"said": "a\u202eb\U000e0041"}})
    assert message.content == '{"said": "ab"}'
    assert message.artifact == {"structured_content": {"said": "a\u202eb\U000e0041"}}


async def test_a_result_is_cleaned_before_it_is_measured_cut_and_kept(talker: Tools) -> None:
    kept: list[str] = []

    async def keep(whole: str, _shown: int) -> str:
        kept.append(whole)
        return "Read on."

    tool = talker["whole"]
    assert isinstance(tool, McpTool)
    short = tool.model_copy(update={"max_result_chars": 100}).with_result_store(keep)
    just_fits = await invoke(short, result={"content": [{"type": "text", "text": "\x1b[31mx" * 100}]})
    assert (just_fits.content, kept) == ("x" * 100, [])
    too_long = await invoke(short, result={"content": [{"type": "text", "text": "\x1b[31mx" * 101}]})
    assert str(too_long.content).startswith("x" * 100 + "\n\n[The answer was cut: 100 of its 101 characters")
    assert kept == ["x" * 101]


async def test_a_call_carries_who_asks_in_its_meta(tools: Tools) -> None:
    configurable = {"thread_id": "T", "run_id": "R", "user_id": "U", "__pregel_send": object()}
    with log_records() as records:
        meta = json.loads(str((await invoke(tools["meta"], configurable)).content))
    correlation_id, timestamp = meta.pop("correlation_id"), meta.pop("timestamp")
    assert meta == {"thread_id": "T", "run_id": "R", "user_id": "U", "idempotency_key": "R:call-1"}
    assert timestamp.endswith("+00:00")
    [record] = [record["extra"] for record in records if record["extra"].get("tool") == "meta"]
    assert record.pop("duration_ms") >= 0
    assert record == {
        "server": "peer",
        "tool": "meta",
        "outcome": "ok",
        "thread_id": "T",
        "run_id": "R",
        "user_id": "U",
        "correlation_id": correlation_id,
    }


async def test_a_call_outside_a_graph_carries_neither_ids_nor_an_idempotency_key(tools: Tools) -> None:
    meta = json.loads(await tools["meta"].ainvoke({}))
    assert set(meta) == {"correlation_id", "timestamp"}


async def test_a_plain_string_instead_of_arguments_is_an_error_message(tools: Tools) -> None:
    assert "takes an object of named arguments" in await tools["echo"].ainvoke("hello")


async def test_a_synchronous_invocation_says_what_to_do_instead(tools: Tools) -> None:
    with pytest.raises(NotImplementedError, match="ainvoke"):
        await asyncio.to_thread(tools["echo"].invoke, {"a": 1})
