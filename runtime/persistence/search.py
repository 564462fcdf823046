"""Build search queries: containment filters, authorization filters, order and pages.

Authorization handlers return filters such as `{"owner": "ada"}`, with `$eq`, `$contains` (one element or several),
`$or` and `$and`. The current filters are in a context variable, like the caller, and apply to all searches of a
request.

On SQLite, labels find the threads of one user without reading all threads, in the order of `updated_at`. A label is a
key of a thread's metadata with its value, or with one of the values in its list. PostgreSQL has an index on the
metadata themselves. Threads of temporary runs have no labels, because most are deleted within seconds.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Literal

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    asc,
    bindparam,
    delete,
    desc,
    false,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import insert  # with ON CONFLICT, also for SQLite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from toolweave.errors import ToolweaveError
from toolweave.runtime.codec import from_json, to_json
from toolweave.runtime.models import JsonObject, Page
from toolweave.runtime.persistence.database import is_sqlite
from toolweave.runtime.persistence.schema import ACTIVE, ANY_STATUS, Statement, runs, thread_labels, threads

PLAIN_TEXT = re.compile(r"[A-Za-z0-9_.:@ -]{1,200}")
MAX_OFFSET = 2**63 - 1
MAX_COUNT = 2**62
MAX_LABEL_CHARS = 200
# Equal numbers below this are equal as floats, too.
EXACT_NUMBERS = 2**53
# Runs write these keys to every thread; labels of them would cost each new thread 3 %, and they are rarely rare.
UNLABELLED_KEYS = frozenset({"graph_id", "assistant_id"})
# The key and a value of metadata; numbers without their fraction, truth values as numbers.
Label = tuple[str, str]


def where_contains(query: Select[Any], column: ColumnElement[str], pattern: JsonObject | None) -> Select[Any]:
    """Select the rows whose JSON contains the pattern, recursively; an empty pattern selects all."""
    return query.where(_containment(column, pattern)) if pattern else query


def _containment(column: ColumnElement[str], pattern: JsonObject) -> ColumnElement[bool]:
    parts: list[ColumnElement[bool]] = [
        _HasText(column, literal(f'$."{key}"'), literal(value))
        for key, value in pattern.items()
        if PLAIN_TEXT.fullmatch(key) and isinstance(value, str) and PLAIN_TEXT.fullmatch(value)
    ]
    return and_(*parts, _Contains(column, literal(to_json(pattern))))


class _Contains(FunctionElement[bool]):
    """The condition that JSON text (first argument) contains a JSON pattern."""

    name = "json_contains"
    type = Boolean()
    inherit_cache = True


@compiles(_Contains)
def _compile_containment(element: _Contains, compiler: Any, **options: Any) -> str:
    document, pattern = (compiler.process(clause, **options) for clause in element.clauses)
    if compiler.dialect.name == "sqlite":
        return f"json_contains({document}, {pattern})"
    return f"to_searchable({document}) @> to_searchable({pattern})"


class _HasText(FunctionElement[bool]):
    """The condition that JSON text has a text at a path, which SQLite compares without Python, five times faster."""

    name = "has_text"
    type = Boolean()
    inherit_cache = True


@compiles(_HasText)
def _compile_comparison(element: _HasText, compiler: Any, **options: Any) -> str:
    if compiler.dialect.name != "sqlite":
        return "true"
    column, path, text = (compiler.process(clause, **options) for clause in element.clauses)
    return f"json_extract({column}, {path}) = {text}"


def storable_text(text: str) -> str:
    """Return text that a database accepts: lone surrogates and NUL, which a JSON body can contain, are replaced."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")


def page_query(keys: Select[Any], table: Table, page: Page, sort_by: str, *, few: bool = False) -> Select[Any]:
    """Return the query for one page of a table's rows in the order of column `sort_by`, by default descending.

    `keys` is the query for the keys of all matches. It is sorted and cut first, so that only the rows of the page are
    read. The key is the last sort criterion, so that pages are stable. If the matches are `few`, the database finds
    and sorts them; it does not search for them in the order of an index.
    """
    (key,) = table.primary_key.columns
    # Names are sorted case-insensitively.
    column = func.lower(table.c.name) if sort_by == "name" else table.c[sort_by]
    direct = asc if page.sort_order == "asc" else desc
    order = (direct(column), direct(key))
    # No index has the order of an expression.
    keys_order = (direct(func.coalesce(column, column)), direct(key)) if few else order
    page_keys = keys.order_by(*keys_order).limit(page.limit).offset(min(page.offset, MAX_OFFSET))
    return select(table).where(key.in_(page_keys)).order_by(*order)


