"""Name what query_database speaks of: a query with its conditions and its order, as the caller meant it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypeAlias, cast, get_args

from toolweave.servers.error_codes import INVALID_PARAMETER, UNKNOWN_PARAMETER, ToolFailed

Operator = Literal["eq", "ne", "lt", "le", "gt", "ge", "in", "like", "is_null"]
Scalar: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a column; `value` is a tuple for `in`, a boolean for `is_null`, else what JSON gave.

    `place` is where the call has it, such as `filters[0]`.
    """

    column: str
    op: Operator
    value: Scalar | tuple[Scalar, ...]
    place: str = field(default="filters", compare=False)
    column_place: str = field(default="filters", compare=False)

    @property
    def value_place(self) -> str:
        """Return where the call has the value."""
        return self.place if self.place == self.column_place else f"{self.place}.value"


@dataclass(frozen=True, slots=True)
class ConditionGroup:
    """Conditions that must all hold ("and"), or of which one must ("or")."""

    kind: Literal["and", "or"]
    members: "tuple[Condition | ConditionGroup, ...]"

    def conditions(self) -> Iterator[Condition]:
        """Go through the conditions of this group and of those within."""
        for member in self.members:
            if isinstance(member, ConditionGroup):
                yield from member.conditions()
            else:
                yield member


@dataclass(frozen=True, slots=True)
class Ordering:
    """A column to order by; rows in which it is null come last either way."""

    column: str
    descending: bool = False
    place: str = field(default="order_by", compare=False)


@dataclass(frozen=True, slots=True)
class TableQuery:
    """A query before anything was looked up: guardrails decide on it (D-12).

    `table` is as in TOOLWEAVE_QUERY_TABLES, `columns` None stands for all that may be read.
    """

    table: str
    filters: ConditionGroup
    columns: tuple[str, ...] | None
    order_by: tuple[Ordering, ...]
    limit: int

    def named_columns(self) -> Iterator[tuple[str, str]]:
        """Go through the columns that are named anywhere, each with its place in the call."""
        for index, column in enumerate(self.columns or ()):
            yield f"columns[{index}]", column
        for condition in self.filters.conditions():
            yield condition.column_place, condition.column
        for ordering in self.order_by:
            yield ordering.place, ordering.column

    def texts(self) -> Iterator[tuple[str, str]]:
        """Go through the texts that columns are compared with, each with its place in the call."""
        for condition in self.filters.conditions():
            values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
            for value in values:
                if isinstance(value, str):
                    yield condition.value_place, value


OPERATORS: tuple[str, ...] = get_args(Operator)
DEEPEST = 5
MOST_CONDITIONS = 50
MOST_VALUES = 200
MOST_ORDERINGS = 8
LONGEST_TEXT = 1_000
LONGEST_NAME = 128
_LARGEST = 10**38
_SHOWN = 64
_FORMS = (
    'an object such as {"column": "status", "op": "eq", "value": "active"}, {"status": "active"}, {"and": […]} or '
    '{"or": […]}'
)
_SCALAR = "text, a number, true or false"


def read_filters(given: object) -> ConditionGroup:
    """Read `filters`: a list of conditions and groups that must all hold, or one object.

    Raises:
        ToolFailed: a part of it is of the wrong form, too deep, too long or too many.
    """
    if given is None or given == {}:
        return ConditionGroup("and", ())
    reader = _Reader()
    if isinstance(given, Mapping):
        members = reader.members_of(given, "filters", 1)
    else:
        members = reader.group(given, "filters", 1)
    return ConditionGroup("and", members)


def read_order(given: object) -> tuple[Ordering, ...]:
    """Read `order_by`: "column", "-column", "column desc", or a list of such; a column counts where it comes first.

    Raises:
        ToolFailed: it is of another form, or too many.
    """
    texts = [given] if isinstance(given, str) else ([] if given is None else given)
    if not isinstance(texts, list) or len(texts) > MOST_ORDERINGS:
        _wrong("order_by", f"a column, or a list of at most {MOST_ORDERINGS} columns")
    orderings: dict[str, Ordering] = {}
    for index, text in enumerate(texts):
        place = "order_by" if isinstance(given, str) else f"order_by[{index}]"
        if not isinstance(text, str):
            _wrong(place, 'a column such as "name", "-name" or "name desc"')
        ordering = _ordering(text.strip(), place)
        orderings.setdefault(ordering.column, ordering)
    return tuple(orderings.values())


