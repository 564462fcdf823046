"""A result that is cut for the model is whole in its message's artifact, for whoever asks for that (A-04, D-7)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.messages import ToolMessage

from tests.servers.connections.peers import QUICK, talkative
from toolweave.nodes.script.fetching import pages_from_tools
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane
from toolweave.servers.connections.results import STORED_NOTICE, WHOLE_RESULT_KEY
from toolweave.servers.connections.tool import McpTool

LIMIT = 100


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane() -> AsyncIterator[ToolPlane]:
    async with open_tool_plane([talkative(prefix="", max_result_chars=LIMIT)], timing=QUICK) as opened:
        yield opened


async def answer(plane: ToolPlane, name: str, most: int, **arguments: Any) -> ToolMessage:
    tool = next(tool for tool in await plane.tools() if tool.name == name)
    assert isinstance(tool, McpTool)
    call = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
    message = await tool.with_whole_result(most).ainvoke(call)
    assert isinstance(message, ToolMessage)
    return message


def whole(lines: int) -> str:
    return "\n".join(f"line {number}: plain" for number in range(lines))


@pytest.mark.parametrize(("most", "kept"), [(10_000, 340), (150, 150)])
async def test_a_long_text_is_in_the_artifact_up_to_the_bound(plane: ToolPlane, most: int, kept: int) -> None:
    message = await answer(plane, "long_text", most, lines=21)

    text = whole(21)
    assert message.artifact == {WHOLE_RESULT_KEY: {"text": text[:kept]}}
    assert str(message.content).startswith(text[:LIMIT])
    assert STORED_NOTICE in str(message.content)
    assert len(str(message.content)) < LIMIT + 200


async def test_a_short_answer_is_as_ever(plane: ToolPlane) -> None:
    message = await answer(plane, "long_text", 10_000, lines=2)

    assert (message.content, message.artifact) == (whole(2), None)


async def test_long_structured_content_is_kept_beside_the_text_unless_it_is_over_the_bound(plane: ToolPlane) -> None:
    small = await answer(plane, "big_structure", 10_000, rows=2)
    large = await answer(plane, "big_structure", 10_000, rows=50)
    too_large = await answer(plane, "big_structure", 200, rows=50)

    assert small.artifact == {"structured_content": {"rows": [{"number": 0}, {"number": 1}]}}
    assert large.artifact[WHOLE_RESULT_KEY]["structured_content"]["rows"][-1] == {"number": 49}
    assert too_large.artifact is None
    assert {message.content for message in (small, large, too_large)} == {"see the rows"}


async def test_media_stay_blocks_and_the_text_beside_them_is_kept(plane: ToolPlane) -> None:
    content = [{"type": "image", "data": "AAAA", "mimeType": "image/png"}, {"type": "text", "text": "word " * 50}]

    message = await answer(plane, "whole", 10_000, result={"content": content})

    assert [block["type"] for block in message.content if isinstance(block, dict)] == ["image", "text", "text"]
    assert message.artifact == {WHOLE_RESULT_KEY: {"text": "word " * 50}}


def test_what_writes_the_artifact_and_what_reads_it_agree() -> None:
    assert pages_from_tools.WHOLE_KEY == WHOLE_RESULT_KEY
