"""Build the agent loop: the model calls tools until it answers or reaches the iteration cap (D-4, D-10, A-02)."""

from collections.abc import Hashable
from typing import Literal, cast

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer, Send

from toolweave.config.mcp import McpServers, read_servers
from toolweave.graphs.background_loop import compile_with_sync_calls
from toolweave.nodes import agent
from toolweave.nodes.chat_models import ModelSource, as_lazy_chat_model
from toolweave.nodes.human_in_the_loop import answer_questions_node, approve_node
from toolweave.nodes.tool_catalog import ToolCatalog, Tools, as_catalog
from toolweave.nodes.tool_selection import DEFAULT_MAX_TOOLS, ToolSelector

AgentBuilder = StateGraph[agent.AgentState, agent.AgentConfig, agent.AgentInput, agent.AgentOutput]
AgentGraph = CompiledStateGraph[agent.AgentState, agent.AgentConfig, agent.AgentInput, agent.AgentOutput]

NextStep = Literal["approval needed", "questions waiting", "limit reached", "answered"]

_NEXT_NODES: dict[Hashable, str] = {
    "tool calls": "tools",
    "approval needed": "approve",
    "questions waiting": "answer_questions",
    "limit reached": "iteration_cap",
    "answered": END,
}
_STEPS_PER_TURN = 3
"""Super-steps of a turn without an interrupt: call_model, approve, tools. A resumed run counts from zero again."""
_STEPS_TO_FINISH = 6
"""Super-steps from a tool call to the end: approve, tools, call_model, iteration_cap, the node after it, one spare."""


def build_agent_loop(
    *,
    tools: Tools | McpServers,
    model: ModelSource,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    max_iterations: int = 10,
    on_iteration_limit: agent.OnIterationLimit = "end",
    system_prompt: agent.SystemPrompt = None,
    max_tools: int = DEFAULT_MAX_TOOLS,
) -> AgentGraph:
    """Compile the agent loop into a Runnable for asynchronous and synchronous calls (S-04, U-05).

    Input: `{"messages": [...]}`. Output: `messages`, `iterations` (model calls since this input) and `status`.

    A tool whose metadata has `requires_approval` interrupts the run before it is called. This needs a checkpointer,
    here or in the surrounding graph. Where no person can answer, set `.with_config(configurable={"unattended": True})`:
    such calls, and calls whose server sends an elicitation, then return an error that explains this to the model
    (S-07).

    `configurable={"client_tools": [...]}` adds tools in the OpenAI format that the caller executes: a call of one ends
    the run after the turn's other calls, with status "client_tools". The next input brings the ToolMessages.

    Args:
        tools: LangChain tools and plain functions; or MCP servers, which are connected at the first use and
            disconnected when the graph is deleted or the process exits; or a catalogue that is read at every turn.
        model: A chat model; its name, such as "openai:gpt-4o"; or a function that creates one on first use.
        checkpointer: Stores threads; a server attaches its own.
        store: The long-term store that tools can use.
        max_iterations: Maximum number of model calls per input.
        on_iteration_limit: "end" adds a last message about the limit, "error" fails the run, "summarize" calls the
            model once more without tools.
        system_prompt: A text, or a function that writes it for each model call.
        max_tools: Maximum number of tools offered to the model per turn. Of more tools it offers the relevant ones and
            one to find the others. Endpoints accept 128 at most.

    Raises:
        ConfigError: two tools have the same name, the MCP servers are not configured correctly, or `model` is an
            empty name.
        TypeError: `tools` or `model` is something else.
        ValueError: `max_iterations` is less than 1, or `max_tools` is not from 1 to 128.
    """
    loop = agent_loop_graph(
        catalog=open_catalog(tools),
        model=model,
        max_iterations=max_iterations,
        on_iteration_limit=on_iteration_limit,
        system_prompt=system_prompt,
        max_tools=max_tools,
    )
    loop.add_node("accept_input", agent.accept_input)
    loop.add_edge(START, "accept_input")
    loop.add_edge("accept_input", "call_model")
    return compile_loop(loop, "agent_loop", max_iterations, checkpointer, store)


def open_catalog(tools: Tools | McpServers) -> ToolCatalog:
    """Return the catalogue of tools, or of MCP servers, which its first use connects."""
    servers = read_servers(tools)
    if servers is None:
        return as_catalog(cast("Tools", tools))
    # Imported here: the tool plane takes as long to import as half of LangGraph.
    from toolweave.graphs.plane_tools import ServerTools  # noqa: PLC0415

    return ServerTools(servers)


def agent_loop_graph(
    *,
    catalog: ToolCatalog,
    model: ModelSource,
    max_iterations: int,
    on_iteration_limit: agent.OnIterationLimit,
    system_prompt: agent.SystemPrompt,
    max_tools: int = DEFAULT_MAX_TOOLS,
) -> AgentBuilder:
    """Return the uncompiled loop, from `call_model` on; the caller adds the entry.

    Two nodes interrupt the run for a person (S-07): `approve`, before the tools of a turn run, if one of them requires
    approval; `answer_questions`, after they ran, if a tool's server sent an elicitation during a call.
    """
    if max_iterations < 1:
        raise ValueError("max_iterations must be at least 1")
    lazy_model = as_lazy_chat_model(model)
    offered = ToolSelector(catalog, max_tools)

    def next_step(state: agent.AgentState, config: RunnableConfig) -> list[Send] | NextStep:
        if state.get("waiting_calls"):
            return "questions waiting"
        calls = agent.server_calls(state["messages"][-1], config)
        if not calls:
            return "answered"
        if state.get("iterations", 0) >= max_iterations or state.get("status") == "iteration_limit":
            return "limit reached"
        if any(call["id"] in state.get("to_approve", ()) for call in calls):
            return "approval needed"
        return [Send("tools", [call]) for call in calls]

    graph: AgentBuilder = StateGraph(
        agent.AgentState, agent.AgentConfig, input_schema=agent.AgentInput, output_schema=agent.AgentOutput
    )
    call_model = agent.call_model_node(lazy_model, offered, system_prompt, min_remaining_steps=_STEPS_TO_FINISH)
    graph.add_node("call_model", call_model)
    graph.add_node("approve", approve_node(catalog), destinations={"tools": "approved", "call_model": "none to run"})
    graph.add_node("tools", agent.tools_node(catalog, offered.internal_tools))
    graph.add_node("answer_questions", answer_questions_node(), destinations={"tools": "answered"})
    graph.add_node("iteration_cap", agent.iteration_cap_node(on_iteration_limit))
    graph.add_conditional_edges("call_model", next_step, _NEXT_NODES)
    graph.add_edge("tools", "call_model")
    if on_iteration_limit == "end":
        graph.add_edge("iteration_cap", END)
    elif on_iteration_limit == "error":
        graph.add_node("limit_error", agent.limit_error)
        graph.add_edge("iteration_cap", "limit_error")
    else:
        graph.add_node("summarize", agent.summarize_node(lazy_model))
        graph.add_edge("iteration_cap", "summarize")
    return graph


def compile_loop(
    graph: AgentBuilder, name: str, max_iterations: int, checkpointer: Checkpointer, store: BaseStore | None
) -> AgentGraph:
    """Compile an agent graph; its recursion limit is so high that the iteration cap is always reached first (D-10)."""
    compiled: AgentGraph = compile_with_sync_calls(graph, name, checkpointer, store)
    return compiled.with_config(recursion_limit=_STEPS_PER_TURN * max_iterations + _STEPS_TO_FINISH)