def _ordering(text: str, place: str) -> Ordering:
    name, _, direction = text.rpartition(" ")
    if name and direction.lower() in ("asc", "desc"):
        return Ordering(_name(name.strip(), place), direction.lower() == "desc", place)
    return Ordering(_name(text.removeprefix("-"), place), text.startswith("-"), place)


class _Reader:
    """Reads one call's filters; counts the conditions on the way."""

    def __init__(self) -> None:
        self._conditions = 0

    def group(self, given: object, place: str, depth: int) -> tuple[Condition | ConditionGroup, ...]:
        if not isinstance(given, list) or (depth > 1 and not given):
            _wrong(place, "a list of at least one condition" if depth > 1 else "a list of conditions, or one object")
        if depth > DEEPEST:
            _wrong(place, f"nested at most {DEEPEST} deep")
        members: list[Condition | ConditionGroup] = []
        for index, item in enumerate(given):
            members += self.members_of(item, f"{place}[{index}]", depth)
        return tuple(members)

    def members_of(self, given: object, place: str, depth: int) -> tuple[Condition | ConditionGroup, ...]:
        if not isinstance(given, Mapping) or not given:
            _wrong(place, _FORMS)
        if set(given) in ({"and"}, {"or"}):
            kind: Literal["and", "or"] = "and" if "and" in given else "or"
            return (ConditionGroup(kind, self.group(given[kind], f"{place}.{kind}", depth + 1)),)
        if "column" in given and ("op" in given or "value" in given):
            return (self._condition(given, place),)
        return tuple(self._equality(str(name), value, place) for name, value in given.items())

    def _condition(self, given: Mapping[str, Any], place: str) -> Condition:
        for name in given:
            if name not in ("column", "op", "value"):
                raise ToolFailed(
                    UNKNOWN_PARAMETER,
                    f"There is no parameter '{place}.{_shown(name)}'; a condition takes column, op, value.",
                )
        op = given.get("op", "eq")
        if not isinstance(op, str) or op not in OPERATORS:
            _wrong(f"{place}.op", f"one of {', '.join(OPERATORS)}")
        column = _name(given["column"], f"{place}.column")
        return self._compared(column, cast("Operator", op), given, place, f"{place}.column")

    def _equality(self, name: str, value: object, place: str) -> Condition:
        where = f"{place}.{_shown(name)}"
        if isinstance(value, Mapping | list):
            _wrong(where, f'{_SCALAR}, or null; for anything else use {{"column": …, "op": …, "value": …}}')
        return self._compared(_name(name, where), "eq", {"value": value}, where, where)

    def _compared(
        self, column: str, op: Operator, given: Mapping[str, Any], place: str, column_place: str
    ) -> Condition:
        self._conditions += 1
        if self._conditions > MOST_CONDITIONS:
            _wrong(place, f"one of at most {MOST_CONDITIONS} conditions in all")
        value = given.get("value")
        if value is None and "value" in given and op in ("eq", "ne"):
            # SQL compares nothing with null, and no caller means that.
            return Condition(column, "is_null", op == "eq", place, column_place)
        where = f"{place}.value" if place != column_place else place
        return Condition(column, op, _value(op, value, where), place, column_place)


def _value(op: Operator, value: object, place: str) -> Scalar | tuple[Scalar, ...]:
    match op:
        case "is_null":
            if value is not None and not isinstance(value, bool):
                _wrong(place, "true or false")
            return value is not False
        case "in":
            if not isinstance(value, list) or not 1 <= len(value) <= MOST_VALUES:
                _wrong(place, f"a list of 1 to {MOST_VALUES} values")
            return tuple(_scalar(item, f"{place}[{index}]") for index, item in enumerate(value))
    return _scalar(value, place)


def _scalar(value: object, place: str) -> Scalar:
    if not isinstance(value, str | int | float):
        _wrong(place, _SCALAR)
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            _wrong(place, f"text of at most {LONGEST_TEXT} characters")
        if "\x00" in value or (not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value)):
            _wrong(place, "valid Unicode text, without null characters and lone surrogates")
    elif not isinstance(value, bool) and (
        not math.isfinite(value) if isinstance(value, float) else abs(value) > _LARGEST
    ):
        _wrong(place, "a finite number of at most 38 digits")
    return value


def _name(value: object, place: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_NAME:
        _wrong(place, "the name of a column")
    return value


def _shown(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in str(name)[:_SHOWN])


def _wrong(place: str, expected: str) -> NoReturn:
    raise ToolFailed(INVALID_PARAMETER, f"Parameter '{place}' must be {expected}.")
