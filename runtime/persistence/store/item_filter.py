"""Decide whether a stored value fits a search's filter (langgraph_api.md sections 2.6 and 10).

A filter maps top-level names of the value, taken literally, to what must be there: an equal value, an object whose
entries must be there in turn, or operators such as {"$gte": 3}. Nothing of a filter ever becomes part of a statement.
"""

from collections.abc import Callable, Mapping
from typing import Any

Comparison = Callable[[Any, Any], bool]

ORDERINGS: Mapping[str, Comparison] = {
    "$gt": lambda value, limit: value > limit,
    "$gte": lambda value, limit: value >= limit,
    "$lt": lambda value, limit: value < limit,
    "$lte": lambda value, limit: value <= limit,
}
OPERATORS = ("$eq", "$ne", *ORDERINGS)


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
