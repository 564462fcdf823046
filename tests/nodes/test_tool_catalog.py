"""Catalogues of tools."""

import pytest
from langchain_core.tools import BaseTool, StructuredTool

from toolweave.errors import ConfigError
from toolweave.nodes.tool_catalog import FixedTools, SelectedTools, as_catalog


def named(name: str) -> BaseTool:
    return StructuredTool.from_function(lambda: name, name=name, description=name)


@pytest.mark.requirement("D-2")
def test_two_tools_of_one_name_are_a_named_configuration_error() -> None:
    with pytest.raises(ConfigError, match="read_file"):
        FixedTools((named("read_file"), named("other"), named("read_file")))


async def test_a_selection_finds_its_tools_with_and_without_a_server_prefix() -> None:
    everything = as_catalog([named("list_todos"), named("todo_create_todo"), named("brave_search"), named("todos")])

    chosen = await SelectedTools(everything, ("create_todo", "list_todos")).tools()

    assert [tool.name for tool in chosen] == ["list_todos", "todo_create_todo"]
