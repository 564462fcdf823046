"""Decide whether a stored value fits a search's filter (langgraph_api.md sections 2.6 and 10).

A filter maps top-level names of the value, taken literally, to what must be there: an equal value, an object whose
entries must be there in turn, or operators such as {"$gte": 3}. SQLite leaves out most rows that cannot fit
(`sql_condition`), `fits` decides about the others. Nothing of a filter ever becomes part of a statement.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

Comparison = Callable[[Any, Any], bool]
ORDERINGS: Mapping[str, Comparison] = {
    "$gt": lambda value, limit: value > limit,
    "$gte": lambda value, limit: value >= limit,
    "$lt": lambda value, limit: value < limit,
    "$lte": lambda value, limit: value <= limit,
}
OPERATORS = ("$eq", "$ne", *ORDERINGS)
# SQLite compares names as they are written in JSON, and reads texts up to the first NUL.
_PLAIN_NAME = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]{1,200}')
_PLAIN_TEXT = re.compile(r"[^\x00\ud800-\udfff]*")
# SQLite reads some decimal numbers a little differently from Python.
_TOLERANCE = 1e-9
_TINY, _HUGE = 1e-300, 1e300
_EXACT_INTEGERS = 2**53
# SQLite limits the conditions of a statement.
_MOST_CONDITIONS = 30
# {x} is what SQLite finds at a path: numbers sort before texts, true is 1, arrays and objects are their JSON text.
_IS_NULL, _IS_NOT_NULL = "{x} IS NULL", "{x} IS NOT NULL"
_BETWEEN = "{x} BETWEEN {low} AND {high}"
_AT_LEAST = "{x} >= {low}"
_NUMBER_UP_TO = "({x} <= {high} OR {x} >= '')"
_TEXT_UP_TO = "{x} BETWEEN '' AND {high}"
_DIFFERS = (
    "({x} IS NOT {low} OR json_type(s.value, {path}) NOT IN ('text', 'integer', 'true', 'false') "
    "OR instr(s.value, '\\u0000'))"
)
# What `to_json` marks as readable for Python only begins with a blank; a blob sorts behind every text.
_NO_PLAIN_OBJECT = "s.value < '{' OR s.value >= '|'"


def check_filter(wanted: Mapping[str, Any] | None) -> None:
    """Raise ValueError for an operator that does not exist, wherever it stands in a filter."""
    for inner in (wanted or {}).values():
        _check(inner)


def _check(wanted: Any) -> None:
    if isinstance(wanted, Mapping):
        for name, inner in wanted.items():
            if _is_operators(wanted) and name not in OPERATORS:
                raise ValueError(f"Unsupported operator: {str(name)[:100]}")
            _check(inner)
    elif isinstance(wanted, list | tuple):
        for inner in wanted:
            _check(inner)


def sql_condition(wanted: Mapping[str, Any]) -> tuple[str, dict[str, object]]:
    """Write a condition on a stored text that is true for every value that fits, and for few others."""
    parts: list[str] = []
    parameters: dict[str, object] = {}
    for place, (template, path, low, high) in enumerate(islice(_conditions("$", wanted), _MOST_CONDITIONS)):
        names = {"path": f"path{place}", "low": f"low{place}", "high": f"high{place}"}
        parameters.update(zip(names.values(), (path, low, high), strict=True))
        bound = {use: f":{name}" for use, name in names.items()}
        parts.append(template.format(x=f"json_extract(s.value, {bound['path']})", **bound))
    return f"({_NO_PLAIN_OBJECT} OR {' AND '.join(parts)})" if parts else "true", parameters


def _conditions(path: str, wanted: Any) -> Iterator[tuple[str, str, Any, Any]]:
    """Give template, path and bounds of conditions that are true wherever the value at a path fits."""
    if not isinstance(wanted, Mapping | list | tuple):
        yield from _conditions(path, {"$eq": wanted})
    elif isinstance(wanted, list | tuple):
        for place, inner in enumerate(wanted):
            yield from _conditions(f"{path}[{place}]", inner)
    elif _is_operators(wanted):
        for operator, operand in wanted.items():
            condition = _condition(operator, operand)
            if condition is not None:
                template, low, high = condition
                yield template, path, low, high
    else:
        for name, inner in wanted.items():
            if isinstance(name, str) and _PLAIN_NAME.fullmatch(name):
                yield from _conditions(f'{path}."{name}"', inner)


def _condition(operator: str, operand: Any) -> tuple[str, Any, Any] | None:
    """Choose template and bounds for an operator; None where SQLite cannot leave anything out."""
    if operand is None:
        return {"$eq": (_IS_NULL, None, None), "$ne": (_IS_NOT_NULL, None, None)}.get(operator)
    if isinstance(operand, str):
        return _text_condition(operator, operand)
    number = _number(operand)
    if number is None or not (number == 0 or _TINY < abs(number) < _HUGE):
        return None
    if operator == "$ne":
        is_exact = number.is_integer() and abs(number) < _EXACT_INTEGERS
        return (_DIFFERS, int(number), None) if is_exact else None
    margin = abs(number) * _TOLERANCE
    template = {"$eq": _BETWEEN, "$lt": _NUMBER_UP_TO, "$lte": _NUMBER_UP_TO}.get(operator, _AT_LEAST)
    return template, number - margin, number + margin


def _text_condition(operator: str, operand: str) -> tuple[str, Any, Any] | None:
    if not _PLAIN_TEXT.fullmatch(operand):
        return None
    if operator in ORDERINGS and _number(operand) is not None:
        return _IS_NOT_NULL, None, None
    template = {"$eq": _BETWEEN, "$ne": _DIFFERS, "$lt": _TEXT_UP_TO, "$lte": _TEXT_UP_TO}.get(operator, _AT_LEAST)
    return template, operand, operand


def fits(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Say whether a value has everything that the filter asks for."""
    return all(_matches(value.get(name), inner) for name, inner in wanted.items())


def _matches(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if _is_operators(wanted):
            return all(_holds(value, operator, operand) for operator, operand in wanted.items())
        return isinstance(value, Mapping) and fits(value, wanted)
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(_matches(item, inner) for item, inner in zip(value, wanted, strict=True))
        )
    return bool(value == wanted)


def _is_operators(wanted: Mapping[Any, Any]) -> bool:
    return any(str(name).startswith("$") for name in wanted)


def _holds(value: Any, operator: str, operand: Any) -> bool:
    if operator == "$eq":
        return bool(value == operand)
    if operator == "$ne":
        return bool(value != operand)
    compare = ORDERINGS[operator]
    numbers = _number(value), _number(operand)
    if None not in numbers:
        return compare(*numbers)
    return isinstance(value, str) and isinstance(operand, str) and compare(value, operand)


def _number(value: Any) -> float | None:
    """Read a number, also out of text; what is none (also a field that is not there) compares with nothing."""
    if not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
