"""Unfinished runs of an earlier process continue from their checkpoint when a process opens the folder (S-05)."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from sqlalchemy import update
from typing_extensions import TypedDict

from tests.fixtures.graphs import Gate, Log, first
from tests.runtime.runs.conftest import Bench, open_bench
from toolweave.runtime.codec import loads
from toolweave.runtime.models import NewRun, Run
from toolweave.runtime.persistence.events import SEQS_PER_ATTEMPT
from toolweave.runtime.persistence.schema import runs
from toolweave.runtime.runs.execution import MAX_RUN_ATTEMPTS


async def ended(bench: Bench, run: Run) -> Any:
    async with asyncio.timeout(60):
        current = await bench.persistence.runs.get(run.thread_id, run.run_id)
        return loads(await bench.engine.wait_for_run(current))


async def test_a_run_goes_on_after_the_node_it_had_finished(tmp_path: Path) -> None:
    before, after = Gate(), Gate()
    after.opened.set()
    async with open_bench(tmp_path, {"gated": before}) as bench:
        run = await bench.run_at_gate(input={"n": 1, "text": "x"})
    async with open_bench(tmp_path, {"gated": after}) as bench:
        assert await ended(bench, run) == {"n": 4, "log": ["first", "waited:x", "second"], "text": "x"}
        assert (await bench.persistence.runs.get(run.thread_id, run.run_id)).attempt == 2


@pytest.mark.parametrize("stops", [{"interrupt_before": ["second"]}, {"interrupt_after": ["first"]}])
async def test_a_breakpoint_holds_although_the_process_died_there(tmp_path: Path, stops: dict[str, Any]) -> None:
    async with open_bench(tmp_path) as bench:
        run = await end_unrecorded(bench, bench.run("counter", input={"n": 1}, **stops))
    async with open_bench(tmp_path) as bench:
        assert await ended(bench, run) == {"n": 2, "log": ["first"]}
        assert (await bench.persistence.threads.get(run.thread_id)).status == "interrupted"
        assert await bench.result(bench.run("counter", run.thread_id, input=None)) == {
            "n": 4,
            "log": ["first", "second"],
        }


async def test_a_forked_run_goes_on_from_its_own_checkpoint_and_not_from_the_fork(tmp_path: Path) -> None:
    before, after = Gate(), Gate()
    before.opened.set()
    after.opened.set()
    async with open_bench(tmp_path, {"gated": before}) as bench:
        thread_id = (original := bench.run("gated")).thread_id
        await bench.result(original)
        saved = [one async for one in bench.persistence.checkpointer.alist({"configurable": {"thread_id": thread_id}})]
        after_first = next(one.checkpoint["id"] for one in saved if one.metadata["step"] == 1)
        before.opened.clear()
        before.reached.clear()
        fork = bench.run(
            "gated",
            thread_id,
            input={"n": 10, "text": "fork"},
            config={"configurable": {"checkpoint_id": after_first, "checkpoint_ns": ""}},
        )
        run = (await bench.engine.start_run(fork)).run
        await asyncio.wait_for(before.reached.wait(), 60)
    async with open_bench(tmp_path, {"gated": after}) as bench:
        assert await ended(bench, run) == {"n": 22, "log": ["first", "first", "waited:fork", "second"], "text": "fork"}


async def test_a_run_whose_last_results_were_not_yet_in_a_checkpoint_goes_on_with_the_next_node(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        run = await end_unrecorded(bench, bench.run("counter", input={"n": 1}))
    # The process died after the first node's writes were stored, before the checkpoint that takes them up.
    with closing(sqlite3.connect(tmp_path / "checkpoints.db", isolation_level=None)) as database:
        database.execute("DELETE FROM checkpoints WHERE json_extract(CAST(metadata AS TEXT), '$.step') > 0")
    async with open_bench(tmp_path) as bench:
        assert await ended(bench, run) == {"n": 4, "log": ["first", "second"]}
        assert (await bench.persistence.runs.get(run.thread_id, run.run_id)).status == "success"


@pytest.mark.parametrize(
    ("graph", "state", "expected"),
    [
        ("counter", {"n": 1}, {"n": 4, "log": ["first", "second"]}),
        ("brief", {"n": 1}, {"n": 2}),
        ("asking", {"text": "ok?"}, [{"question": "ok?"}]),
    ],
)
async def test_a_run_whose_end_was_not_stored_publishes_its_last_values_again_without_executing(
    tmp_path: Path, graph: str, state: dict[str, Any], expected: Any
) -> None:
    more = {"brief": brief().compile()}
    async with open_bench(tmp_path, more=more) as bench:
        run = await end_unrecorded(bench, bench.run(graph, input=state, resumable=True))
    async with open_bench(tmp_path, more=more) as bench:
        whole = await ended(bench, run)
        thread = await bench.persistence.threads.get(run.thread_id)
        assert thread.status == ("interrupted" if graph == "asking" else "idle")
        current = await bench.persistence.runs.get(run.thread_id, run.run_id)
        seen = [event async for batch in bench.engine.event_batches(current, after=SEQS_PER_ATTEMPT) for event in batch]
    assert [event.event for event in seen] == ["metadata", "values"]
    values = loads(seen[1].data)
    # A request after the end gets the whole state; the output of the graph may be a part of it.
    assert values.items() <= whole.items()
    if graph == "asking":
        values = [interrupt["value"] for interrupt in values["__interrupt__"]]
    assert values == expected


async def test_resuming_from_an_id_whose_events_were_lost_goes_on_with_the_next_attempt(tmp_path: Path) -> None:
    before, after = Gate(), Gate()
    async with open_bench(tmp_path, {"gated": before}) as bench:
        run = await bench.run_at_gate(resumable=True)
    async with open_bench(tmp_path, {"gated": after}) as bench:
        current = await bench.persistence.runs.get(run.thread_id, run.run_id)
        events: list[tuple[int, str, Any]] = []
        async with asyncio.timeout(60):
            async for batch in bench.engine.event_batches(current, after=SEQS_PER_ATTEMPT - 1):
                events += [(event.seq, event.event, loads(event.data)) for event in batch]
                after.opened.set()
    assert events[0] == (SEQS_PER_ATTEMPT + 1, "metadata", {"run_id": run.run_id, "attempt": 2})
    assert events[-1][2]["log"] == ["first", "waited:", "second"]


async def test_a_run_that_takes_its_process_down_again_and_again_is_failed_at_last(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        run = await end_unrecorded(bench, bench.run("counter"), attempt=MAX_RUN_ATTEMPTS)
    async with open_bench(tmp_path) as bench:
        assert (await ended(bench, run))["__error__"]["error"] == "RunAbandoned"
        assert (await bench.persistence.threads.get(run.thread_id)).status == "error"


async def test_an_answer_taken_before_a_crash_does_not_answer_the_next_question(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        first = bench.run("asking_twice", input={})
        await bench.result(first)
        resume = bench.run("asking_twice", first.thread_id, input=None, command={"resume": "A"})
        answering = await end_unrecorded(bench, resume)
    async with open_bench(tmp_path) as bench:
        result = await ended(bench, answering)
        assert [question["value"] for question in result["__interrupt__"]] == ["second?"]
        last = bench.run("asking_twice", first.thread_id, input=None, command={"resume": "B"})
        assert (await bench.result(last))["log"] == ["A", "B"]


async def test_an_answer_that_no_task_had_taken_before_a_crash_is_given_again(tmp_path: Path) -> None:
    before, after = Gate(), Gate()
    after.opened.set()
    async with open_bench(tmp_path, {"gated": before}) as bench:
        first = bench.run("asking_then_gated", input={})
        await bench.result(first)
        resume = bench.run("asking_then_gated", first.thread_id, input=None, command={"resume": "A"})
        answering = (await bench.engine.start_run(resume)).run
        await asyncio.wait_for(before.reached.wait(), 60)
    async with open_bench(tmp_path, {"gated": after}) as bench:
        assert await ended(bench, answering) == {"log": ["A"]}
        assert (await bench.persistence.threads.get(first.thread_id)).status == "idle"


async def test_a_run_rolled_back_while_it_waits_for_its_second_turn_leaves_nothing(tmp_path: Path) -> None:
    before = {name: Gate() for name in ("gated", "gated2")}
    after = {name: Gate() for name in ("gated", "gated2")}
    async with open_bench(tmp_path, before) as bench:
        first, second = [await bench.run_at_gate(gate) for gate in before]
    async with open_bench(tmp_path, after, max_concurrent=1) as bench:
        await asyncio.wait_for(after["gated"].reached.wait(), 60)
        await bench.engine.cancel_run(second.thread_id, second.run_id, "rollback", wait=True)
        config: RunnableConfig = {"configurable": {"thread_id": second.thread_id}}
        assert [saved async for saved in bench.persistence.checkpointer.alist(config)] == []
        thread = await bench.persistence.threads.get(second.thread_id)
        assert (thread.status, thread.values) == ("idle", None)
        after["gated"].opened.set()
        assert (await ended(bench, first))["log"] == ["first", "waited:", "second"]
        assert not after["gated2"].reached.is_set()


class Count(TypedDict):
    n: int


def brief() -> "StateGraph[Log, None, Log, Count]":
    """One node, whose log is no part of what the graph gives."""
    graph = StateGraph(Log, output_schema=Count).add_node("first", first)
    return graph.add_edge(START, "first").add_edge("first", END)


async def end_unrecorded(bench: Bench, new: NewRun, attempt: int = 1) -> Run:
    """Execute a run, and set its row to the state that a process leaves if it dies before its last transaction."""
    run = (await bench.engine.start_run(new)).run
    await bench.engine.wait_for_run(run)
    row = update(runs).where(runs.c.run_id == run.run_id).values(status="running", attempt=attempt)
    await bench.persistence.app.write(lambda connection: connection.execute(row))
    return run
