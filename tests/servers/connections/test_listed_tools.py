"""Whatever a server lists, a model gets names, descriptions and schemas that it can be given (D-2)."""

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


async def test_hidden_words_are_taken_out_of_descriptions_everywhere(plane: ToolPlane) -> None:
    tool = (await offered(plane))["hidden_words"]
    assert tool.description == "Reads a file."
    assert schema_of(tool)["properties"]["path"]["description"] == "Reads a file."


async def test_an_endless_description_is_cut(plane: ToolPlane) -> None:
    assert len((await offered(plane))["endless_words"].description) == 4_000


@pytest.mark.parametrize("name", ["deep", "wide", "monster"])
async def test_a_schema_of_excessive_size_is_left_out_and_the_tool_stays(
    plane: ToolPlane, lines: Lines, name: str
) -> None:
    tool = (await offered(plane))[name]
    assert schema_of(tool) == {"type": "object", "properties": {}}
    assert "Its parameters are too many to be described here." in tool.description
    warnings = [line["message"] for line in lines if line["level"]["name"] == "WARNING"]
    assert len([text for text in warnings if f"the tool {name} is offered without its schema" in text]) == 1
    assert isinstance(await tool.ainvoke({"type": "tool_call", "id": "1", "name": name, "args": {"a": 1}}), ToolMessage)


async def test_what_is_no_name_for_a_tool_is_left_out_with_a_warning(plane: ToolPlane, lines: Lines) -> None:
    names = set(await offered(plane))
    assert not {name for name in names if len(name) > 128 or not name.isprintable() or not name}
    warnings = [line["message"] for line in lines if "is skipped: the name is not valid" in line["message"]]
    assert len(warnings) == 3
    assert max(map(len, warnings)) < 300


async def test_meta_of_excessive_size_is_left_out(plane: ToolPlane) -> None:
    assert "_meta" not in ((await offered(plane))["heavy_meta"].metadata or {})


async def test_names_that_models_cannot_use_lead_back_to_the_servers_own(plane: ToolPlane) -> None:
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
async def test_a_catalogue_of_five_thousand_tools_is_offered_whole_and_kept_through_a_refresh() -> None:
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
