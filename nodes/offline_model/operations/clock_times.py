"""Take times of day: "at 3 pm", "from 10:00 to 11:30", "half past nine", "noon"."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.operations.natures import nature_of
from toolweave.nodes.offline_model.operations.slots import Slots
from toolweave.nodes.offline_model.tools.parameters import Parameter

End = Literal["start", "end"]

_HOURS_OF_HALF_A_DAY = 12
_SPOKEN_AFTERNOON = range(1, 7)
_MIDNIGHT = "T00:00:00Z"
_STARTING = frozenset({"start", "starts", "begin", "begins", "from", "since", "after", "opening"})
_ENDING = frozenset({"end", "ends", "until", "till", "to", "before", "finish", "finishes", "closing"})
_TIME = (
    r"(?:(?<![\w.:])(?P<hour{n}>\d{{1,2}})(?:[:.](?P<minute{n}>\d\d))?(?:\s?(?P<half{n}>[ap])\.?m\b\.?)?"
    r"(?P<clock{n}>\s?o'clock)?(?![\w:]|\.\d)"
    r"|\b(?P<part{n}>half|(?:a )?quarter|\d{{1,2}}(?: minutes)?) (?P<way{n}>past|to) (?P<spoken{n}>\d{{1,2}})\b"
    r"|\b(?P<named{n}>noon|midday|midnight)\b)"
)
_RANGE = pattern(
    r"(?:\b(?:from|between) )?" + _TIME.format(n=1) + r"\s*(?:to|until|till|and|-|–)\s*" + _TIME.format(n=2)
)
_SINGLE = pattern(
    r"(?:\b(?P<link>at|from|by|until|till|to|before|after|around|about|for|starting|ending)(?: at)? )?"
    + _TIME.format(n=1)
)
_AT_END = pattern(r"^\s*(?:[,;.!?\x00]|$|(?:on|for|in|with|tomorrow|today|and)\b)")


@dataclass(frozen=True)
class FoundTime:
    """A time of day as HH:MM, and which end of something it is."""

    said: str
    end: End | None


def take_times(slots: Slots) -> None:
    """Give each time of the text to the parameter for that end; one that starts goes first where nothing tells."""
    waiting = [one for one in slots.open() if nature_of(one) == "clock"]
    days = [one for one in slots.tool.parameters if str(slots.arguments.get(one.name, "")).endswith(_MIDNIGHT)]
    if not waiting and not days:
        return
    for found in list(_found_times(slots)):
        if days:
            day = days.pop(0)
            slots.arguments[day.name] = slots.arguments[day.name].removesuffix(_MIDNIGHT) + f"T{found.said}:00Z"
            continue
        fitting = [one for one in waiting if _end_of(one) in (found.end, None)] if found.end else waiting
        if fitting:
            chosen = next((one for one in fitting if _end_of(one) != "end"), fitting[0])
            slots.arguments[chosen.name] = _written(found.said, chosen)
            waiting.remove(chosen)


def _found_times(slots: Slots) -> Iterator[FoundTime]:
    for match in list(_RANGE.finditer(slots.free)):
        second = _read(match, 2, loose=True)
        first = _read(match, 1, loose=True, half=match["half2"])
        if first and second and any(match[name] for name in ("minute1", "minute2", "half1", "half2", "named2")):
            slots.blank(match.start(), match.end())
            yield FoundTime(first, "start")
            yield FoundTime(second, "end")
    for match in list(_SINGLE.finditer(slots.free)):
        link = (match["link"] or "").lower()
        bare_hour = link in ("at", "from", "until", "till") and bool(_AT_END.match(slots.free[match.end() :]))
        said = _read(match, 1, loose=bare_hour)
        if said:
            slots.blank(match.start(), match.end())
            yield FoundTime(said, "end" if link in ("until", "till", "ending") else None)


def _read(match: re.Match[str], number: int, *, loose: bool, half: str | None = None) -> str | None:
    """Write a time as HH:MM; a bare number is one only where `loose` says so."""
    named, spoken = match[f"named{number}"], match[f"spoken{number}"]
    if named:
        return "00:00" if named.lower() == "midnight" else "12:00"
    if spoken:
        return _spoken(match[f"part{number}"].lower(), match[f"way{number}"].lower(), int(spoken))
    hour, minute = int(match[f"hour{number}"]), match[f"minute{number}"]
    stated = match[f"half{number}"]
    if not (minute or stated or match[f"clock{number}"] or loose):
        return None
    which = (stated or ("" if minute else half) or "").lower()
    if which:
        if not 1 <= hour <= _HOURS_OF_HALF_A_DAY:
            return None
        hour = hour % _HOURS_OF_HALF_A_DAY + (_HOURS_OF_HALF_A_DAY if which == "p" else 0)
    elif match[f"clock{number}"]:
        hour = _of_the_day(hour)
    return f"{hour:02}:{int(minute or 0):02}" if hour < 24 and int(minute or 0) < 60 else None


def _spoken(part: str, way: str, hour: int) -> str | None:
    minutes = 30 if part == "half" else 15 if part.endswith("quarter") else int(part.split(maxsplit=1)[0])
    if not 1 <= hour <= _HOURS_OF_HALF_A_DAY or minutes >= 60:
        return None
    total = _of_the_day(hour) * 60 + (minutes if way == "past" else -minutes)
    return f"{total // 60 % 24:02}:{total % 60:02}"


def _of_the_day(hour: int) -> int:
    """Read an hour of the clock's face as people mean it by day: "three o'clock" is in the afternoon."""
    return hour + _HOURS_OF_HALF_A_DAY if hour in _SPOKEN_AFTERNOON else hour


def _end_of(parameter: Parameter) -> End | None:
    own = set(parameter.words)
    return "end" if own & _ENDING else "start" if own & _STARTING else None


def _written(said: str, parameter: Parameter) -> str:
    with_seconds = parameter.schema.get("format") == "time" or "ss" in parameter.description.lower().split(":")
    return f"{said}:00" if with_seconds else said
