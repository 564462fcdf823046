"""Take dates for the parameters that hold one, or that bound a search by one."""

import re
from datetime import date, timedelta
from typing import Literal

from toolweave.nodes.offline_model.filling.draft import TEXT_KINDS, Draft
from toolweave.nodes.offline_model.language.dates import FoundDate, find_dates
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.tools.parameters import Parameter

_OVERDUE = pattern(
    r"\b(?:overdue|past (?:their |its |the )?(?:due|deadline)(?: date)?|behind schedule|missed"
    r"|late(?! (?:night|evening|fee|shift|lunch)))\b"
)
_INCLUSIVE = pattern(r"\b(?:on or before|inclusive|including|up to and)\b")
_UP_TO = ("before", "by", "until", "till", "no later than", "not later than")
_FROM = ("after", "since", "from")


def is_overdue(text: str) -> bool:
    """Tell whether a text speaks of what is late."""
    return bool(_OVERDUE.search(text))


def take_dates(draft: Draft) -> None:
    """Take the dates of the text in order; "overdue" bounds a listing by today."""
    parameters = [
        one
        for one in draft.tool.parameters
        if one.role == "date" and one.name not in draft.arguments and one.kind in TEXT_KINDS
    ]
    upper = next((one for one in parameters if one.bound == "upper"), None)
    if upper and draft.rest.take(_OVERDUE):
        draft.arguments[upper.name] = as_text(draft.today, upper)
        return
    text = draft.rest.text
    for found in find_dates(text, draft.today):
        for parameter in _fitting(found, parameters):
            parameters = [one for one in parameters if one is not parameter]
            draft.arguments[parameter.name] = as_text(_day_for(found, parameter), parameter)
            text = text[: found.start] + "\x00" * (found.end - found.start) + text[found.end :]
    draft.rest.text = re.sub(r"\s*\x00+\s*", " ", text).strip()


def _fitting(found: FoundDate, parameters: list[Parameter]) -> list[Parameter]:
    bound = _bound_of(found)
    direct = [one for one in parameters if one.bound in (bound, "exact")]
    if direct or bound != "exact":
        return direct[:1]
    if found.day != found.last:
        # A span ("next week") fills both ends of a range.
        return parameters[:2]
    return [one for one in parameters if one.bound == "upper"][:1] or parameters[:1]


def _bound_of(found: FoundDate) -> Literal["upper", "lower", "exact"]:
    return "upper" if found.preposition in _UP_TO else "lower" if found.preposition in _FROM else "exact"


def _day_for(found: FoundDate, parameter: Parameter) -> date:
    if parameter.bound != "upper" or found.preposition == "before":
        return found.day
    exclusive = {"before", "until"} & set(parameter.words) and not _INCLUSIVE.search(parameter.description)
    return found.last + timedelta(days=1) if exclusive and found.last < date.max else found.last


def as_text(day: date, parameter: Parameter) -> str:
    """Write a day as the parameter's format wants it."""
    return f"{day.isoformat()}T00:00:00Z" if parameter.schema.get("format") == "date-time" else day.isoformat()
