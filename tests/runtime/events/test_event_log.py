"""Resumable runs are replayed from any event, while they run and after (langgraph_api.md 6.2)."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint

from tests.runtime.runs.conftest import Bench, open_bench
from toolweave.runtime.events.log import EventLog
from toolweave.runtime.models import Run, StreamEvent
from toolweave.runtime.persistence.events import read_events

WORDS = {"messages": [{"role": "user", "content": " ".join(f"word{number}" for number in range(300))}]}


@pytest.fixture(scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path_factory.mktemp("data")) as opened:
        yield opened


async def replay(bench: Bench, run: Run, after: int) -> list[StreamEvent]:
    async with asyncio.timeout(60):
        return [event async for batch in bench.engine.event_batches(run, after) for event in batch]


async def test_a_resumable_run_is_replayed_from_any_event_while_it_runs_and_after(bench: Bench) -> None:
    new = bench.run("echo", input=WORDS, stream_mode=["messages-tuple", "values"], resumable=True)
    started = await bench.engine.start_run(new, listen=True)
    assert started.events is not None
    joined: list[asyncio.Task[list[StreamEvent]]] = []
    events = []
    async with asyncio.timeout(60):
        async for event in (event async for batch in started.events.batches() for event in batch):
            events.append(event)
            if event.seq % 100 == 1:
                joined.append(asyncio.create_task(replay(bench, started.run, event.seq // 2)))
    # More than are read from disk at once.
    assert len(events) > 500
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for number, task in enumerate(joined):
        assert await task == events[number * 50 :]
    for after in (0, 1, len(events) - 1, len(events), len(events) + 50):
        assert await replay(bench, started.run, after) == events[after:]


async def test_events_are_on_disk_before_the_checkpoint_that_makes_them_unrepeatable(bench: Bench) -> None:
    persistence = bench.persistence
    run = (await persistence.runs.create_run(bench.run("counter", resumable=True))).run
    manual_log = EventLog(persistence.app, flush_interval_s=3600)
    channel = manual_log.open_channel(run.run_id, resumable=True, created_at=run.created_at)
    manual_log.publish(channel, "custom", b"1")

    async def stored() -> list[bytes]:
        rows = await persistence.app.read(lambda connection: read_events(connection, run.run_id, 0, 10))
        return [row.data for row in rows]

    saver, seen = persistence.checkpointer, list[list[bytes]]()
    config: RunnableConfig = {"configurable": {"thread_id": run.thread_id, "checkpoint_ns": "", "run_id": run.run_id}}
    saver.on_before_save, of_the_engine = manual_log.wait_until_stored, saver.on_before_save
    try:
        assert await stored() == []
        saved = await saver.aput(config, empty_checkpoint(), {}, {})
        seen.append(await stored())
        manual_log.publish(channel, "custom", b"2")
        writing: RunnableConfig = {"configurable": {**saved["configurable"], "run_id": run.run_id}}
        await saver.aput_writes(writing, [("n", 1)], "task")
        seen.append(await stored())
    finally:
        saver.on_before_save = of_the_engine
    assert seen == [[b"1"], [b"1", b"2"]]
    manual_log.flush()


async def test_the_engine_stores_events_before_each_checkpoint(bench: Bench) -> None:
    assert bench.persistence.checkpointer.on_before_save == bench.engine.runtime.log.wait_until_stored
