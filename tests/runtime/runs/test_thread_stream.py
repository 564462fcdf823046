"""A thread's stream continues over a restart as far as events are stored (langgraph_api.md 6.3)."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from uuid import uuid4

from tests.runtime.runs.conftest import Bench, open_bench
from toolweave.runtime.events.channel import Channel
from toolweave.runtime.events.thread_stream import StreamPosition, ThreadHub, ThreadStreamMode, parse_position
from toolweave.runtime.models import StreamEvent
from toolweave.runtime.persistence.events import END_SEQ

RUN_MODES: frozenset[ThreadStreamMode] = frozenset({"run_modes"})
BOUND_S = 60.0


async def follow(bench: Bench, thread_id: str, after: StreamPosition | None, dones: int) -> list[StreamEvent]:
    """Follow a thread until as many runs have ended."""
    events: list[StreamEvent] = []
    async with asyncio.timeout(BOUND_S), aclosing(bench.engine.thread_events(thread_id, RUN_MODES, after)) as stream:
        async for batch in stream:
            events.extend(batch)
            if sum(b"run_done" in event.data for event in events) >= dones:
                break
    return events


async def test_a_client_resumes_a_stream_at_each_event_after_a_restart(tmp_path: Path) -> None:
    thread_id = str(uuid4())
    async with open_bench(tmp_path) as bench:
        for _ in range(2):
            await bench.result(bench.run("counter", thread_id, resumable=True))
        await bench.result(bench.run("counter", thread_id))
        whole = await follow(bench, thread_id, StreamPosition(0, 0), dones=2)
    async with open_bench(tmp_path) as bench:
        for place, event in enumerate(whole[:-1], start=1):
            assert event.id is not None
            dones = sum(b"run_done" in later.data for later in whole[place:])
            again = await follow(bench, thread_id, parse_position(event.id), dones)
            assert [(later.event, later.data) for later in again] == [
                (later.event, later.data) for later in whole[place:]
            ]


async def test_a_stopping_engine_ends_all_streams(tmp_path: Path) -> None:
    thread_id = str(uuid4())
    async with open_bench(tmp_path) as bench:
        await bench.result(bench.run("counter", thread_id))
        with bench.engine.follow_thread(thread_id, RUN_MODES) as follower:
            await bench.engine.stop()
            async with asyncio.timeout(BOUND_S):
                assert [batch async for batch in follower.batches()] == []


async def test_a_run_that_is_executed_again_ends_once_in_the_stream(bench: Bench) -> None:
    started = await bench.engine.start_run(bench.run("gated"))
    hub = ThreadHub()
    with hub.listen(started.run.thread_id, RUN_MODES) as follower:
        for begun in (True, False):
            follower.add_run(started.run, Channel(started.run.run_id, id_prefix=None), has_started=begun)
        hub.on_run_ended(started.run)
        hub.on_run_ended(started.run)
        hub.close_thread(started.run.thread_id)
        assert [event.seq for batch in [batch async for batch in follower.batches()] for event in batch] == [END_SEQ]


def test_positions_are_parsed_as_they_were_written() -> None:
    position = StreamPosition(1795313531118, 17953135311152210000000007)
    assert parse_position(str(position)) == position
    assert (position.run_created_at, position.run_seq) == (1795313531115221, 7)
    assert parse_position("-1") == StreamPosition(0, 0)
    assert parse_position(" 5 ") == StreamPosition(5, 0)
    for text in ("", "x", "5-", "-5", "5-x", "5-5-5", "9" * 16, "٣", f"5-{'1' * 28}"):
        assert parse_position(text) is None
