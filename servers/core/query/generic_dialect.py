"""Speak to any other database, with nothing but what SQLAlchemy knows of it."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import ReflectedColumn

from toolweave.servers.core.query.cells import Cells
from toolweave.servers.core.query.dialect import Expression, KeyValue, kind_of
from toolweave.servers.core.query.tables import Column
from toolweave.servers.core.query.values import Value, plain, value_for


class GenericDialect:
    """Any database: values are bound with the types that were found; cells are cut after they came."""

    def described(self, reflected: ReflectedColumn) -> Column:
        """Say what a column holds."""
        declared = reflected["type"]
        return Column(reflected["name"], kind_of(declared), declared, reflected["nullable"])

    def operand(self, column: Expression, described: Column) -> Expression:  # noqa: ARG002
        """Compare the column itself."""
        return column

    def identity(self, column: Expression, described: Column) -> Expression:  # noqa: ARG002
        """Take the column itself."""
        return column

    def bound(self, value: Value, described: Column) -> Expression:
        """Bind a value with the type of the column."""
        return sa.literal(value, described.type)

    def like(self, operand: Expression, pattern: str) -> Expression:
        """Match whatever the case."""
        return operand.ilike(sa.literal(pattern), escape="\\")

    def nulls_last(self, ordered: Expression, operand: Expression) -> list[Expression]:
        """Order rows without a value last, where there may be no words for that."""
        return [sa.case((operand.is_(None), sa.literal(1)), else_=sa.literal(0)), ordered]

    def cell(self, column: Expression, described: Column, most: int) -> Expression:  # noqa: ARG002
        """Select the column itself."""
        return column

    def shown(self, value: Any, described: Column, cells: Cells) -> Any:  # noqa: ARG002
        """Show a value by what the driver made of it."""
        return cells.of(value)

    def key(self, operand: Expression, described: Column) -> Expression:  # noqa: ARG002
        """Select the value itself."""
        return operand

    def kept(self, value: Any, described: Column) -> KeyValue:  # noqa: ARG002
        """Keep numbers and bytes as they are, everything else as text."""
        kept: KeyValue = value if value is None or isinstance(value, int | float | bytes) else str(plain(value))
        return kept

    def bound_key(self, value: KeyValue, described: Column) -> Expression:
        """Bind it as the column's type."""
        if isinstance(value, bytes) or value is None:
            return sa.literal(value, described.type)
        return sa.literal(value_for(described, value, "cursor"), described.type)
