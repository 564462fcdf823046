"""The log of a thread: its numbers, what is kept, and that nobody who listens is left behind or in the way."""

import asyncio
from contextlib import aclosing

import pytest

from tests.runtime.events.conftest import THREAD
from toolweave.errors import PersistenceError
from toolweave.runtime.codec import loads
from toolweave.runtime.events.channel import MAX_UNREAD_BYTES, EventFilter
from toolweave.runtime.events.log import ThreadLog
from toolweave.runtime.events.run_publisher import Publishers
from toolweave.runtime.models import Namespace, Outcome, Run, StreamEvent
from toolweave.runtime.persistence.data_folder import Persistence
from toolweave.runtime.persistence.events import MAX_STORED_EVENTS, SEQS_PER_RESTART, prune_thread_events

VALUES = EventFilter(frozenset({"values"}))
BOUND_S = 60


def values(run: Run, data: bytes = b"1") -> tuple[str, str, Namespace, bytes]:
    return run.run_id, "values", (), data


async def kept(log: ThreadLog, after: int = 0) -> list[StreamEvent]:
    return [event async for batch in log.read_stored(THREAD, VALUES, after) for event in batch]


async def test_events_are_numbered_per_thread_and_kept_in_order(log: ThreadLog, run: Run) -> None:
    channel = await log.open(THREAD)
    written = [log.publish(channel, *values(run, b"%d" % number)) for number in range(1200)]
    assert [event.seq for event in written] == list(range(1, 1201))
    assert [event.data for event in await kept(log)] == [event.data for event in written]
    assert [event.seq for event in await kept(log, 1197)] == [1198, 1199, 1200]
    assert loads(written[6].data)["params"]["data"] == 6


async def test_numbers_go_on_where_an_earlier_log_has_stopped(
    log: ThreadLog, run: Run, persistence: Persistence
) -> None:
    channel = await log.open(THREAD)
    log.publish(channel, *values(run))
    log.release(channel)
    later = ThreadLog(persistence.app)
    assert later.publish(await later.open(THREAD), *values(run)).seq == 2
    assert log.publish(await log.open(THREAD), *values(run)).seq >= 2


async def test_numbers_of_a_deleted_run_are_not_given_out_again(
    log: ThreadLog, run: Run, persistence: Persistence
) -> None:
    channel = await log.open(THREAD)
    log.publish(channel, *values(run))
    log.release(channel)
    await persistence.runs.delete(THREAD, run.run_id)
    assert await kept(log) == []
    assert (await log.open(THREAD)).last_seq == 1


async def test_a_process_that_follows_a_dead_one_numbers_in_a_new_block(
    log: ThreadLog, run: Run, persistence: Persistence
) -> None:
    lost = await log.open(THREAD)
    lost.last_seq = 500
    for life in (1, 2):
        later = ThreadLog(persistence.app)
        await later.skip_used_seqs()
        channel = await later.open(THREAD)
        assert later.publish(channel, *values(run)).seq == life * SEQS_PER_RESTART + 1
        later.flush()


async def test_a_thread_whose_runs_have_ended_keeps_counting_after_a_restart(
    log: ThreadLog, run: Run, persistence: Persistence
) -> None:
    log.publish(await log.open(THREAD), *values(run))
    log.flush()
    await persistence.runs.finalise(run.run_id, run.attempt, Outcome("success", "idle"))
    later = ThreadLog(persistence.app)
    await later.skip_used_seqs()
    assert (await later.open(THREAD)).last_seq == 1


async def test_a_listener_hears_each_event_once_while_it_catches_up(log: ThreadLog, run: Run) -> None:
    channel = await log.open(THREAD)
    for _ in range(50):
        log.publish(channel, *values(run))
    heard: list[int] = []
    async with asyncio.timeout(BOUND_S), aclosing(log.replay(THREAD, VALUES, 0)) as batches:
        async for batch in batches:
            heard += [event.seq for event in batch]
            if channel.last_seq < 80:
                log.publish(channel, *values(run))
                log.publish(channel, run.run_id, "tasks", (), b"0")
            if heard[-1] == 79:
                break
    assert heard == [*range(1, 51), *range(51, 80, 2)]
    assert not log.has_listeners(THREAD)


async def test_a_listener_who_reads_nothing_is_cut_off_and_costs_no_more(log: ThreadLog, run: Run) -> None:
    channel = await log.open(THREAD)
    large = StreamEvent(1, "values", b"x" * (MAX_UNREAD_BYTES // 4 + 1), channel="values")
    async with log.listen(THREAD, VALUES.matches) as slow, log.listen(THREAD, lambda _event: False) as deaf:
        for _ in range(8):
            channel.deliver(large)
        heard = [event async for batch in slow.batches() for event in batch]
        channel.close()
        assert [batch async for batch in deaf.batches()] == []
    # Four of them are just above the limit.
    assert len(heard) == 4


async def test_who_leaves_leaves_nothing_behind(log: ThreadLog) -> None:
    async with log.listen(THREAD, VALUES.matches), log.listen("another thread", VALUES.matches):
        assert log.has_listeners(THREAD)
    assert not log.has_listeners(THREAD)
    assert (log.last_seq(THREAD), log.last_seq("another thread")) == (0, 0)


async def test_only_the_newest_events_are_kept(log: ThreadLog, run: Run, persistence: Persistence) -> None:
    channel = await log.open(THREAD)
    for _ in range(30):
        log.publish(channel, *values(run))
    log.flush()
    await persistence.app.write(lambda connection: prune_thread_events(connection, THREAD))
    assert len(await kept(log)) == 30
    for _ in range(2):
        await persistence.app.write(lambda connection: prune_thread_events(connection, THREAD, 10))
        assert [event.seq for event in await kept(log)] == list(range(21, 31))
    three = sum(len(event.data) for event in (await kept(log))[-3:])
    await persistence.app.write(lambda connection: prune_thread_events(connection, THREAD, 10, three + 1))
    assert [event.seq for event in await kept(log)] == [28, 29, 30]


async def test_old_events_are_looked_after_while_runs_end(log: ThreadLog, run: Run, persistence: Persistence) -> None:
    announcements = Publishers(log)
    announcer = await announcements.start_run(run)
    assert announcer is not None
    for _ in range(MAX_STORED_EVENTS):
        log.publish(announcer.channel, *values(run))
    async with announcements.publish_end(run, Outcome("success", "idle")):
        await persistence.runs.finalise(run.run_id, run.attempt, Outcome("success", "idle"))
    events = await kept(log)
    assert (events[0].seq, events[-1].seq) == (3, MAX_STORED_EVENTS + 1)


async def test_an_end_that_cannot_be_written_is_not_told(log: ThreadLog, run: Run) -> None:
    announcements = Publishers(log)
    await announcements.start_run(run)
    async with log.listen(THREAD, EventFilter(frozenset({"lifecycle"})).matches) as heard:
        with pytest.raises(PersistenceError):
            async with announcements.publish_end(run, Outcome("success", "idle")):
                raise PersistenceError("the disk is full")
        again = await announcements.start_run(run)
        assert again is not None
        async with announcements.publish_end(run, Outcome("success", "idle")):
            log.close(THREAD)
        told = [loads(event.data)["params"]["data"]["event"] async for batch in heard.batches() for event in batch]
    assert told == ["running"]
