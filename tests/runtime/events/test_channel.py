"""A live run's events reach every listener in order, and the run waits for none of them."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from toolweave.runtime.events import channel as channel_module
from toolweave.runtime.events.channel import Channel, Subscription, parse_event_id
from toolweave.runtime.models import StreamEvent
from toolweave.runtime.persistence.events import SEQS_PER_ATTEMPT


async def collect(subscription: Subscription) -> list[StreamEvent]:
    async with asyncio.timeout(60):
        return [event async for batch in subscription.batches() for event in batch]


async def test_a_listener_of_a_closed_channel_ends_at_once() -> None:
    channel = Channel("run", id_prefix=None)
    channel.close()
    assert await collect(channel.listen()) == []


async def test_a_listener_with_too_many_unread_bytes_is_ended_while_others_go_on() -> None:
    channel = Channel("run", id_prefix=None)
    slow, quick = channel.listen(), channel.listen().batches()
    piece = b"x" * (channel_module.MAX_UNREAD_BYTES // 2 + 1)
    read = 0
    for _ in range(4):
        channel.publish("custom", piece)
        await anext(quick)
        read += 1
    channel.close()
    assert read == 4
    assert len(await collect(slow)) == 2


@given(attempts=st.lists(st.integers(0, 30), min_size=1, max_size=4))
async def test_ids_are_unique_and_sort_as_text_over_all_attempts(attempts: list[int]) -> None:
    channel = Channel("run", id_prefix="1795293224275")
    ids = []
    for attempt, count in enumerate(attempts, start=1):
        channel.start_attempt(attempt)
        ids += [channel.publish("custom", b"{}").id or "" for _ in range(count)]
    assert ids == sorted(set(ids))
    assert [parse_event_id(text) for text in ids] == sorted(parse_event_id(text) or 0 for text in ids)


def test_a_later_attempt_uses_numbers_above_those_of_an_earlier_one() -> None:
    channel = Channel("run", id_prefix="1")
    channel.start_attempt(2)
    assert channel.publish("metadata", b"{}").seq == SEQS_PER_ATTEMPT + 1


def test_last_event_ids_are_parsed_and_invalid_ones_refused() -> None:
    assert parse_event_id("-1") == 0
    assert parse_event_id(" 1795293224275-0000000007 ") == 7
    assert parse_event_id("garbage") is None
    assert parse_event_id("") is None
    assert parse_event_id("1-" + "9" * 40) is None


async def test_a_burst_comes_in_fewer_batches_than_events_and_whole() -> None:
    channel = Channel("run", id_prefix=None)
    listener = channel.listen()

    async def burst() -> None:
        for number in range(500):
            channel.publish("custom", str(number).encode())
            await asyncio.sleep(0)
        channel.close()

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(burst())
        batches = [[int(event.data) for event in batch] async for batch in listener.batches()]
    assert [number for batch in batches for number in batch] == list(range(500))
    assert len(batches) < 250
