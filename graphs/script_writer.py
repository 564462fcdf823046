"""Build the script writer: from the URL of a page to the script of a narrated video (A-04).

An agent that fetches the page is one agent loop, drawn as a subgraph and shared by all jobs. A context variable holds
the tools and the model of the current job, so jobs do not see each other's servers (A-07).
"""

import asyncio
from collections.abc import Hashable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from toolweave.config.script_job import read_script_job
from toolweave.config.script_settings import ScriptSettings
from toolweave.errors import ConfigError, FetchFailed, IterationLimitError, ModelError, ServerUnavailable
from toolweave.graphs.agent_loop import AgentGraph, build_agent_loop
from toolweave.graphs.plane_tools import PlaneTools, ToolsOpener, describe_servers, open_task_tools
from toolweave.nodes.agent import AgentInput
from toolweave.nodes.chat_models import LazyChatModel, ModelSource, ScriptModels, as_script_models
from toolweave.nodes.model_turn import ModelUsage, model_usage
from toolweave.nodes.script.fetching import fetch_plain, pages_from_tools
from toolweave.nodes.script.page import ArticlePage
from toolweave.nodes.script.state import (
    FetchMethod,
    ReadJob,
    ScriptInput,
    ScriptNode,
    ScriptOutput,
    ScriptState,
    ScriptUpdate,
    begin_node,
    report_progress,
    safe_url,
    script_source,
)
from toolweave.nodes.script.validate import validate_node
from toolweave.nodes.script.write import write_node
from toolweave.nodes.tool_selection import DEFAULT_MAX_TOOLS
from toolweave.servers.connections.tool import McpTool

ScriptBuilder = StateGraph[ScriptState, None, ScriptInput, ScriptOutput]
ScriptGraph = CompiledStateGraph[ScriptState, None, ScriptInput, ScriptOutput]
# Backstops: requests, extraction and model calls have shorter timeouts of their own. A long article takes many model
# calls.
_FETCH_TIMEOUT_S = 180.0
_AGENT_TIMEOUT_S = 3_600.0
_WRITE_TIMEOUT_S = 7_200.0
_VALIDATE_TIMEOUT_S = 900.0
_NEXT_NODES: dict[Hashable, str] = {"http": "fetch_page", "agent": "fetch_with_agent"}
_MCP_FILE_GONE = "the job started with MCP servers, but now no MCP file is named."


@dataclass(frozen=True, slots=True)
class AgentFetch:
    """How agents fetch pages: the limits of their loop, and how the MCP servers of a job are opened."""

    max_iterations: int = 10
    max_tools: int = DEFAULT_MAX_TOOLS
    open_tools: ToolsOpener = open_task_tools


def build_script_writer(
    *,
    model: ModelSource | ScriptModels,
    read_job: ReadJob = read_script_job,
    fetch: fetch_plain.PlainFetch | None = None,
    agent: AgentFetch | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
) -> ScriptGraph:
    """Compile the script writer into a Runnable, async only.

    Input: `url`, and optionally `language`. Output: `script` (a VideoScript as JSON), `source` and `metadata.usage`. A
    stage that fails ends the run with its error. The custom stream reports progress from 0 to 100.

    Args:
        model: The model that writes, whatever a job's settings name; or ScriptModels, which returns the one they name.
        read_job: Returns the job when it starts; by default the one that CONFIG_PATH and MCP_CONFIG_PATH describe
            (A-05).
        fetch: Fetches pages for jobs without MCP servers; by default from public addresses only.
        agent: How agents fetch pages; by default with at most ten model calls.
        checkpointer: Stores threads; a server attaches its own.
        store: The long-term store.
    """
    models = as_script_models(model)
    graph: ScriptBuilder = StateGraph(ScriptState, input_schema=ScriptInput, output_schema=ScriptOutput)

    graph.add_node("begin", begin_node(read_job))
    graph.add_node(
        "fetch_page", fetch_plain.fetch_plain_node(fetch or fetch_plain.PlainFetch()), timeout=_FETCH_TIMEOUT_S
    )
    graph.add_node("fetch_with_agent", agent_node(agent or AgentFetch(), models, read_job), timeout=_AGENT_TIMEOUT_S)
    graph.add_node("write", write_node(models), timeout=_WRITE_TIMEOUT_S)
    graph.add_node("validate", validate_node(models), timeout=_VALIDATE_TIMEOUT_S)

    graph.add_edge(START, "begin")
    graph.add_conditional_edges("begin", _route_after_begin, _NEXT_NODES)
    graph.add_edge("fetch_page", "write")
    graph.add_edge("fetch_with_agent", "write")
    graph.add_edge("write", "validate")
    graph.add_edge("validate", END)
    return graph.compile(checkpointer=checkpointer, store=store, name="script_writer")


