"""Make the cursor of a page: after which row to go on, tied to the query it came from."""

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from toolweave.servers.core.query.dialect import KeyValue
from toolweave.servers.core.query.models import Query

LONGEST_CURSOR = 20_000


def encode_cursor(after: Sequence[KeyValue], query: Query, key: Sequence[str]) -> str:
    """Return an opaque text for "go on after the row with these values"."""
    values = [{"b": base64.b64encode(value).decode()} if isinstance(value, bytes) else value for value in after]
    return (
        base64.urlsafe_b64encode(json.dumps([_fingerprint(query, key), *values], ensure_ascii=False).encode())
        .decode()
        .rstrip("=")
    )


def decode_cursor(cursor: str, query: Query, key: Sequence[str], count: int) -> list[KeyValue] | None:
    """Return those `count` values; None when the text is no cursor of ours, or one of another query."""
    try:
        decoded = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        if not isinstance(decoded, list) or len(decoded) != count + 1 or decoded[0] != _fingerprint(query, key):
            return None
        return [_value(item) for item in decoded[1:]]
    except (binascii.Error, ValueError, RecursionError):
        return None


def _value(item: Any) -> KeyValue:
    match item:
        case None | str() | float() | bool():
            return item
        case int() if -(2**63) <= item < 2**63:
            return item
        case {"b": str(text)}:
            return base64.b64decode(text, validate=True)
    raise ValueError("not a value of a cursor")


def _fingerprint(query: Query, key: Sequence[str]) -> str:
    """Tell queries apart whose rows, or whose order, differ; the limit may change from page to page."""
    told = asdict(query) | {"limit": None, "key": list(key)}
    return hashlib.sha256(json.dumps(_without_places(told), sort_keys=True).encode()).hexdigest()[:16]


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_places(item) for name, item in value.items() if not name.endswith("place")}
    return [_without_places(item) for item in value] if isinstance(value, list | tuple) else value
