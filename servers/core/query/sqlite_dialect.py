"""Speak SQLite, whose columns may hold anything, whatever was declared."""

from datetime import datetime, time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import ReflectedColumn

from toolweave.servers.core.query.cells import Cells, iso_text
from toolweave.servers.core.query.dialect import Expression, kind_of
from toolweave.servers.core.query.tables import Column
from toolweave.servers.core.query.values import Value, plain

# The texts of dates and times in forms whose order is that of what they mean, in UTC; SQLite knows milliseconds.
_COMPARED_AS = {"date": "%Y-%m-%d", "moment": "%Y-%m-%d %H:%M:%f", "time": "%H:%M:%f"}
_NULL = sa.types.NullType()
# Of UTF-8 and of UTF-16, the two that SQLite knows.
_BYTES_OF_A_CHARACTER = 4


def sqlite_text(text: bytes) -> str:
    """Decode a text; SQLite takes any bytes for one."""
    return text.decode(errors="replace")


class SQLiteDialect:
    """SQLite: values are bound as they are; dates are ISO texts, compared as what they mean."""

    def described(self, reflected: ReflectedColumn) -> Column:
        """Say what a column holds; a type that SQLite does not know lets anything in."""
        declared = reflected["type"]
        kind = kind_of(declared)
        if isinstance(declared, sa.types.NullType) or (type(declared) is sa.NUMERIC and declared.precision is None):
            kind = "anything"
        elif kind == "uuid":
            kind = "text"
        # A text that is no date counts as null.
        nullable = reflected["nullable"] or kind in _COMPARED_AS
        return Column(reflected["name"], kind, _NULL, nullable)

    def operand(self, column: Expression, described: Column) -> Expression:
        """Compare dates and times by what they mean."""
        form = _COMPARED_AS.get(described.kind)
        return sa.func.strftime(sa.literal(form), column, type_=_NULL) if form else column

    def bound(self, value: Value, described: Column) -> Expression:
        """Bind a value as SQLite knows it."""
        return self.operand(sa.literal(plain(value)), described)

    def like(self, operand: Expression, pattern: str) -> Expression:
        """Match whatever the case of ASCII letters."""
        return operand.like(sa.literal(pattern), escape="\\")

    def nulls_last(self, ordered: Expression, operand: Expression) -> list[Expression]:  # noqa: ARG002
        """Order rows without a value last."""
        return [ordered.nulls_last()]

    def cell(self, column: Expression, described: Column, most: int) -> Expression:  # noqa: ARG002
        """Cut texts and bytes where they are."""
        return _cut(column, most)

    def shown(self, value: Any, described: Column, cells: Cells) -> Any:
        """Show a value by what it is, and by what its column is said to hold."""
        match described.kind, value:
            case "boolean", 0 | 1:
                return bool(value)
            case "json", str():
                return cells.document(value)
            case "moment", str():
                return cells.text(iso_text(value, datetime.fromisoformat))
            case "time", str():
                return cells.text(iso_text(value, time.fromisoformat))
        return cells.of(value)


def _cut(column: Expression, most: int) -> Expression:
    """Cut what is long as bytes: SQLite's functions of texts end them at a NUL. More than `most` is left of a text."""
    kind, as_bytes = sa.func.typeof(column), sa.cast(column, sa.BLOB)
    length, first = sa.func.length(as_bytes), sa.literal(1)
    enough, more_than_enough = sa.literal(most + 1), sa.literal(_BYTES_OF_A_CHARACTER * (most + 1))
    long_text = sa.and_(kind == sa.literal("text"), length > more_than_enough)
    return sa.case(
        (long_text, sa.cast(sa.func.substr(as_bytes, first, more_than_enough), sa.Text)),
        (sa.and_(kind == sa.literal("blob"), length > enough), sa.func.substr(column, first, enough)),
        else_=column,
    )
