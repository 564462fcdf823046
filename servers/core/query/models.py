"""Name what query_database speaks of: a query with its conditions and its order, as the caller meant it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

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


@dataclass(frozen=True, slots=True)
class Group:
    """Conditions that must all hold ("and"), or of which one must ("or")."""

    kind: Literal["and", "or"]
    members: "tuple[Condition | Group, ...]"

    def conditions(self) -> Iterator[Condition]:
        """Go through the conditions of this group and of those within."""
        for member in self.members:
            if isinstance(member, Group):
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
class Query:
    """What is asked for, before anything was looked up: guardrails decide on it (D-12).

    `table` is as in TOOLWEAVE_QUERY_TABLES, `columns` None stands for all that may be read.
    """

    table: str
    filters: Group
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
                    yield f"{condition.place}.value", value
