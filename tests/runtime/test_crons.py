"""The cron clock fires what is due, once, and goes on whatever a firing does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fixtures.hand_clock import HandClock
from toolweave.errors import InvalidRequest, NotFound, PersistenceError
from toolweave.runtime.crons import RETRY_DELAY, next_firing, run_cron_scheduler
from toolweave.runtime.models import Cron
from toolweave.runtime.persistence.crons import ClaimFiring
from toolweave.runtime.persistence.data_folder import Persistence, open_persistence

START = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC)
BOUND_S = 60.0


class Firings:
    """Takes the firings of crons, as starting a run would; `refuse` may raise instead."""

    def __init__(self, persistence: Persistence) -> None:
        self._persistence = persistence
        self._seen: asyncio.Queue[tuple[str, datetime | None]] = asyncio.Queue()
        self.refuse: Callable[[Cron], Awaitable[None]] | None = None

    async def fire(self, cron: Cron, claim: ClaimFiring) -> None:
        if self.refuse is not None:
            await self.refuse(cron)
        await self._persistence.app.write(claim)
        self._seen.put_nowait((cron.schedule, cron.next_run_at))

    async def next(self) -> tuple[str, str]:
        """Wait for the next firing: its schedule and the time it was due."""
        schedule, due = await asyncio.wait_for(self._seen.get(), BOUND_S)
        assert due is not None
        return schedule, due.strftime("%H:%M:%S")


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Persistence]:
    async with open_persistence(folder) as persistence:
        await persistence.assistants.sync_system({"graph": None})
        yield persistence


@pytest.fixture
async def persistence(tmp_path: Path) -> AsyncIterator[Persistence]:
    async with opened(tmp_path) as here:
        yield here


@pytest.fixture
def hands() -> HandClock:
    return HandClock(START)


@pytest.fixture
def firings(persistence: Persistence) -> Firings:
    return Firings(persistence)


async def add(
    persistence: Persistence, schedule: str, *, end_time: datetime | None = None, enabled: bool = True
) -> Cron:
    (assistant,) = await persistence.assistants.search()
    cron = Cron(
        cron_id=str(uuid4()),
        assistant_id=assistant.assistant_id,
        thread_id=None,
        user_id="",
        schedule=schedule,
        timezone=None,
        end_time=end_time,
        payload={},
        metadata={},
        on_run_completed="delete",
        enabled=enabled,
        next_run_at=next_firing(schedule, None, START, end_time),
        created_at=START,
        updated_at=START,
    )
    return await persistence.crons.create(cron)


async def test_a_cron_fires_whenever_its_time_comes(
    persistence: Persistence, hands: HandClock, firings: Firings
) -> None:
    await add(persistence, "*/2 * * * *")
    async with run_cron_scheduler(persistence.crons, firings.fire, hands):
        for minute in (2, 4, 6):
            await hands.move_to(START.replace(minute=minute, second=0))
            assert await firings.next() == ("*/2 * * * *", f"12:0{minute}:00")


async def test_a_cron_added_meanwhile_fires_before_those_that_are_due_later(
    persistence: Persistence, hands: HandClock, firings: Firings
) -> None:
    await add(persistence, "0 13 * * *")
    async with run_cron_scheduler(persistence.crons, firings.fire, hands):
        await add(persistence, "1 12 * * *")
        await hands.move_to(START.replace(minute=1, second=0))
        assert await firings.next() == ("1 12 * * *", "12:01:00")


async def test_a_changed_deleted_or_switched_off_cron_does_not_fire_at_its_old_time(
    persistence: Persistence, hands: HandClock, firings: Firings
) -> None:
    changed, deleted, off = [await add(persistence, "1 12 * * *") for _ in range(3)]
    await add(persistence, "2 12 * * *", enabled=False)
    async with run_cron_scheduler(persistence.crons, firings.fire, hands):
        later = START.replace(minute=5, second=0)
        await persistence.crons.update(
            changed.cron_id, lambda cron: replace(cron, schedule="5 12 * * *", next_run_at=later)
        )
        await persistence.crons.delete(deleted.cron_id)
        await persistence.crons.update(off.cron_id, lambda cron: replace(cron, enabled=False))
        await hands.move_to(later)
        assert await firings.next() == ("5 12 * * *", "12:05:00")
        assert await persistence.crons.next_due() == later + timedelta(days=1)


async def test_firings_missed_while_no_server_ran_are_made_up_for_once(tmp_path: Path, hands: HandClock) -> None:
    async with opened(tmp_path) as before:
        await add(before, "* * * * *")
    await hands.move_to(START + timedelta(days=3))
    async with opened(tmp_path) as after:
        firings = Firings(after)
        async with run_cron_scheduler(after.crons, firings.fire, hands):
            assert await firings.next() == ("* * * * *", "12:01:00")
            await hands.move_to(START + timedelta(days=3, minutes=1))
            assert await firings.next() == ("* * * * *", "12:01:00")
            assert await after.crons.next_due() == START + timedelta(days=3, seconds=90)


async def test_a_cron_fires_up_to_its_end_and_then_no_more(
    persistence: Persistence, hands: HandClock, firings: Firings
) -> None:
    end = START.replace(minute=2, second=0)
    cron = await add(persistence, "* * * * *", end_time=end)
    async with run_cron_scheduler(persistence.crons, firings.fire, hands):
        await hands.move_to(START.replace(minute=1, second=0))
        await firings.next()
        await hands.move_to(end)
        assert await firings.next() == ("* * * * *", "12:02:00")
    assert (await persistence.crons.get(cron.cron_id)).next_run_at is None


@pytest.mark.parametrize("error", [NotFound("the thread is gone"), RuntimeError("a bug")])
async def test_a_firing_that_fails_is_skipped_and_the_crons_go_on(
    persistence: Persistence, hands: HandClock, firings: Firings, error: Exception
) -> None:
    async def refuse(cron: Cron) -> None:
        if cron.schedule == "* * * * *" and hands.now() < START + timedelta(minutes=1):
            raise error

    firings.refuse = refuse
    await add(persistence, "* * * * *")
    await add(persistence, "1 * * * *")
    async with run_cron_scheduler(persistence.crons, firings.fire, hands):
        await hands.move_to(START.replace(minute=1, second=0))
        assert await firings.next() == ("1 * * * *", "12:01:00")
        await hands.move_to(START.replace(minute=2, second=0))
        assert await firings.next() == ("* * * * *", "12:02:00")


async def test_a_firing_that_cannot_be_stored_is_tried_again(
    persistence: Persistence, hands: HandClock, firings: Firings
) -> None:
    full = asyncio.Event()

    async def refuse(_cron: Cron) -> None:
        if not full.is_set():
            full.set()
            raise PersistenceError("the disk is full")

    firings.refuse = refuse
    await add(persistence, "1 12 * * *")
    async with run_cron_scheduler(persistence.crons, firings.fire, hands):
        due = START.replace(minute=1, second=0)
        await hands.move_to(due)
        await asyncio.wait_for(full.wait(), BOUND_S)
        await hands.move_to(due + RETRY_DELAY)
        assert await firings.next() == ("1 12 * * *", "12:01:00")


async def test_all_of_many_crons_that_are_due_at_once_fire(
    persistence: Persistence, hands: HandClock, firings: Firings
) -> None:
    for _ in range(130):
        await add(persistence, "1 12 * * *")
    async with run_cron_scheduler(persistence.crons, firings.fire, hands):
        await hands.move_to(START.replace(minute=1, second=0))
        assert {await firings.next() for _ in range(130)} == {("1 12 * * *", "12:01:00")}
    assert await persistence.crons.next_due() == START.replace(day=22, minute=1, second=0)


NOON = datetime(2026, 11, 21, 12, 0, 30, 250, tzinfo=UTC)
BERLIN = "Europe/Berlin"


def moments_of(schedule: str, zone: str | None, after: datetime, times: int) -> list[str]:
    found = []
    for _ in range(times):
        moment = next_firing(schedule, zone, after)
        assert moment is not None
        after = moment
        found.append(moment.strftime("%d %H:%M:%S"))
    return found


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
    ],
)
def test_a_schedule_fires_next_after_the_given_moment(schedule: str, following: str) -> None:
    moment = next_firing(schedule, None, NOON)
    assert moment is not None
    assert moment.isoformat() == following


def test_a_schedule_is_read_in_its_time_zone() -> None:
    moment = next_firing("0 9 * * *", "America/New_York", NOON)
    assert moment == datetime(2026, 11, 21, 14, 0, tzinfo=UTC)


def test_what_falls_into_the_hour_that_spring_takes_fires_right_after_it() -> None:
    eve = datetime(2027, 3, 27, 12, 0, tzinfo=UTC)
    assert moments_of("30 2 * * *", BERLIN, eve, 2) == ["28 01:00:00", "29 00:30:00"]


def test_a_daily_schedule_fires_once_in_the_hour_that_autumn_repeats() -> None:
    eve = datetime(2027, 10, 30, 12, 0, tzinfo=UTC)
    assert moments_of("30 2 * * *", BERLIN, eve, 2) == ["31 00:30:00", "01 01:30:00"]
    assert moments_of("@daily", "America/Havana", datetime(2027, 11, 6, 12, 0, tzinfo=UTC), 2) == [
        "07 04:00:00",
        "08 05:00:00",
    ]


def test_a_schedule_for_every_hour_goes_on_through_the_hour_that_autumn_repeats() -> None:
    before = datetime(2027, 10, 30, 23, 45, tzinfo=UTC)
    assert moments_of("*/30 * * * *", BERLIN, before, 5) == [
        "31 00:00:00",
        "31 00:30:00",
        "31 01:00:00",
        "31 01:30:00",
        "31 02:00:00",
    ]
    assert moments_of("@hourly", BERLIN, before, 3) == ["31 00:00:00", "31 01:00:00", "31 02:00:00"]


def test_nothing_fires_after_the_end() -> None:
    assert next_firing("0 13 * * *", None, NOON, NOON + timedelta(hours=1)) is not None
    assert next_firing("0 13 * * *", None, NOON, datetime(2026, 11, 21, 13, 0, tzinfo=UTC)) is not None
    assert next_firing("0 13 * * *", None, NOON, datetime(2026, 11, 21, 12, 59, tzinfo=UTC)) is None


@pytest.mark.parametrize("schedule", ["0 0 30 2 *", "0 0 1 1 * 0 1999"])
def test_a_day_that_never_comes_fires_never(schedule: str) -> None:
    assert next_firing(schedule, None, NOON) is None


NO_SCHEDULES = (
    *("", "not a cron", "61 * * * *", "* * * *", "* * * * * * * *", "@reboot", "*/0 * * * *", "* * * * *\n"),
    *("H H * * *", "R R * * *", "1,r * * * *", "\ud800 * * * *", "٣ * * * *", "a" * 10_000, "1," * 5_000 + "1 * * * *"),
)


@pytest.mark.parametrize("schedule", NO_SCHEDULES)
def test_what_is_no_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(InvalidRequest, match="Invalid cron schedule"):
        next_firing(schedule, None, NOON)


@pytest.mark.parametrize(
    "zone", ["Mars/X", "", "../etc/passwd", "/etc/localtime", "Europe", "utc\0", "\ud800", "x" * 500]
)
def test_what_is_no_time_zone_is_refused(zone: str) -> None:
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
