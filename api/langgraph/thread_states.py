"""Read, search and update the states of threads through their graphs."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.errors import InvalidUpdateError
from langgraph.types import StateSnapshot, StateUpdate
from langgraph_sdk.runtime import AccessContext
from starlette.exceptions import HTTPException

from toolweave.api.langgraph.run_requests import CHECKPOINT_FIELDS
from toolweave.api.langgraph.serialization import EMPTY_STATE, thread_state_json
from toolweave.api.langgraph.services import ApiServices
from toolweave.errors import BadRequest, InvalidRequest, NotFound, ToolweaveError
from toolweave.runtime.codec import dumps, loads
from toolweave.runtime.graphs import Graph
from toolweave.runtime.models import JsonObject, NewRun, Thread, ThreadStatus
from toolweave.runtime.persistence.checkpoints.saver import CLAIM_KEY, FORKED_FROM
from toolweave.runtime.persistence.threads import ThreadClaim
from toolweave.runtime.runs.execution import interrupts_by_task, read_states
from toolweave.runtime.runs.graph_call import build_command

# Names that both savers accept in a filter.
FILTER_KEY = re.compile(r"[A-Za-z0-9_.-]+")
NO_GRAPH = (
    "Thread '{thread_id}' has no assigned graph ID. A thread gets its graph with its first run; to work on the state "
    "before that, set 'graph_id' in the thread's metadata."
)


async def read_state(
    services: ApiServices, thread_id: str, checkpoint: Mapping[str, Any] | None = None, *, subgraphs: bool = False
) -> JsonObject:
    """Return a thread's newest state, or that of a checkpoint. Raises NotFound for an unknown thread."""
    thread = await services.persistence.threads.get(thread_id)
    if graph_id_of(thread) is None:
        return EMPTY_STATE
    config = state_config(thread_id, checkpoint)
    async with open_graph(services, thread) as graph:
        if subgraphs:
            # After a subgraph refused the values of a node, its state cannot be read until it has run again.
            with suppress(Exception):
                return thread_state_json(await graph.aget_state(config, subgraphs=True))
        return thread_state_json(await graph.aget_state(config))


async def read_history(
    services: ApiServices,
    thread_id: str,
    *,
    limit: int,
    before: str | None,
    metadata: JsonObject | None = None,
    checkpoint: Mapping[str, Any] | None = None,
) -> list[JsonObject]:
    """Return a thread's states, newest first. Raises NotFound for an unknown thread."""
    thread = await services.persistence.threads.get(thread_id)
    if graph_id_of(thread) is None:
        return []
    config = state_config(thread_id, checkpoint)
    for key in metadata or ():
        if not FILTER_KEY.fullmatch(key):
            raise InvalidRequest(f"Invalid history filter: {key[:80]!r} is not the name of a field.")
    until: RunnableConfig | None = {"configurable": {"checkpoint_id": before}} if before else None
    async with open_graph(services, thread) as graph:
        try:
            states = await read_states(graph, config, limit=limit, filter=metadata, before=until)
        except ValueError as error:
            raise InvalidRequest(f"Invalid history filter: {error}") from error
    return [thread_state_json(state) for state in states]


async def write_states(
    services: ApiServices,
    thread_id: str,
    supersteps: Sequence[Sequence[StateUpdate]],
    checkpoint: Mapping[str, Any] | None = None,
) -> JsonObject:
    """Apply super-steps of node updates to a thread, and return the ids of the last new checkpoint (5.15).

    Raises:
        NotFound: the thread or the checkpoint to start from is unknown.
        Conflict: a run is pending or running on the thread.
        BadRequest: the thread has no graph.
        HTTPException: 400, the graph rejects an update.
    """
    newest: JsonObject = {"checkpoint_ns": "", **(checkpoint or {})}
    async with services.engine.claim_thread(thread_id) as claim:
        thread = await services.persistence.threads.get(thread_id)
        metadata: JsonObject = {"graph_id": graph_id_of(thread)}
        if newest.get("checkpoint_id"):
            metadata[FORKED_FROM] = newest["checkpoint_id"]
            await require_checkpoint(services, state_config(thread_id, newest))
        async with open_graph(services, thread, access="threads.update") as graph, _translate_update_errors():
            for step in supersteps:
                config = state_config(thread_id, newest, metadata=metadata, claim=claim)
                newest = (await _write_superstep(services, graph, config, step))["configurable"]
                # As on the official server: only the first checkpoint names the graph, later ones their origin.
                metadata = {FORKED_FROM: newest["checkpoint_id"]}
            await _store_thread_state(services, thread_id, await graph.aget_state(state_config(thread_id)))
    return newest


