"""Read and write the rows of store items; the tables are those of LangGraph's SQLite store, whose files can be used.

`prefix` is the namespace joined by periods. Values from clients are bound parameters, never part of a statement.
`nodes.large_results` stores tool results that are too long for a model at ("threads", id, "tool_results") (D-7). All
other items below "threads" belong to the application.
"""

import json
import re
import sqlite3
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from math import sqrt
from operator import mul
from typing import Any, NamedTuple

from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, SearchItem, SearchOp
from sqlalchemy import Connection

from toolweave.runtime.codec import from_json
from toolweave.runtime.persistence.database import driver_of
from toolweave.runtime.persistence.store_filter import matches_item_filter, sql_condition

CREATE = (
    """
    CREATE TABLE IF NOT EXISTS store (
        prefix TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, created_at TIMESTAMP, updated_at TIMESTAMP,
        expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key)
    )
    """,
    "CREATE INDEX IF NOT EXISTS store_prefix_idx ON store (prefix)",
    "CREATE INDEX IF NOT EXISTS idx_store_expires_at ON store (expires_at) WHERE expires_at IS NOT NULL",
    """
    CREATE TABLE IF NOT EXISTS store_vectors (
        prefix TEXT NOT NULL, key TEXT NOT NULL, field_name TEXT NOT NULL, embedding BLOB,
        created_at TIMESTAMP, updated_at TIMESTAMP, PRIMARY KEY (prefix, key, field_name),
        FOREIGN KEY (prefix, key) REFERENCES store (prefix, key) ON DELETE CASCADE
    )
    """,
)
# An updated item keeps its position in searches and its creation time.
PUT = (
    "INSERT INTO store (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes) "
    "VALUES (:prefix, :key, :value, :now, :now, :expires_at, :ttl_minutes) ON CONFLICT (prefix, key) DO UPDATE SET "
    "created_at = iif(expires_at <= :now, :now, created_at), value = excluded.value, "
    "updated_at = excluded.updated_at, expires_at = excluded.expires_at, ttl_minutes = excluded.ttl_minutes"
)
DELETE = "DELETE FROM store WHERE prefix = :prefix AND key = :key"
DELETE_VECTORS = "DELETE FROM store_vectors WHERE prefix = :prefix AND key = :key"
PUT_VECTOR = (
    "INSERT OR REPLACE INTO store_vectors (prefix, key, field_name, embedding, created_at, updated_at) "
    "VALUES (:prefix, :key, :field_name, :embedding, :now, :now)"
)
REFRESH = (
    "UPDATE store SET expires_at = :expires_at WHERE prefix = :prefix AND key = :key AND ttl_minutes IS NOT NULL "
    "AND expires_at > :now"
)
SWEEP = "DELETE FROM store WHERE expires_at IS NOT NULL AND expires_at <= :now"
# Tool results of a thread of this server, whose id is a UUID; other prefixes belong to the application.
TOOL_RESULTS_PATTERN = "threads.________-____-____-____-____________.tool_results"
_INCLUDED = f"(:shows_tool_results OR s.prefix NOT LIKE '{TOOL_RESULTS_PATTERN}')"
_READABLE = f"(s.expires_at IS NULL OR s.expires_at > :now) AND {_INCLUDED}"
# A range of the index on prefixes, without wildcards; see `namespace_bounds`.
_IN_NAMESPACE = "s.prefix >= :prefix AND s.prefix < :end AND (s.prefix = :prefix OR s.prefix >= :below)"
_COLUMNS = "s.prefix, s.key, s.value, s.created_at, s.updated_at, s.ttl_minutes"
GET = f"SELECT {_COLUMNS} FROM store AS s WHERE s.prefix = :prefix AND s.key = :key AND {_READABLE}"  # noqa: S608 - constants
NAMESPACES = f"SELECT DISTINCT s.prefix FROM store AS s WHERE {_READABLE}"  # noqa: S608 - constants
# Searches find row ids first: the indexes on prefixes and on times suffice, and no large rows are sorted.
ROW = f"SELECT {_COLUMNS} FROM store AS s WHERE s.rowid = ?"  # noqa: S608 - constants
# Namespaces in the order of their first items, then items in the order of their creation.
_FROM_ITEMS = f"""
    FROM (SELECT s.prefix, min(s.rowid) AS first FROM store AS s WHERE {_IN_NAMESPACE} GROUP BY s.prefix) AS place
    CROSS JOIN store AS s ON s.prefix = place.prefix
"""  # noqa: S608 - constants
_VISIBLE = f"s.rowid NOT IN (SELECT rowid FROM store WHERE expires_at <= :now) AND {_INCLUDED}"  # noqa: S608 - constants
# An item's score is that of its best field; items without a score come last.
_SCORES = f"""
    LEFT JOIN (
        SELECT s.prefix, s.key, max(nearness(s.embedding)) AS score
        FROM store_vectors AS s WHERE {_IN_NAMESPACE} GROUP BY s.prefix, s.key
    ) AS scored ON scored.prefix = s.prefix AND scored.key = s.key
"""  # noqa: S608 - constants


