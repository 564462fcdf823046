"""Take numbers: limits, quantities, and what a tool computes with."""

import re

from toolweave.nodes.offline_model.filling.draft import Draft
from toolweave.nodes.offline_model.filling.named_texts import parameter_words
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.tools.parameters import Parameter

_WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_COUNT = rf"(?P<count>\d{{1,15}}|{'|'.join(_WORDS)})\b"
_DIGITS = r"-?\d{1,15}(?:\.\d{1,15})?"
_ANY_NUMBER = pattern(rf"(?<![\w.]){_DIGITS}(?![\w]|\.\d)|\b(?:{'|'.join(_WORDS)})\b")
_LIMITING = r"(?:first|top|last|latest|at most|up to|only|maximum|max|limit(?:ed)?(?: of| to)?:?)"
_LIMIT = pattern(rf"\b(?:(?:the|my|just|next|{_LIMITING}) )*{_LIMITING}[: ]+{_COUNT}(?: results?\b)?")
_COUNTED = pattern(rf"\b{_COUNT} (?:first |results?\b|most recent )")
_QUANTITY = pattern(rf"^{_COUNT} (?=\w)")


def take_limit(draft: Draft) -> None:
    """Take how many results are wanted: "the first 5", "top three", "2 results", "10 tasks"."""
    parameter = draft.tool.parameter("limit")
    if parameter is None or parameter.name in draft.arguments:
        return
    counted = pattern(rf"\b{_COUNT}(?= (?:\w+ )?{draft.noun}\b)")
    match = draft.rest.take(_LIMIT) or draft.rest.take(_COUNTED) or draft.rest.take(counted)
    if match:
        draft.arguments[parameter.name] = read_number(match["count"], parameter)


def take_quantity(draft: Draft) -> None:
    """Take how many things are wanted: "3 apples"."""
    for parameter in draft.tool.parameters:
        named = {"quantity", "amount", "count", "copies"} & set(parameter.words)
        if parameter.kind == "integer" and named and parameter.name not in draft.arguments:
            match = draft.rest.take(_QUANTITY)
            if match:
                draft.arguments[parameter.name] = read_number(match["count"], parameter)


def take_numbers(draft: Draft) -> None:
    """Take numbers: those behind a parameter's name first, then the others in the order of the parameters."""
    numeric = [one for one in draft.tool.parameters if one.kind in ("integer", "number") and not one.choices]
    for parameter in numeric:
        if parameter.name not in draft.arguments:
            names = parameter_words(parameter)
            form = rf"\b(?:{names})(?: (?:is|of|to|at))?\s*[:=]?\s*(?P<number>{_DIGITS})(?![\w.])"
            match = draft.rest.take(pattern(form))
            if match:
                draft.arguments[parameter.name] = read_number(match["number"], parameter)
    for parameter in numeric:
        if parameter.required and parameter.name not in draft.arguments:
            match = draft.rest.take(_ANY_NUMBER)
            if match:
                draft.arguments[parameter.name] = read_number(match.group(), parameter)


def read_number(said: str, parameter: Parameter) -> int | float:
    """Read digits or a number word as the parameter's kind of number."""
    number: int | float = _WORDS.get(said.lower(), 0) or float(said)
    return int(number) if parameter.kind == "integer" or number == int(number) else number


def first_number(text: str) -> re.Match[str] | None:
    """Find the first number of a text."""
    return _ANY_NUMBER.search(text)


def names_numbers(text: str) -> int:
    """Count the numbers a text names."""
    return sum(1 for _ in _ANY_NUMBER.finditer(text))
