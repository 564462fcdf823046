"""Turn the values of a call into what a column of their kind is compared with; wrong ones are named (C-03, C-07)."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from toolweave.servers.core.query.models import Scalar
from toolweave.servers.core.query.tables import Column, Kind
from toolweave.servers.error_codes import INVALID_PARAMETER, ToolFailed

_INTEGER = re.compile(r"-?[0-9]{1,19}")
_DECIMAL = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,38})?")

Value = str | int | float | bool | bytes | Decimal | date | datetime | time | UUID


def value_for(column: Column, value: Scalar, place: str) -> Value:
    """Convert a value to the kind of its column.

    Raises:
        ToolFailed: it is of another kind; says which one the column holds.
    """
    convert, expected = _CONVERSIONS[column.kind]
    try:
        return convert(value)
    except (ValueError, TypeError, OverflowError):
        raise ToolFailed(INVALID_PARAMETER, f"Parameter '{place}' must be {expected}.") from None


def moment_of(text: str) -> datetime:
    """Read an ISO 8601 date or time as UTC without saying so. Raises ValueError."""
    moment = datetime.fromisoformat(text.strip())
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _integer(value: Scalar) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ValueError
    return value


def _number(value: Scalar) -> float:
    if isinstance(value, bool | str):
        raise TypeError
    return float(value)


def _decimal(value: Scalar) -> Decimal:
    if isinstance(value, bool) or (isinstance(value, str) and not _DECIMAL.fullmatch(value)):
        raise ValueError
    return Decimal(str(value))


def _boolean(value: Scalar) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _text(value: Scalar) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _date(value: Scalar) -> date:
    return date.fromisoformat(_text(value).strip())


def _moment(value: Scalar) -> datetime:
    return moment_of(_text(value))


def _time(value: Scalar) -> time:
    found = time.fromisoformat(_text(value).strip())
    if found.tzinfo:
        raise ValueError
    return found


def _uuid(value: Scalar) -> UUID:
    return UUID(_text(value))


def _bytes(value: Scalar) -> bytes:
    try:
        return base64.b64decode(_text(value), validate=True)
    except binascii.Error:
        raise ValueError from None


def _anything(value: Scalar) -> Value:
    return _integer(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _nothing(_value: Scalar) -> Value:
    raise ValueError


_CONVERSIONS: Mapping[Kind, tuple[Callable[[Scalar], Value], str]] = {
    "integer": (_integer, "a whole number of at most 64 bits"),
    "number": (_number, "a number"),
    "decimal": (_decimal, 'a number, or one as text such as "12.50"'),
    "boolean": (_boolean, "true or false"),
    "text": (_text, "text"),
    "date": (_date, "an ISO 8601 date such as 2026-12-24"),
    "moment": (_moment, "an ISO 8601 date and time such as 2026-12-24T15:00:00Z"),
    "time": (_time, "an ISO 8601 time of day such as 15:00:00, without an offset"),
    "uuid": (_uuid, "a UUID"),
    "bytes": (_bytes, "bytes in base64"),
    "json": (_nothing, "absent: such a column can only be compared with is_null"),
    "other": (_nothing, "absent: such a column can only be compared with is_null"),
    "anything": (_anything, "text, a number, true or false"),
}
_KINDS = {
    "integer": "whole numbers",
    "number": "numbers",
    "decimal": "decimal numbers",
    "boolean": "true and false",
    "text": "text",
    "date": "dates",
    "moment": "dates with times",
    "time": "times of day",
    "uuid": "UUIDs",
    "bytes": "bytes",
    "json": "JSON",
    "other": "values of a type that cannot be compared here",
    "anything": "anything",
}


def in_words(kind: Kind) -> str:
    """Say what a column of this kind holds, as in "it holds whole numbers"."""
    return _KINDS[kind]


def plain(value: Value) -> Any:
    """Turn a converted value into what a database without the type compares with: ISO text, numbers."""
    match value:
        case datetime():
            return value.isoformat(timespec="microseconds")
        case time():
            return value.isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
        case bool():
            return int(value)
        case Decimal():
            return float(value)
        case UUID():
            return str(value)
    return value