def namespace_bounds(prefix: str) -> dict[str, object]:
    """Return the bounds of a namespace and all namespaces below it; '' is the root."""
    # '/' is the character after '.'; a blob sorts after all texts.
    return {"prefix": prefix, "below": prefix and f"{prefix}.", "end": f"{prefix}/" if prefix else b""}


def search_statement(condition: str, *, semantic: bool) -> str:
    """Return the statement that selects the row ids of a search in order, each with its score."""
    score, scores, best = "NULL", "", ""
    if semantic:
        score, scores, best = "scored.score", _SCORES, "scored.score IS NULL, scored.score DESC, "
    return (
        f"SELECT s.rowid, {score} {_FROM_ITEMS} {scores} WHERE {_VISIBLE} AND {condition} "
        f"ORDER BY {best}place.first, s.rowid LIMIT :most OFFSET :skipped"
    )


Namespace = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ItemWrite:
    """An item to store, or to delete if `value` is None; `ttl` in minutes, `vectors` by field name."""

    namespace: Namespace
    key: str
    value: str | None
    ttl: float | None = None
    vectors: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class ItemLifetime:
    """The key of an item that was read, and its time to live in minutes, which the read refreshes."""

    namespace: Namespace
    key: str
    minutes: float


class StoreView(NamedTuple):
    """The items that a reader sees: those not expired at `now`, with or without the tool results of threads."""

    now: datetime
    shows_tool_results: bool = True


def write_items(connection: Connection, items: Sequence[ItemWrite], now: datetime) -> None:
    """Store and delete items with their vectors."""
    driver = driver_of(connection)
    for item in items:
        primary_key = {"prefix": ".".join(item.namespace), "key": item.key}
        if item.value is None:
            driver.execute(DELETE, primary_key)
            continue
        expires_at = _iso(expiry(now, item.ttl))
        row = {"value": item.value, "now": _iso(now), "ttl_minutes": item.ttl, "expires_at": expires_at}
        driver.execute(PUT, {**primary_key, **row})
        driver.execute(DELETE_VECTORS, primary_key)
        for field_name, embedding in item.vectors:
            vector = {"field_name": field_name, "embedding": embedding, "now": _iso(now)}
            driver.execute(PUT_VECTOR, {**primary_key, **vector})


def refresh_ttl(connection: Connection, items: Sequence[ItemLifetime], now: datetime) -> None:
    """Restart the time to live of items that expire."""
    rows = [
        {
            "prefix": ".".join(item.namespace),
            "key": item.key,
            "expires_at": _iso(expiry(now, item.minutes)),
            "now": _iso(now),
        }
        for item in items
    ]
    driver_of(connection).executemany(REFRESH, rows)


