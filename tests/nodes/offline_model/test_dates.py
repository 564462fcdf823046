"""Dates in words and digits, reckoned from Wednesday, 4 March 2026."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolweave.nodes.offline_model.dates import find_dates

WEDNESDAY = date(2026, 3, 4)


@pytest.mark.requirement("O-02")
@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("tomorrow morning", "2026-03-05"),
        ("on Friday", "2026-03-06"),
        ("this wednesday", "2026-03-11"),
        ("next Friday", "2026-03-13"),
        ("in a week", "2026-03-11"),
        ("the day after tomorrow", "2026-03-06"),
        ("next mon", "2026-03-09"),
        ("two weeks from now", "2026-03-18"),
        ("March 31st", "2026-03-31"),
        ("12/24/2026", "2026-12-24"),
        ("in one month", "2026-04-04"),
        ("this weekend", "2026-03-07"),
        ("end of next month", "2026-04-30"),
        ("2026-05-01", "2026-05-01"),
        ("1 June 2027", "2027-06-01"),
        ("the 5th of January", "2027-01-05"),
        ("24.12.2026", "2026-12-24"),
    ],
)
def test_a_date_is_found(text: str, day: str) -> None:
    for sentence in (text, f"do it {text} please"):
        assert [found.day.isoformat() for found in find_dates(sentence, WEDNESDAY)] == [day]


@pytest.mark.parametrize(
    "text",
    ["2026-02-31", "32.13.2026", "February 30", "may I ask", "Monday's meeting", "in no time", "second", "99999 days"],
)
def test_a_text_without_a_date_has_none(text: str) -> None:
    assert find_dates(text, WEDNESDAY) == []


@given(st.dates(), st.text(max_size=60))
def test_dates_are_searched_in_any_text_on_any_day(today: date, text: str) -> None:
    for sentence in (text, "in 999 months", "next week", "end of next year", "tomorrow", "next friday"):
        assert all(found.start < found.end for found in find_dates(sentence, today))
