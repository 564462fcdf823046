"""Write values as parameters of a path, a query or a header have them, and read queries (W-05)."""

from json import dumps
from typing import Any
from urllib.parse import parse_qsl

_MOST_WHOLE = 1 << 53


def query_value(value: Any) -> Any:
    """Give a value as a query holds it: scalars or a list of them; objects, and lists in a list, become JSON."""
    if isinstance(value, list | tuple):
        return [_scalar(item) for item in value if item is not None]
    return _scalar(value)


def text_of(value: Any) -> str:
    """Write a value as a text: true, 5 (also for 5.0), a text as it is, JSON for objects and lists."""
    scalar = _scalar(value)
    return scalar if isinstance(scalar, str) else _json(scalar)


def read_query(text: str) -> dict[str, list[str]]:
    """Read what follows a question mark: the texts of each name in their order."""
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return found


def _scalar(value: Any) -> Any:
    if isinstance(value, dict | list | tuple):
        return _json(value)
    # To a schema 5.0 is an integer, to many an API it is none.
    whole = isinstance(value, float) and value.is_integer() and abs(value) < _MOST_WHOLE
    return int(value) if whole else value


def _json(value: Any) -> str:
    try:
        return dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"
