"""Build what all searches share: containment filters, order and pages."""

from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, func

from toolweave.runtime.persistence.json_text import to_json
from toolweave.runtime.runs.models import JsonObject

LAST_ROW = 2**63 - 1


def where_contains(query: Select[Any], column: ColumnElement[str], pattern: JsonObject | None) -> Select[Any]:
    """Keep the rows whose JSON contains the pattern, nested; an empty pattern keeps all."""
    if not pattern:
        return query
    return query.where(func.json_contains(column, to_json(pattern)))


def bindable(text: str) -> str:
    """Make text that a database takes: lone surrogates, which a JSON body can hold, are in no stored name."""
    return text.encode("utf-8", "replace").decode()


def page(
    query: Select[Any],
    column: ColumnElement[Any],
    key: ColumnElement[str],
    sort_order: Literal["asc", "desc"] | None,
    limit: int,
    offset: int,
) -> Select[Any]:
    """Order by a column, newest or largest first unless asked otherwise; the key makes pages repeatable."""
    order = (column.asc(), key.asc()) if sort_order == "asc" else (column.desc(), key.desc())
    return query.order_by(*order).limit(limit).offset(min(offset, LAST_ROW))
