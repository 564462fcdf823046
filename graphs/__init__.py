"""Build and compile the state graphs. Each module reads top-down: state, nodes, edges, compile."""

from toolweave.graphs.agent_loop import build_agent_loop
from toolweave.graphs.agent_runner import AgentLoop
from toolweave.graphs.todo_agent import build_todo_agent
from toolweave.graphs.workflow import build_workflow
from toolweave.nodes.http_tools.api_calls import http_tools

__all__ = ["AgentLoop", "build_agent_loop", "build_todo_agent", "build_workflow", "http_tools"]
