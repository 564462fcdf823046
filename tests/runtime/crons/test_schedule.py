"""A schedule says when it fires next, in its time zone and across changes of daylight saving time."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolweave.errors import InvalidRequest
from toolweave.runtime.crons import next_firing

NOON = datetime(2026, 11, 21, 12, 0, 30, 250, tzinfo=UTC)
BERLIN = "Europe/Berlin"


def firings(schedule: str, zone: str | None, after: datetime, times: int) -> list[str]:
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
    assert firings("30 2 * * *", BERLIN, eve, 2) == ["28 01:00:00", "29 00:30:00"]


def test_a_daily_schedule_fires_once_in_the_hour_that_autumn_repeats() -> None:
    eve = datetime(2027, 10, 30, 12, 0, tzinfo=UTC)
    assert firings("30 2 * * *", BERLIN, eve, 2) == ["31 00:30:00", "01 01:30:00"]
    assert firings("@daily", "America/Havana", datetime(2027, 11, 6, 12, 0, tzinfo=UTC), 2) == [
        "07 04:00:00",
        "08 05:00:00",
    ]


def test_a_schedule_for_every_hour_goes_on_through_the_hour_that_autumn_repeats() -> None:
    before = datetime(2027, 10, 30, 23, 45, tzinfo=UTC)
    assert firings("*/30 * * * *", BERLIN, before, 5) == [
        "31 00:00:00",
        "31 00:30:00",
        "31 01:00:00",
        "31 01:30:00",
        "31 02:00:00",
    ]
    assert firings("@hourly", BERLIN, before, 3) == ["31 00:00:00", "31 01:00:00", "31 02:00:00"]


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
