"""Look after the store items that belong to threads: whole tool results too long for a model (D-7).

They are at ("threads", id, "tool_results"), where `nodes.large_results` puts them; whatever else an application has
below "threads" is its own.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection

from toolweave.runtime.persistence.sqlite import driver_of
from toolweave.runtime.persistence.store.store_sql import KEPT_FOR_A_THREAD

_FIRST, _LAST = "threads.", ".tool_results"
_KEPT = re.compile(r"threads\.[^-]{8}-[^-]{4}-[^-]{4}-[^-]{4}-[^-]{12}\.tool_results", re.IGNORECASE)

_HAS = "SELECT 1 FROM store WHERE prefix = :prefix LIMIT 1"
_DELETE = "DELETE FROM store WHERE prefix = :prefix AND updated_at <= :until"
_COPY = (
    "INSERT OR REPLACE INTO store (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes) "
    "SELECT :target, key, value, created_at, updated_at, expires_at, ttl_minutes FROM store WHERE prefix = :source"
)
# '/' is the character after '.'.
_AFTER = (
    "SELECT DISTINCT prefix FROM store WHERE prefix > :after AND prefix >= 'threads.' AND prefix < 'threads/' "  # noqa: S608 - constants
    f"AND prefix {KEPT_FOR_A_THREAD} ORDER BY prefix LIMIT :most"
)


def is_kept_for_a_thread(namespace: Sequence[str]) -> bool:
    """Say whether a namespace holds tool results kept for a thread of a server, whose id is a UUID."""
    return _KEPT.fullmatch(".".join(namespace)) is not None


def has_items(connection: Connection, thread_id: str) -> bool:
    """Say whether a thread has any."""
    return driver_of(connection).execute(_HAS, {"prefix": _prefix(thread_id)}).fetchone() is not None


def delete_items(connection: Connection, until: Mapping[str, datetime]) -> None:
    """Delete what threads have had since before a moment each."""
    rows = [{"prefix": _prefix(thread_id), "until": _text(moment)} for thread_id, moment in until.items()]
    driver_of(connection).executemany(_DELETE, rows)


def copy_items(connection: Connection, source: str, target: str) -> None:
    """Give a thread what another one has."""
    driver_of(connection).execute(_COPY, {"source": _prefix(source), "target": _prefix(target)})


def threads_with_items(connection: Connection, after: str, most: int) -> list[str]:
    """Name the next threads that have any, in the order of their ids."""
    found = driver_of(connection).execute(_AFTER, {"after": _prefix(after) if after else "", "most": most})
    return [prefix.removeprefix(_FIRST).removesuffix(_LAST) for (prefix,) in found]


def _prefix(thread_id: str) -> str:
    return f"{_FIRST}{thread_id}{_LAST}"


def _text(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="microseconds")
