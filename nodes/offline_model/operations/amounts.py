"""Take numbers by what stands around them: a parameter's name, a unit, "at least", "under", "between … and …"."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.units import MEASURED, UNIT_WORDS, UNITS, Unit
from toolweave.nodes.offline_model.language.vocabulary import VERBS
from toolweave.nodes.offline_model.language.words import STOP_WORDS, words
from toolweave.nodes.offline_model.operations.identifiers import is_identifier
from toolweave.nodes.offline_model.operations.slots import Slots, labels_of, rules_removed
from toolweave.nodes.offline_model.tools.parameters import Parameter

Bound = Literal["upper", "lower"]

_UPPER = (
    r"(?:(?:for |at |costs? |priced )?(?:under|below|less than|fewer than|cheaper than|lighter than|shorter than"
    r"|(?:not|no) more than|not over|not above|at (?:the )?most|up to|a maximum of|maximum|max\.?|within|<=?|until"
    r"|a limit of|limit(?:ed to)?))"
)
_LOWER = (
    r"(?:(?:for |at |costs? |priced )?(?:over|above|more than|at (?:the )?least|a minimum of|minimum|min\.?"
    r"|(?:not|no) less than|upwards of|starting at|>=?|heavier than|longer than|better than))"
)
_AFTER_UPPER = r"(?:or|and) (?:less|fewer|under|below|cheaper|lower)|at (?:the )?most|max(?:imum)?\b|tops\b"
_AFTER_LOWER = r"(?:or|and) (?:more|up|above|over|better|higher)|at (?:the )?least|min(?:imum)?\b|and upwards"
_CURRENCY = r"(?:[€$£¥]|\b(?:eur|usd|gbp|jpy|chf|sek|nok|dkk)\b)"
_NUMBER = re.compile(
    rf"(?P<before>{_CURRENCY}\s*)?(?<![\w.])(?<!\w-)(?P<number>-?\d{{1,15}}(?:\.\d{{1,15}})?)"
    rf"(?!\.?\d|-\d|(?:st|nd|rd|th)\b|:\d)(?:[\s-]?(?P<unit>{UNIT_WORDS})(?!\w))?",
    re.IGNORECASE,
)
_BETWEEN = pattern(r"\b(?:between|from)\W+(?:[a-z$€£¥]+ ?){0,2}$")
_AND = pattern(r"^\s*(?:[a-z€$£¥]+ )?(?:and|to|-|–)\W+(?:[$€£¥] ?)?\d")
_SECOND = pattern(r"\b(?:between|from)\W+(?:[$€£¥] ?)?-?[\d.]+ ?(?:[a-z€$£¥]+ )?(?:and|to|-|–)\W+$")
_FIRST_OF_MANY = pattern(r"\b(?:first|last|top|latest|newest|next|only|just)\W+$")
# In a parameter's name or description these stand for something else.
_NO_UNITS = frozenset({"x", "min", "times", "s", "m", "l", "g", "h"})
_NOT_MORE = pattern(r"\b(?:(?:no|not) (?:\w+ )?(?:more|farther|further|longer|later|higher|over)|up to|within)\b")
_YEARS = range(1000, 2200)
_IN_YEAR = pattern(r"\b(?:from|in|of|since|until|before|after|year)(?: the year)?\s*$")
_MOST_AMOUNTS = 40
_BOUNDING = frozenset(words("under below above over maximum minimum max min first last top limit between"))
_OF_THEM = r"(?:of (?:them|those|these)|results?|hits|entries|most recent)\b"


@dataclass(frozen=True)
class Amount:
    """A number of the text: what it counts or measures, and whether it bounds something; `limits` a list of results."""

    value: float
    start: int
    end: int
    before: str
    after: str
    unit: Unit | None = None
    bound: Bound | None = None
    limits: bool = False
    lead: int = 0


@dataclass(frozen=True)
class Measured:
    """What a numeric parameter takes."""

    parameter: Parameter
    unit: Unit | None
    bound: Bound | None
    limits: bool


def take_amounts(slots: Slots) -> None:
    """Give each number to the parameter that it fits best."""
    wanted = [
        measured_by(one)
        for one in slots.open()
        if one.kind in ("integer", "number") and not one.choices and not is_identifier(one)
    ]
    amounts = list(islice(find_amounts(slots.free, slots.noun), _MOST_AMOUNTS)) if wanted else []
    pairs = [(_fit(amount, one), -amount.start, amount, one) for amount in amounts for one in wanted]
    used: set[int] = set()
    for score, _, amount, one in sorted(pairs, key=lambda pair: (-pair[0], -pair[1])):
        needed = 1.0 if one.parameter.required else 3.0
        if score >= needed and amount.start not in used and one.parameter.name not in slots.arguments:
            used.add(amount.start)
            slots.arguments[one.parameter.name] = _in_unit_of(amount, one)
            slots.blank(amount.start - amount.lead, amount.end)


def measured_by(parameter: Parameter) -> Measured:
    """Read from a parameter's name and description what its number measures and bounds."""
    described = words(rules_removed(parameter.description))
    here = {*parameter.words, *described}
    unit = next((UNITS[word] for word in (*parameter.words[-1:], *described) if word in UNITS.keys() - _NO_UNITS), None)
    if unit is None:
        kind = next((kind for kind, marks in MEASURED.items() if here & marks), None)
        unit = Unit(kind, 1) if kind in ("money", "stars", "count", "persons") else None
    own = set(parameter.words)
    upper = own & {"max", "maximum", "most", "upto", "radius"} or here & {"highest", "most", "maximum", "max"}
    not_more = bool(_NOT_MORE.search(parameter.description))
    lower = own & {"min", "minimum", "least"} or here & {"lowest", "least", "minimum", "min"}
    limits = parameter.role == "limit" and not own & {"price", "cost", "weight", "amount", "quantity"}
    bound: Bound | None = None if limits else "lower" if lower else "upper" if upper or not_more else None
    return Measured(parameter, None if limits else unit, bound, limits)


