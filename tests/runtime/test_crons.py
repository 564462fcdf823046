"""The scheduler fires each due cron once, and continues after a firing that fails."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fixtures.hand_clock import HandClock
from tests.runtime.persistence.records import store_cron
from toolweave.errors import InvalidRequest, NotFound, PersistenceError
from toolweave.runtime.crons import RETRY_DELAY, next_firing, run_cron_scheduler
from toolweave.runtime.models import Cron
from toolweave.runtime.persistence.crons import ClaimFiring
from toolweave.runtime.persistence.data_folder import Persistence, open_persistence

START = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC)
BOUND_S = 60.0


class World:
    """Crons in a data folder, the clock of their scheduler, and their firings; `refuse` may raise instead."""

    def __init__(self, persistence: Persistence, clock: HandClock | None = None) -> None:
        self.persistence = persistence
        self.crons = persistence.crons
        self.clock = clock or HandClock(START)
        self.refuse: Callable[[Cron], None] = lambda _cron: None
        self._firings: asyncio.Queue[tuple[str, datetime | None]] = asyncio.Queue()

    async def add(self, schedule: str, **fields: Any) -> Cron:
        due = next_firing(schedule, None, START, fields.get("end_time"))
        return await store_cron(self.persistence, schedule=schedule, next_run_at=due, **fields)

    def scheduling(self) -> AbstractAsyncContextManager[None]:
        return run_cron_scheduler(self.crons, self._fire, self.clock)

    async def next(self) -> tuple[str, str]:
        """Wait for the next firing: its schedule and the time it was due."""
        schedule, due = await asyncio.wait_for(self._firings.get(), BOUND_S)
        assert due is not None
        return schedule, due.strftime("%H:%M:%S")

    async def _fire(self, cron: Cron, claim: ClaimFiring) -> None:
        self.refuse(cron)
        await self.persistence.app.write(claim)
        self._firings.put_nowait((cron.schedule, cron.next_run_at))


@asynccontextmanager
async def open_world(folder: Path, clock: HandClock | None = None) -> AsyncIterator[World]:
    async with open_persistence(folder) as persistence:
        await persistence.assistants.sync_system({"graph": None})
        yield World(persistence, clock)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        yield opened


def at(minute: int, day: int = START.day) -> datetime:
    return START.replace(day=day, minute=minute, second=0)


async def test_a_cron_fires_each_time_it_is_due_also_when_it_is_added_later(world: World) -> None:
    await world.add("0 13 * * *")
    async with world.scheduling():
        await world.add("*/2 * * * *")
        for minute in (2, 4, 6):
            await world.clock.move_to(at(minute))
            assert await world.next() == ("*/2 * * * *", f"12:0{minute}:00")


async def test_a_changed_deleted_or_disabled_cron_does_not_fire_at_its_old_time(world: World) -> None:
    changed, deleted, disabled = [await world.add("1 12 * * *") for _ in range(3)]
    await world.add("2 12 * * *", enabled=False)
    async with world.scheduling():
        later = at(5)
        await world.crons.update(changed.cron_id, lambda cron: replace(cron, schedule="5 12 * * *", next_run_at=later))
        await world.crons.delete(deleted.cron_id)
        await world.crons.update(disabled.cron_id, lambda cron: replace(cron, enabled=False))
        await world.clock.move_to(later)
        assert await world.next() == ("5 12 * * *", "12:05:00")
        assert await world.crons.next_due() == later + timedelta(days=1)


async def test_firings_that_were_missed_while_no_server_ran_fire_once(tmp_path: Path) -> None:
    async with open_world(tmp_path) as before:
        await before.add("* * * * *")
    async with open_world(tmp_path, HandClock(START + timedelta(days=3))) as after, after.scheduling():
        assert await after.next() == ("* * * * *", "12:01:00")
        await after.clock.move_to(START + timedelta(days=3, minutes=1))
        assert await after.next() == ("* * * * *", "12:01:00")
        assert await after.crons.next_due() == START + timedelta(days=3, seconds=90)


async def test_a_cron_fires_up_to_its_end_and_then_no_more(world: World) -> None:
    cron = await world.add("* * * * *", end_time=at(2))
    async with world.scheduling():
        for minute in (1, 2):
            await world.clock.move_to(at(minute))
            assert await world.next() == ("* * * * *", f"12:0{minute}:00")
    assert (await world.crons.get(cron.cron_id)).next_run_at is None


@pytest.mark.parametrize("error", [NotFound("the thread is gone"), RuntimeError("a bug")])
async def test_a_firing_that_fails_is_skipped_and_the_crons_go_on(world: World, error: Exception) -> None:
    def refuse(cron: Cron) -> None:
        if cron.schedule == "* * * * *" and world.clock.now() < START + timedelta(minutes=1):
            raise error

    world.refuse = refuse
    await world.add("* * * * *")
    await world.add("1 * * * *")
    async with world.scheduling():
        await world.clock.move_to(at(1))
        assert await world.next() == ("1 * * * *", "12:01:00")
        await world.clock.move_to(at(2))
        assert await world.next() == ("* * * * *", "12:02:00")


async def test_a_firing_that_cannot_be_stored_is_tried_again(world: World) -> None:
    full = asyncio.Event()

    def refuse(_cron: Cron) -> None:
        if not full.is_set():
            full.set()
            raise PersistenceError("the disk is full")

    world.refuse = refuse
    await world.add("1 12 * * *")
    async with world.scheduling():
        await world.clock.move_to(at(1))
        await asyncio.wait_for(full.wait(), BOUND_S)
        await world.clock.move_to(at(1) + RETRY_DELAY)
        assert await world.next() == ("1 12 * * *", "12:01:00")


async def test_all_of_many_crons_that_are_due_at_once_fire(world: World) -> None:
    for _ in range(130):
        await world.add("1 12 * * *")
    async with world.scheduling():
        await world.clock.move_to(at(1))
        assert {await world.next() for _ in range(130)} == {("1 12 * * *", "12:01:00")}
    assert await world.crons.next_due() == at(1, day=22)


NOON = datetime(2026, 11, 21, 12, 0, 30, 250, tzinfo=UTC)
BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("schedule", "following"),
    [
        ("* * * * *", "2026-11-21T12:01:00+00:00"),
        ("*/5 * * * *", "2026-11-21T12:05:00+00:00"),
        ("0 0 1 1 *", "2027-01-01T00:00:00+00:00"),
        ("0 9 * * MON-FRI", "2026-11-23T09:00:00+00:00"),
        ("0 0 L * *", "2026-11-30T00:00:00+00:00"),
        ("* * * * * */10", "2026-11-21T12:00:40+00:00"),
        ("0 0 1 1 * 30 2030", "2030-01-01T00:00:30+00:00"),
        ("@daily", "2026-11-22T00:00:00+00:00"),
        ("  0   12 * *  * ", "2026-11-22T12:00:00+00:00"),
        ("0 0 30 2 *", None),
        ("0 0 1 1 * 0 1999", None),
    ],
)
def test_a_schedule_fires_next_after_the_given_moment(schedule: str, following: str | None) -> None:
    moment = next_firing(schedule, None, NOON)
    assert (moment and moment.isoformat()) == following


SPRING_EVE = datetime(2027, 3, 27, 12, 0, tzinfo=UTC)
AUTUMN_EVE = datetime(2027, 10, 30, 12, 0, tzinfo=UTC)
BEFORE_AUTUMN = datetime(2027, 10, 30, 23, 45, tzinfo=UTC)
HALF_HOURS = ["31 00:00:00", "31 00:30:00", "31 01:00:00", "31 01:30:00", "31 02:00:00"]


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "following"),
    [
        ("30 2 * * *", BERLIN, SPRING_EVE, ["28 01:00:00", "29 00:30:00"]),
        ("30 2 * * *", BERLIN, AUTUMN_EVE, ["31 00:30:00", "01 01:30:00"]),
        ("@daily", "America/Havana", datetime(2027, 11, 6, 12, 0, tzinfo=UTC), ["07 04:00:00", "08 05:00:00"]),
        ("*/30 * * * *", BERLIN, BEFORE_AUTUMN, HALF_HOURS),
        ("@hourly", BERLIN, BEFORE_AUTUMN, HALF_HOURS[::2]),
    ],
    ids=["in-the-skipped-hour", "in-the-repeated-hour", "at-a-repeated-midnight", "half-hourly", "hourly"],
)
def test_a_daily_schedule_fires_once_a_day_and_an_hourly_one_each_hour_when_clocks_change(
    schedule: str, zone: str, after: datetime, following: list[str]
) -> None:
    found = []
    for _ in following:
        moment = next_firing(schedule, zone, after)
        assert moment is not None
        after = moment
        found.append(moment.strftime("%d %H:%M:%S"))
    assert found == following


def test_nothing_fires_after_the_end() -> None:
    assert next_firing("0 13 * * *", None, NOON, datetime(2026, 11, 21, 13, 0, tzinfo=UTC)) is not None
    assert next_firing("0 13 * * *", None, NOON, datetime(2026, 11, 21, 12, 59, tzinfo=UTC)) is None


INVALID_SCHEDULES = (
    *("", "61 * * * *", "* * * * * * * *", "@reboot", "*/0 * * * *", "* * * * *\n"),
    *("H H * * *", "1,r * * * *", "\ud800 * * * *", "٣ * * * *", "1," * 5_000 + "1 * * * *"),
)


@pytest.mark.parametrize("schedule", INVALID_SCHEDULES)
def test_an_invalid_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(InvalidRequest, match="Invalid cron schedule"):
        next_firing(schedule, None, NOON)


@pytest.mark.parametrize("zone", ["Mars/X", "", "../etc/passwd", "Europe", "utc\0", "\ud800"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidRequest, match="Invalid timezone"):
        next_firing("* * * * *", zone, NOON)


FIELD = st.text(alphabet="0123456789*/,-?L#ASUNMOFRI", min_size=1, max_size=8)


@given(st.one_of(st.text(max_size=40), st.lists(FIELD, min_size=5, max_size=7).map(" ".join)))
@example("* * * * 1#6")
def test_any_text_is_refused_or_fires_later_than_now(schedule: str) -> None:
    try:
        moment = next_firing(schedule, BERLIN, NOON)
    except InvalidRequest:
        return
    assert moment is None or moment > NOON
