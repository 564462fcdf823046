"""Build what all searches share: containment filters, order and pages."""

import re
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, Table, func, select

from toolweave.runtime.models import JsonObject
from toolweave.runtime.persistence.json_text import to_json

PLAIN = re.compile(r"[A-Za-z0-9_.:@ -]{1,200}")
LAST_ROW = 2**63 - 1


def where_contains(query: Select[Any], column: ColumnElement[str], pattern: JsonObject | None) -> Select[Any]:
    """Keep the rows whose JSON contains the pattern, nested; an empty pattern keeps all.

    SQLite compares plain words by itself first: five times faster than our function, and without holding up Python.
    """
    if not pattern:
        return query
    for key, value in pattern.items():
        if PLAIN.fullmatch(key) and isinstance(value, str) and PLAIN.fullmatch(value):
            query = query.where(func.json_extract(column, f'$."{key}"') == value)
    return query.where(func.json_contains(column, to_json(pattern)))


def bindable(text: str) -> str:
    """Make text that a database takes: lone surrogates, which a JSON body can hold, are in no stored name."""
    return text.encode("utf-8", "replace").decode()


def page(
    keys: Select[Any],
    table: Table,
    sort_by: str,
    sort_order: Literal["asc", "desc"] | None,
    limit: int,
    offset: int,
) -> Select[Any]:
    """Give one page of a table's rows, newest or largest first unless asked otherwise.

    `keys` finds their keys: sorting those alone spares reading the values of all. The key as the last criterion makes
    pages repeatable.
    """
    (key,) = table.primary_key.columns
    # People look names up without minding the case.
    column = func.lower(table.c.name) if sort_by == "name" else table.c[sort_by]
    order = (column.asc(), key.asc()) if sort_order == "asc" else (column.desc(), key.desc())
    chosen = keys.order_by(*order).limit(limit).offset(min(offset, LAST_ROW))
    return select(table).where(key.in_(chosen)).order_by(*order)
