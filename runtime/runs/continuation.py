"""Go on with a run whose process died: say where an earlier attempt stood, and what is left to execute (S-05)."""

from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from toolweave.runtime.graphs import Graph
from toolweave.runtime.models import Run
from toolweave.runtime.runs.graph_input import GraphCall

STARTING_POINT = frozenset({"checkpoint_id", "checkpoint_map"})


def written_by(snapshot: StateSnapshot, run: Run) -> bool:
    """Say whether a checkpoint is one of the run's own."""
    return (snapshot.metadata or {}).get("run_id") == run.run_id


def rest_of(call: GraphCall) -> GraphCall:
    """Give the call that goes on from the thread's newest checkpoint: the input is in there already.

    The checkpoint that the run forked from goes, too: its input and its steps would otherwise be lost.
    """
    configurable = {name: item for name, item in call.config["configurable"].items() if name not in STARTING_POINT}
    config: RunnableConfig = {**call.config, "configurable": configurable}
    return replace(call, input=None, config=config)


async def stands_still(graph: Graph, snapshot: StateSnapshot, call: GraphCall) -> bool:
    """Say whether an earlier attempt left nothing to execute: it was through, or only humans are waited for.

    An empty `next` does not say so: results that no checkpoint has taken up yet count as done there.
    """
    waiting = sum(1 for task in snapshot.tasks if task.interrupts)
    if not snapshot.tasks or (waiting > 0 and waiting == len(snapshot.next)):
        return True
    return await _at_breakpoint(graph, snapshot, call)


async def _at_breakpoint(graph: Graph, snapshot: StateSnapshot, call: GraphCall) -> bool:
    """Say whether the run's own newest checkpoint is one where a breakpoint stops it.

    Going on from there would count as a human's consent. A fork's first checkpoint is the exception: the run was
    asked to go on from it.
    """
    if (snapshot.metadata or {}).get("source") == "fork":
        return False
    if _stops(call.interrupt_before or graph.interrupt_before_nodes, snapshot):
        return True
    after = call.interrupt_after or graph.interrupt_after_nodes
    if not after or snapshot.parent_config is None or (snapshot.metadata or {}).get("source") != "loop":
        return False
    return _stops(after, await graph.aget_state(snapshot.parent_config))


def _stops(nodes: Any, snapshot: StateSnapshot) -> bool:
    names = {task.name for task in snapshot.tasks}
    return bool(names) if nodes == "*" else not names.isdisjoint(nodes or ())
