"""Old checkpoints go, and what the newest ones need stays (langgraph_api.md 2.2, `prune`)."""

from operator import add
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from toolweave.runtime.persistence.data_folder import Persistence


class State(TypedDict):
    """What the nodes have logged, kept whole in every checkpoint."""

    log: Annotated[list[str], add]


def grow(log: list[str], added: list[list[str]]) -> list[str]:
    return [*log, *(word for words in added for word in words)]


class Deltas(TypedDict):
    """The same, of which a checkpoint holds only what was added."""

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
    ((number,),) = await persistence.checkpointer.conn.execute_fetchall(query, (thread_id,))
    return int(number)


@pytest.mark.parametrize("state", [State, Deltas])
async def test_a_pruned_thread_has_one_checkpoint_a_namespace_and_goes_on(persistence: Persistence, state: Any) -> None:
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
    kept = [one async for one in graph.aget_state_history(config)]
    assert kept[0].values == before.values
    assert kept[-1].parent_config is None
    assert state is Deltas or len(kept) == 1
    answered = await graph.ainvoke(Command(resume="yes"), config)
    assert answered["log"] == [*before.values["log"], *before.values["log"], "yes"][-len(answered["log"]) :]


async def test_delta_channels_keep_no_more_than_they_are_rebuilt_from(persistence: Persistence) -> None:
    graph, config = graph_of(persistence, Deltas), at("t")
    for turn in range(8):
        await graph.ainvoke({"log": [f"turn {turn}"]}, config)
    whole = await counted(persistence, "t")
    log = (await graph.aget_state(config)).values["log"]

    await persistence.checkpointer.aprune(["t"])

    assert (await graph.aget_state(config)).values["log"] == log
    assert await counted(persistence, "t") < whole


async def test_pruning_touches_no_other_thread_and_takes_the_writes_along(persistence: Persistence) -> None:
    graph = graph_of(persistence, State)
    for thread_id in ("t", "other"):
        await graph.ainvoke({"log": ["one"]}, at(thread_id))
    untouched = await counted(persistence, "other"), await counted(persistence, "other", "writes")
    writes = await counted(persistence, "t", "writes")

    await persistence.checkpointer.aprune(["t", "nobody"])
    assert 0 < await counted(persistence, "t", "writes") < writes
    await persistence.checkpointer.aprune(["t"], strategy="delete")

    assert await counted(persistence, "t") == await counted(persistence, "t", "writes") == 0
    assert (await counted(persistence, "other"), await counted(persistence, "other", "writes")) == untouched


async def test_a_thread_is_measured_channel_by_channel(persistence: Persistence) -> None:
    graph, config = graph_of(persistence, State), at("t")
    empty = await persistence.checkpointer.measure_storage("t")
    assert (empty.checkpoints, empty.checkpoint_bytes, empty.writes, empty.channel_bytes) == (0, 0, 0, {})
    await graph.ainvoke({"log": ["x" * 10_000]}, config)
    await graph.ainvoke({"log": ["y" * 10_000]}, config)

    storage = await persistence.checkpointer.measure_storage("t")

    rows = "SELECT SUM(LENGTH(checkpoint) + LENGTH(metadata)) FROM checkpoints WHERE thread_id = 't'"
    ((stored,),) = await persistence.checkpointer.conn.execute_fetchall(rows)
    values = sum(storage.channel_bytes.values())
    assert storage.checkpoint_bytes + values == stored
    assert storage.checkpoints == await counted(persistence, "t")
    assert storage.writes == await counted(persistence, "t", "writes")
    assert storage.channel_bytes["log"] > 40_000 > storage.checkpoint_bytes
    assert len(storage.channel_versions["log"]) >= 4
