"""Speak the SQL of a database: what its columns hold, how they are compared and how they are read."""

from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import ReflectedColumn

from toolweave.servers.core.query.cells import Cells
from toolweave.servers.core.query.tables import Column, Kind
from toolweave.servers.core.query.values import Value

Expression = sa.ColumnElement[Any]


class Dialect(Protocol):
    """What differs between databases; every value is bound, nothing of a call becomes SQL text."""

    def described(self, reflected: ReflectedColumn) -> Column:
        """Say what a column holds."""
        ...

    def operand(self, column: Expression, described: Column) -> Expression:
        """Give what is compared and ordered by."""
        ...

    def bound(self, value: Value, described: Column) -> Expression:
        """Bind a value that an operand is compared with."""
        ...

    def like(self, operand: Expression, pattern: str) -> Expression:
        """Match a pattern, whatever the case; a backslash takes the next character literally."""
        ...

    def nulls_last(self, ordered: Expression, operand: Expression) -> list[Expression]:
        """Order rows without a value last."""
        ...

    def cell(self, column: Expression, described: Column, most: int) -> Expression:
        """Select a column, no more of a cell than can be shown and one character."""
        ...

    def shown(self, value: Any, described: Column, cells: Cells) -> Any:
        """Turn what `cell` selected into JSON."""
        ...


_NAMES: tuple[tuple[type[sa.types.TypeEngine[Any]], Kind], ...] = (
    (sa.Enum, "text"),
    (sa.JSON, "json"),
    (sa.ARRAY, "other"),
    (sa.Uuid, "uuid"),
    (sa.Boolean, "boolean"),
    (sa.Integer, "integer"),
    (sa.Float, "number"),
    (sa.Numeric, "decimal"),
    (sa.DateTime, "moment"),
    (sa.Date, "date"),
    (sa.Time, "time"),
    (sa.LargeBinary, "bytes"),
    (sa.types._Binary, "bytes"),  # noqa: SLF001  what BLOB and VARBINARY have in common
    (sa.String, "text"),
)


def kind_of(reflected: sa.types.TypeEngine[Any]) -> Kind:
    """Say what a column of this type holds."""
    return next((kind for type_, kind in _NAMES if isinstance(reflected, type_)), "other")
