"""Keep JSON values as text and times as microseconds since the epoch, exactly."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from toolweave.errors import InvalidRequest
from toolweave.json_values import LARGE_BYTES, collecting_later

# A leading blank marks text that only the json module reads back exactly (huge integers, lone surrogates).
EXACT = " "
# What can be written on a shallow stack must be readable on a deep one; orjson has about the same limit.
MOST_LEVELS = 250
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class StoredJson:
    """JSON text that stands in the place of its value, to be encoded as it is."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def to_json(value: object) -> str:
    """Encode a JSON value; integers of any size and lone surrogates survive.

    Raises:
        InvalidRequest: the value is nested too deeply, or is not JSON at all.
    """
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        pass
    if _is_deeper(value, MOST_LEVELS):
        raise InvalidRequest(f"Not storable as JSON: nested more than {MOST_LEVELS} levels deep")
    try:
        return EXACT + json.dumps(value, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"Not storable as JSON: {error}") from error


def from_json(text: str) -> Any:
    """Decode what to_json gave."""
    parse = json.loads if text.startswith(EXACT) else orjson.loads
    if len(text) < LARGE_BYTES:
        return parse(text)
    with collecting_later():
        return parse(text)


def _is_deeper(value: object, levels: int) -> bool:
    level: list[object] = [value]
    for _ in range(levels):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | tuple | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return any(isinstance(inner, list | tuple | dict) for inner in level)


def to_micros(moment: datetime) -> int:
    """Count the microseconds from the epoch to an aware moment."""
    return (moment - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    """Give the UTC moment that to_micros counted."""
    return EPOCH + timedelta(microseconds=micros)
