"""Build the agent loop: a model that calls tools until it answers, or until the cap stops it (D-4, D-10, A-02)."""

from collections.abc import Sequence
from typing import Literal

from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer, Send

from toolweave.nodes.accept_input import accept_input
from toolweave.nodes.agent_state import AgentInput, AgentOutput, AgentState
from toolweave.nodes.call_model import call_model_node
from toolweave.nodes.chat_model_source import ChatModel, as_lazy
from toolweave.nodes.dialogue import requested_calls
from toolweave.nodes.iteration_cap import OnIterationLimit, iteration_cap_node, limit_error, summarize_node
from toolweave.nodes.prompts import SystemPrompt
from toolweave.nodes.tool_catalog import ToolCatalog, as_catalog
from toolweave.nodes.tools import tools_node

AgentBuilder = StateGraph[AgentState, None, AgentInput, AgentOutput]
AgentGraph = CompiledStateGraph[AgentState, None, AgentInput, AgentOutput]
Tools = Sequence[BaseTool] | ToolCatalog

_STEPS_TO_AN_END = 5
"""Steps left that a turn with tools needs to end: tools, call_model, iteration_cap, what follows it, and one spare."""


def build_agent_loop(
    *,
    tools: Tools,
    model: ChatModel,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    max_iterations: int = 10,
    on_iteration_limit: OnIterationLimit = "end",
    system_prompt: SystemPrompt = None,
) -> AgentGraph:
    """Compile the agent loop; it is a Runnable, async only because MCP tools are (S-04).

    Input: `{"messages": [...]}`. Output: `messages`, `iterations` (model calls since this input) and `status`.

    Args:
        tools: LangChain tools, or a catalogue that is asked at every turn.
        model: A chat model, or a function that makes one on first use.
        checkpointer: Where threads are kept; a server attaches its own.
        store: The long-term store that tools may ask for.
        max_iterations: How many model calls one input may take.
        on_iteration_limit: "end" says so in a last message, "error" fails the run, "summarize" asks the model once
            more without tools.
        system_prompt: A text, or a function that writes it for each model call.

    Raises:
        ConfigError: two tools have the same name.
        ValueError: `max_iterations` is less than 1.
    """
    loop = agent_loop_graph(
        catalog=as_catalog(tools),
        model=model,
        max_iterations=max_iterations,
        on_iteration_limit=on_iteration_limit,
        system_prompt=system_prompt,
    )
    loop.add_node("accept_input", accept_input)
    loop.add_edge(START, "accept_input")
    loop.add_edge("accept_input", "call_model")
    return compile_loop(loop, "agent_loop", max_iterations, checkpointer, store)


def agent_loop_graph(
    *,
    catalog: ToolCatalog,
    model: ChatModel,
    max_iterations: int,
    on_iteration_limit: OnIterationLimit,
    system_prompt: SystemPrompt,
) -> AgentBuilder:
    """Draw the loop itself, from call_model on; the way in is for the caller to add."""
    if max_iterations < 1:
        raise ValueError("max_iterations must be at least 1")
    lazy_model = as_lazy(model)

    def next_step(state: AgentState) -> list[Send] | Literal["limit reached", "answered"]:
        calls = requested_calls(state["messages"][-1])
        if not calls:
            return "answered"
        if state["iterations"] >= max_iterations or state["remaining_steps"] < _STEPS_TO_AN_END:
            return "limit reached"
        return [Send("tools", [call]) for call in calls]

    graph: AgentBuilder = StateGraph(AgentState, input_schema=AgentInput, output_schema=AgentOutput)
    graph.add_node("call_model", call_model_node(lazy_model, catalog, system_prompt))
    graph.add_node("tools", tools_node(catalog))
    graph.add_node("iteration_cap", iteration_cap_node(on_iteration_limit))
    graph.add_conditional_edges(
        "call_model", next_step, {"tool calls": "tools", "limit reached": "iteration_cap", "answered": END}
    )
    graph.add_edge("tools", "call_model")
    if on_iteration_limit == "end":
        graph.add_edge("iteration_cap", END)
    elif on_iteration_limit == "error":
        graph.add_node("limit_error", limit_error)
        graph.add_edge("iteration_cap", "limit_error")
    else:
        graph.add_node("summarize", summarize_node(lazy_model))
        graph.add_edge("iteration_cap", "summarize")
    return graph


def compile_loop(
    graph: AgentBuilder, name: str, max_iterations: int, checkpointer: Checkpointer, store: BaseStore | None
) -> AgentGraph:
    """Compile with a recursion limit that the iteration cap always reaches first (D-10)."""
    compiled: AgentGraph = graph.compile(checkpointer=checkpointer, store=store, name=name)
    return compiled.with_config(recursion_limit=2 * max_iterations + _STEPS_TO_AN_END)
