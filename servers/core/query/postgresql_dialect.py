"""Speak PostgreSQL: exact types, and whatever it has beyond JSON is asked for as JSON text."""

from collections.abc import Callable
from datetime import datetime, time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine.interfaces import ReflectedColumn

from toolweave.servers.core.query.cells import Cells, iso_text
from toolweave.servers.core.query.dialect import Expression, kind_of
from toolweave.servers.core.query.tables import Column, Kind
from toolweave.servers.core.query.values import Value

_TEXT = sa.Text()
# Of columns whose own comparison may be found elsewhere than in pg_catalog, or is none of texts.
_COMPARED_AS_TEXT = sa.Text()
_TYPES: dict[Kind, sa.types.TypeEngine[Any]] = {
    "integer": sa.BigInteger(),
    "number": sa.Double(),
    "decimal": sa.Numeric(),
    "boolean": sa.Boolean(),
    "text": _TEXT,
    "date": sa.Date(),
    "moment": sa.DateTime(),
    "time": sa.Time(),
    "uuid": sa.Uuid(),
    "bytes": sa.LargeBinary(),
}
# As the driver gives them.
_READ_AS_THEY_ARE = frozenset({"integer", "number", "boolean"})
_READ_AS_TEXT = frozenset({"text", "decimal", "uuid", "json"})

# PostgreSQL leaves out the last zeros of a second.
_READERS: dict[Kind, Callable[[str], datetime | time]] = {"moment": datetime.fromisoformat, "time": time.fromisoformat}


class PostgreSQLDialect:
    """PostgreSQL: values are bound with their types; cells are cut before they are sent."""

    def described(self, reflected: ReflectedColumn) -> Column:
        """Say what a column holds; a domain is what it is made of."""
        declared = reflected["type"]
        while isinstance(declared, postgresql.DOMAIN):
            declared = declared.data_type
        kind = kind_of(declared)
        bound = _TYPES.get(kind, _COMPARED_AS_TEXT)
        match declared:
            case sa.Enum() | postgresql.CITEXT() | sa.CHAR():
                bound = _COMPARED_AS_TEXT
            case sa.REAL():
                bound = sa.REAL()
            case sa.DateTime(timezone=True):
                bound = sa.DateTime(timezone=True)
            case sa.Time(timezone=True):
                kind, bound = "other", _COMPARED_AS_TEXT
        return Column(reflected["name"], kind, bound, reflected["nullable"])

    def operand(self, column: Expression, described: Column) -> Expression:
        """Compare by what the type means; enumerations and the like as the texts that are seen of them."""
        return sa.cast(column, _TEXT) if described.type is _COMPARED_AS_TEXT else column

    def bound(self, value: Value, described: Column) -> Expression:
        """Bind a value with the type of the column; a moment without an offset is in UTC."""
        bound = sa.literal(value, described.type)
        # The driver has one kind of float, and 0.1 is another number in each of the two.
        return sa.cast(bound, described.type) if isinstance(described.type, sa.REAL) else bound

    def like(self, operand: Expression, pattern: str) -> Expression:
        """Match whatever the case."""
        return operand.ilike(sa.literal(pattern, _TEXT), escape="\\")

    def nulls_last(self, ordered: Expression, operand: Expression) -> list[Expression]:  # noqa: ARG002
        """Order rows without a value last."""
        return [ordered.nulls_last()]

    def cell(self, column: Expression, described: Column, most: int) -> Expression:
        """Cut texts and bytes where they are; dates beyond the calendar, lists and the like come as JSON."""
        if described.kind in _READ_AS_THEY_ARE:
            return column
        if described.kind == "bytes":
            arguments = (column, sa.literal(1), sa.literal(most + 1))
            return sa.func.pg_catalog.substr(*arguments, type_=sa.LargeBinary())
        if described.kind in _READ_AS_TEXT:
            return _left(column, most)
        return _left(sa.func.pg_catalog.to_jsonb(column), most)

    def shown(self, value: Any, described: Column, cells: Cells) -> Any:
        """Read what came as JSON."""
        if not isinstance(value, str) or described.kind in ("text", "decimal", "uuid"):
            return cells.of(value)
        read = cells.document(value)
        return (
            iso_text(read, _READERS[described.kind]) if described.kind in _READERS and isinstance(read, str) else read
        )


def _left(expression: Expression, most: int) -> Expression:
    return sa.func.pg_catalog.left(sa.cast(expression, _TEXT), sa.literal(most + 1), type_=_TEXT)
