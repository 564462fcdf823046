"""Run explicit LangGraph state graphs whose tools come from MCP servers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from loguru import logger

if TYPE_CHECKING:
    from toolweave.errors import IterationLimitError, ToolweaveError
    from toolweave.graphs.agent_loop import build_agent_loop
    from toolweave.graphs.agent_runner import AgentLoop
    from toolweave.graphs.script_generation import (
        generate_script_from_url,
        generate_script_from_url_sync,
        generate_script_from_url_with_agent,
        generate_script_from_url_with_agent_sync,
    )
    from toolweave.graphs.script_writer import build_script_writer
    from toolweave.graphs.todo_agent import build_todo_agent
    from toolweave.nodes.script.script_file import VideoScript
    from toolweave.nodes.tool_catalog import convert_mcp_tools_to_openai, openai_name_map
    from toolweave.tool_config import ToolConfig

__version__ = "0.1.0"
# A library logs when the program wants it: `logger.enable("toolweave")`, as our own programs do.
logger.disable(__name__)
__all__ = [
    "AgentLoop",
    "IterationLimitError",
    "ToolConfig",
    "ToolweaveError",
    "VideoScript",
    "build_agent_loop",
    "build_script_writer",
    "build_todo_agent",
    "build_workflow",
    "convert_mcp_tools_to_openai",
    "generate_script_from_url",
    "generate_script_from_url_sync",
    "generate_script_from_url_with_agent",
    "generate_script_from_url_with_agent_sync",
    "http_tools",
    "openai_name_map",
]

_HOMES = {
    "AgentLoop": "toolweave.graphs.agent_runner",
    "IterationLimitError": "toolweave.errors",
    "ToolConfig": "toolweave.tool_config",
    "ToolweaveError": "toolweave.errors",
    "VideoScript": "toolweave.nodes.script.script_file",
    "build_agent_loop": "toolweave.graphs.agent_loop",
    "build_script_writer": "toolweave.graphs.script_writer",
    "build_todo_agent": "toolweave.graphs.todo_agent",
    "build_workflow": "toolweave.graphs.workflow",
    "convert_mcp_tools_to_openai": "toolweave.nodes.tool_catalog",
    "generate_script_from_url": "toolweave.graphs.script_generation",
    "generate_script_from_url_sync": "toolweave.graphs.script_generation",
    "generate_script_from_url_with_agent": "toolweave.graphs.script_generation",
    "generate_script_from_url_with_agent_sync": "toolweave.graphs.script_generation",
    "http_tools": "toolweave.nodes.http_tools.api_calls",
    "openai_name_map": "toolweave.nodes.tool_catalog",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use: LangGraph takes seconds to import."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return all names, including those that are imported at their first use."""
    return sorted([*globals(), *_HOMES])
