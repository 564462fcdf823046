"""Keep JSON values as text and times as microseconds since the epoch, exactly."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from toolweave.errors import InvalidRequest

# A leading blank marks text that only the json module reads back exactly (huge integers, lone surrogates).
EXACT = " "
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def to_json(value: object) -> str:
    """Encode a JSON value; integers of any size and lone surrogates survive.

    Raises:
        InvalidRequest: the value is nested too deeply, or is not JSON at all.
    """
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        pass
    try:
        return EXACT + json.dumps(value, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"Not storable as JSON: {error}") from error


def from_json(text: str) -> Any:
    """Decode what to_json gave."""
    return json.loads(text) if text.startswith(EXACT) else orjson.loads(text)


def to_micros(moment: datetime) -> int:
    """Count the microseconds from the epoch to an aware moment."""
    return (moment - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    """Give the UTC moment that to_micros counted."""
    return EPOCH + timedelta(microseconds=micros)
