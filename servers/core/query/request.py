"""Parse the parameters of query_database into a query with its conditions and its order."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypeAlias, cast, get_args

from toolweave.servers.error_codes import INVALID_PARAMETER, UNKNOWN_PARAMETER, ToolFailed

Operator = Literal["eq", "ne", "lt", "le", "gt", "ge", "in", "like", "is_null"]
Scalar: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a column; `value` is a tuple for `in`, a boolean for `is_null`, otherwise the JSON value.

    `path` is its position in the call, such as `filters[0]`.
    """

    column: str
    op: Operator
    value: Scalar | tuple[Scalar, ...]
    path: str = field(default="filters", compare=False)
    column_path: str = field(default="filters", compare=False)

    @property
    def value_path(self) -> str:
        """Return the value's path in the call."""
        return self.path if self.path == self.column_path else f"{self.path}.value"


@dataclass(frozen=True, slots=True)
class ConditionGroup:
    """Conditions that must all hold ("and"), or of which at least one must hold ("or")."""

    kind: Literal["and", "or"]
    members: "tuple[Condition | ConditionGroup, ...]"

    def conditions(self) -> Iterator[Condition]:
        """Yield the conditions of this group and of its inner groups."""
        for member in self.members:
            if isinstance(member, ConditionGroup):
                yield from member.conditions()
            else:
                yield member


@dataclass(frozen=True, slots=True)
class Ordering:
    """A column to order by; rows in which it is null come last in both directions."""

    column: str
    descending: bool = False
    path: str = field(default="order_by", compare=False)


@dataclass(frozen=True, slots=True)
class TableQuery:
    """A parsed query, before its names are looked up; guardrails check it (D-12).

    `table` is a name as in TOOLWEAVE_QUERY_TABLES. `columns` is None for all columns that may be read.
    """

    table: str
    filters: ConditionGroup
    columns: tuple[str, ...] | None
    order_by: tuple[Ordering, ...]
    limit: int

    def named_columns(self) -> Iterator[tuple[str, str]]:
        """Yield (path in the call, column) for every column that the query names."""
        for index, column in enumerate(self.columns or ()):
            yield f"columns[{index}]", column
        for condition in self.filters.conditions():
            yield condition.column_path, condition.column
        for ordering in self.order_by:
            yield ordering.path, ordering.column

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield (path in the call, text) for every text that a column is compared with."""
        for condition in self.filters.conditions():
            values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
            for value in values:
                if isinstance(value, str):
                    yield condition.value_path, value


OPERATORS: tuple[str, ...] = get_args(Operator)
MAX_DEPTH = 5
MAX_CONDITIONS = 50
MAX_IN_VALUES = 200
MAX_ORDERINGS = 8
MAX_TEXT_LENGTH = 1_000
MAX_NAME_LENGTH = 128
_MAX_NUMBER = 10**38
_MAX_SHOWN_LENGTH = 64
_CONDITION_FORMS = (
    'an object such as {"column": "status", "op": "eq", "value": "active"}, {"status": "active"}, {"and": […]} or '
    '{"or": […]}'
)
_SCALARS = "text, a number, true or false"


def parse_filters(raw: object) -> ConditionGroup:
    """Parse `filters`: a list of conditions and groups that must all hold, or one object.

    Raises:
        ToolFailed: a part has the wrong form, or there are too many conditions, levels or characters.
    """
    if raw is None or raw == {}:
        return ConditionGroup("and", ())
    parser = _FilterParser()
    if isinstance(raw, Mapping):
        members = parser.parse_members(raw, "filters", 1)
    else:
        members = parser.parse_group(raw, "filters", 1)
    return ConditionGroup("and", members)


def parse_order(raw: object) -> tuple[Ordering, ...]:
    """Parse `order_by`: "column", "-column", "column desc", or a list of these; a repeated column counts once.

    Raises:
        ToolFailed: it has another form, or too many columns.
    """
    texts = [raw] if isinstance(raw, str) else ([] if raw is None else raw)
    if not isinstance(texts, list) or len(texts) > MAX_ORDERINGS:
        _reject("order_by", f"a column, or a list of at most {MAX_ORDERINGS} columns")
    orderings: dict[str, Ordering] = {}
    for index, text in enumerate(texts):
        path = "order_by" if isinstance(raw, str) else f"order_by[{index}]"
        if not isinstance(text, str):
            _reject(path, 'a column such as "name", "-name" or "name desc"')
        ordering = _parse_ordering(text.strip(), path)
        orderings.setdefault(ordering.column, ordering)
    return tuple(orderings.values())


def _parse_ordering(text: str, path: str) -> Ordering:
    name, _, direction = text.rpartition(" ")
    if name and direction.lower() in ("asc", "desc"):
        return Ordering(_check_name(name.strip(), path), direction.lower() == "desc", path)
    return Ordering(_check_name(text.removeprefix("-"), path), text.startswith("-"), path)


class _FilterParser:
    """Parse one call's filters and count their conditions."""

    def __init__(self) -> None:
        self._conditions = 0

    def parse_group(self, raw: object, path: str, depth: int) -> tuple[Condition | ConditionGroup, ...]:
        if not isinstance(raw, list) or (depth > 1 and not raw):
            _reject(path, "a list of at least one condition" if depth > 1 else "a list of conditions, or one object")
        if depth > MAX_DEPTH:
            _reject(path, f"nested at most {MAX_DEPTH} deep")
        members: list[Condition | ConditionGroup] = []
        for index, item in enumerate(raw):
            members += self.parse_members(item, f"{path}[{index}]", depth)
        return tuple(members)

    def parse_members(self, raw: object, path: str, depth: int) -> tuple[Condition | ConditionGroup, ...]:
        if not isinstance(raw, Mapping) or not raw:
            _reject(path, _CONDITION_FORMS)
        if set(raw) in ({"and"}, {"or"}):
            kind: Literal["and", "or"] = "and" if "and" in raw else "or"
            return (ConditionGroup(kind, self.parse_group(raw[kind], f"{path}.{kind}", depth + 1)),)
        if "column" in raw and ("op" in raw or "value" in raw):
            return (self._parse_condition(raw, path),)
        return tuple(self._parse_equality(str(name), value, path) for name, value in raw.items())

    def _parse_condition(self, raw: Mapping[str, Any], path: str) -> Condition:
        for name in raw:
            if name not in ("column", "op", "value"):
                raise ToolFailed(
                    UNKNOWN_PARAMETER,
                    f"There is no parameter '{path}.{_printable(name)}'; a condition takes column, op, value.",
                )
        op = raw.get("op", "eq")
        if not isinstance(op, str) or op not in OPERATORS:
            _reject(f"{path}.op", f"one of {', '.join(OPERATORS)}")
        column = _check_name(raw["column"], f"{path}.column")
        return self._build_condition(column, cast("Operator", op), raw, path, f"{path}.column")

    def _parse_equality(self, name: str, value: object, path: str) -> Condition:
        column_path = f"{path}.{_printable(name)}"
        if isinstance(value, Mapping | list):
            _reject(column_path, f'{_SCALARS}, or null; for anything else use {{"column": …, "op": …, "value": …}}')
        return self._build_condition(_check_name(name, column_path), "eq", {"value": value}, column_path, column_path)

    def _build_condition(
        self, column: str, op: Operator, raw: Mapping[str, Any], path: str, column_path: str
    ) -> Condition:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            _reject(path, f"one of at most {MAX_CONDITIONS} conditions in all")
        value = raw.get("value")
        if value is None and "value" in raw and op in ("eq", "ne"):
            # A comparison with null never holds in SQL, and callers mean is_null.
            return Condition(column, "is_null", op == "eq", path, column_path)
        value_path = f"{path}.value" if path != column_path else path
        return Condition(column, op, _parse_value(op, value, value_path), path, column_path)


