"""Whatever a server lists, a model gets valid names, descriptions and schemas (D-2)."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.messages import ToolMessage

from tests.servers.connections.peers import BOUND_S, QUICK, log_records, talkative
from toolweave.nodes.tool_catalog import convert_mcp_tools_to_openai, find_tool
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane
from toolweave.servers.connections.tool import McpTool

Lines = list[dict[str, Any]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lines() -> AsyncIterator[Lines]:
    with log_records() as records:
        yield records


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(lines: Lines) -> AsyncIterator[ToolPlane]:
    async with open_tool_plane([talkative("--odd", prefix="")], timing=QUICK) as opened:
        yield opened


async def offered(plane: ToolPlane) -> dict[str, McpTool]:
    return {tool.name: tool for tool in await plane.tools() if isinstance(tool, McpTool)}


def schema_of(tool: McpTool) -> dict[str, Any]:
    assert isinstance(tool.args_schema, dict)
    return tool.args_schema


async def test_descriptions_lose_invisible_text_and_long_parts_and_huge_meta_is_omitted(plane: ToolPlane) -> None:
    tools = await offered(plane)
    hidden = tools["hidden_words"]
    assert hidden.description == "Reads a file."
    assert schema_of(hidden)["properties"]["path"]["description"] == "Reads a file."
    assert len(tools["endless_words"].description) == 4_000
    assert "_meta" not in (tools["heavy_meta"].metadata or {})


@pytest.mark.parametrize("name", ["deep", "wide", "monster"])
async def test_a_tool_with_a_huge_schema_is_offered_without_it(plane: ToolPlane, lines: Lines, name: str) -> None:
    tool = (await offered(plane))[name]
    assert schema_of(tool) == {"type": "object", "properties": {}}
    assert "Its parameters are too many to be described here." in tool.description
    warnings = [line["message"] for line in lines if line["level"]["name"] == "WARNING"]
    assert len([text for text in warnings if f"the tool {name} is offered without its schema" in text]) == 1
    assert isinstance(await tool.ainvoke({"type": "tool_call", "id": "1", "name": name, "args": {"a": 1}}), ToolMessage)


async def test_a_tool_with_an_invalid_name_is_skipped_with_a_warning(plane: ToolPlane, lines: Lines) -> None:
    names = set(await offered(plane))
    assert not {name for name in names if len(name) > 128 or not name.isprintable() or not name}
    warnings = [line["message"] for line in lines if "is skipped: the name is not valid" in line["message"]]
    assert len(warnings) == 3
    assert max(map(len, warnings)) < 300


async def test_each_name_for_a_model_leads_to_the_tool_with_its_original_name(plane: ToolPlane) -> None:
    tools = await plane.tools()
    names = [tool["function"]["name"] for tool in convert_mcp_tools_to_openai(tools)]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) == 64
    found = find_tool(tools, "files_read_v2")
    long = find_tool(tools, ("long_" + "n" * 100)[:64])
    assert isinstance(found, McpTool)
    assert isinstance(long, McpTool)
    assert (found.mcp_name, long.mcp_name) == ("files.read/v2", "long_" + "n" * 100)
    for tool in (found, long):
        answer = await tool.ainvoke({"type": "tool_call", "id": "1", "name": tool.name, "args": {"a": 1}})
        assert json.loads(answer.text) == {"a": 1}


@pytest.mark.slow
async def test_all_of_five_thousand_tools_are_offered_and_reused_after_a_reconnect() -> None:
    config = talkative("--catalogue", "5000", prefix="", exclude=("*_flood",), include=("tool_*", "progress*"))
    with log_records() as records:
        async with open_tool_plane([config], timing=QUICK) as plane:
            async with asyncio.timeout(2 * BOUND_S):
                await plane.wait_for_servers()
                first = await plane.tools()
                await plane.reconnect("talk")
                again = await plane.tools()
    assert len(first) == 5_001
    assert all(one is other for one, other in zip(first, again, strict=True)), "unchanged tools are not built anew"
    ready = [line["message"] for line in records if "is ready with 5001 tools" in line["message"]]
    assert len(ready) == 2
    assert max(map(len, ready)) < 2_000
