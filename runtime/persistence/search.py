"""Build searches: containment filters, what a request may see, order and pages.

The filters that authorization handlers return are `{"owner": "ada"}`, with `$eq`, `$contains` (one element or several),
`$or` and `$and`. The filters in force are ambient, as the caller is: searches apply them wherever a request leads.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, Table, and_, false, func, or_, select, true

from toolweave.errors import ToolweaveError
from toolweave.runtime.codec import from_json, to_json
from toolweave.runtime.models import JsonObject

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


def contains(document: object, pattern: object) -> bool:
    """Tell whether everything in the pattern is in the document.

    Objects need every key of the pattern, arrays an element for each of the pattern's, anything else equality;
    true is not 1. The same as PostgreSQL's `@>` on jsonb, except that a bare scalar is not found in an array.
    """
    if isinstance(pattern, dict):
        return isinstance(document, dict) and all(
            key in document and contains(document[key], part) for key, part in pattern.items()
        )
    if isinstance(pattern, list):
        return isinstance(document, list) and all(any(contains(item, part) for item in document) for part in pattern)
    return isinstance(document, bool) == isinstance(pattern, bool) and document == pattern


def json_contains(document: str | None, pattern: str) -> bool:
    """Be the SQL function of that name; nothing is in NULL."""
    if document is None:
        return False
    try:
        return contains(from_json(document), _parsed(pattern))
    except RecursionError:
        return False


@lru_cache(maxsize=64)
def _parsed(pattern: str) -> Any:
    return from_json(pattern)


Filtered = Literal["threads", "assistants", "crons"]
MetadataFilter = Mapping[str, Any]


class WrongFilterError(ToolweaveError):
    """An authorization handler returned a filter that means nothing; nobody gets through."""


def check_filter(wanted: MetadataFilter) -> None:
    """Raise WrongFilterError for a filter with an unknown operator or a value that is no JSON scalar."""
    _matches(wanted, {})


def allows(wanted: MetadataFilter | None, metadata: JsonObject) -> bool:
    """Tell whether a filter lets metadata through; None lets all."""
    return wanted is None or _matches(wanted, metadata)


@contextmanager
def showing_only(filters: Mapping[Filtered, MetadataFilter | None]) -> Iterator[None]:
    """Let the searches of the block see only what the filters let through."""
    token = _IN_FORCE.set({**_IN_FORCE.get(), **filters})
    try:
        yield
    finally:
        _IN_FORCE.reset(token)


def filter_in_force(resource: Filtered) -> MetadataFilter | None:
    """Give the filter of the request that is being answered; None shows all."""
    return _IN_FORCE.get().get(resource)


def visible(resource: Filtered, column: ColumnElement[str]) -> ColumnElement[bool]:
    """Give the condition that rows whose metadata is in `column` may be seen."""
    wanted = filter_in_force(resource)
    return true() if wanted is None else _condition(wanted, column)


def where_visible(query: Select[Any], resource: Filtered, column: ColumnElement[str]) -> Select[Any]:
    """Keep the rows that may be seen."""
    return query if filter_in_force(resource) is None else query.where(visible(resource, column))


_IN_FORCE: ContextVar[Mapping[Filtered, MetadataFilter | None]] = ContextVar("filters", default={})  # noqa: B039


def _matches(wanted: MetadataFilter, metadata: JsonObject) -> bool:
    # No generator expressions: every part is checked, also behind one that decides.
    found = []
    for key, value in wanted.items():
        if key in ("$or", "$and"):
            parts = [_matches(part, metadata) for part in _filters(key, value)]
            found.append(any(parts) if key == "$or" else all(parts))
        else:
            found.append(contains(metadata, _pattern(key, value)))
    return all(found)


def _condition(wanted: MetadataFilter, column: ColumnElement[str]) -> ColumnElement[bool]:
    parts = []
    for key, value in wanted.items():
        if key in ("$or", "$and"):
            inner = [_condition(part, column) for part in _filters(key, value)]
            parts.append(or_(false(), *inner) if key == "$or" else and_(true(), *inner))
        else:
            parts.append(func.json_contains(column, to_json(_pattern(key, value))))
    return and_(true(), *parts)


def _filters(key: str, value: Any) -> list[MetadataFilter]:
    if not isinstance(value, list | tuple) or not all(isinstance(part, Mapping) for part in value):
        raise WrongFilterError(f"An authorization filter's {key} must be a list of filters.")
    return list(value)


def _pattern(key: str, value: Any) -> JsonObject:
    """Write one field's demand as what its metadata must contain."""
    if isinstance(value, Mapping):
        if len(value) != 1 or not value.keys() <= {"$eq", "$contains"}:
            raise WrongFilterError(f"An authorization filter on {key!r} has an unknown operator: use $eq or $contains.")
        if "$contains" in value:
            wanted = value["$contains"]
            members = list(wanted) if isinstance(wanted, list | tuple | set | frozenset) else [wanted]
            return {key: [_scalar(key, member) for member in members]}
        value = value["$eq"]
    if key.startswith("$"):
        raise WrongFilterError(f"An authorization filter has the unknown operator {key!r}.")
    return {key: _scalar(key, value)}


def _scalar(key: str, value: Any) -> Any:
    if value is not None and not isinstance(value, str | int | float | bool):
        raise WrongFilterError(f"An authorization filter on {key!r} compares with a {type(value).__name__}.")
    return value
