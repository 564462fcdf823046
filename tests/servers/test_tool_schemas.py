"""The description of each tool has its purpose, and each parameter its meaning, type and limits."""

from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import pytest_asyncio
from fastmcp import Client
from mcp.types import Tool

from tests.fixtures.mcp_server import held
from toolweave.config.settings import Settings
from toolweave.servers.core.server import open_core_server
from toolweave.servers.todo.server import open_todo_server

CORE = ("query_database", "execute_job", "check_job_status", "read_file", "search_files")
TODO = ("create_todo", "list_todos", "update_todo", "search_todos", "delete_todo")
# Keywords that the pages of the tools do not describe (scripts/tool_pages.py).
UNSPOKEN = {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format", "uniqueItems", "minProperties", "not"}

Schema = Mapping[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Tool]]:
    """List the tools of both servers as a client sees them, nothing being configured."""
    folder: Path = tmp_path_factory.mktemp("servers")
    listed: dict[str, Tool] = {}
    for server in (open_core_server(Settings(data_dir=folder)), open_todo_server(f"sqlite:///{folder / 'todo.db'}")):
        async with held(server) as opened, Client(opened) as client:
            listed |= {tool.name: tool for tool in await client.list_tools()}
    yield listed


def schemas_in(schema: Schema, place: str) -> Iterator[tuple[str, Schema]]:
    yield place, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas_in(inner, f"{place}.{name}")
    for form in schema.get("anyOf", ()):
        yield from schemas_in(form, place)
    if "items" in schema:
        yield from schemas_in(schema["items"], f"{place}[]")


def is_typed(schema: Schema) -> bool:
    return "type" in schema or "enum" in schema or all(is_typed(form) for form in schema.get("anyOf", [{}]))


@pytest.mark.requirement("C-02")
async def test_the_tools_are_those_of_the_specification_without_configuration(tools: dict[str, Tool]) -> None:
    assert tuple(tools) == CORE + TODO


@pytest.mark.parametrize("name", CORE + TODO)
async def test_a_tool_describes_its_purpose_and_its_effects(tools: dict[str, Tool], name: str) -> None:
    tool = tools[name]
    assert tool.title or (tool.annotations and tool.annotations.title)
    assert tool.description
    assert len(tool.description) >= 100, "say when to use it"
    assert tool.description.endswith(".")
    hints = tool.annotations
    assert hints
    assert None not in (hints.readOnlyHint, hints.destructiveHint, hints.idempotentHint, hints.openWorldHint)
    assert "$ref" not in str(tool.inputSchema), "some models follow no references"


@pytest.mark.requirement("C-02")
@pytest.mark.parametrize("name", CORE + TODO)
async def test_every_parameter_is_described_typed_and_limited(tools: dict[str, Tool], name: str) -> None:
    schema = tools[name].inputSchema
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    for parameter, given in schema["properties"].items():
        assert is_typed(given), parameter
        assert given["description"].endswith("."), parameter
        required = parameter in schema.get("required", ())
        assert not (required and "default" in given), parameter
        for place, inner in schemas_in(given, parameter):
            assert not UNSPOKEN & inner.keys(), place
            match inner.get("type"):
                case "string":
                    assert "enum" in inner or "maxLength" in inner, place
                case "integer":
                    assert {"minimum", "maximum"} <= inner.keys(), place
                case "array":
                    assert "items" in inner, place


@pytest.mark.requirement("C-02")
@pytest.mark.parametrize("name", CORE + TODO)
async def test_the_examples_and_defaults_of_a_parameter_are_valid(tools: dict[str, Tool], name: str) -> None:
    for parameter, given in tools[name].inputSchema["properties"].items():
        if parameter != "cursor":  # a caller does not invent one
            assert given.get("examples"), parameter
        for value in [*given.get("examples", ()), *([given["default"]] if "default" in given else [])]:
            jsonschema.validate(value, given)