def _parse_value(op: Operator, value: object, path: str) -> Scalar | tuple[Scalar, ...]:
    match op:
        case "is_null":
            if value is not None and not isinstance(value, bool):
                _reject(path, "true or false")
            return value is not False
        case "in":
            if not isinstance(value, list) or not 1 <= len(value) <= MAX_IN_VALUES:
                _reject(path, f"a list of 1 to {MAX_IN_VALUES} values")
            return tuple(_check_scalar(item, f"{path}[{index}]") for index, item in enumerate(value))
    return _check_scalar(value, path)


def _check_scalar(value: object, path: str) -> Scalar:
    if not isinstance(value, str | int | float):
        _reject(path, _SCALARS)
    if isinstance(value, str):
        if len(value) > MAX_TEXT_LENGTH:
            _reject(path, f"text of at most {MAX_TEXT_LENGTH} characters")
        if "\x00" in value or (not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value)):
            _reject(path, "valid Unicode text, without null characters and lone surrogates")
    elif not isinstance(value, bool) and (
        not math.isfinite(value) if isinstance(value, float) else abs(value) > _MAX_NUMBER
    ):
        _reject(path, "a finite number of at most 38 digits")
    return value


def _check_name(value: object, path: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME_LENGTH:
        _reject(path, "the name of a column")
    return value


def _printable(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in str(name)[:_MAX_SHOWN_LENGTH])


def _reject(path: str, expected: str) -> NoReturn:
    raise ToolFailed(INVALID_PARAMETER, f"Parameter '{path}' must be {expected}.")
