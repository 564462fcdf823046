"""Build and compile the state graphs. Each module reads top-down: state, nodes, edges, compile."""

from typing import TYPE_CHECKING, Any

import toolweave
from toolweave.graphs.agent_loop import build_agent_loop
from toolweave.graphs.todo_agent import build_todo_agent

if TYPE_CHECKING:
    from toolweave.graphs.agent_runner import AgentLoop
    from toolweave.graphs.workflow import build_workflow
    from toolweave.nodes.http_tools.api_calls import http_tools

__all__ = ["AgentLoop", "build_agent_loop", "build_todo_agent", "build_workflow", "http_tools"]


def __getattr__(name: str) -> Any:
    """Import a name at its first use: an agent loop with tools needs neither MCP servers nor HTTP APIs."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(toolweave, name)
