"""Fill one operation from what was said; tell what it lacks, what it cannot take, and what it leaves unexplained."""

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from toolweave.nodes.offline_model.filling.date_arguments import as_text
from toolweave.nodes.offline_model.filling.draft import TEXT_KINDS
from toolweave.nodes.offline_model.language.dates import FoundDate, find_dates
from toolweave.nodes.offline_model.language.literals import HIDDEN
from toolweave.nodes.offline_model.operations.alternatives import take_alternatives
from toolweave.nodes.offline_model.operations.amounts import take_amounts
from toolweave.nodes.offline_model.operations.announced import take_announced
from toolweave.nodes.offline_model.operations.clock_times import take_times
from toolweave.nodes.offline_model.operations.identifiers import take_identifiers
from toolweave.nodes.offline_model.operations.item_lists import take_item_lists
from toolweave.nodes.offline_model.operations.names import take_names
from toolweave.nodes.offline_model.operations.said import Said
from toolweave.nodes.offline_model.operations.slots import Slots
from toolweave.nodes.offline_model.operations.unplaced import unknown_words, unplaced_phrases
from toolweave.nodes.offline_model.operations.wording import take_main_text, take_places, take_quoted
from toolweave.nodes.offline_model.tools.parameters import Parameter
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec
from toolweave.nodes.offline_model.tools.validation import wrong_parameters

_LEFT_OVER = re.compile(rf"(?<![\w.])-?(?=[\w-]{{0,40}}\d)[\w.-]{{0,60}}\w|{HIDDEN}")
_YEAR = re.compile(r"\d{4}")


@dataclass(frozen=True)
class Filled:
    """An operation with its arguments; `left` counts the numbers, codes and quoted texts that nothing has taken.

    `guessed` names the arguments that took what was left of the phrase: they speak for no operation. `unplaced` are the
    phrases that none took although they say what is asked for, `unknown` counts words that say nothing to it.
    To `pointed` arguments a preposition alone gave a name.
    """

    tool: ToolSpec
    arguments: dict[str, Any]
    missing: tuple[Parameter, ...]
    wrong: tuple[Parameter, ...]
    left: int
    guessed: frozenset[str] = frozenset()
    unplaced: tuple[str, ...] = ()
    unknown: int = 0
    pointed: frozenset[str] = frozenset()


def fill_operation(tool: ToolSpec, said: Said, today: date) -> Filled:
    """Fill an operation; each step takes its words away from those after it."""
    slots = Slots(tool, said, today)
    _take_addresses(slots)
    take_item_lists(slots)
    take_identifiers(slots)
    _take_dates(slots)
    take_times(slots)
    take_names(slots)
    take_quoted(slots)
    take_alternatives(slots)
    take_amounts(slots)
    take_announced(slots)
    take_places(slots)
    take_main_text(slots)
    wrong = wrong_parameters(tool.schema, slots.arguments)
    for one in tool.parameters:
        if one.required and len(one.choices) == 1:
            slots.arguments.setdefault(one.name, one.choices[0])
    return Filled(
        tool,
        {name: value for name, value in slots.arguments.items() if name not in wrong},
        tuple(one for one in tool.parameters if one.required and one.name not in slots.arguments),
        tuple(one for one in tool.parameters if one.name in wrong),
        len(_LEFT_OVER.findall(slots.free)),
        frozenset(slots.guessed),
        unplaced_phrases(slots),
        unknown_words(slots),
        frozenset(slots.pointed),
    )


def _take_addresses(slots: Slots) -> None:
    for role in ("email", "url", "path"):
        for character, literal in slots.literals.in_text(slots.free, role):
            for parameter in slots.open():
                if parameter.role == role and parameter.kind in TEXT_KINDS:
                    slots.arguments[parameter.name] = literal.value
                    place = slots.free.index(character)
                    slots.blank(place, place + 1)
                    break


def _take_dates(slots: Slots) -> None:
    if all(one.role != "date" for one in slots.tool.parameters):
        return
    # A day with its year is surer than one without: "last week's Monday, 2026-02-23".
    dates = find_dates(slots.free, slots.today)
    for found in sorted(dates, key=lambda one: not _YEAR.search(slots.free[one.start : one.end])):
        bound = (
            "lower" if found.preposition in ("since", "after", "from") else "upper" if found.preposition else "exact"
        )
        waiting = [one for one in slots.open() if one.role == "date" and one.kind in TEXT_KINDS and not one.choices]
        fitting = [one for one in waiting if one.bound in (bound, "exact")] or waiting
        if fitting:
            slots.arguments[fitting[0].name] = as_text(_past(found, slots), fitting[0])
            slots.blank(found.start, found.end)


def _past(found: FoundDate, slots: Slots) -> date:
    """Read "since March 2nd" as the last one there was."""
    day, said = found.day, slots.free[found.start : found.end]
    if found.preposition != "since" or day <= slots.today or _YEAR.search(said):
        return day
    week = day - timedelta(days=7)
    return week if week <= slots.today else day.replace(year=day.year - 1, day=min(day.day, 28))
