"""Describe a table as it is in the database: its columns by what they hold, and its primary key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from toolweave.servers.core.query.models import Operator

Kind = Literal[
    "integer",
    "number",
    "decimal",
    "boolean",
    "text",
    "date",
    "moment",
    "time",
    "uuid",
    "bytes",
    "json",
    "anything",
    "other",
]
_COMPARED: tuple[Operator, ...] = ("eq", "ne", "lt", "le", "gt", "ge", "in", "is_null")
_EQUATED: tuple[Operator, ...] = ("eq", "ne", "in", "is_null")
_OPERATORS: Mapping[Kind, tuple[Operator, ...]] = {
    "text": (*_COMPARED, "like"),
    "anything": (*_COMPARED, "like"),
    "boolean": _EQUATED,
    "bytes": _EQUATED,
    "json": ("is_null",),
    "other": ("is_null",),
}
_NOT_ORDERED: frozenset[Kind] = frozenset({"bytes", "json", "other"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column that may be read; `type` is how values to compare it with are bound."""

    name: str
    kind: Kind
    type: sa.types.TypeEngine[Any]
    nullable: bool = True

    @property
    def operators(self) -> tuple[Operator, ...]:
        """Return the operators that make sense for what it holds."""
        return _OPERATORS.get(self.kind, _COMPARED)

    @property
    def is_orderable(self) -> bool:
        """Tell whether rows may be ordered by it."""
        return self.kind not in _NOT_ORDERED


@dataclass(frozen=True, slots=True)
class Table:
    """A table as of a look at the database; `columns` are those that may be read.

    `key` names the columns of its primary key; it is empty where not all of them may be read.
    """

    label: str
    clause: sa.TableClause
    columns: Mapping[str, Column]
    key: tuple[str, ...]
