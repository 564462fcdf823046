"""Read threads whose last step wrote what the graph cannot take, and repair them after a failed run.

LangGraph stores what a task, a Command or an update wrote before it applies it. If a reducer then raises (a malformed
message, two values for a key that takes one), or if a pydantic state refuses the new values, this data stays on the
thread, and LangGraph raises the same error whenever it reads the thread's state.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from copy import deepcopy
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, Checkpoint, CheckpointTuple
from langgraph.checkpoint.serde.types import ERROR
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot

from toolweave.errors import ToolweaveError
from toolweave.runtime.graphs import Graph
from toolweave.runtime.models import JsonObject
from toolweave.runtime.persistence.checkpointer import CLAIM_KEY, NULL_TASK_ID, RunAwareSaver

# Each costs several attempts to read the state; if there are more, the results of all tasks are left out.
MOST_REFUSED = 20


async def readable_state(graph: Graph, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
    """Read a thread's state; a task whose writes cannot be applied has failed, as far as this shows."""
    try:
        return await graph.aget_state(config, subgraphs=subgraphs)
    except Exception:  # noqa: BLE001 - the graph's own reducers and state classes
        return await _tolerant(graph).aget_state(config, subgraphs=subgraphs)


async def readable_history(
    graph: Graph,
    config: RunnableConfig,
    *,
    limit: int,
    filters: JsonObject | None,
    before: RunnableConfig | None = None,
) -> list[StateSnapshot]:
    """Read a thread's states, newest first, as readable_state does."""
    try:
        return await _all(graph.aget_state_history(config, filter=filters, before=before, limit=limit))
    except Exception:  # noqa: BLE001 - the graph's own reducers and state classes
        return await _all(_tolerant(graph).aget_state_history(config, filter=filters, before=before, limit=limit))


async def _all(states: AsyncIterator[StateSnapshot]) -> list[StateSnapshot]:
    found = []
    async for state in states:
        found.append(state)
        # LangGraph decodes the next state without waiting for anything: others would wait for all of them.
        await asyncio.sleep(0)
    return found


async def repaired_state(graph: Graph, saver: RunAwareSaver, config: RunnableConfig, run_id: str) -> StateSnapshot:
    """Read the state that a failed run left, after removing from the thread what the graph cannot take.

    A run that failed before its first task leaves the thread as it was. Tasks whose writes cannot be applied have
    failed with that error from then on, so that the next run can go on from there. A checkpoint that the run wrote and
    that the graph cannot read is deleted. `config` points at the thread and has the run's id and claim.
    """
    found = await saver.aget_tuple(config)
    # LangGraph does not wait for what it is storing when the input is refused.
    await saver.settled(run_id)
    thread_id = config["configurable"]["thread_id"]
    if found is not None and not _is_of_run(found, run_id) and await saver.wrote_only_its_command(thread_id, run_id):
        await saver.take_back(config["configurable"][CLAIM_KEY], run_id)
    try:
        return await graph.aget_state(config)
    except ToolweaveError:
        raise
    except Exception as error:  # noqa: BLE001 - the graph's own reducers and state classes
        await _repair(graph, saver, config, run_id, error)
    return await readable_state(graph, config)


async def _repair(graph: Graph, saver: RunAwareSaver, config: RunnableConfig, run_id: str, error: Exception) -> None:
    found = await saver.aget_tuple(config)
    if found is None:
        return
    refused, readable = await _Probe(graph, saver, live=True).refused_by(found)
    if not readable and _is_of_run(found, run_id):
        parent = await saver.aget_tuple(merged(config, found.parent_config)) if found.parent_config else None
        if parent is None or not _is_of_run(parent, run_id):
            await saver.take_back(config["configurable"][CLAIM_KEY], run_id)
            return
        await saver.delete_checkpoint(merged(config, found.config))
        found, refused = parent, dict.fromkeys(_tasks_with_results(parent), error)
    for task_id, why in refused.items():
        await saver.fail_task(merged(config, found.config), task_id, why)


def merged(config: RunnableConfig, place: RunnableConfig) -> RunnableConfig:
    """Point a config at another place, with the rest of what it says."""
    return {**config, "configurable": {**config["configurable"], **place["configurable"]}}


def _is_of_run(found: CheckpointTuple, run_id: str) -> bool:
    return found.metadata.get("run_id") == run_id


def _tolerant(graph: Graph) -> Graph:
    saver = graph.checkpointer
    if not isinstance(saver, BaseCheckpointSaver):
        return graph
    return graph.copy(update={"checkpointer": _TolerantSaver(graph, saver)})


