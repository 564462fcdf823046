"""Write the SELECT of a query with SQLAlchemy's constructs: every value is bound, every name was looked up (C-03)."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from toolweave.servers.core.query.dialect import Dialect, Expression, KeyValue
from toolweave.servers.core.query.models import Condition, Group, Query
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


@dataclass(frozen=True, slots=True)
class SortKey:
    """One of the expressions that put the rows in order."""

    column: Column
    expression: Expression
    descending: bool


class Statements:
    """Writes the statements for one table."""

    def __init__(self, table: Table, dialect: Dialect) -> None:
        self._table = table
        self._dialect = dialect

    def shown_columns(self, query: Query) -> list[Column]:
        """List the columns of the answer, each once."""
        names = dict.fromkeys(query.columns or self._table.columns)
        return [self._table.columns[name] for name in names]

    def sort_keys(self, query: Query) -> list[SortKey]:
        """List what rows are ordered by: as the query says, then so that no two rows are alike."""
        keys = [self._sort_key(item.column, descending=item.descending) for item in query.order_by]
        ordered = {key.column.name for key in keys if key.expression is self._clause(key.column)}
        for name in self._table.key:
            if name not in ordered:
                column = self._table.columns[name]
                expression = self._dialect.identity(self._clause(column), column)
                keys.append(SortKey(column, expression, descending=False))
        return keys

    def page(self, query: Query, after: Sequence[KeyValue] | None, most: int) -> sa.Select[Any]:
        """Select one row more than the limit, so that more are known of; what a cursor keeps comes last.

        Raises:
            ToolFailed: a value is not what its column holds.
        """
        columns, keys = self.shown_columns(query), self.sort_keys(query)
        cells = [
            self._dialect.cell(self._clause(column), column, most).label(f"c{index}")
            for index, column in enumerate(columns)
        ]
        kept = [
            self._dialect.key(key.expression, key.column).label(f"k{index}")
            for index, key in enumerate(keys if self._table.key else ())
        ]
        statement = sa.select(*cells, *kept).select_from(self._table.clause)
        if query.filters.members:
            statement = statement.where(self._group(query.filters))
        if after is not None:
            statement = statement.where(self._after(keys, after))
        for key in keys:
            ordered = key.expression.desc() if key.descending else key.expression.asc()
            nullable = key.column.nullable
            statement = statement.order_by(
                *(self._dialect.nulls_last(ordered, key.expression) if nullable else [ordered])
            )
        return statement.limit(query.limit + 1)

    def _clause(self, column: Column) -> Expression:
        return self._table.clause.c[column.name]

    def _sort_key(self, name: str, *, descending: bool) -> SortKey:
        column = self._table.columns[name]
        return SortKey(column, self._dialect.operand(self._clause(column), column), descending)

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

    def _after(self, keys: Sequence[SortKey], after: Sequence[KeyValue]) -> Expression:
        """Select the rows that come after the one with these values; where it is null, all of those were before."""
        ways: list[Expression] = []
        same: list[Expression] = []
        for key, value in zip(keys, after, strict=True):
            if value is None:
                same.append(key.expression.is_(None))
                continue
            bound = self._dialect.bound_key(value, key.column)
            beyond = key.expression < bound if key.descending else key.expression > bound
            if key.column.nullable:
                beyond = sa.or_(beyond, key.expression.is_(None))
            ways.append(sa.and_(*same, beyond))
            same.append(key.expression == bound)
        return sa.or_(*ways) if ways else sa.false()


def _whole_pattern(pattern: str, place: str) -> str:
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        raise ToolFailed(
            INVALID_PARAMETER,
            f"Parameter '{place}' must be a pattern that does not end in a single backslash, which takes the next "
            "character literally.",
        )
    return pattern
