"""Write the SELECT of a query with SQLAlchemy's constructs: every value is bound, every name was looked up (C-03)."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from toolweave.servers.core.query.dialect import Dialect, Expression
from toolweave.servers.core.query.models import Condition, Group, Ordering, Query
from toolweave.servers.core.query.tables import Column, Table
from toolweave.servers.core.query.values import value_for
from toolweave.servers.error_codes import INVALID_PARAMETER, ToolFailed

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


class Statements:
    """Writes the statements for one table."""

    def __init__(self, table: Table, dialect: Dialect) -> None:
        self._table = table
        self._dialect = dialect

    def shown_columns(self, query: Query) -> list[Column]:
        """List the columns of the answer, each once."""
        names = dict.fromkeys(query.columns or self._table.columns)
        return [self._table.columns[name] for name in names]

    def page(self, query: Query, most: int) -> sa.Select[Any]:
        """Select one row more than the limit, so that more are known of.

        Raises:
            ToolFailed: a value is not what its column holds.
        """
        cells = [
            self._dialect.cell(self._clause(column), column, most).label(f"c{index}")
            for index, column in enumerate(self.shown_columns(query))
        ]
        statement = sa.select(*cells).select_from(self._table.clause)
        if query.filters.members:
            statement = statement.where(self._group(query.filters))
        # Rows that are alike in all else come in the order of the primary key.
        named = {item.column for item in query.order_by}
        for item in (*query.order_by, *(Ordering(name) for name in self._table.key if name not in named)):
            column = self._table.columns[item.column]
            operand = self._dialect.operand(self._clause(column), column)
            ordered = operand.desc() if item.descending else operand.asc()
            statement = statement.order_by(
                *(self._dialect.nulls_last(ordered, operand) if column.nullable else [ordered])
            )
        return statement.limit(query.limit + 1)

    def _clause(self, column: Column) -> Expression:
        return self._table.clause.c[column.name]

    def _group(self, group: Group) -> Expression:
        members = [
            self._group(member) if isinstance(member, Group) else self._condition(member) for member in group.members
        ]
        return sa.and_(*members) if group.kind == "and" else sa.or_(*members)

    def _condition(self, condition: Condition) -> Expression:
        column, dialect = self._table.columns[condition.column], self._dialect
        operand = dialect.operand(self._clause(column), column)
        simple = condition.place == condition.column_place
        place = condition.place if simple else f"{condition.place}.value"
        match condition.op, condition.value:
            case "is_null", wanted:
                return operand.is_(None) if wanted else operand.is_not(None)
            case "in", tuple(values):
                converted = [value_for(column, value, f"{place}[{index}]") for index, value in enumerate(values)]
                return operand.in_([dialect.bound(value, column) for value in converted])
            case "like", str(pattern):
                return dialect.like(operand, _whole_pattern(pattern, place))
            case op, (str() | int() | float()) as value if op in _COMPARISONS:
                bound = dialect.bound(value_for(column, value, place), column)
                compared: Expression = _COMPARISONS[op](operand, bound)
                return compared
        raise ToolFailed(INVALID_PARAMETER, f"Parameter '{place}' must be text with % and _ as wildcards.")


def _whole_pattern(pattern: str, place: str) -> str:
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        raise ToolFailed(
            INVALID_PARAMETER,
            f"Parameter '{place}' must be a pattern that does not end in a single backslash, which takes the next "
            "character literally.",
        )
    return pattern
