"""Find dates written in words or digits and resolve them against a given day."""

import calendar
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

from toolweave.nodes.offline_model.english import NUMBER_WORDS

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = tuple(name.lower() for name in calendar.month_name[1:])
_NUMBERS = {"a": 1, "an": 1, **NUMBER_WORDS}
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_MONTH = rf"(?P<month>{'|'.join(f'{name[:3]}(?:{name[3:]})?' if name != 'may' else name for name in MONTHS)})\.?"
_YEAR = r"(?:,?\s+(?P<year>\d{4}))?"
_LEAD = (
    r"(?:\b(?:(?:is|are|be|so)\s+)?(?:now\s+)?(?:due|scheduled|deadline|starting|needed)(?:\s+(?:date|is|it))?"
    r"\s*[:=]?\s+)?"
    r"(?:\b(?P<preposition>by|on|before|until|till|for|at|from|since|after|no\s+later\s+than|not\s+later\s+than)\s+)?"
)


@dataclass(frozen=True)
class FoundDate:
    """A date expression: its day, the last day of its span, and its position."""

    day: date
    last: date
    start: int
    end: int
    preposition: str


def _month_end(day: date) -> date:
    return day.replace(day=calendar.monthrange(day.year, day.month)[1])


def _numeric(match: re.Match[str], _today: date) -> tuple[date, date]:
    day = date(*(int(match[part]) for part in "ymd"))
    return day, day


def _named_month(match: re.Match[str], today: date) -> tuple[date, date]:
    month = next(number for number, name in enumerate(MONTHS, 1) if name.startswith(match["month"].lower()[:3]))
    day = date(int(match["year"] or today.year), month, int(match["day"]))
    if day < today and not match["year"]:
        day = day.replace(year=today.year + 1)
    return day, day


def _near_day(match: re.Match[str], today: date) -> tuple[date, date]:
    word = re.sub(r"\s+", " ", match["near"].lower())
    day = today + timedelta(days={"yesterday": -1, "tomorrow": 1}.get(word, 2 if "after" in word.split() else 0))
    return day, day


def _weekday(match: re.Match[str], today: date) -> tuple[date, date]:
    weekday = next(number for number, name in enumerate(WEEKDAYS) if name.startswith(match["weekday"].lower()[:3]))
    if (match["which"] or "").lower().startswith("next"):
        day = today + timedelta(days=7 - today.weekday() + weekday)
    else:
        day = today + timedelta(days=(weekday - today.weekday() - 1) % 7 + 1)
    return day, day


def _offset(match: re.Match[str], today: date) -> tuple[date, date]:
    count = _NUMBERS.get(match["count"].lower()) or int(match["count"])
    unit = match["unit"].lower()
    if unit == "month":
        month = today.month - 1 + count
        day = date(today.year + month // 12, month % 12 + 1, 1)
        day = day.replace(day=min(today.day, _month_end(day).day))
    else:
        day = today + timedelta(days=count * (7 if unit == "week" else 1))
    return day, day


def _span(match: re.Match[str], today: date) -> tuple[date, date]:
    monday = today - timedelta(days=today.weekday())
    wide, which = match["wide"].lower(), match["whose"].lower()
    if which == "next":
        monday += timedelta(days=7)
    if wide == "weekend":
        return monday + timedelta(days=5), monday + timedelta(days=6)
    if wide == "week":
        first, last = monday, monday + timedelta(days=6)
    else:
        first = _month_end(today) + timedelta(days=1) if which == "next" else today.replace(day=1)
        last = _month_end(first)
    return (first, last) if which == "next" and not match["end"] else (last, last)


_Resolver = Callable[[re.Match[str], date], tuple[date, date]]
_NEAR = (
    r"\b(?P<near>(?:the\s+)?day\s+after\s+tomorrow|yesterday|today|tonight|tomorrow"
    r"|this\s+(?:evening|afternoon|morning))\b(?:\s+(?:morning|afternoon|evening|night))?"
)
_WITHIN = r"\b(?:in|within|over)\s+(?:the\s+)?(?:next\s+|coming\s+)?"
_COUNT = r"(?P<count>\d{1,3}|[a-z]{1,5})\s+(?P<unit>day|week|month)s?"
_SPAN = r"\b(?P<end>(?:the\s+)?end\s+of\s+)?(?P<whose>this|next|the|coming)\s+(?P<wide>weekend|week|month)\b"
_FORMS: tuple[tuple[re.Pattern[str], _Resolver], ...] = tuple(
    (re.compile(_LEAD + form, re.IGNORECASE), resolve)
    for form, resolve in (
        (r"\b(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})(?:T[\d:.]{4,15}Z?)?(?![\w-])", _numeric),
        (r"\b(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})\b", _numeric),
        (r"\b(?P<m>\d{1,2})/(?P<d>\d{1,2})/(?P<y>\d{4})\b", _numeric),
        (rf"(?:\bthe\s+)?\b{_DAY}\s+(?:of\s+)?{_MONTH}\b{_YEAR}", _named_month),
        (rf"\b{_MONTH}\s+(?:the\s+)?{_DAY}\b{_YEAR}", _named_month),
        (_NEAR, _near_day),
        (rf"\b(?:(?P<which>next|this|coming)\s+)?(?P<weekday>{'|'.join(WEEKDAYS)})\b(?!['’]s)", _weekday),
        (r"\b(?P<which>next|this|coming)\s+(?P<weekday>mon|tues?|wed|thur?s?|fri|sat|sun)\b", _weekday),
        (rf"{_WITHIN}{_COUNT}(?:'\s+time)?\b", _offset),
        (rf"\b{_COUNT}\s+from\s+(?:now|today)\b", _offset),
        (_SPAN, _span),
    )
)


def find_dates(text: str, today: date) -> list[FoundDate]:
    """Return the dates of a text in order; invalid days (2026-02-31) are ignored."""
    found: list[FoundDate] = []
    for form, resolve in _FORMS:
        for match in form.finditer(text):
            if any(match.start() < other.end and other.start < match.end() for other in found):
                continue
            try:
                day, last = resolve(match, today)
            except (ValueError, OverflowError):
                continue
            preposition = re.sub(r"\s+", " ", (match["preposition"] or "").lower())
            found.append(FoundDate(day, last, match.start(), match.end(), preposition))
    return sorted(found, key=lambda one: one.start)
