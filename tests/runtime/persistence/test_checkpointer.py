"""Rolling a run back, or deleting it, deletes its checkpoints and no others (langgraph_api.md 5.8, 5.9)."""

import asyncio
from operator import add
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from tests.runtime.persistence.checkpoints import claimed, fetch, hold, let_go, restarted
from tests.runtime.persistence.conftest import ON_BOTH
from toolweave.errors import ClaimLost
from toolweave.runtime.persistence.checkpoints.saver import CLAIM_KEY
from toolweave.runtime.persistence.data_folder import Persistence
from toolweave.runtime.persistence.threads import ThreadClaim

pytestmark = ON_BOTH


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


async def run(persistence: Persistence, thread_id: str, run_id: str, text: str) -> None:
    config: Any = {"configurable": {"thread_id": thread_id}, "metadata": {"run_id": run_id}}
    await compiled(persistence).ainvoke({"log": [text]}, config)


async def stored(persistence: Persistence, thread_id: str) -> tuple[set[str], int]:
    """Return the namespaces and the number of rows of a thread."""
    checkpoints = await rows(persistence, "checkpoints", thread_id)
    return {namespace for namespace, _ in checkpoints}, len(checkpoints) + len(
        await rows(persistence, "writes", thread_id)
    )


async def rows(persistence: Persistence, table: str, thread_id: str) -> list[tuple[str, str]]:
    """Return the checkpoints that have rows in a table of the saver."""
    query = f"SELECT checkpoint_ns, checkpoint_id FROM {table} WHERE thread_id = ?"  # noqa: S608 - a test's own words
    return [(namespace, id_) for namespace, id_ in await fetch(persistence.checkpointer, query, thread_id)]


async def log(persistence: Persistence, thread_id: str) -> list[str]:
    state = await compiled(persistence).aget_state({"configurable": {"thread_id": thread_id}})
    return list(state.values.get("log", []))


def asking(persistence: Persistence, *, nested: bool) -> "CompiledStateGraph[State, None, State, State]":
    """Build a graph with an interrupt beside another node; nested, it is a subgraph."""
    graph = StateGraph(State)
    graph.add_node("ask", lambda _: {"log": [f"answer: {interrupt('may I?')}"]})
    graph.add_node("beside", lambda _: {"log": ["beside"]})
    graph.add_node("after", lambda _: {"log": ["after"]})
    graph.add_edge(START, "ask")
    graph.add_edge(START, "beside")
    graph.add_edge("ask", "after")
    graph.add_edge("after", END)
    if not nested:
        return graph.compile(checkpointer=persistence.checkpointer)
    parent = StateGraph(State)
    parent.add_node("child", graph.compile())
    parent.add_edge(START, "child")
    parent.add_edge("child", END)
    return parent.compile(checkpointer=persistence.checkpointer)


