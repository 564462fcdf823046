"""Read what a subscription asks for, over SSE and over WebSocket."""

from collections.abc import Mapping
from typing import Any

from toolweave.runtime.events.thread_log import CHANNELS, EventFilter, Namespace, is_channel

MOST_ENTRIES = 500
SHOWN_ENTRIES = 10
LARGEST_SEQ = 2**63 - 1
ALLOWED = f"{', '.join(CHANNELS)}, or any `custom:<name>`"


def listed_channels(params: Mapping[str, Any]) -> list[Any] | None:
    """Give the channels that are asked for; None when there is no list of them, or an empty one."""
    channels = params.get("channels")
    return channels if isinstance(channels, list) and channels else None


def unsupported(channels: list[Any]) -> str | None:
    """Name the entries that are no channels; None when all are."""
    wrong = [entry for entry in channels if not is_channel(entry)]
    if wrong:
        return ", ".join(str(entry)[:64] for entry in wrong[:SHOWN_ENTRIES])
    return f"more than {MOST_ENTRIES} of them" if len(channels) > MOST_ENTRIES else None


def event_filter(params: Mapping[str, Any], channels: list[Any]) -> EventFilter:
    """Build the filter; namespaces and a depth of another shape count as not given, as in the reference server."""
    depth = params.get("depth")
    bounded = isinstance(depth, int) and not isinstance(depth, bool) and depth >= 0
    return EventFilter(frozenset(channels), _namespaces(params.get("namespaces")), depth if bounded else None)


def since(params: Mapping[str, Any]) -> int:
    """Give the number after which events are wanted; 0 is from the first one kept."""
    given = params.get("since")
    if not isinstance(given, int) or isinstance(given, bool):
        return 0
    return min(max(given, 0), LARGEST_SEQ)


def _namespaces(given: object) -> tuple[Namespace, ...]:
    if not isinstance(given, list) or not all(_is_namespace(entry) for entry in given):
        return ()
    return tuple(tuple(entry) for entry in given[:MOST_ENTRIES])


def _is_namespace(entry: object) -> bool:
    return isinstance(entry, list) and all(isinstance(step, str) for step in entry)
