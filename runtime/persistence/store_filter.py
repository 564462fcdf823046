"""Match stored values with the filter of a search (langgraph_api.md sections 2.6 and 10).

A filter maps literal top-level names of the value to an equal value, an object whose entries must match recursively, or
operators such as {"$gte": 3}. SQLite skips most rows that cannot match (`sql_condition`), `matches_item_filter` checks
the others. No text of a filter becomes part of a statement.
"""

import re
from collections.abc import Callable, Mapping
from math import ceil, floor
from typing import Any

Comparison = Callable[[Any, Any], bool]
ORDERINGS: Mapping[str, Comparison] = {
    "$gt": lambda value, limit: value > limit,
    "$gte": lambda value, limit: value >= limit,
    "$lt": lambda value, limit: value < limit,
    "$lte": lambda value, limit: value <= limit,
}
OPERATORS = ("$eq", "$ne", *ORDERINGS)
# SQLite compares names as they are escaped in JSON, and reads texts up to the first NUL.
_PLAIN_NAME = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]{1,200}')
_PLAIN_TEXT = re.compile(r"[^\x00\ud800-\udfff]*")
# SQLite parses some decimal numbers a little differently from Python; integers below this bound are exact in both.
_MAX_EXACT_INTEGER = 2**53
# SQLite limits the conditions of a statement.
_MAX_CONDITIONS = 30
# {x} is SQLite's value at a path: numbers sort before texts, true is 1, arrays and objects are their JSON text.
_SQL_CONDITIONS = {
    "$eq": "{x} BETWEEN {low} AND {high}",
    "$ne": "({x} IS NOT {low} OR json_type(s.value, {path}) NOT IN ('text', 'integer', 'true', 'false') "
    "OR instr(s.value, '\\u0000'))",
    **dict.fromkeys(("$gt", "$gte"), "{x} >= {low}"),
    **dict.fromkeys(("$lt", "$lte"), "({x} <= {high} OR {x} >= '')"),
}
# JSON that only Python can decode starts with a blank (see `to_json`); a blob sorts after all texts.
_NOT_PLAIN_OBJECT = "s.value < '{' OR s.value >= '|'"


def check_item_filter(item_filter: Mapping[str, Any] | None) -> None:
    """Raise ValueError for an unknown operator at any depth of a filter."""
    for inner in (item_filter or {}).values():
        _check_operators(inner)


def _check_operators(expected: Any) -> None:
    if isinstance(expected, Mapping):
        for name, inner in expected.items():
            if _has_operators(expected) and name not in OPERATORS:
                raise ValueError(f"Unsupported operator: {str(name)[:100]}")
            _check_operators(inner)
    elif isinstance(expected, list | tuple):
        for inner in expected:
            _check_operators(inner)


def sql_condition(item_filter: Mapping[str, Any]) -> tuple[str, dict[str, object]]:
    """Return an SQL condition, true for all stored values that match and few others, and its parameters."""
    parts: list[str] = []
    parameters: dict[str, object] = {}
    for name, inner in item_filter.items():
        operators = inner if isinstance(inner, Mapping) and _has_operators(inner) else {"$eq": inner}
        for operator, operand in operators.items():
            bounds = _operand_bounds(operator, operand)
            if bounds is None or not _PLAIN_NAME.fullmatch(name) or len(parts) == _MAX_CONDITIONS:
                continue
            bound = {use: f"{use}{len(parts)}" for use in ("path", "low", "high")}
            parameters.update(zip(bound.values(), (f'$."{name}"', *bounds), strict=True))
            named = {use: f":{parameter}" for use, parameter in bound.items()}
            parts.append(_SQL_CONDITIONS[operator].format(x=f"json_extract(s.value, {named['path']})", **named))
    return f"({_NOT_PLAIN_OBJECT} OR {' AND '.join(parts)})" if parts else "true", parameters


def _operand_bounds(operator: str, operand: Any) -> tuple[Any, Any] | None:
    """Return the bounds of an operand in SQLite; None if SQLite cannot skip rows by it."""
    if isinstance(operand, str):
        # Orderings also compare a numeric text with numbers.
        decides = _PLAIN_TEXT.fullmatch(operand) and (operator not in ORDERINGS or _to_number(operand) is None)
        return (operand, operand) if decides else None
    if not isinstance(operand, int | float) or not abs(operand) < _MAX_EXACT_INTEGER:
        return None
    low, high = floor(operand), ceil(operand)
    return None if operator == "$ne" and low != high else (low, high)


def matches_item_filter(value: Mapping[str, Any], item_filter: Mapping[str, Any]) -> bool:
    """Return whether a value matches all entries of the filter."""
    return all(_matches_value(value.get(name), inner) for name, inner in item_filter.items())


def _matches_value(value: Any, expected: Any) -> bool:
    if isinstance(expected, Mapping):
        if _has_operators(expected):
            return all(_apply_operator(value, operator, operand) for operator, operand in expected.items())
        return isinstance(value, Mapping) and matches_item_filter(value, expected)
    if isinstance(expected, list | tuple):
        return (
            isinstance(value, list)
            and len(value) == len(expected)
            and all(_matches_value(item, inner) for item, inner in zip(value, expected, strict=True))
        )
    return bool(value == expected)


def _has_operators(expected: Mapping[Any, Any]) -> bool:
    return any(str(name).startswith("$") for name in expected)


def _apply_operator(value: Any, operator: str, operand: Any) -> bool:
    if operator == "$eq":
        return bool(value == operand)
    if operator == "$ne":
        return bool(value != operand)
    compare = ORDERINGS[operator]
    numbers = _to_number(value), _to_number(operand)
    if None not in numbers:
        return compare(*numbers)
    return isinstance(value, str) and isinstance(operand, str) and compare(value, operand)


def _to_number(value: Any) -> float | None:
    """Convert a number or numeric text; None for other values, which no ordering matches."""
    if not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
