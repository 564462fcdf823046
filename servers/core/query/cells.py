"""Turn what a database returned into JSON that every reader keeps: dates as ISO text, nothing endless (C-03)."""

import base64
import contextlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

LONGEST_CELL = 10_000
CUT = " … [cut]"
# Beyond it some readers of JSON round.
_EXACT = 2**53 - 1
_DEEPEST = 50


@dataclass(slots=True)
class Cells:
    """Make the cells of one answer, each of at most `most` characters or bytes; counts those that were `cut`."""

    most: int = LONGEST_CELL
    cut: int = 0

    def text(self, value: str) -> str:
        """Cut a text; the database is asked for one character more than fits, so that a cut one is known."""
        if len(value) <= self.most:
            return value
        self.cut += 1
        return value[: self.most] + CUT

    def binary(self, value: bytes) -> str:
        """Write bytes in base64."""
        if len(value) <= self.most:
            return base64.b64encode(value).decode()
        self.cut += 1
        return base64.b64encode(value[: self.most]).decode() + CUT

    def document(self, text: str) -> Any:
        """Read JSON; what is cut, too deep or no JSON that can be answered stays text."""
        if len(text) > self.most:
            return self.text(text)
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(text, parse_constant=_finite, parse_float=_finite)
            if _is_shallow(value, _DEEPEST) and _is_writable(value):
                return value
        return text

    def of(self, value: Any) -> Any:
        """Turn any value of a driver's into JSON."""
        match value:
            case None | bool():
                return value
            case str():
                return self.text(value)
            case int():
                return value if abs(value) <= _EXACT else str(value)
            case float():
                return _number(value)
            case Decimal():
                return self.text(format(value, "f")) if value.is_finite() else _number(float(value))
            case bytes() | bytearray() | memoryview():
                return self.binary(bytes(value))
            case datetime() | date() | time():
                return value.isoformat()
            case UUID() | timedelta():
                return str(value)
            case dict() | list() | tuple():
                return self.document(json.dumps(value, default=str))
        return self.text(str(value))


def iso_text(text: str, read: Callable[[str], datetime | time]) -> str:
    """Write a date and time, or a time, as ISO 8601 has it; what Python's calendar does not know stays as it is."""
    try:
        return read(text).isoformat()
    except ValueError:
        return text


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


def _is_shallow(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_shallow(item, levels - 1) for item in inner)


def _is_writable(value: Any) -> bool:
    # Half of a surrogate pair is read, and cannot be written.
    return bool(json.dumps(value, ensure_ascii=False).encode())