def contains(document: object, pattern: object) -> bool:
    """Return whether a JSON document contains the pattern.

    An object must have all keys of the pattern, an array a matching element for each element of the pattern; other
    values must be equal, and true is not 1. Like PostgreSQL's `@>` on jsonb, except that a scalar does not match an
    array.
    """
    if isinstance(pattern, dict):
        return isinstance(document, dict) and all(
            key in document and contains(document[key], part) for key, part in pattern.items()
        )
    if isinstance(pattern, list):
        return isinstance(document, list) and all(any(contains(item, part) for item in document) for part in pattern)
    return isinstance(document, bool) == isinstance(pattern, bool) and document == pattern


def json_contains(document: str | None, pattern: str) -> bool:
    """Return whether JSON text contains a JSON pattern, as an SQL function; NULL contains nothing."""
    if document is None:
        return False
    try:
        return contains(from_json(document), _parse_pattern(pattern))
    except RecursionError:
        return False


@lru_cache(maxsize=64)
def _parse_pattern(pattern: str) -> Any:
    return from_json(pattern)


def labels_of(document: JsonObject) -> set[Label]:
    """Return the labels of metadata; a document that contains a pattern has all labels of the pattern."""
    return {
        (key, label)
        for key, value in document.items()
        for item in (value if isinstance(value, list) else [value])
        if key not in UNLABELLED_KEYS and key.isprintable() and (label := _label_value(item)) is not None
    }


def _label_value(item: object) -> str | None:
    if isinstance(item, str):
        return item if len(item) <= MAX_LABEL_CHARS and item.isprintable() else None
    return str(int(item)) if isinstance(item, int | float) and abs(item) < EXACT_NUMBERS else None


def required_labels(pattern: JsonObject | None, resource: "FilteredResource") -> list[list[Label]]:
    """Return groups of labels: metadata that contain the pattern and are visible have a label of each group."""
    return [[label] for label in labels_of(pattern or {})] + _labels_of_filter(current_filter(resource) or {})


def _labels_of_filter(metadata_filter: "AuthFilter") -> list[list[Label]]:
    groups: list[list[Label]] = []
    for key, value in metadata_filter.items():
        if key not in ("$or", "$and"):
            groups += [[label] for label in labels_of(_field_pattern(key, value))]
            continue
        parts = [_labels_of_filter(part) for part in _nested_filters(key, value)]
        if key == "$and":
            groups += [group for part in parts for group in part]
        elif all(parts):
            groups.append([label for part in parts for label in part[0]])
    return groups


FilteredResource = Literal["threads", "assistants", "crons"]
AuthFilter = Mapping[str, Any]


class BadFilterError(ToolweaveError):
    """An authorization handler returned an invalid filter; the request is denied."""


def check_auth_filter(metadata_filter: AuthFilter) -> None:
    """Raise BadFilterError for a filter with an unknown operator or a value that is not a JSON scalar."""
    _matches_filter(metadata_filter, {})


def is_allowed(metadata_filter: AuthFilter | None, metadata: JsonObject) -> bool:
    """Return whether metadata matches a filter; None matches all."""
    return metadata_filter is None or _matches_filter(metadata_filter, metadata)


@contextmanager
def use_filters(filters: Mapping[FilteredResource, AuthFilter | None]) -> Iterator[None]:
    """Apply the filters to all searches inside the block."""
    token = _CURRENT_FILTERS.set({**_CURRENT_FILTERS.get(), **filters})
    try:
        yield
    finally:
        _CURRENT_FILTERS.reset(token)


def current_filter(resource: FilteredResource) -> AuthFilter | None:
    """Return the current request's filter for a resource; None allows all."""
    return _CURRENT_FILTERS.get().get(resource)


