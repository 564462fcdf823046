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

PLAIN_TEXT = re.compile(r"[A-Za-z0-9_.:@ -]{1,200}")
MAX_OFFSET = 2**63 - 1


def where_contains(query: Select[Any], column: ColumnElement[str], pattern: JsonObject | None) -> Select[Any]:
    """Keep the rows whose JSON contains the pattern, nested; an empty pattern keeps all.

    SQLite compares plain words by itself first: five times faster than our function, and without holding up Python.
    """
    if not pattern:
        return query
    for key, value in pattern.items():
        if PLAIN_TEXT.fullmatch(key) and isinstance(value, str) and PLAIN_TEXT.fullmatch(value):
            query = query.where(func.json_extract(column, f'$."{key}"') == value)
    return query.where(func.json_contains(column, to_json(pattern)))


def storable_text(text: str) -> str:
    """Make text that a database takes: lone surrogates, which a JSON body can hold, are in no stored name."""
    return text.encode("utf-8", "replace").decode()


def select_page(
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
    page_keys = keys.order_by(*order).limit(limit).offset(min(offset, MAX_OFFSET))
    return select(table).where(key.in_(page_keys)).order_by(*order)


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
        return contains(from_json(document), _parse_pattern(pattern))
    except RecursionError:
        return False


@lru_cache(maxsize=64)
def _parse_pattern(pattern: str) -> Any:
    return from_json(pattern)


FilteredResource = Literal["threads", "assistants", "crons"]
MetadataFilter = Mapping[str, Any]


class BadFilterError(ToolweaveError):
    """An authorization handler returned a filter that means nothing; nobody gets through."""


def check_metadata_filter(metadata_filter: MetadataFilter) -> None:
    """Raise WrongFilterError for a filter with an unknown operator or a value that is no JSON scalar."""
    _matches_filter(metadata_filter, {})


def is_allowed(metadata_filter: MetadataFilter | None, metadata: JsonObject) -> bool:
    """Tell whether a filter lets metadata through; None lets all."""
    return metadata_filter is None or _matches_filter(metadata_filter, metadata)


@contextmanager
def use_filters(filters: Mapping[FilteredResource, MetadataFilter | None]) -> Iterator[None]:
    """Let the searches of the block see only what the filters let through."""
    token = _CURRENT_FILTERS.set({**_CURRENT_FILTERS.get(), **filters})
    try:
        yield
    finally:
        _CURRENT_FILTERS.reset(token)


def current_filter(resource: FilteredResource) -> MetadataFilter | None:
    """Give the filter of the request that is being answered; None shows all."""
    return _CURRENT_FILTERS.get().get(resource)


def is_visible(resource: FilteredResource, column: ColumnElement[str]) -> ColumnElement[bool]:
    """Give the condition that rows whose metadata is in `column` may be seen."""
    metadata_filter = current_filter(resource)
    return true() if metadata_filter is None else _filter_condition(metadata_filter, column)


def where_visible(query: Select[Any], resource: FilteredResource, column: ColumnElement[str]) -> Select[Any]:
    """Keep the rows that may be seen."""
    return query if current_filter(resource) is None else query.where(is_visible(resource, column))


_CURRENT_FILTERS: ContextVar[Mapping[FilteredResource, MetadataFilter | None]] = ContextVar("filters", default={})  # noqa: B039


def _matches_filter(metadata_filter: MetadataFilter, metadata: JsonObject) -> bool:
    # No generator expressions: every part is checked, also behind one that decides.
    found = []
    for key, value in metadata_filter.items():
        if key in ("$or", "$and"):
            parts = [_matches_filter(part, metadata) for part in _nested_filters(key, value)]
            found.append(any(parts) if key == "$or" else all(parts))
        else:
            found.append(contains(metadata, _field_pattern(key, value)))
    return all(found)


def _filter_condition(metadata_filter: MetadataFilter, column: ColumnElement[str]) -> ColumnElement[bool]:
    parts = []
    for key, value in metadata_filter.items():
        if key in ("$or", "$and"):
            inner = [_filter_condition(part, column) for part in _nested_filters(key, value)]
            parts.append(or_(false(), *inner) if key == "$or" else and_(true(), *inner))
        else:
            parts.append(func.json_contains(column, to_json(_field_pattern(key, value))))
    return and_(true(), *parts)


def _nested_filters(key: str, value: Any) -> list[MetadataFilter]:
    if not isinstance(value, list | tuple) or not all(isinstance(part, Mapping) for part in value):
        raise BadFilterError(f"An authorization filter's {key} must be a list of filters.")
    return list(value)


def _field_pattern(key: str, value: Any) -> JsonObject:
    """Write one field's demand as what its metadata must contain."""
    if isinstance(value, Mapping):
        if len(value) != 1 or not value.keys() <= {"$eq", "$contains"}:
            raise BadFilterError(f"An authorization filter on {key!r} has an unknown operator: use $eq or $contains.")
        if "$contains" in value:
            contained = value["$contains"]
            members = list(contained) if isinstance(contained, list | tuple | set | frozenset) else [contained]
            return {key: [_check_scalar(key, member) for member in members]}
        value = value["$eq"]
    if key.startswith("$"):
        raise BadFilterError(f"An authorization filter has the unknown operator {key!r}.")
    return {key: _check_scalar(key, value)}


def _check_scalar(key: str, value: Any) -> Any:
    if value is not None and not isinstance(value, str | int | float | bool):
        raise BadFilterError(f"An authorization filter on {key!r} compares with a {type(value).__name__}.")
    return value