def delete_expired(connection: Connection, now: datetime) -> int:
    """Delete expired items; return how many."""
    return driver_of(connection).execute(SWEEP, {"now": _iso(now)}).rowcount


def find_item(driver: sqlite3.Connection, op: GetOp, view: StoreView) -> tuple[Item | None, list[ItemLifetime]]:
    """Return one item, or None, and the lifetimes that the read must refresh."""
    parameters = {"prefix": ".".join(op.namespace), "key": op.key, **_view_parameters(view)}
    row = driver.execute(GET, parameters).fetchone()
    if row is None:
        return None, []
    return Item(**_item_fields(row, _parse_value(row))), lifetimes([row] if op.refresh_ttl else [])


def search_items(
    driver: sqlite3.Connection, op: SearchOp, view: StoreView, vector: bytes | None
) -> tuple[list[SearchItem], list[ItemLifetime]]:
    """Return the items below a namespace that match the filter, by similarity to the vector or in creation order."""
    condition, operands = sql_condition(op.filter or {})
    # With a filter, the offset and limit apply to the items that match it, not to SQLite's rows.
    skipped, start = (0, op.offset) if op.filter else (op.offset, 0)
    most = -1 if op.filter else op.limit
    parameters = {**_view_parameters(view), **operands, "most": most, "skipped": skipped}
    parameters |= namespace_bounds(".".join(op.namespace_prefix))
    if vector is not None:
        driver.create_function("nearness", 1, cosine_similarity_to(vector), deterministic=True)
    rows = driver.execute(search_statement(condition, semantic=vector is not None), parameters)
    matching = _matching_items(driver, rows, op.filter or {})
    found = list(islice(matching, start, min(start + op.limit, sys.maxsize)))
    items = [SearchItem(**_item_fields(row, value), score=score) for row, value, score in found]
    return items, lifetimes([row for row, _, _ in found] if op.refresh_ttl else [])


def find_namespaces(driver: sqlite3.Connection, op: ListNamespacesOp, view: StoreView) -> list[Namespace]:
    """Return the namespaces with items in order, cut to a depth."""
    return select_namespaces(driver.execute(NAMESPACES, _view_parameters(view)), op)


def select_namespaces(rows: Iterable[tuple[str]], op: ListNamespacesOp) -> list[Namespace]:
    """Return the wanted ones of the namespaces with these prefixes, in order, cut to a depth."""
    found = (tuple(prefix.split(".")) for (prefix,) in rows)
    conditions = op.match_conditions or ()
    matching = (namespace for namespace in found if all(_matches_condition(namespace, one) for one in conditions))
    listed = sorted({namespace[: op.max_depth] for namespace in matching})
    return listed[op.offset : op.offset + op.limit]


def _view_parameters(view: StoreView) -> dict[str, object]:
    return {"now": _iso(view.now), "shows_tool_results": view.shows_tool_results}


def _matching_items(
    driver: sqlite3.Connection, rows: sqlite3.Cursor, item_filter: Mapping[str, Any]
) -> Iterator[tuple[tuple[Any, ...], Any, float | None]]:
    for rowid, score in rows:
        row = driver.execute(ROW, (rowid,)).fetchone()
        value = _parse_value(row)
        if not item_filter or matches_item_filter(value, item_filter):
            yield row, value, score


