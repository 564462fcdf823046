"""Build the todo agent: the agent loop with the todo server's tools, and an answer while they are missing (T-06)."""

from typing import Literal

from langgraph.graph import END, START
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from toolweave.config.mcp import McpServers
from toolweave.graphs.agent_loop import AgentGraph, agent_loop_graph, compile_loop, open_catalog
from toolweave.nodes import agent
from toolweave.nodes.chat_models import ModelSource
from toolweave.nodes.tool_catalog import SelectedTools, Tools

TODO_TOOLS = ("create_todo", "list_todos", "update_todo", "search_todos", "delete_todo")


def build_todo_agent(
    *,
    tools: Tools | McpServers,
    model: ModelSource,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    max_iterations: int = 10,
    on_iteration_limit: agent.OnIterationLimit = "end",
    system_prompt: agent.SystemPrompt = agent.todo_prompt,
) -> AgentGraph:
    """Compile the todo agent. Of `tools` it uses those named like the todo server's, with or without a server prefix.

    If none of them is available, it answers with a fixed sentence and no model call: status "tools_missing", or
    "no_tools" when there is no tool at all (T-06). Arguments, input and output are those of `build_agent_loop`.

    Raises:
        ConfigError: two tools have the same name.
        ValueError: `max_iterations` is less than 1.
    """
    todo_tools = SelectedTools(open_catalog(tools), TODO_TOOLS)
    graph = agent_loop_graph(
        catalog=todo_tools,
        model=model,
        max_iterations=max_iterations,
        on_iteration_limit=on_iteration_limit,
        system_prompt=system_prompt,
    )
    graph.add_node("check_tools", agent.check_tools_node(todo_tools))
    graph.add_node("tools_missing", agent.tools_missing)
    graph.add_edge(START, "check_tools")
    graph.add_conditional_edges("check_tools", _route_after_check, {"ready": "call_model", "missing": "tools_missing"})
    graph.add_edge("tools_missing", END)
    return compile_loop(graph, "todo_agent", max_iterations, checkpointer, store)


def _route_after_check(state: agent.AgentState) -> Literal["ready", "missing"]:
    return "ready" if state["status"] == "running" else "missing"