async def _write_superstep(
    services: ApiServices, graph: Graph, config: RunnableConfig, updates: Sequence[StateUpdate]
) -> RunnableConfig:
    """Write one super-step of updates; delete its checkpoint again if the graph cannot read it."""
    saver = services.persistence.checkpointer.saver_for_update()
    written = await graph.copy(update={"checkpointer": saver}).abulk_update_state(config, [updates])
    await saver.store_writes()
    try:
        await graph.aget_state(written)
    except Exception:
        await saver.delete_checkpoint(config["configurable"][CLAIM_KEY], written)
        raise
    return written


def graph_id_of(thread: Thread) -> str | None:
    """Return the id of the thread's graph: that of its last run, or the one set in its metadata."""
    graph_id = thread.metadata.get("graph_id")
    return graph_id if isinstance(graph_id, str) else None


def state_config(
    thread_id: str,
    checkpoint: Mapping[str, Any] | None = None,
    *,
    metadata: JsonObject | None = None,
    claim: ThreadClaim | None = None,
) -> RunnableConfig:
    """Return the config of a thread's newest checkpoint or of `checkpoint`, whose own thread_id is ignored.

    A config for writing needs the `claim` on the thread.
    """
    chosen = {name: item for name, item in (checkpoint or {}).items() if name in CHECKPOINT_FIELDS and item is not None}
    config: RunnableConfig = {"configurable": {**chosen, "thread_id": thread_id}}
    if claim is not None:
        config["configurable"][CLAIM_KEY] = claim
    if metadata is not None:
        config["metadata"] = metadata
    return config


@asynccontextmanager
async def open_graph(
    services: ApiServices, thread: Thread, *, access: AccessContext = "threads.read"
) -> AsyncIterator[Graph]:
    """Open a thread's graph. Raises BadRequest if the thread has none, NotFound if the graph is no longer served."""
    graph_id = graph_id_of(thread)
    if graph_id is None:
        raise BadRequest(NO_GRAPH.format(thread_id=thread.thread_id))
    services.require_graph(graph_id)
    async with services.graphs.open(graph_id, state_config(thread.thread_id), access=access) as graph:
        yield graph


async def require_checkpoint(services: ApiServices, config: RunnableConfig) -> None:
    """Raise NotFound if the checkpoint does not exist.

    With a mistyped checkpoint LangGraph would start from an empty state.
    """
    if await services.persistence.checkpointer.aget_tuple(config) is None:
        raise NotFound(f"Checkpoint {config['configurable']['checkpoint_id']} not found")


async def require_start_checkpoint(services: ApiServices, new_run: NewRun) -> None:
    """Raise NotFound if a run starts from a checkpoint that does not exist."""
    start = new_run.kwargs["config"]["configurable"]
    if start.get("checkpoint_id"):
        checkpoint = {name: str(start.get(name) or "") for name in ("checkpoint_id", "checkpoint_ns")}
        await require_checkpoint(services, state_config(new_run.thread_id, checkpoint))


async def _store_thread_state(services: ApiServices, thread_id: str, state: StateSnapshot) -> None:
    status: ThreadStatus = "interrupted" if state.next else "idle"
    await services.persistence.threads.set_state(thread_id, dumps(state.values), status, interrupts_by_task(state))
    shown = partial(_state_update_json, thread_id, state)
    await services.engine.publish_state(thread_id, shown)


def _state_update_json(thread_id: str, state: StateSnapshot) -> bytes:
    return dumps({"state": thread_state_json(state), "thread_id": thread_id})


def parse_state_update(update: Mapping[str, Any]) -> StateUpdate:
    """Parse one update of a super-step."""
    command = update.get("command")
    values: Any = build_command(command) if command else update.get("values")
    return StateUpdate(values, update["as_node"])


@asynccontextmanager
async def _translate_update_errors() -> AsyncIterator[None]:
    try:
        yield
    except ToolweaveError:
        raise
    except (InvalidUpdateError, ValueError) as error:
        raise HTTPException(400, str(error) or type(error).__name__) from error
    except Exception as error:
        # Code of the graph (a reducer, a conditional edge or a state class) rejected the values.
        text = f"The graph refused the state update: {type(error).__name__}: {loads(dumps(error))['message']}"
        raise HTTPException(400, text) from error
