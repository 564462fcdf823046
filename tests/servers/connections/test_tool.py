"""A tool sends its arguments unchanged, and its results are safe and small enough for a model (T-03, A-04, D-7)."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.messages import ToolMessage

from tests.servers.connections.peers import call, failure_kind, log_records, misbehaving, plane_of, talkative, text_of
from toolweave.nodes.script.fetching import pages_from_tools
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.plane import ToolPlane
from toolweave.servers.connections.registry import ListedTool
from toolweave.servers.connections.results import STORED_NOTICE, WHOLE_RESULT_KEY
from toolweave.servers.connections.tool import McpTool

Tools = dict[str, McpTool]
KEY = 'op-key-"ü/1234567890'
LIMIT = 100


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane() -> AsyncIterator[ToolPlane]:
    limited = talkative(name="limited", max_result_chars=LIMIT)
    async with plane_of(misbehaving(), talkative("--repeat", env={"API_KEY": KEY}), limited) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools(plane: ToolPlane) -> Tools:
    return {tool.name: tool for tool in await plane.tools() if isinstance(tool, McpTool)}


async def invoke(tool: McpTool, configurable: dict[str, object] | None = None, /, **arguments: Any) -> ToolMessage:
    request = {"type": "tool_call", "id": "call-1", "name": tool.name, "args": arguments}
    message = await tool.ainvoke(request, {"configurable": configurable or {}})
    assert isinstance(message, ToolMessage)
    return message


@pytest.mark.parametrize("name", ["config", "runtime", "run_manager", "callbacks", "self", "tool_input", "type"])
async def test_an_argument_of_any_name_reaches_the_server(tools: Tools, name: str) -> None:
    message = await invoke(tools["peer_echo"], **{name: "value"})
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
    message = await invoke(tools[f"peer_{tool}"])
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
async def test_invisible_characters_reach_no_model(tools: Tools, content: Any, shown: str, is_error: bool) -> None:
    message = await invoke(tools["talk_whole"], result={"content": [content], "isError": is_error})
    assert (message.content, message.status) == (shown, "error" if is_error else "success")


async def test_structured_content_is_cleaned_for_a_model_and_unchanged_for_programs(tools: Tools) -> None:
    structured = {"text": "a\u202eb\U000e0041"}
    message = await invoke(tools["talk_whole"], result={"content": [], "structuredContent": structured})
    assert message.content == '{"text": "ab"}'
    assert message.artifact == {"structured_content": structured}


async def test_a_result_is_cleaned_before_it_is_measured_cut_and_stored(tools: Tools) -> None:
    stored: list[str] = []

    async def store(whole: str, _shown: int) -> str:
        stored.append(whole)
        return "Read on."

    short = tools["talk_whole"].model_copy(update={"max_result_chars": 100}).with_result_store(store)
    just_fits = await invoke(short, result={"content": [{"type": "text", "text": "\x1b[31mx" * 100}]})
    assert (just_fits.content, stored) == ("x" * 100, [])
    too_long = await invoke(short, result={"content": [{"type": "text", "text": "\x1b[31mx" * 101}]})
    assert str(too_long.content).startswith("x" * 100 + "\n\n[The answer was cut: 100 of its 101 characters")
    assert stored == ["x" * 101]


async def test_the_meta_of_a_call_names_its_run_and_user(tools: Tools) -> None:
    configurable = {"thread_id": "T", "run_id": "R", "user_id": "U", "__pregel_send": object()}
    with log_records() as records:
        meta = json.loads(str((await invoke(tools["peer_meta"], configurable)).content))
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
    meta = json.loads(await tools["peer_meta"].ainvoke({}))
    assert set(meta) == {"correlation_id", "timestamp"}


async def test_a_plain_string_instead_of_arguments_is_an_error_message(tools: Tools) -> None:
    assert "takes an object of named arguments" in await tools["peer_echo"].ainvoke("hello")


async def test_a_synchronous_invocation_is_refused_with_advice(tools: Tools) -> None:
    with pytest.raises(NotImplementedError, match="ainvoke"):
        await asyncio.to_thread(tools["peer_echo"].invoke, {"a": 1})


@pytest.mark.parametrize(
    ("tool", "arguments", "content"),
    [
        ("blocks", {"content": [{"type": "text", "text": f"the key is {KEY}"}]}, "the key is ***"),
        (
            "blocks",
            {"content": [{"type": "resource", "resource": {"uri": "a://b", "text": f"the key is {KEY}"}}]},
            "the key is ***",
        ),
        ("fail", {"text": f"Invalid key: {KEY}"}, "Invalid key: ***"),
        ("only_structure", {"rows": 1, "row": KEY}, '{"rows": ["***"]}'),
    ],
)
async def test_a_result_or_error_that_repeats_a_credential_is_shown_without_it(
    tools: Tools, tool: str, arguments: dict[str, Any], content: str
) -> None:
    message = await invoke(tools[f"talk_{tool}"], **arguments)
    assert message.content == content
    assert KEY not in repr(message)


async def test_a_protocol_error_progress_and_a_tool_list_are_shown_without_credentials(
    plane: ToolPlane, tools: Tools
) -> None:
    assert text_of(await call(plane, "refuse", server="talk", text=f"no such {KEY}")) == "no such ***"
    messages: list[str | None] = []
    context = CallContext(on_progress=lambda _progress, _total, message: messages.append(message))
    await plane.call("talk", "progress", {"reports": [{"progress": 1, "message": f"with {KEY}"}]}, context)
    assert messages == ["with ***"]
    tool = tools["talk_loud"]
    assert tool.description == "Uses ***."
    assert tool.args_schema == {"type": "object", "properties": {"a": {"default": "***"}}}
    assert tool.metadata is not None
    assert (tool.metadata["title"], tool.metadata["_meta"]) == ("***", {"key": "***"})
    assert KEY not in json.dumps(plane.details("talk"), ensure_ascii=False)


def text_of_lines(count: int) -> str:
    return "\n".join(f"line {number}: plain" for number in range(count))


async def result_up_to(max_chars: int, tool: McpTool, **arguments: Any) -> ToolMessage:
    """Invoke a tool whose messages carry the whole result up to a limit."""
    whole = tool.with_whole_result(max_chars)
    assert isinstance(whole, McpTool)
    return await invoke(whole, **arguments)


@pytest.mark.parametrize(("max_chars", "stored_chars"), [(10_000, 340), (150, 150)])
async def test_a_long_text_is_cut_for_the_model_and_whole_in_the_artifact_up_to_its_limit(
    tools: Tools, max_chars: int, stored_chars: int
) -> None:
    message = await result_up_to(max_chars, tools["limited_long_text"], lines=21)
    text = text_of_lines(21)
    assert message.artifact == {WHOLE_RESULT_KEY: {"text": text[:stored_chars]}}
    assert str(message.content).startswith(text[:LIMIT])
    assert STORED_NOTICE in str(message.content)
    assert len(str(message.content)) < LIMIT + 200
    short = await result_up_to(max_chars, tools["limited_long_text"], lines=2)
    assert (short.content, short.artifact) == (text_of_lines(2), None)
    assert pages_from_tools.WHOLE_KEY == WHOLE_RESULT_KEY


async def test_long_structured_content_is_in_the_artifact_unless_it_is_over_the_limit(tools: Tools) -> None:
    tool = tools["limited_big_structure"]
    small = await result_up_to(10_000, tool, rows=2)
    large = await result_up_to(10_000, tool, rows=50)
    too_large = await result_up_to(200, tool, rows=50)
    assert small.artifact == {"structured_content": {"rows": [{"number": 0}, {"number": 1}]}}
    assert large.artifact[WHOLE_RESULT_KEY]["structured_content"]["rows"][-1] == {"number": 49}
    assert too_large.artifact is None
    assert {message.content for message in (small, large, too_large)} == {"see the rows"}


async def test_media_stay_blocks_and_the_text_beside_them_is_in_the_artifact(tools: Tools) -> None:
    content = [{"type": "image", "data": "AAAA", "mimeType": "image/png"}, {"type": "text", "text": "word " * 50}]
    message = await result_up_to(10_000, tools["limited_whole"], result={"content": content})
    assert [block["type"] for block in message.content if isinstance(block, dict)] == ["image", "text", "text"]
    assert message.artifact == {WHOLE_RESULT_KEY: {"text": "word " * 50}}


COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
PATTERN = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}


@pytest.mark.parametrize(
    ("schema", "structured", "problems"),
    [
        pytest.param(COUNT, {"count": 3}, 0, id="it-fits"),
        pytest.param(COUNT, {"count": "three"}, 1, id="a-wrong-type"),
        pytest.param(COUNT, {}, 1, id="a-missing-field"),
        pytest.param({"type": "nonsense"}, {"count": 3}, 0, id="an-unusable-schema"),
        pytest.param({"$ref": "http://127.0.0.1:9/schema"}, {"count": 3}, 0, id="a-remote-schema"),
        pytest.param(PATTERN, {"a": "a" * 50_000 + "!"}, 1, id="an-expression-that-backtracks-endlessly"),
    ],
)
async def test_a_structured_result_is_checked_against_the_schema_of_its_tool(
    schema: dict[str, Any], structured: dict[str, Any], problems: int
) -> None:
    spec = ListedTool("t", None, {}, {}, None, schema)
    assert len(await spec.validation_errors("results", structured)) == problems


async def test_a_result_that_breaks_its_schema_is_a_protocol_error_and_the_log_names_the_problem(
    plane: ToolPlane,
) -> None:
    with log_records() as lines:
        fits = await call(plane, "only_structure", server="talk", rows=2)
        broken = await call(plane, "only_structure", server="talk", rows=2, row=7)
        missing = await call(plane, "only_structure", server="talk")
    assert fits.structuredContent == {"rows": ["row", "row"]}
    assert failure_kind(broken) == "protocol"
    assert "could not be understood" in text_of(broken)
    assert failure_kind(missing) == "protocol"
    assert any("does not fit its output schema: rows" in line["message"] for line in lines)
    assert any("it has no structured content" in line["message"] for line in lines)
