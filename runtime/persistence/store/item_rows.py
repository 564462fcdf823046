"""Read and write the rows of store items on a connection."""

import json
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, SearchItem, SearchOp
from sqlalchemy import Connection

from toolweave.runtime.persistence.json_text import from_json
from toolweave.runtime.persistence.sqlite import driver_of
from toolweave.runtime.persistence.store import store_sql as sql
from toolweave.runtime.persistence.store.item_filter import fits, sql_condition
from toolweave.runtime.persistence.store.store_index import nearness_to

Namespace = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ItemWrite:
    """One item to store, or to delete when `value` is None; `ttl` in minutes, `vectors` by field name."""

    namespace: Namespace
    key: str
    value: str | None
    ttl: float | None = None
    vectors: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class Lifetime:
    """An item that was found, and for how many minutes it lives on when that counts as use."""

    namespace: Namespace
    key: str
    minutes: float


class View(NamedTuple):
    """What a reader sees: what is alive at a moment, and the tool results kept for threads or all but these."""

    now: datetime
    shows_kept: bool = True


def write_items(connection: Connection, items: Sequence[ItemWrite], now: datetime) -> None:
    """Store and delete items with their vectors."""
    driver = driver_of(connection)
    for item in items:
        place = {"prefix": ".".join(item.namespace), "key": item.key}
        if item.value is None:
            driver.execute(sql.DELETE, place)
            continue
        row = {"value": item.value, "now": _text(now), "ttl_minutes": item.ttl, "expires_at": _after(now, item.ttl)}
        driver.execute(sql.PUT, {**place, **row})
        driver.execute(sql.DELETE_VECTORS, place)
        for field_name, embedding in item.vectors:
            vector = {"field_name": field_name, "embedding": embedding, "now": _text(now)}
            driver.execute(sql.PUT_VECTOR, {**place, **vector})


def prolong(connection: Connection, items: Sequence[Lifetime], now: datetime) -> None:
    """Let items that expire live their full time from now on."""
    rows = [
        {
            "prefix": ".".join(item.namespace),
            "key": item.key,
            "expires_at": _after(now, item.minutes),
            "now": _text(now),
        }
        for item in items
    ]
    driver_of(connection).executemany(sql.REFRESH, rows)


def delete_expired(connection: Connection, now: datetime) -> int:
    """Delete what has expired; gives how many items went."""
    return driver_of(connection).execute(sql.SWEEP, {"now": _text(now)}).rowcount


def find_item(driver: sqlite3.Connection, op: GetOp, view: View) -> tuple[Item | None, list[Lifetime]]:
    """Read one item."""
    parameters = {"prefix": ".".join(op.namespace), "key": op.key, **_view_parameters(view)}
    row = driver.execute(sql.GET, parameters).fetchone()
    if row is None:
        return None, []
    return Item(**_fields(row, _value(row))), _lifetimes([row] if op.refresh_ttl else [])


def search_items(
    driver: sqlite3.Connection, op: SearchOp, view: View, vector: bytes | None
) -> tuple[list[SearchItem], list[Lifetime]]:
    """Read the items under a namespace that fit the filter: nearest first with a vector, else as they were put."""
    condition, operands = sql_condition(op.filter or {})
    # SQLite skips items only where no filter is left to decide about them.
    skipped, start = (0, op.offset) if op.filter else (op.offset, 0)
    most = -1 if op.filter else op.limit
    parameters = {**_view_parameters(view), **operands, "most": most, "skipped": skipped}
    parameters |= sql.under(".".join(op.namespace_prefix))
    if vector is not None:
        driver.create_function("nearness", 1, nearness_to(vector), deterministic=True)
    places = driver.execute(sql.search(condition, by_meaning=vector is not None), parameters)
    fitting = _fitting(driver, places, op.filter or {})
    found = list(islice(fitting, start, min(start + op.limit, sys.maxsize)))
    items = [SearchItem(**_fields(row, value), score=score) for row, value, score in found]
    return items, _lifetimes([row for row, _, _ in found] if op.refresh_ttl else [])


def find_namespaces(driver: sqlite3.Connection, op: ListNamespacesOp, view: View) -> list[Namespace]:
    """List namespaces that have items, cut to a depth, in order."""
    found = (tuple(prefix.split(".")) for (prefix,) in driver.execute(sql.NAMESPACES, _view_parameters(view)))
    conditions = op.match_conditions or ()
    fitting = (namespace for namespace in found if all(_fits(namespace, one) for one in conditions))
    listed = sorted({namespace[: op.max_depth] for namespace in fitting})
    return listed[op.offset : op.offset + op.limit]


def _view_parameters(view: View) -> dict[str, object]:
    return {"now": _text(view.now), "shows_kept": view.shows_kept}


def _fitting(
    driver: sqlite3.Connection, places: sqlite3.Cursor, wanted: Mapping[str, Any]
) -> Iterator[tuple[tuple[Any, ...], Any, float | None]]:
    for rowid, score in places:
        row = driver.execute(sql.ROW, (rowid,)).fetchone()
        value = _value(row)
        if not wanted or fits(value, wanted):
            yield row, value, score


def _fits(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if len(path) > len(namespace):
        return False
    labels = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, labels, strict=True))


def _lifetimes(rows: Sequence[tuple[Any, ...]]) -> list[Lifetime]:
    return [Lifetime(tuple(row[0].split(".")), row[1], row[5]) for row in rows if row[5] is not None]


def _fields(row: tuple[Any, ...], value: Any) -> dict[str, Any]:
    return {
        "namespace": tuple(row[0].split(".")),
        "key": row[1],
        "value": value,
        "created_at": _moment(row[3]),
        "updated_at": _moment(row[4]),
    }


def _value(row: tuple[Any, ...]) -> Any:
    return from_json(row[2]) if isinstance(row[2], str) else json.loads(row[2])


def _after(now: datetime, minutes: float | None) -> str | None:
    if minutes is None:
        return None
    try:
        return _text(now + timedelta(minutes=minutes))
    except OverflowError:
        return None


def _text(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="microseconds")


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