def _route_after_begin(state: ScriptState) -> FetchMethod:
    return state["fetch_way"]


@dataclass(frozen=True, slots=True)
class _FetchJob:
    tools: PlaneTools
    model: LazyChatModel


_current_job: ContextVar[_FetchJob] = ContextVar("fetch_job")


def agent_node(fetch: AgentFetch, models: ScriptModels, read_job: ReadJob) -> ScriptNode:
    """Return the node that opens the job's MCP servers and runs the shared agent loop with their tools.

    The node reads the job again: neither servers nor their secrets go through checkpoints. It raises ConfigError when
    the job has no servers any more, and FetchFailed, which names servers and errors.
    """
    loop = build_agent_loop(
        tools=_JobTools(),
        model=_JobModel(),
        max_iterations=fetch.max_iterations,
        on_iteration_limit="error",
        system_prompt=pages_from_tools.FETCH_PROMPT,
        max_tools=fetch.max_tools,
    )

    async def fetch_with_agent(state: ScriptState) -> ScriptUpdate:
        config = (await asyncio.to_thread(read_job)).mcp
        if config is None:
            raise ConfigError(_MCP_FILE_GONE, source="MCP_CONFIG_PATH", fix="Set it again, or start a new job.")
        servers = config.servers
        model = models.model_for(ScriptSettings.model_validate(state.get("settings") or {}))
        dialogue = pages_from_tools.FetchMonitor(state["url"], fetch.max_iterations)
        report_progress(
            fetch_plain.START_PERCENT, f"Connecting to {', '.join(each.name for each in servers if each.enabled)}"
        )
        try:
            async with fetch.open_tools(servers) as tools:
                # LangGraph draws the loop as a subgraph because this closure refers to it.
                page = await _run_fetch_agent(loop, _FetchJob(tools, model), dialogue)
        except ServerUnavailable as error:
            raise dialogue.failure(str(error), ()) from error
        report_progress(fetch_plain.DONE_PERCENT, f"Fetched “{page['title'][: fetch_plain.MAX_TITLE_CHARS]}”")
        return {"page": page, "source": script_source(page), "model_usage": await _fetch_usage(dialogue, model)}

    return fetch_with_agent


async def _run_fetch_agent(loop: AgentGraph, job: _FetchJob, dialogue: pages_from_tools.FetchMonitor) -> ArticlePage:
    report_progress(pages_from_tools.CONNECTED_PERCENT, f"An agent fetches {safe_url(dialogue.url)}")
    task: AgentInput = {"messages": [HumanMessage(pages_from_tools.FETCH_TASK.format(url=dialogue.url))]}
    token = _current_job.set(job)
    try:
        states: Any = loop.astream(task, stream_mode="values")
        async with aclosing(states):
            async for values in states:
                dialogue.observe(values["messages"])
        dialogue.require_results()
        report_progress(pages_from_tools.FETCHED_PERCENT, "Content received; extracting the article")
        return await pages_from_tools.page_from_results(dialogue.url, dialogue.messages)
    except (FetchFailed, IterationLimitError, ModelError, ConfigError) as error:
        usage = await _fetch_usage(dialogue, job.model)
        raise dialogue.failure(str(error), describe_servers(job.tools.plane), usage) from error
    finally:
        _current_job.reset(token)


class _JobTools:
    """The current job's tools; their artifacts hold the whole of results that are cut for the model."""

    async def tools(self) -> Sequence[BaseTool]:
        return [_with_whole_results(tool) for tool in await _current_job.get().tools.tools()]

    async def unavailable_tools(self) -> Sequence[BaseTool]:
        return [_with_whole_results(tool) for tool in await _current_job.get().tools.unavailable_tools()]


class _JobModel(LazyChatModel):
    """The current job's model."""

    def __init__(self) -> None:
        super().__init__(_raise_no_model)

    async def get(self) -> BaseChatModel:
        return await _current_job.get().model.get()


def _raise_no_model() -> NoReturn:
    raise ModelError("The fetching agent has no model outside of a job.")


def _with_whole_results(tool: BaseTool) -> BaseTool:
    return tool.with_whole_result(pages_from_tools.MAX_PAGE_CHARS) if isinstance(tool, McpTool) else tool


async def _fetch_usage(dialogue: pages_from_tools.FetchMonitor, model: LazyChatModel) -> list[ModelUsage]:
    answers = [message for message in dialogue.messages if isinstance(message, AIMessage)]
    if not answers:
        return []
    chat_model = await model.get()
    return [model_usage("fetch", chat_model, answer) for answer in answers]