class _ReadOnlySaver(BaseCheckpointSaver[Any]):
    """A checkpointer for reading a graph's state, on top of the graph's own."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        super().__init__(serde=saver.serde)
        self._saver = saver


class _TolerantSaver(_ReadOnlySaver):
    """Loads checkpoints without what the graph cannot take."""

    def __init__(self, graph: Graph, saver: BaseCheckpointSaver[Any]) -> None:
        super().__init__(saver)
        self._graph = graph

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Load a checkpoint."""
        found = await self._saver.aget_tuple(config)
        live = "checkpoint_id" not in config["configurable"]
        return found and await self._readable(found, live=live)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Load checkpoints, newest first."""
        async for found in self._saver.alist(config, filter=filter, before=before, limit=limit):
            yield await self._readable(found, live=False)

    async def _readable(self, found: CheckpointTuple, *, live: bool) -> CheckpointTuple:
        refused, readable = await _Probe(self._graph, self._saver, live=live).refused_by(found)
        shown = _with_failed(found, refused)
        return shown if readable else _without_next_tasks(shown, self._graph)


class _OneCheckpoint(_ReadOnlySaver):
    """Loads one given checkpoint in place of the stored one."""

    def __init__(self, saver: BaseCheckpointSaver[Any], shown: CheckpointTuple) -> None:
        super().__init__(saver)
        self._shown = shown

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Load the given checkpoint, or an earlier one."""
        wanted, shown = config["configurable"], self._shown.config["configurable"]
        same_place = wanted.get("checkpoint_ns", "") == shown.get("checkpoint_ns", "")
        if same_place and wanted.get("checkpoint_id") in (None, shown["checkpoint_id"]):
            # Reducers may change what they are given.
            return deepcopy(self._shown)
        return await self._saver.aget_tuple(config)


class _Probe:
    """Finds out by reading the state what of a checkpoint a graph cannot take.

    `live` is as in LangGraph: the newest state shows the results of finished tasks, states in the history do not.
    """

    def __init__(self, graph: Graph, saver: BaseCheckpointSaver[Any], *, live: bool) -> None:
        self._graph, self._saver, self._live = graph, saver, live

    async def refused_by(self, found: CheckpointTuple) -> tuple[dict[str, Exception], bool]:
        """Give the tasks whose writes cannot be applied, and whether the state can be read without those."""
        refused: dict[str, Exception] = {}
        error = await self._error(found)
        while error is not None:
            shown = _with_failed(found, refused)
            tasks = _tasks_with_results(shown)
            if not tasks or await self._error(_with_results_of(shown, ())) is not None:
                return refused, False
            if len(refused) == MOST_REFUSED:
                return refused | dict.fromkeys(tasks, error), True
            culprit, why = await self._first_refused(shown, tasks, error)
            refused[culprit] = why
            error = await self._error(_with_failed(found, refused))
        return refused, True

    async def _first_refused(
        self, found: CheckpointTuple, tasks: Sequence[str], error: Exception
    ) -> tuple[str, Exception]:
        """Find the first task, in the order of application, whose writes make the reading fail."""
        good, bad = 0, len(tasks)
        while bad - good > 1:
            middle = (good + bad) // 2
            problem = await self._error(_with_results_of(found, tasks[:middle]))
            if problem is None:
                good = middle
            else:
                bad, error = middle, problem
        return tasks[bad - 1], error

    async def _error(self, shown: CheckpointTuple) -> Exception | None:
        graph = self._graph.copy(update={"checkpointer": _OneCheckpoint(self._saver, shown)})
        names = ("thread_id", "checkpoint_ns") if self._live else ("thread_id", "checkpoint_ns", "checkpoint_id")
        place = shown.config["configurable"]
        try:
            await graph.aget_state({"configurable": {name: place[name] for name in names if name in place}})
        except ToolweaveError:
            raise
        except Exception as error:  # noqa: BLE001 - the graph's own reducers and state classes
            return error
        return None


def _tasks_with_results(found: CheckpointTuple) -> list[str]:
    """List the tasks that wrote to channels, in the order in which LangGraph applies their writes."""
    results = {task_id: None for task_id, channel, _ in found.pending_writes or () if channel not in WRITES_IDX_MAP}
    # A Command's writes come first.
    return sorted(results, key=lambda task_id: task_id != NULL_TASK_ID)


def _with_results_of(found: CheckpointTuple, tasks: Sequence[str]) -> CheckpointTuple:
    writes = [write for write in found.pending_writes or () if write[1] in WRITES_IDX_MAP or write[0] in tasks]
    return found._replace(pending_writes=writes)


def _with_failed(found: CheckpointTuple, refused: dict[str, Exception]) -> CheckpointTuple:
    kept = [task_id for task_id in _tasks_with_results(found) if task_id not in refused]
    shown = _with_results_of(found, kept)
    errors = [(task_id, ERROR, error) for task_id, error in refused.items() if task_id != NULL_TASK_ID]
    return shown._replace(pending_writes=[*(shown.pending_writes or ()), *errors])


def _without_next_tasks(found: CheckpointTuple, graph: Graph) -> CheckpointTuple:
    """Show a checkpoint whose next tasks cannot be prepared as one without any."""
    subgraphs = [inner for _, inner in graph.get_subgraphs(recurse=True) if isinstance(inner, Pregel)]
    names = {name for each in (graph, *subgraphs) for name in each.nodes}
    shown: Checkpoint = deepcopy(found.checkpoint)
    shown["versions_seen"].update({name: dict(shown["channel_versions"]) for name in names})
    return found._replace(checkpoint=shown, pending_writes=[])
