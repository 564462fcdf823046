"""Build the script writer: the URL of a page in, the script of a narrated video out (A-04)."""

from collections.abc import Hashable

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from toolweave.config.script_job import read_script_job
from toolweave.graphs.fetch_agent import AgentFetch, fetch_agent_node, fetch_loop
from toolweave.nodes.chat_model_source import ChatModel
from toolweave.nodes.script.begin import ReadJob, begin_node
from toolweave.nodes.script.fetching.fetch_plain import PlainFetch, fetch_plain_node
from toolweave.nodes.script.script_state import FetchWay, ScriptInput, ScriptOutput, ScriptState
from toolweave.nodes.script.writing.script_model import ScriptModels, as_script_models
from toolweave.nodes.script.writing.validate import validate_node
from toolweave.nodes.script.writing.write import write_node

ScriptBuilder = StateGraph[ScriptState, None, ScriptInput, ScriptOutput]
ScriptGraph = CompiledStateGraph[ScriptState, None, ScriptInput, ScriptOutput]

# Backstops in seconds: requests, extraction and model calls have limits of their own, which end them first. A long
# article takes many model calls.
_FETCH_S = 180.0
_AGENT_S = 3_600.0
_WRITE_S = 7_200.0
_VALIDATE_S = 900.0

_WAYS_ON: dict[Hashable, str] = {"http": "fetch_page", "agent": "fetch_with_agent"}


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
    agent = agent or AgentFetch()
    fetching = fetch_agent_node(fetch_loop(agent), agent, models, read_job)
    graph: ScriptBuilder = StateGraph(ScriptState, input_schema=ScriptInput, output_schema=ScriptOutput)

    graph.add_node("begin", begin_node(read_job))
    graph.add_node("fetch_page", fetch_plain_node(fetch or PlainFetch()), timeout=_FETCH_S)
    graph.add_node("fetch_with_agent", fetching, timeout=_AGENT_S)
    graph.add_node("write", write_node(models), timeout=_WRITE_S)
    graph.add_node("validate", validate_node(models), timeout=_VALIDATE_S)

    graph.add_edge(START, "begin")
    graph.add_conditional_edges("begin", _fetch_way, _WAYS_ON)
    graph.add_edge("fetch_page", "write")
    graph.add_edge("fetch_with_agent", "write")
    graph.add_edge("write", "validate")
    graph.add_edge("validate", END)
    return graph.compile(checkpointer=checkpointer, store=store, name="script_writer")


def _fetch_way(state: ScriptState) -> FetchWay:
    return state["fetch_way"]