def _matches_condition(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if len(path) > len(namespace):
        return False
    labels = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(pattern in ("*", label) for pattern, label in zip(path, labels, strict=True))


def lifetimes(rows: Sequence[tuple[Any, ...]]) -> list[ItemLifetime]:
    """Return the lifetimes of rows that expire; a row has the columns of `GET`."""
    return [ItemLifetime(tuple(row[0].split(".")), row[1], row[5]) for row in rows if row[5] is not None]


def _item_fields(row: tuple[Any, ...], value: Any) -> dict[str, Any]:
    return {
        "namespace": tuple(row[0].split(".")),
        "key": row[1],
        "value": value,
        "created_at": _parse_time(row[3]),
        "updated_at": _parse_time(row[4]),
    }


def _parse_value(row: tuple[Any, ...]) -> Any:
    return from_json(row[2]) if isinstance(row[2], str) else json.loads(row[2])


def expiry(now: datetime, minutes: float | None) -> datetime | None:
    """Return when an item expires; None for never, as for a time beyond the calendar."""
    if minutes is None:
        return None
    try:
        return now + timedelta(minutes=minutes)
    except OverflowError:
        return None


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(sep=" ", timespec="microseconds")


def _parse_time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


_TOOL_RESULTS_START, _TOOL_RESULTS_END = "threads.", ".tool_results"
_TOOL_RESULTS = re.compile(r"threads\.[^-]{8}-[^-]{4}-[^-]{4}-[^-]{4}-[^-]{12}\.tool_results", re.IGNORECASE)
_HAS_ITEMS = "SELECT 1 FROM store WHERE prefix = :prefix LIMIT 1"
_DELETE_ITEMS = "DELETE FROM store WHERE prefix = :prefix"
_COPY_ITEMS = (
    "INSERT OR REPLACE INTO store (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes) "
    "SELECT :target, key, value, created_at, updated_at, expires_at, ttl_minutes FROM store WHERE prefix = :source"
)
# '/' is the character after '.'.
_TOOL_RESULT_PREFIXES = (
    "SELECT DISTINCT prefix FROM store WHERE prefix >= 'threads.' AND prefix < 'threads/' "  # noqa: S608 - constants
    f"AND prefix LIKE '{TOOL_RESULTS_PATTERN}'"
)


def is_tool_results(namespace: Sequence[str]) -> bool:
    """Return whether a namespace holds the tool results of a thread, whose id is a UUID."""
    return _TOOL_RESULTS.fullmatch(".".join(namespace)) is not None


def has_tool_results(connection: Connection, thread_id: str) -> bool:
    """Return whether a thread has stored tool results."""
    return driver_of(connection).execute(_HAS_ITEMS, {"prefix": tool_results_prefix(thread_id)}).fetchone() is not None


def delete_tool_results(connection: Connection, thread_id: str) -> None:
    """Delete the tool results of a thread."""
    driver_of(connection).execute(_DELETE_ITEMS, {"prefix": tool_results_prefix(thread_id)})


def copy_tool_results(connection: Connection, source: str, target: str) -> None:
    """Copy the tool results of a thread to another one."""
    prefixes = {"source": tool_results_prefix(source), "target": tool_results_prefix(target)}
    driver_of(connection).execute(_COPY_ITEMS, prefixes)


def threads_with_tool_results(connection: Connection) -> set[str]:
    """Return the ids of threads with stored tool results."""
    return thread_ids_of(driver_of(connection).execute(_TOOL_RESULT_PREFIXES))


def thread_ids_of(rows: Iterable[tuple[str]]) -> set[str]:
    """Return the ids of threads from the prefixes of their tool results."""
    return {prefix.removeprefix(_TOOL_RESULTS_START).removesuffix(_TOOL_RESULTS_END) for (prefix,) in rows}


def tool_results_prefix(thread_id: str) -> str:
    """Return the prefix of the tool results of a thread."""
    return f"{_TOOL_RESULTS_START}{thread_id}{_TOOL_RESULTS_END}"


def cosine_similarity_to(vector: bytes) -> Callable[[bytes], float | None]:
    """Return a function that computes the cosine similarity of this and another vector.

    It is written in Python, because the SQLite of many Python builds cannot load extensions. It returns None for a
    vector of another length, which is from another model, and for a zero vector.
    """
    query = array("f", vector)
    query_length = sqrt(sum(map(mul, query, query)))

    def cosine_similarity(other: bytes) -> float | None:
        if len(other) != len(vector):
            return None
        stored = array("f", other)
        lengths = query_length * sqrt(sum(map(mul, stored, stored)))
        return sum(map(mul, query, stored)) / lengths if lengths else None

    return cosine_similarity
