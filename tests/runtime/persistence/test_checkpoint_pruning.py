"""Pruning deletes old checkpoints that the newest ones do not need (langgraph_api.md 2.2)."""

from operator import add
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from tests.runtime.persistence.checkpoints import fetch
from tests.runtime.persistence.conftest import ON_BOTH
from toolweave.runtime.persistence.data_folder import Persistence

pytestmark = ON_BOTH


class State(TypedDict):
    """A log that is whole in every checkpoint."""

    log: Annotated[list[str], add]


def grow(log: list[str], added: list[list[str]]) -> list[str]:
    return [*log, *(word for words in added for word in words)]


class Deltas(TypedDict):
    """A log of which a checkpoint has only the new lines."""

    log: Annotated[list[str], DeltaChannel(grow, snapshot_frequency=4)]


def graph_of(persistence: Persistence, state: Any) -> "CompiledStateGraph[Any, None, Any, Any]":
    child = StateGraph(state)
    child.add_node("inner", lambda _: {"log": [str(interrupt("go on?"))]})
    child.add_edge(START, "inner")
    child.add_edge("inner", END)
    graph = StateGraph(state)
    graph.add_node("before", lambda _: {"log": ["before"]})
    graph.add_node("child", child.compile())
    graph.add_edge(START, "before")
    graph.add_edge("before", "child")
    graph.add_edge("child", END)
    return graph.compile(checkpointer=persistence.checkpointer)


def at(thread_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id}}


async def counted(persistence: Persistence, thread_id: str, table: str = "checkpoints") -> int:
    query = f"SELECT COUNT(*) FROM {table} WHERE thread_id = ?"  # noqa: S608 - a test's own words
    ((number,),) = await fetch(persistence.checkpointer, query, thread_id)
    return int(number)


@pytest.mark.parametrize("state", [State, Deltas])
async def test_a_pruned_thread_has_one_checkpoint_a_namespace_and_continues(
    persistence: Persistence, state: Any
) -> None:
    graph, config = graph_of(persistence, state), at("t")
    for turn in range(3):
        await graph.ainvoke({"log": [f"turn {turn}"]}, config)
    before = await graph.aget_state(config, subgraphs=True)
    assert await counted(persistence, "t") > 6

    await persistence.checkpointer.aprune(["t"])

    after = await graph.aget_state(config, subgraphs=True)
    assert (after.values, after.next, after.interrupts) == (before.values, before.next, before.interrupts)
    inner: list[Any] = [state.tasks[0].state for state in (before, after)]
    assert inner[0].values == inner[1].values
    history = [one async for one in graph.aget_state_history(config)]
    assert history[0].values == before.values
    assert history[-1].parent_config is None
    assert state is Deltas or len(history) == 1
    answered = await graph.ainvoke(Command(resume="yes"), config)
    assert answered["log"] == [*before.values["log"], *before.values["log"], "yes"][-len(answered["log"]) :]


async def test_only_checkpoints_that_delta_channels_need_stay(persistence: Persistence) -> None:
    graph, config = graph_of(persistence, Deltas), at("t")
    for turn in range(8):
        await graph.ainvoke({"log": [f"turn {turn}"]}, config)
    whole = await counted(persistence, "t")
    log = (await graph.aget_state(config)).values["log"]

    await persistence.checkpointer.aprune(["t"])

    assert (await graph.aget_state(config)).values["log"] == log
    assert await counted(persistence, "t") < whole


async def test_pruning_deletes_writes_too_and_changes_no_other_thread(persistence: Persistence) -> None:
    graph = graph_of(persistence, State)
    for thread_id in ("t", "other"):
        await graph.ainvoke({"log": ["one"]}, at(thread_id))
    untouched = await counted(persistence, "other"), await counted(persistence, "other", "writes")
    writes = await counted(persistence, "t", "writes")

    await persistence.checkpointer.aprune(["t", "unknown"])
    assert 0 < await counted(persistence, "t", "writes") < writes
    await persistence.checkpointer.aprune(["t"], strategy="delete")

    assert await counted(persistence, "t") == await counted(persistence, "t", "writes") == 0
    assert (await counted(persistence, "other"), await counted(persistence, "other", "writes")) == untouched
