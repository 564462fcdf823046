"""Build and compile the state graphs. Each module reads top-down: state, nodes, edges, compile."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolweave.graphs.agent_loop import build_agent_loop
from toolweave.graphs.todo_agent import build_todo_agent

if TYPE_CHECKING:
    from toolweave.graphs.agent_runner import AgentLoop
    from toolweave.graphs.workflow import build_workflow
    from toolweave.nodes.http_tools.api_calls import http_tools

__all__ = ["AgentLoop", "build_agent_loop", "build_todo_agent", "build_workflow", "http_tools"]

_HOMES = {
    "AgentLoop": "toolweave.graphs.agent_runner",
    "build_workflow": "toolweave.graphs.workflow",
    "http_tools": "toolweave.nodes.http_tools.api_calls",
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use: an agent loop with tools needs neither MCP servers nor HTTP APIs."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
