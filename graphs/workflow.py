"""Build the workflow: turn instructions into one request to an HTTP API, and report how each stage ended (W-02)."""

from collections.abc import Hashable, Sequence
from typing import Literal

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer, RetryPolicy

from toolweave.errors import ApiCallFailed, PersistenceError
from toolweave.graphs.background_loop import compile_with_sync_calls
from toolweave.nodes.chat_models import ModelSource, as_lazy_chat_model
from toolweave.nodes.http_tools.api_calls import ApiCalls
from toolweave.nodes.tool_catalog import ToolRegistry, as_registry
from toolweave.nodes.tool_selection import DEFAULT_MAX_TOOLS
from toolweave.nodes.workflow.failure import failure_handler, limit_seconds, report_failure
from toolweave.nodes.workflow.prompts import WorkflowModel
from toolweave.nodes.workflow.select import select_node
from toolweave.nodes.workflow.stages import execute_node, format_node, retrieve_node
from toolweave.nodes.workflow.state import Stage, WorkflowInput, WorkflowNode, WorkflowOutput, WorkflowState
from toolweave.tool_config import MAX_TIMEOUT_S, ToolConfig

WorkflowBuilder = StateGraph[WorkflowState, None, WorkflowInput, WorkflowOutput]
WorkflowGraph = CompiledStateGraph[WorkflowState, None, WorkflowInput, WorkflowOutput]

# Backstops: the registry, the model's endpoint and the API have shorter timeouts of their own.
_LOOKUP_TIMEOUT_S = 30.0
_MODEL_TIMEOUT_S = 900.0
_CALL_TIMEOUT_S = MAX_TIMEOUT_S + 30.0


def _is_unsent(error: Exception) -> bool:
    return isinstance(error, ApiCallFailed) and error.transient


# These errors occur before anything was sent to the model or the API.
_READ_RETRY = RetryPolicy(initial_interval=0.05, max_attempts=3, jitter=False, retry_on=PersistenceError)
_SEND_RETRY = RetryPolicy(initial_interval=0.1, max_attempts=2, jitter=False, retry_on=_is_unsent)

_ERROR_EDGE = {"error": "failed"}
_NEXT_NODES: dict[Hashable, str] = {"format requested": "format", "done": END}


def build_workflow(
    *,
    tools: Sequence[ToolConfig] | ToolRegistry,
    model: ModelSource,
    api_calls: ApiCalls | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    max_tools: int = DEFAULT_MAX_TOOLS,
) -> WorkflowGraph:
    """Compile the workflow into a Runnable for asynchronous and synchronous calls.

    Input: `user_instructions`, and optionally `tool_ids` (default: all tools), `tags`, `format_response` and
    `response_format_instructions`. Output: all keys of `WorkflowOutput`, null where there is no value. A failed stage
    does not fail the run: its error handler continues at the node `error`, which sets `error_stage`, `error` and
    `status` (D-11).

    Args:
        tools: Tool configurations, or a registry that is read at every run.
        model: A chat model, its name, or a function that creates one on first use.
        api_calls: Sends the requests; by default to public addresses only, with variables `TOOL_*`.
        checkpointer: Stores threads; a server attaches its own.
        store: The long-term store.
        max_tools: Maximum number of tools offered to the model; of more, it offers the relevant ones.

    Raises:
        ValueError: `max_tools` is less than 1.
    """
    if max_tools < 1:
        raise ValueError("max_tools must be at least 1")
    prompts = WorkflowModel(as_lazy_chat_model(model))
    graph = _workflow_graph(as_registry(tools), prompts, api_calls or ApiCalls(), max_tools)
    return compile_with_sync_calls(graph, "workflow", checkpointer, store)


def _workflow_graph(
    registry: ToolRegistry, prompts: WorkflowModel, api_calls: ApiCalls, max_tools: int
) -> WorkflowBuilder:
    """Return the uncompiled chain of stages, and the node that handles all their failures."""
    graph: WorkflowBuilder = StateGraph(WorkflowState, input_schema=WorkflowInput, output_schema=WorkflowOutput)
    stages: dict[str, tuple[WorkflowNode, float, Stage, list[RetryPolicy]]] = {
        "retrieve": (retrieve_node(registry, max_tools), _LOOKUP_TIMEOUT_S, "tool_retrieval", [_READ_RETRY]),
        "select": (select_node(registry, prompts), _MODEL_TIMEOUT_S, "llm_selection", [_READ_RETRY]),
        "execute": (execute_node(registry, api_calls), _CALL_TIMEOUT_S, "api_execution", [_READ_RETRY, _SEND_RETRY]),
        "format": (format_node(prompts), _MODEL_TIMEOUT_S, "response_formatting", []),
    }
    for name, (node, timeout_s, stage, retries) in stages.items():
        graph.add_node(
            name,
            limit_seconds(node, timeout_s),
            error_handler=failure_handler(stage),
            retry_policy=retries or None,
            destinations={**_ERROR_EDGE, END: "done"} if name == "format" else _ERROR_EDGE,
        )
    graph.add_node("error", report_failure)

    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "select")
    graph.add_edge("select", "execute")
    graph.add_conditional_edges("execute", _route_after_execute, _NEXT_NODES)
    graph.add_edge("format", END)
    graph.add_edge("error", END)
    return graph


def _route_after_execute(state: WorkflowState) -> Literal["format requested", "done"]:
    return "format requested" if state["wanted_format"] else "done"