def config_of(run_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": "t", "run_id": run_id}}


@pytest.mark.parametrize("nested", [False, True])
async def test_the_interrupt_of_an_answer_that_is_rolled_back_waits_again(
    persistence: Persistence, nested: bool
) -> None:
    graph = asking(persistence, nested=nested)
    await graph.ainvoke({"log": []}, config_of("first"))
    before = await graph.aget_state(config_of("reader"), subgraphs=True)
    stored_before = await stored(persistence, "t")

    answered = await graph.ainvoke(Command(resume="yes"), config_of("second"))
    assert "answer: yes" in answered["log"]
    async with claimed(persistence.checkpointer, "t") as claim:
        await persistence.checkpointer.roll_back_run(claim, "second")

    after = await graph.aget_state(config_of("reader"), subgraphs=True)
    assert (after.values, after.next, after.interrupts) == (before.values, before.next, before.interrupts)
    assert await stored(persistence, "t") == stored_before
    assert await rows(persistence, "kept_writes", "t") == []
    answered_otherwise = await graph.ainvoke(Command(resume="no"), config_of("third"))
    assert [line for line in answered_otherwise["log"] if line.startswith("answer")][-1] == "answer: no"
    assert "answer: yes" not in answered_otherwise["log"]


@pytest.mark.requirement("T-14")
async def test_deleting_a_threads_contents_deletes_its_rows_in_every_table(persistence: Persistence) -> None:
    graph = asking(persistence, nested=False)
    await graph.ainvoke({"log": []}, config_of("first"))
    await graph.ainvoke(Command(resume="yes"), config_of("second"))
    assert await rows(persistence, "kept_writes", "t") != []
    await run(persistence, "other", "third", "hello")

    async with claimed(persistence.checkpointer, "t") as claim:
        await persistence.delete_thread_contents(claim)

    assert await stored(persistence, "t") == (set(), 0)
    assert await rows(persistence, "kept_writes", "t") == []
    assert await log(persistence, "other") != []


async def test_a_second_attempt_of_a_run_backs_up_no_writes_of_its_own(persistence: Persistence) -> None:
    first = asking(persistence, nested=False)
    await first.ainvoke({"log": []}, config_of("run"))

    graph = first.copy({"checkpointer": restarted(persistence.checkpointer)})
    await graph.ainvoke(Command(resume="yes"), config_of("run"))

    assert await rows(persistence, "kept_writes", "t") == []


async def test_a_cancelled_caller_does_not_leave_a_run_half_rolled_back(persistence: Persistence) -> None:
    await run(persistence, "t", "only", "hello")

    async with claimed(persistence.checkpointer, "t") as claim:
        rolling_back = asyncio.ensure_future(persistence.checkpointer.roll_back_run(claim, "only"))
        await asyncio.sleep(0)
        rolling_back.cancel()
        with pytest.raises(asyncio.CancelledError):
            await rolling_back
        await persistence.checkpointer.wait_for_writes()

    assert await stored(persistence, "t") == (set(), 0)


async def test_a_copied_thread_has_the_same_state_and_goes_its_own_way(persistence: Persistence) -> None:
    graph = asking(persistence, nested=True)
    await graph.ainvoke({"log": ["hello"]}, config_of("first"))
    before = await stored(persistence, "t")

    await persistence.checkpointer.acopy_thread("t", "copy")
    copy: RunnableConfig = {"configurable": {"thread_id": "copy"}}
    assert await stored(persistence, "copy") == before
    assert (await graph.aget_state(copy)).interrupts == (await graph.aget_state(config_of("reader"))).interrupts
    answered = await graph.ainvoke(Command(resume="yes"), copy)

    assert "answer: yes" in answered["log"]
    assert await stored(persistence, "t") == before


@pytest.mark.requirement("R-01")
async def test_only_the_claim_that_holds_a_thread_may_write_its_checkpoints(persistence: Persistence) -> None:
    graph = compiled(persistence)
    older, newer = ThreadClaim.new("t"), ThreadClaim.new("t")

    def under(claim: ThreadClaim | None) -> RunnableConfig:
        return {"configurable": {"thread_id": "t", **({CLAIM_KEY: claim} if claim else {})}}

    with pytest.raises(ClaimLost, match="Nothing was written"):
        await graph.ainvoke({"log": ["before it is admitted"]}, under(older))
    await hold(persistence.checkpointer, older)
    await graph.ainvoke({"log": ["held"]}, under(older))
    await hold(persistence.checkpointer, newer)
    before = await stored(persistence, "t")
    for refused in (older, None):
        with pytest.raises(ClaimLost):
            await graph.ainvoke({"log": ["late"]}, under(refused))
    for refusing in (persistence.checkpointer.roll_back_run(older, "run"), persistence.delete_history(older)):
        with pytest.raises(ClaimLost):
            await refusing
    with pytest.raises(ClaimLost):
        await persistence.delete_thread_contents(older)
    assert await stored(persistence, "t") == before

    await let_go(persistence.checkpointer, older)
    await graph.ainvoke({"log": ["the newer one"]}, under(newer))
    await let_go(persistence.checkpointer, newer)
    with pytest.raises(ClaimLost):
        await graph.ainvoke({"log": ["late"]}, under(newer))
    assert set(await log(persistence, "t")) == {"held", "the newer one", "inner"}


@pytest.mark.requirement("R-01")
async def test_a_graph_that_a_node_invokes_on_another_thread_writes_over_no_run_of_that_thread(
    persistence: Persistence,
) -> None:
    graph = compiled(persistence)
    claim, other = ThreadClaim.new("t"), ThreadClaim.new("other")
    await hold(persistence.checkpointer, claim)
    from_t: RunnableConfig = {"configurable": {"thread_id": "other", CLAIM_KEY: claim}}
    before = await graph.aupdate_state(from_t, {"log": ["from t"]}, as_node="child")
    stale: RunnableConfig = {"configurable": {**before["configurable"], CLAIM_KEY: claim}}

    await hold(persistence.checkpointer, other)
    await graph.ainvoke({"log": ["run"]}, {"configurable": {"thread_id": "other", CLAIM_KEY: other}})
    await let_go(persistence.checkpointer, other)
    held = await stored(persistence, "other")

    with pytest.raises(ClaimLost):
        await graph.aupdate_state(stale, {"log": ["late"]}, as_node="child")
    assert (await stored(persistence, "other"))[0] == held[0]
    assert "run" in await log(persistence, "other")
    assert "late" not in await log(persistence, "other")