def is_visible(resource: FilteredResource, column: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the SQL condition that the metadata in `column` matches the current filter."""
    metadata_filter = current_filter(resource)
    return true() if metadata_filter is None else _filter_condition(metadata_filter, column)


def where_visible(query: Select[Any], resource: FilteredResource, column: ColumnElement[str]) -> Select[Any]:
    """Restrict a query to the rows that the request's authorization filter allows."""
    return query if current_filter(resource) is None else query.where(is_visible(resource, column))


_CURRENT_FILTERS: ContextVar[Mapping[FilteredResource, AuthFilter | None]] = ContextVar("filters", default={})  # noqa: B039


def _matches_filter(metadata_filter: AuthFilter, metadata: JsonObject) -> bool:
    # No generator expressions: all parts are validated, also after one that decides.
    found = []
    for key, value in metadata_filter.items():
        if key in ("$or", "$and"):
            parts = [_matches_filter(part, metadata) for part in _nested_filters(key, value)]
            found.append(any(parts) if key == "$or" else all(parts))
        else:
            found.append(contains(metadata, _field_pattern(key, value)))
    return all(found)


def _filter_condition(metadata_filter: AuthFilter, column: ColumnElement[str]) -> ColumnElement[bool]:
    parts = []
    for key, value in metadata_filter.items():
        if key in ("$or", "$and"):
            inner = [_filter_condition(part, column) for part in _nested_filters(key, value)]
            parts.append(or_(false(), *inner) if key == "$or" else and_(true(), *inner))
        else:
            parts.append(_containment(column, _field_pattern(key, value)))
    return and_(true(), *parts)


def _nested_filters(key: str, value: Any) -> list[AuthFilter]:
    if not isinstance(value, list | tuple) or not all(isinstance(part, Mapping) for part in value):
        raise BadFilterError(f"An authorization filter's {key} must be a list of filters.")
    return list(value)


def _field_pattern(key: str, value: Any) -> JsonObject:
    """Convert the filter on one field to the JSON pattern that the metadata must contain."""
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


# A label with more threads is common: their order is not sorted but read, unless the page has a larger offset.
MAX_CANDIDATES, MAX_LABEL_OFFSET = 1_000, 10_000
BY_LABEL = (thread_labels.c.key == bindparam("of_key"), thread_labels.c.value == bindparam("of_value"))
insert_label = Statement(insert(thread_labels).on_conflict_do_nothing(), list(thread_labels.c.keys()))
delete_label = Statement(delete(thread_labels).where(*BY_LABEL, thread_labels.c.thread_id == bindparam("of_thread")))
first_of_label = select(thread_labels.c.thread_id).where(*BY_LABEL).limit(MAX_CANDIDATES + 1)
count_of_label = Statement(select(func.count().label("number")).select_from(first_of_label.subquery()))


def store_labels(
    connection: Connection, thread_id: str, updated_at: int, metadata: str, previous: str | None = None
) -> None:
    """Replace the labels of a thread's previous metadata, if there are any, by those of the new ones."""
    if not is_sqlite(connection):
        return
    new, old = (set() if text is None else labels_of(from_json(text)) for text in (metadata, previous))
    columns = {"created_at": updated_at, "thread_id": thread_id}
    insert_label.run_many(connection, [{"key": key, "value": value, **columns} for key, value in new - old])
    removed = [{"of_key": key, "of_value": value, "of_thread": thread_id} for key, value in old - new]
    delete_label.run_many(connection, removed)


def find_candidates(connection: Connection, groups: Sequence[Sequence[Label]]) -> Select[tuple[str]] | None:
    """Return the query for a few threads that include all which have a label of each group; None if all are common."""
    if not is_sqlite(connection):
        return None
    fewest, rarest = MAX_CANDIDATES, None
    for group in groups:
        number = sum(
            count_of_label.first(connection, {"of_key": key, "of_value": value}).number for key, value in group
        )
        if number <= fewest:
            fewest, rarest = number, group
    if rarest is None:
        return None
    labelled = select(thread_labels.c.thread_id).where(
        or_(false(), *(and_(thread_labels.c.key == key, thread_labels.c.value == value) for key, value in rarest))
    )
    temporary = select(runs.c.thread_id).where(ACTIVE, runs.c.temporary == 1)
    return select(union_all(labelled, temporary).subquery().c.thread_id)


def first_with_label(
    connection: Connection, keys: Select[Any], groups: Sequence[Sequence[Label]], page: Page
) -> Select[tuple[str]] | None:
    """Return the query for threads that include the matches up to the page's end in the order of `updated_at`.

    It reads them in the order of a required label; None if no single label is required, or for a late page.
    """
    label = next((group[0] for group in groups if len(group) == 1), None)
    if label is None or page.offset > MAX_LABEL_OFFSET or not is_sqlite(connection):
        return None
    direct = asc if page.sort_order == "asc" else desc
    # Their labels have an earlier time than the thread, so they take places of others.
    busy = select(threads.c.thread_id).where(threads.c.status == literal_column("'busy'"), ANY_STATUS)
    number = select(func.count()).select_from(busy.subquery()).scalar_subquery()
    labelled = (
        keys.join(thread_labels, thread_labels.c.thread_id == threads.c.thread_id)
        .where(thread_labels.c.key == label[0], thread_labels.c.value == label[1])
        .order_by(direct(thread_labels.c.created_at), direct(thread_labels.c.thread_id))
        .limit(literal(min(page.limit + page.offset, MAX_COUNT)) + number)
    )
    return select(union_all(select(labelled.subquery().c.thread_id), busy).subquery().c.thread_id)
