"""Build the script writer: the URL of a page in, the script of a narrated video out (A-04).

An agent that fetches the page is one loop, drawn inside this graph. Its tools and its model are those of the job whose
node runs it, found through a context variable: jobs do not see each other's servers (A-07).
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
from toolweave.graphs.plane_tools import PlaneTools, ToolsOpener, open_task_tools, server_states
from toolweave.nodes.agent import AgentInput
from toolweave.nodes.chat_models import ChatModel, LazyChatModel, ScriptModels, as_script_models
from toolweave.nodes.model_turn import ModelUsage, model_usage
from toolweave.nodes.script.fetching.fetch_plain import (
    BEGUN_PERCENT,
    DONE_PERCENT,
    LONGEST_TOLD,
    PlainFetch,
    fetch_plain_node,
)
from toolweave.nodes.script.fetching.tool_pages import (
    CAME_PERCENT,
    CONNECTED_PERCENT,
    FETCH_PROMPT,
    FETCH_TASK,
    MOST_CHARACTERS,
    FetchDialogue,
    page_of_results,
)
from toolweave.nodes.script.page import ArticlePage
from toolweave.nodes.script.state import (
    FetchWay,
    ReadJob,
    ScriptInput,
    ScriptNode,
    ScriptOutput,
    ScriptState,
    ScriptUpdate,
    begin_node,
    shown_url,
    source_of,
    tell_progress,
)
from toolweave.nodes.script.validate import validate_node
from toolweave.nodes.script.write import write_node
from toolweave.nodes.tool_selection import MAX_TOOLS
from toolweave.servers.connections.tool import McpTool

ScriptBuilder = StateGraph[ScriptState, None, ScriptInput, ScriptOutput]
ScriptGraph = CompiledStateGraph[ScriptState, None, ScriptInput, ScriptOutput]
# Backstops in seconds: requests, extraction and model calls have limits of their own, which end them first. A long
# article takes many model calls.
_FETCH_TIMEOUT_S = 180.0
_AGENT_TIMEOUT_S = 3_600.0
_WRITE_TIMEOUT_S = 7_200.0
_VALIDATE_TIMEOUT_S = 900.0
_NEXT_NODES: dict[Hashable, str] = {"http": "fetch_page", "agent": "fetch_with_agent"}
_MCP_FILE_GONE = "the job began with MCP servers, and now no MCP file is named."


@dataclass(frozen=True, slots=True)
class AgentFetch:
    """How agents fetch pages: how often they may ask their model, and what opens the tools of a job."""

    max_iterations: int = 10
    max_tools: int = MAX_TOOLS
    open_tools: ToolsOpener = open_task_tools


def build_script_writer(
    *,
    model: ChatModel | ScriptModels,
    read_job: ReadJob = read_script_job,
    fetch: PlainFetch | None = None,
    agent: AgentFetch | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
) -> ScriptGraph:
    """Compile the script writer; it is a Runnable, async only.

    Input: `url`, and optionally `language`. Output: `script` (a VideoScript as JSON), `source` and `metadata.usage`. A
    stage that fails ends the run with its error; progress from 0 to 100 is told on the custom stream.

    Args:
        model: What writes, whatever a job's settings say; or ScriptModels, which gives each job the one it names.
        read_job: Says what a job is to do, when it begins; by default what CONFIG_PATH and MCP_CONFIG_PATH name (A-05).
        fetch: What fetches pages where no agent does; by default from public addresses only.
        agent: How agents fetch pages; by default with at most ten model calls.
        checkpointer: Where threads are kept; a server attaches its own.
        store: The long-term store.
    """
    models = as_script_models(model)
    graph: ScriptBuilder = StateGraph(ScriptState, input_schema=ScriptInput, output_schema=ScriptOutput)

    graph.add_node("begin", begin_node(read_job))
    graph.add_node("fetch_page", fetch_plain_node(fetch or PlainFetch()), timeout=_FETCH_TIMEOUT_S)
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


def _route_after_begin(state: ScriptState) -> FetchWay:
    return state["fetch_way"]


@dataclass(frozen=True, slots=True)
class _FetchJob:
    tools: PlaneTools
    model: LazyChatModel


_current_job: ContextVar[_FetchJob] = ContextVar("fetch_job")


def agent_node(fetch: AgentFetch, models: ScriptModels, read_job: ReadJob) -> ScriptNode:
    """Make the node that opens the job's servers and runs an agent loop with them, one that all jobs use.

    What the job is to do is read anew: neither servers nor their secrets go through checkpoints. It raises ConfigError
    when there are none any more, and FetchFailed, which names servers and errors.
    """
    loop = build_agent_loop(
        tools=_JobTools(),
        model=_JobModel(),
        max_iterations=fetch.max_iterations,
        on_iteration_limit="error",
        system_prompt=FETCH_PROMPT,
        max_tools=fetch.max_tools,
    )

    async def fetch_with_agent(state: ScriptState) -> ScriptUpdate:
        config = (await asyncio.to_thread(read_job)).mcp
        if config is None:
            raise ConfigError(_MCP_FILE_GONE, source="MCP_CONFIG_PATH", fix="Set it again, or start a new job.")
        servers = config.servers
        model = models.model_for(ScriptSettings.model_validate(state.get("settings") or {}))
        dialogue = FetchDialogue(state["url"], fetch.max_iterations)
        tell_progress(BEGUN_PERCENT, f"Connecting to {', '.join(server.name for server in servers if server.enabled)}")
        try:
            async with fetch.open_tools(servers) as tools:
                # That this function uses the loop is how LangGraph finds the graph to draw inside it.
                page = await _run_fetch_agent(loop, _FetchJob(tools, model), dialogue)
        except ServerUnavailable as error:
            raise dialogue.failure(str(error), ()) from error
        tell_progress(DONE_PERCENT, f"Fetched “{page['title'][:LONGEST_TOLD]}”")
        return {"page": page, "source": source_of(page), "model_usage": await _fetch_usage(dialogue, model)}

    return fetch_with_agent


async def _run_fetch_agent(loop: AgentGraph, job: _FetchJob, dialogue: FetchDialogue) -> ArticlePage:
    tell_progress(CONNECTED_PERCENT, f"An agent fetches {shown_url(dialogue.url)}")
    task: AgentInput = {"messages": [HumanMessage(FETCH_TASK.format(url=dialogue.url))]}
    token = _current_job.set(job)
    try:
        states: Any = loop.astream(task, stream_mode="values")
        async with aclosing(states):
            async for values in states:
                dialogue.follow(values["messages"])
        dialogue.check()
        tell_progress(CAME_PERCENT, "The content came; telling the article from the rest")
        return await page_of_results(dialogue.url, dialogue.messages)
    except (FetchFailed, IterationLimitError, ModelError, ConfigError) as error:
        usage = await _fetch_usage(dialogue, job.model)
        raise dialogue.failure(str(error), server_states(job.tools.plane), usage) from error
    finally:
        _current_job.reset(token)


class _JobTools:
    """The tools of the job whose node asks; results that are cut for the model come whole in their artifacts."""

    async def tools(self) -> Sequence[BaseTool]:
        return [_with_whole_results(tool) for tool in await _current_job.get().tools.tools()]

    async def unavailable_tools(self) -> Sequence[BaseTool]:
        return [_with_whole_results(tool) for tool in await _current_job.get().tools.unavailable_tools()]


class _JobModel(LazyChatModel):
    """The model of the job whose node asks."""

    def __init__(self) -> None:
        super().__init__(_raise_no_model)

    async def get(self) -> BaseChatModel:
        return await _current_job.get().model.get()


def _raise_no_model() -> NoReturn:
    raise ModelError("The fetching agent has a model within a job only.")


def _with_whole_results(tool: BaseTool) -> BaseTool:
    return tool.giving_whole(MOST_CHARACTERS) if isinstance(tool, McpTool) else tool


async def _fetch_usage(dialogue: FetchDialogue, model: LazyChatModel) -> list[ModelUsage]:
    answers = [message for message in dialogue.messages if isinstance(message, AIMessage)]
    if not answers:
        return []
    chat_model = await model.get()
    return [model_usage("fetch", chat_model, answer) for answer in answers]
