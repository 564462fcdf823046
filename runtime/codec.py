"""Encode graph values as JSON for clients, and JSON values and times for the database.

`dumps` never raises for values of a graph; `to_json` encodes JSON values exactly. Stored times are microseconds since
the epoch.
"""

import json
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePath
from re import Pattern
from typing import Any
from zoneinfo import ZoneInfo

import orjson
from langgraph.types import Send
from pydantic import BaseModel

from toolweave.errors import InvalidRequest
from toolweave.json_values import LARGE_BYTES, pause_gc

# Marks text that only the json module decodes exactly (huge integers, lone surrogates).
EXACT_PREFIX = " "
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class RawJson:
    """JSON text that the encoder inserts unchanged."""

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
    except TypeError as error:
        # A value encoded on a shallow stack must be decodable on a deep one.
        if "Recursion limit" in str(error):
            raise InvalidRequest(f"Not storable as JSON: {error}") from error
    try:
        return EXACT_PREFIX + json.dumps(value, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"Not storable as JSON: {error}") from error


def from_json(text: str) -> Any:
    """Decode the output of `to_json`."""
    return loads(text, json.loads if text.startswith(EXACT_PREFIX) else orjson.loads)


def to_micros(moment: datetime) -> int:
    """Return the microseconds from the epoch to an aware time."""
    return (moment - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the UTC time of an output of `to_micros`."""
    return EPOCH + timedelta(microseconds=micros)


ORJSON_OPTIONS = orjson.OPT_NON_STR_KEYS
# Values per slice: a few milliseconds of encoding. 1 KiB of text counts as a value.
SLICE_VALUES = 2_000
# Deeper than the API nests a graph's values; a value may contain itself.
MAX_SLICED_DEPTH = 10


def json_default(value: object) -> object:
    """Return a JSON-compatible form of a value that JSON has no type for."""
    for kinds, convert in CONVERTERS:
        if isinstance(value, kinds):
            return convert(value)
    if isinstance(value, tuple) and not hasattr(value, "_asdict"):
        return list(value)
    return _dump_by_method(value)


def dumps(value: object, default: Callable[[object], object] = json_default) -> bytes:
    """Encode a value as compact UTF-8 JSON; never raises for a value that a graph can hold.

    `default` converts values that JSON has no type for. The standard one encodes messages and other pydantic models as
    their `model_dump`, exceptions as `{"error": class, "message": text}`, bytes as base64, and unknown values as their
    `repr`. NaN and infinities become null. Lone surrogates become replacement characters. Integers keep any size.
    """
    try:
        return orjson.dumps(value, default=default, option=ORJSON_OPTIONS)
    except TypeError:
        text = json.dumps(_to_json_types(value, default), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8", "replace")


def is_large(value: object) -> bool:
    """Return whether encoding a value would block the event loop for too long."""
    return _count_values(value) > SLICE_VALUES


def dumps_slices(value: Any, level: int = 0) -> Iterator[bytes]:
    """Yield the JSON of `dumps` in pieces, so that other tasks can run between them."""
    if isinstance(value, BaseModel) and is_large(value):
        value = json_default(value)
    if type(value) not in (dict, list, tuple) or level == MAX_SLICED_DEPTH or not is_large(value):
        yield dumps(value)
        return
    is_dict = isinstance(value, dict)
    # Each item is freed after its encoding: freeing millions at once takes as long as encoding them.
    waiting = deque(value.items() if is_dict else value)
    del value
    before = b"{" if is_dict else b"["
    while waiting:
        group: list[Any] = []
        weight = 0
        while waiting and weight <= SLICE_VALUES:
            weight += _count_values(waiting[0][1] if is_dict else waiting[0])
            if weight > SLICE_VALUES and group:
                break
            group.append(waiting.popleft())
        if len(group) > 1 or weight <= SLICE_VALUES:
            yield before + dumps(dict(group) if is_dict else group)[1:-1]
        elif is_dict:
            name, item = group.pop()
            yield before + dumps({name: None})[1 : -len("null}")]
            yield from dumps_slices(item, level + 1)
        else:
            yield before
            yield from dumps_slices(group.pop(), level + 1)
        before = b","
    yield b"}" if is_dict else b"]"


def _count_values(value: object) -> int:
    """Estimate the number of values to encode; stop counting a little above `SLICE_VALUES`."""
    weight, waiting = 0, [value]
    while waiting and weight <= SLICE_VALUES:
        item = waiting.pop()
        kind = type(item)
        weight += 1
        inner: Collection[object] = ()
        if kind is str:
            weight += len(item) >> 10  # type: ignore[arg-type]
        elif kind is dict:
            inner = item.values()  # type: ignore[attr-defined]
        elif kind is list or kind is tuple:
            inner = item  # type: ignore[assignment]
        elif isinstance(item, RawJson):
            weight += len(item.text) >> 10
        elif isinstance(item, BaseModel):
            inner = item.__dict__.values()
        if inner and weight + len(inner) > SLICE_VALUES:
            return weight + len(inner)
        waiting.extend(inner)
    return weight


def loads(data: bytes | str, parse: Callable[[bytes | str], Any] = orjson.loads) -> Any:
    """Decode JSON bytes; raises ValueError when they are not JSON."""
    if len(data) < LARGE_BYTES:
        return parse(data)
    with pause_gc():
        return parse(data)


def _json_number(value: Decimal) -> int | float | None:
    if not value.is_finite():
        return None
    return int(value) if value.as_tuple().exponent == 0 else float(value)


def _dump_by_method(value: object) -> object:
    for name in ("model_dump", "_asdict", "to_dict", "dict"):
        method = getattr(value, name, None)
        if callable(method) and not isinstance(value, type):
            try:
                return method()
            except Exception:  # noqa: BLE001, S112 - the application's own code; the next method or repr is used
                continue
    return _safe_text(value, repr)


def _safe_text(value: object, to_text: Callable[[object], str]) -> str:
    """Return `to_text(value)`, or the class name if that raises."""
    try:
        return to_text(value)
    except Exception:  # noqa: BLE001 - the application's own code
        return f"<{type(value).__name__}>"


CONVERTERS: tuple[tuple[Any, Callable[[Any], object]], ...] = (
    (BaseModel, _dump_by_method),
    (RawJson, lambda value: orjson.Fragment(value.text)),
    (BaseException, lambda value: {"error": type(value).__name__, "message": _safe_text(value, str)}),
    (set | frozenset | deque, list),
    (Mapping, dict),
    (bytes | bytearray | memoryview, lambda value: b64encode(bytes(value)).decode()),
    (timedelta, timedelta.total_seconds),
    (Decimal, _json_number),
    (PurePath | ZoneInfo | IPv4Address | IPv6Address, str),
    (Pattern, lambda value: value.pattern),
    (Send, lambda value: {"node": value.node, "args": value.arg}),
)


def _to_json_types(value: object, default: Callable[[object], object], depth: int = 0) -> object:
    """Rebuild a value from JSON types; the slow fallback for values that orjson rejects."""
    if depth > 200:
        return repr(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_json_key(key): _to_json_types(item, default, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_asdict"):
        return [_to_json_types(item, default, depth + 1) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return _to_json_types(asdict(value), default, depth + 1)
    try:
        return orjson.loads(orjson.dumps(value, option=ORJSON_OPTIONS))
    except TypeError:
        return _to_json_types(default(value), default, depth + 1)


def _json_key(key: object) -> str:
    return key.encode("utf-8", "replace").decode() if isinstance(key, str) else str(key)


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)
