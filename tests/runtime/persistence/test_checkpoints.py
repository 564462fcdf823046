"""Rolling a run back, or deleting it, takes its checkpoints out and leaves all others (langgraph_api.md 5.8, 5.9)."""

from operator import add
from typing import Annotated, Any

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from toolweave.runtime.persistence.opening import Persistence


class State(TypedDict):
    """What the graph and its subgraph have logged."""

    log: Annotated[list[str], add]


def compiled(persistence: Persistence) -> "CompiledStateGraph[State, None, State, State]":
    child = StateGraph(State)
    child.add_node("inner", lambda _: {"log": ["inner"]})
    child.add_edge(START, "inner")
    child.add_edge("inner", END)
    graph = StateGraph(State)
    graph.add_node("child", child.compile(checkpointer=True))
    graph.add_edge(START, "child")
    graph.add_edge("child", END)
    return graph.compile(checkpointer=persistence.checkpointer)


async def run(persistence: Persistence, thread_id: str, run_id: str, said: str) -> None:
    config: Any = {"configurable": {"thread_id": thread_id}, "metadata": {"run_id": run_id}}
    await compiled(persistence).ainvoke({"log": [said]}, config)


async def stored(persistence: Persistence, thread_id: str) -> tuple[set[str], int]:
    """The namespaces and the number of rows that the saver keeps of a thread."""
    connection = persistence.checkpointer.conn
    namespaces = await connection.execute_fetchall(
        "SELECT checkpoint_ns FROM checkpoints WHERE thread_id = ?", (thread_id,)
    )
    writes = await connection.execute_fetchall("SELECT 1 FROM writes WHERE thread_id = ?", (thread_id,))
    return {row[0] for row in namespaces}, len(list(namespaces)) + len(list(writes))


async def log(persistence: Persistence, thread_id: str) -> list[str]:
    state = await compiled(persistence).aget_state({"configurable": {"thread_id": thread_id}})
    return list(state.values.get("log", []))


async def test_the_state_is_as_before_the_run_whose_checkpoints_are_deleted(persistence: Persistence) -> None:
    await run(persistence, "t", "first", "hello")
    before = await stored(persistence, "t")
    await run(persistence, "t", "second", "again")
    assert await log(persistence, "t") != ["hello", "hello", "inner"]

    await persistence.delete_run_checkpoints("t", "second")

    assert await stored(persistence, "t") == before
    assert "child" in before[0]


async def test_deleting_the_only_run_leaves_no_state(persistence: Persistence) -> None:
    await run(persistence, "t", "only", "hello")

    await persistence.delete_run_checkpoints("t", "only")

    assert await stored(persistence, "t") == (set(), 0)
    assert await log(persistence, "t") == []


async def test_the_same_run_id_on_another_thread_is_left_alone(persistence: Persistence) -> None:
    await run(persistence, "t", "run", "hello")
    await run(persistence, "other", "run", "hello")
    before = await stored(persistence, "other")

    await persistence.delete_run_checkpoints("t", "run")
    await persistence.delete_run_checkpoints("t", "unknown")

    assert await stored(persistence, "other") == before


@pytest.mark.requirement("T-14")
async def test_deleting_a_threads_checkpoints_leaves_nothing_of_it(persistence: Persistence) -> None:
    await run(persistence, "t", "first", "hello")
    await run(persistence, "t", "second", "again")
    await run(persistence, "other", "third", "hello")

    await persistence.delete_thread_checkpoints("t")

    assert await stored(persistence, "t") == (set(), 0)
    assert await log(persistence, "other") != []