def find_amounts(text: str, noun: str) -> Iterator[Amount]:
    """Find the numbers of a text with what stands around them."""
    for match in _NUMBER.finditer(text):
        before, after = text[: match.start()], text[match.end() :]
        unit = UNITS.get((match["unit"] or "").lower()) or (
            UNITS.get(match["before"].strip().lower()) if match["before"] else None
        )
        amount = Amount(float(match["number"]), match.start(), match.end(), before[-60:], after[:40], unit)
        yield _bounded(amount, noun)


def _bounded(amount: Amount, noun: str) -> Amount:
    before, after = amount.before, amount.after
    upper = pattern(rf"\b{_UPPER}\W*$|[<]=?\s*$").search(before)
    lower = pattern(rf"\b{_LOWER}\W*$|[>]=?\s*$").search(before)
    counted = pattern(rf"^\W*(?:{_OF_THEM}|(?:[\w-]+ ){{0,2}}?(?:{noun})\b)").search(after)
    plain = amount.unit is None
    first = plain and _FIRST_OF_MANY.search(before)
    if plain and (first or (counted and not lower)):
        lead = first or upper
        return replace(
            amount, limits=True, bound="upper" if upper else None, lead=len(before) - lead.start() if lead else 0
        )
    if upper or pattern(rf"^\W*{_AFTER_UPPER}").search(after) or _SECOND.search(before):
        return replace(amount, bound="upper", lead=len(before) - upper.start() if upper else 0)
    if lower or pattern(rf"^\W*{_AFTER_LOWER}").search(after) or (_BETWEEN.search(before) and _AND.search(after)):
        return replace(amount, bound="lower", lead=len(before) - lower.start() if lower else 0)
    return amount


def _fit(amount: Amount, one: Measured) -> float:
    """Score how well a number fits a parameter; what contradicts it scores below zero."""
    if one.limits or (amount.limits and amount.bound != one.bound):
        return 4.0 if one.limits and (amount.limits or _is_named(amount, one)) else -9.0
    known = amount.unit is not None and one.unit is not None
    if known and amount.unit.dimension != one.unit.dimension:  # type: ignore[union-attr]
        return -9.0
    # Room for so many means for at least so many.
    holds = known and amount.unit == UNITS["people"] and one.bound == "lower" and amount.bound is None
    if one.bound and amount.bound != one.bound and not holds:
        return -9.0
    named = _is_named(amount, one)
    score = 1.0 if one.parameter.required else 0.0
    score += 4.0 if named else -2.0 if amount.unit is None and _follows_a_name(amount) else 0.0
    score += 3.0 if known else 0.0
    if amount.bound:
        score += 3.0 if one.bound == amount.bound else -2.0
    return score


def _follows_a_name(amount: Amount) -> bool:
    """Tell whether a number stands right behind a word that it may number: "customer 17"."""
    before = re.search(r"([^\W\d_]+)\s+$", amount.before)
    word = before.group(1).lower() if before else ""
    return bool(word) and not (word in STOP_WORDS or word in VERBS or word in UNITS or word in _BOUNDING)


def _is_named(amount: Amount, one: Measured) -> bool:
    if "year" in one.parameter.words and amount.unit is None and amount.value in _YEARS:
        return bool(_IN_YEAR.search(amount.before))
    names = labels_of(one.parameter)
    link = r"(?:'s)?(?: (?:is|are|of|to|at|be|as|should|from|for|with|now|set|limit|only))*\s*[:=]?\s*(?:[€$£¥]\s*)?"
    return bool(pattern(rf"\b(?:{names}){link}$").search(amount.before)) or (
        amount.unit is None and bool(pattern(rf"^[ -](?:{names})\b").search(amount.after))
    )


def _in_unit_of(amount: Amount, one: Measured) -> int | float:
    value = amount.value
    if amount.unit and one.unit and amount.unit.size != one.unit.size:
        value = round(value * amount.unit.size / one.unit.size, 6)
    return int(value) if value == int(value) else value
