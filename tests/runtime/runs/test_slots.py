"""When all slots are taken, the most urgent waiting run gets the next one, and no run waits forever (S-08)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import StateGraph

from tests.fixtures.graphs import Gate, Log
from tests.runtime.runs.conftest import BOUND_S, Bench, open_bench
from toolweave.runtime.models import NewRun
from toolweave.runtime.runs.embedded import RunSlots

pytestmark = pytest.mark.requirement("S-08")
OLD = timedelta(minutes=10, seconds=1)


async def note_start(started: list[str], name: str) -> None:
    started.append(name)


def noting(started: list[str]) -> Any:
    """Return a graph that notes the text of each run that starts."""

    async def note(state: Log) -> Log:
        await note_start(started, state["text"])
        return {}

    return StateGraph(Log).add_node("note", note).set_entry_point("note").compile()


def waiting_runs(bench: Bench) -> list[NewRun]:
    """Describe runs of four threads, in the order of their creation; one has waited for long already."""
    described = [
        replace(bench.run("note", input={"text": str(priority)}), priority=priority, fairness_group="default")
        for priority in (5, 0, -5)
    ]
    old = replace(bench.run("note", input={"text": "old"}), priority=5, fairness_group="default")
    return [*described, replace(old, created_at=old.created_at - OLD)]


async def test_no_run_starves_behind_more_urgent_ones(tmp_path: Path) -> None:
    started: list[str] = []
    async with open_bench(tmp_path, max_concurrent=1, more={"note": noting(started)}) as bench:
        await bench.run_at_gate()
        waiting = [await bench.engine.start_run(new) for new in waiting_runs(bench)]
        bench.gates["gated"].opened.set()
        async with asyncio.timeout(BOUND_S):
            for each in waiting:
                await each.result()
    assert started == ["old", "-5", "0", "5"]


async def test_the_most_urgent_run_starts_first_after_a_restart(tmp_path: Path) -> None:
    started: list[str] = []
    more = {"note": noting(started)}
    async with open_bench(tmp_path, {"gated": Gate()}, max_concurrent=1, more=more) as bench:
        await bench.run_at_gate()
        described = waiting_runs(bench)
        for new in described:
            await bench.engine.start_run(new)
    after = Gate()
    after.opened.set()
    after.pass_through = partial(note_start, started, "interrupted")  # type: ignore[method-assign]
    async with open_bench(tmp_path, {"gated": after}, max_concurrent=1, more=more) as bench:
        async with asyncio.timeout(BOUND_S):
            for new in described:
                await bench.engine.wait_for_run(await bench.persistence.runs.get(new.thread_id, new.run_id))
    assert started == ["old", "-5", "interrupted", "0", "5"]


async def hold(slots: RunSlots, urgency: int, order: list[str], name: str) -> None:
    async with slots.hold(urgency):
        order.append(name)


async def ticks(times: int = 3) -> None:
    """Let every task run until it waits."""
    for _ in range(times):
        await asyncio.sleep(0)


async def test_equally_urgent_runs_get_slots_in_the_order_of_their_arrival() -> None:
    slots, order = RunSlots(1), list[str]()
    await slots.acquire(0)
    tasks = [asyncio.create_task(hold(slots, urgency, order, name)) for urgency, name in ((1, "a"), (1, "b"), (0, "c"))]
    await ticks()
    assert order == []
    slots.release()
    await asyncio.gather(*tasks)
    assert order == ["c", "a", "b"]


async def cancel_before_the_slot(slots: RunSlots, task: "asyncio.Task[None]") -> None:
    task.cancel()
    await ticks()
    slots.release()


async def cancel_with_the_slot(slots: RunSlots, task: "asyncio.Task[None]") -> None:
    slots.release()
    task.cancel()


@pytest.mark.parametrize("cancel", [cancel_before_the_slot, cancel_with_the_slot])
async def test_a_cancelled_run_loses_no_slot(
    cancel: Callable[[RunSlots, "asyncio.Task[None]"], Awaitable[None]],
) -> None:
    slots, order = RunSlots(1), list[str]()
    await slots.acquire(0)
    first, second = (asyncio.create_task(hold(slots, urgency, order, str(urgency))) for urgency in (1, 2))
    await ticks()
    await cancel(slots, first)
    async with asyncio.timeout(BOUND_S):
        await second
        with pytest.raises(asyncio.CancelledError):
            await first
        await slots.acquire(0)
    assert order == ["2"]
