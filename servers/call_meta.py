"""Read who is calling from the `_meta` of a tool call (T-03)."""

from collections.abc import Mapping
from typing import Any

from fastmcp import Context

MAX_LENGTH = 256
_LOGGED = ("thread_id", "run_id", "user_id", "timestamp", "correlation_id", "idempotency_key")


def call_meta(context: Context | None) -> dict[str, str]:
    """Return the ids a call carries; whatever is not a short printable text is left out."""
    given = _given(context)
    return {name: given[name] for name in _LOGGED if _is_id(given.get(name))}


def idempotency_key(context: Context) -> str | None:
    """Return the key under which the first result of this call is kept, None when it has none."""
    return call_meta(context).get("idempotency_key")


def has_unusable_key(context: Context | None) -> bool:
    """Tell whether the caller asks for idempotency with a key that cannot be kept."""
    key = _given(context).get("idempotency_key")
    return key is not None and not _is_id(key)


def _given(context: Context | None) -> Mapping[str, Any]:
    request = context.request_context if context else None
    meta = request.meta if request else None
    return (meta.model_extra or {}) if meta else {}


def _is_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_LENGTH and value.isprintable()
