"""What a server repeats of its credentials reaches no model, no person and no client: `***` stands for it (T-03)."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.messages import ToolMessage

from tests.servers.connections.peers import call, plane_of, talkative, text_of
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.plane import ToolPlane

KEY = 'op-key-"ü/1234567890'
ECHO = {"type": "text", "text": f"the key is {KEY}"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane() -> AsyncIterator[ToolPlane]:
    async with plane_of(talkative("--repeat", prefix="", env={"API_KEY": KEY})) as opened:
        yield opened


async def message_of(plane: ToolPlane, name: str, **arguments: Any) -> ToolMessage:
    [tool] = [tool for tool in await plane.tools() if tool.name == name]
    message = await tool.ainvoke({"type": "tool_call", "id": "c", "name": name, "args": arguments})
    assert isinstance(message, ToolMessage)
    return message


@pytest.mark.parametrize(
    ("tool", "arguments", "read"),
    [
        ("blocks", {"content": [ECHO]}, "the key is ***"),
        ("blocks", {"content": [{"type": "resource", "resource": {"uri": "a://b", **ECHO}}]}, "the key is ***"),
        ("fail", {"text": f"Invalid key: {KEY}"}, "Invalid key: ***"),
        ("only_structure", {"rows": 1, "row": KEY}, '{"rows": ["***"]}'),
    ],
)
async def test_a_result_or_error_that_repeats_it_is_shown_without_it(
    plane: ToolPlane, tool: str, arguments: dict[str, Any], read: str
) -> None:
    message = await message_of(plane, tool, **arguments)
    assert message.content == read
    assert KEY not in repr(message)


async def test_a_refusal_in_the_protocol_is_shown_without_it(plane: ToolPlane) -> None:
    assert text_of(await call(plane, "refuse", server="talk", text=f"no such {KEY}")) == "no such ***"


async def test_progress_is_shown_without_it(plane: ToolPlane) -> None:
    heard: list[str | None] = []
    context = CallContext(on_progress=lambda _progress, _total, words: heard.append(words))
    await plane.call("talk", "progress", {"reports": [{"progress": 1, "message": f"with {KEY}"}]}, context)
    assert heard == ["with ***"]


async def test_a_listed_tool_is_offered_and_described_without_it(plane: ToolPlane) -> None:
    [tool] = [tool for tool in await plane.tools() if tool.name == "loud"]
    assert tool.description == "Uses ***."
    assert tool.args_schema == {"type": "object", "properties": {"a": {"default": "***"}}}
    assert tool.metadata is not None
    assert tool.metadata["title"] == "***"
    assert tool.metadata["_meta"] == {"key": "***"}
    assert KEY not in json.dumps(plane.details("talk"), ensure_ascii=False)
