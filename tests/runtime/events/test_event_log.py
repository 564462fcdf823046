"""Resumable runs are replayed whole, from any event, while they run and after (langgraph_api.md 6.2)."""

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


async def talk(bench: Bench, *, resumable: bool = True) -> tuple[Run, list[StreamEvent]]:
    new = bench.run("echo", input=WORDS, stream_mode=["messages-tuple", "values"], resumable=resumable)
    started = await bench.engine.start_run(new, listen=True)
    assert started.events is not None
    async with asyncio.timeout(60):
        return started.run, [event async for batch in started.events.batches() for event in batch]


async def test_an_ended_run_is_replayed_from_every_point_without_loss_or_repetition(bench: Bench) -> None:
    run, heard = await talk(bench)
    assert len(heard) > 500
    assert [event.seq for event in heard] == list(range(1, len(heard) + 1))
    for after in (0, 1, len(heard) // 2, len(heard) - 1, len(heard), len(heard) + 50):
        assert await replay(bench, run, after) == heard[after:]


async def test_a_reader_who_joins_a_live_run_gets_everything_once(bench: Bench) -> None:
    new = bench.run("echo", input=WORDS, stream_mode=["messages-tuple"], resumable=True)
    started = await bench.engine.start_run(new, listen=True)
    assert started.events is not None
    joined: list[asyncio.Task[list[StreamEvent]]] = []
    heard = []
    async with asyncio.timeout(60):
        async for event in (event async for batch in started.events.batches() for event in batch):
            heard.append(event)
            if event.seq % 100 == 1:
                joined.append(asyncio.create_task(replay(bench, started.run, event.seq // 2)))
        for task in joined:
            replayed = await task
            assert replayed == heard[len(heard) - len(replayed) :]
            assert replayed[0].seq <= heard[-1].seq // 2 + 1
    assert len(joined) > 3


async def test_without_a_position_only_what_comes_is_heard(bench: Bench) -> None:
    run, _ = await talk(bench)
    assert [event async for batch in bench.engine.event_batches(run) for event in batch] == []


async def test_events_are_on_disk_before_the_checkpoint_that_makes_them_unrepeatable(bench: Bench) -> None:
    persistence = bench.persistence
    run = (await persistence.runs.create_run(bench.run("counter", resumable=True))).run
    never_by_itself = EventLog(persistence.app, flush_interval_s=3600)
    channel = never_by_itself.open(run.run_id, resumable=True, created_at=run.created_at)
    never_by_itself.publish(channel, "custom", b"1")

    async def stored() -> list[bytes]:
        rows = await persistence.app.read(lambda connection: read_events(connection, run.run_id, 0, 10))
        return [row.data for row in rows]

    saver, seen = persistence.checkpointer, list[list[bytes]]()
    config: RunnableConfig = {"configurable": {"thread_id": run.thread_id, "checkpoint_ns": "", "run_id": run.run_id}}
    saver.on_before_save, of_the_engine = never_by_itself.wait_until_stored, saver.on_before_save
    try:
        assert await stored() == []
        saved = await saver.aput(config, empty_checkpoint(), {}, {})
        seen.append(await stored())
        never_by_itself.publish(channel, "custom", b"2")
        writing: RunnableConfig = {"configurable": {**saved["configurable"], "run_id": run.run_id}}
        await saver.aput_writes(writing, [("n", 1)], "task")
        seen.append(await stored())
    finally:
        saver.on_before_save = of_the_engine
    assert seen == [[b"1"], [b"1", b"2"]]
    never_by_itself.flush()


async def test_the_engine_has_it_done(bench: Bench) -> None:
    assert bench.persistence.checkpointer.on_before_save == bench.engine.runtime.log.wait_until_stored
