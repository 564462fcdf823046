"""The log of a thread numbers, stores, replays and prunes the events of its runs."""

import asyncio
from contextlib import aclosing

import pytest

from tests.runtime.events.conftest import THREAD
from tests.runtime.persistence.records import new_run
from toolweave.errors import PersistenceError
from toolweave.runtime.codec import loads
from toolweave.runtime.events.channel import EventFilter
from toolweave.runtime.events.log import ThreadLog
from toolweave.runtime.events.run_publisher import Publishers
from toolweave.runtime.models import Namespace, Outcome, Run, StreamEvent
from toolweave.runtime.persistence.data_folder import Persistence
from toolweave.runtime.persistence.events import MAX_STORED_EVENTS, SEQS_PER_RESTART, prune_thread_events
from toolweave.runtime.persistence.run_rows import run_from_new
from toolweave.runtime.persistence.runs import RunEnd

VALUES = EventFilter(frozenset({"values"}))
BOUND_S = 60


def values(run: Run, data: bytes = b"1") -> tuple[str, str, Namespace, bytes]:
    return run.run_id, "values", (), data


async def stored(log: ThreadLog, after: int = 0) -> list[StreamEvent]:
    return [event async for batch in log.read_stored(THREAD, VALUES, after) for event in batch]


RUN = run_from_new(new_run(THREAD))


async def test_events_are_numbered_per_thread_and_stored_in_order(log: ThreadLog, run: Run) -> None:
    channel = await log.open_channel(THREAD)
    written = [log.publish(channel, *values(run, b"%d" % number)) for number in range(1200)]
    assert [event.seq for event in written] == list(range(1, 1201))
    assert [event.data for event in await stored(log)] == [event.data for event in written]
    assert [event.seq for event in await stored(log, 1197)] == [1198, 1199, 1200]
    assert loads(written[6].data)["params"]["data"] == 6


async def test_a_process_numbers_in_a_new_block_after_one_that_was_killed(
    log: ThreadLog, run: Run, persistence: Persistence
) -> None:
    lost = await log.open_channel(THREAD)
    lost.last_seq = 500
    for life in (1, 2):
        later = ThreadLog(persistence.app)
        await later.skip_used_seqs()
        channel = await later.open_channel(THREAD)
        assert later.publish(channel, *values(run)).seq == life * SEQS_PER_RESTART + 1
        later.flush()


async def test_a_subscriber_gets_each_event_once_while_it_reads_stored_ones(log: ThreadLog, run: Run) -> None:
    channel = await log.open_channel(THREAD)
    for _ in range(50):
        log.publish(channel, *values(run))
    received: list[int] = []
    async with asyncio.timeout(BOUND_S), aclosing(log.replay(THREAD, VALUES, 0)) as batches:
        assert await anext(batches) == []
        async for batch in batches:
            received += [event.seq for event in batch]
            if channel.last_seq < 80:
                log.publish(channel, *values(run))
                log.publish(channel, run.run_id, "tasks", (), b"0")
            if received[-1] == 79:
                break
    assert received == [*range(1, 51), *range(51, 80, 2)]
    assert not log.is_followed(RUN)


async def test_a_subscriber_that_leaves_frees_its_channel(log: ThreadLog) -> None:
    async with log.listen(THREAD, VALUES.matches), log.listen("another thread", VALUES.matches):
        assert log.is_followed(RUN)
    assert not log.is_followed(RUN)
    assert (log.last_seq(THREAD), log.last_seq("another thread")) == (0, 0)


async def test_only_the_newest_events_stay_stored(log: ThreadLog, run: Run, persistence: Persistence) -> None:
    channel = await log.open_channel(THREAD)
    for _ in range(30):
        log.publish(channel, *values(run))
    log.flush()
    await persistence.app.write(lambda connection: prune_thread_events(connection, THREAD))
    assert len(await stored(log)) == 30
    for _ in range(2):
        await persistence.app.write(lambda connection: prune_thread_events(connection, THREAD, 10))
        assert [event.seq for event in await stored(log)] == list(range(21, 31))
    three = sum(len(event.data) for event in (await stored(log))[-3:])
    await persistence.app.write(lambda connection: prune_thread_events(connection, THREAD, 10, three + 1))
    assert [event.seq for event in await stored(log)] == [28, 29, 30]


async def test_old_events_are_deleted_when_a_run_ends(log: ThreadLog, run: Run, persistence: Persistence) -> None:
    publishers = Publishers(log)
    publisher = await publishers.start_run(run)
    assert publisher is not None
    for _ in range(MAX_STORED_EVENTS):
        log.publish(publisher.channel, *values(run))
    async with publishers.publish_end(run, Outcome("success", "idle")) as store_last_event:
        assert store_last_event is not None
        await persistence.runs.finalise(RunEnd(run.run_id, run.attempt, Outcome("success", "idle")), [store_last_event])
    events = await stored(log)
    assert (events[0].seq, events[-1].seq) == (3, MAX_STORED_EVENTS + 1)


async def test_the_end_of_a_run_that_cannot_be_stored_is_not_published(log: ThreadLog, run: Run) -> None:
    publishers = Publishers(log)
    await publishers.start_run(run)
    async with log.listen(THREAD, EventFilter(frozenset({"lifecycle"})).matches) as subscriber:
        with pytest.raises(PersistenceError):
            async with publishers.publish_end(run, Outcome("success", "idle")):
                raise PersistenceError("the disk is full")
        again = await publishers.start_run(run)
        assert again is not None
        async with publishers.publish_end(run, Outcome("success", "idle")):
            log.close_channel(THREAD)
        received = [event async for batch in subscriber.batches() for event in batch]
    assert [loads(event.data)["params"]["data"]["event"] for event in received] == ["running"]
