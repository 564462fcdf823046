"""Say whether two scalars mean the same, however a model has written them."""

from decimal import Decimal, InvalidOperation
from typing import Any

from toolweave.nodes.http_tools.argument_reading import read_json

_LONGEST_NUMBER = 400


def same_value(one: Any, other: Any) -> bool:
    """Compare scalars: 5 is "5" and 5.0, true is "true", null is null; two texts are compared as they are.

    A text with JSON in it is the same as another one when the JSON is.
    """
    if isinstance(one, str) and isinstance(other, str):
        return one == other or (one[:1] in ("{", "[") and one[:1] == other[:1] and _same_json(one, other))
    if one is None or other is None:
        return one is other
    if isinstance(one, bool) or isinstance(other, bool):
        return bool(_text(one) == _text(other))
    number, another = _number(one), _number(other)
    return number == another if number is not None and another is not None else one == other


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _number(value: Any) -> Decimal | None:
    if isinstance(value, int):
        return Decimal(value)
    if isinstance(value, float):
        number = Decimal(repr(value))
    elif isinstance(value, str) and len(value) <= _LONGEST_NUMBER:
        try:
            number = Decimal(value)
        except InvalidOperation:
            return None
    else:
        return None
    return number if number.is_finite() else None


def _same_json(one: str, other: str) -> bool:
    try:
        return bool(read_json(one) == read_json(other))
    except (ValueError, RecursionError):
        return False
