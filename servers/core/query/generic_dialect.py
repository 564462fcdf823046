"""Speak to any other database, with nothing but what SQLAlchemy knows of it."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import ReflectedColumn

from toolweave.servers.core.query.cells import Cells
from toolweave.servers.core.query.dialect import Expression, kind_of
from toolweave.servers.core.query.tables import Column
from toolweave.servers.core.query.values import Value


class GenericDialect:
    """Any database: values are bound with the types that were found; cells are cut after they came."""

    def described(self, reflected: ReflectedColumn) -> Column:
        """Say what a column holds."""
        declared = reflected["type"]
        return Column(reflected["name"], kind_of(declared), declared, reflected["nullable"])

    def operand(self, column: Expression, described: Column) -> Expression:  # noqa: ARG002
        """Compare the column itself."""
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
