"""Answer queries: have them checked, select the rows, stop where an answer is large enough (C-03).

The SELECT is written with SQLAlchemy's constructs: every value is bound, every name was looked up.
"""

import operator
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from fastmcp.tools import ToolResult
from pydantic_core import to_json
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.servers.core.query.columns import LONGEST_CELL, Cells, Column, Expression
from toolweave.servers.core.query.databases import Catalogue, Outdated, QueryDatabase, Table, explain
from toolweave.servers.core.query.guardrails import Check, refuse_by
from toolweave.servers.core.query.request import Condition, ConditionGroup, Ordering, TableQuery
from toolweave.servers.envelope import success
from toolweave.servers.error_codes import INVALID_PARAMETER, QUERY_REFUSED, QUERY_TIMEOUT, ToolFailed

# Of JSON, in one answer; one row alone is never more.
MOST_BYTES = 500_000
_MOST_IN_A_ROW = 100_000
_FETCHED_AT_ONCE = 100
_ROWS_AT_ONCE = 25
_HOW_TO_SEE_MORE = (
    "There are more rows. Filter by more, raise the limit, or order by a column and filter for values after the last."
)
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@dataclass(slots=True)
class _Page:
    """The rows of an answer as far as they are read."""

    columns: Sequence[Column]
    limit: int
    cells: Cells
    rows: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0
    has_more: bool = False
    is_full: bool = False

    def takes(self, row: sa.Row[Any]) -> bool:
        """Add a row; no where the limit is reached or the answer is large enough."""
        if len(self.rows) == self.limit:
            self.has_more = True
            return False
        cut_before = self.cells.cut
        shown = {column.name: column.shown(value, self.cells) for column, value in zip(self.columns, row, strict=True)}
        self.size += len(to_json(shown))
        if self.rows and self.size > MOST_BYTES:
            self.has_more = self.is_full = True
            self.cells.cut = cut_before
            return False
        self.rows.append(shown)
        return True

    def result(self) -> ToolResult:
        metadata: dict[str, Any] = {"count": len(self.rows), "limit": self.limit, "has_more": self.has_more}
        notes = []
        if self.is_full:
            notes.append("The answer was large enough before the limit was reached: name fewer columns.")
        if self.has_more:
            notes.append(_HOW_TO_SEE_MORE)
        if self.cells.cut:
            metadata["cells_cut"] = self.cells.cut
            notes.append(f"Cells of more than {self.cells.most} characters or bytes were cut.")
        if notes:
            metadata["note"] = " ".join(notes)
        return success(self.rows, **metadata)


class Queries:
    """The queries of one database; each passes the `chain` of guardrails first."""

    def __init__(self, database: QueryDatabase, catalogue: Catalogue, chain: Mapping[str, Check]) -> None:
        self._database = database
        self._catalogue = catalogue
        self._chain = chain

    async def answer(self, query: TableQuery) -> ToolResult:
        """Answer the first rows, up to the limit; a database that has changed under us is looked at again once.

        Raises:
            ToolFailed: the query is refused, or the database does not answer.
        """
        for _ in range(2):
            try:
                return await self._answer(query)
            except Outdated:
                self._catalogue.forget(query.table)
        raise ToolFailed(QUERY_REFUSED, "The database does not take the query.")

    async def _answer(self, query: TableQuery) -> ToolResult:
        try:
            await refuse_by(self._chain, query)
            table = await self._catalogue.table(query.table)
            columns = [table.columns[name] for name in query.columns or table.columns]
            most = max(1, min(LONGEST_CELL, _MOST_IN_A_ROW // len(columns)))
            statement = self._select(table, query, columns, most)

            async def read(connection: AsyncConnection) -> _Page:
                page = _Page(columns, query.limit, Cells(most))
                async with aclosing(_portions(connection, statement, query.limit)) as portions:
                    async for rows in portions:
                        if not all(map(page.takes, rows)):
                            break
                return page

            page = await self._database.run(read)
        except TimeoutError:
            raise ToolFailed(QUERY_TIMEOUT, "The database did not answer in time.") from None
        except (sa.exc.SQLAlchemyError, OSError) as error:
            raise explain(error) from error
        return page.result()

    def _select(self, table: Table, query: TableQuery, columns: Sequence[Column], most: int) -> sa.Select[Any]:
        """Select one row more than the limit, so that more are known of."""
        clauses = table.clause.c
        cells = [each.selected(clauses[each.name], most).label(f"c{index}") for index, each in enumerate(columns)]
        statement = sa.select(*cells).select_from(table.clause)
        if query.filters.members:
            statement = statement.where(_group(table, query.filters))
        # Rows that are alike in all else come in the order of the primary key.
        named = {item.column for item in query.order_by}
        for item in (*query.order_by, *(Ordering(name) for name in table.key if name not in named)):
            column = table.columns[item.column]
            operand = column.operand(clauses[item.column])
            ordered = operand.desc() if item.descending else operand.asc()
            if column.nullable and self._database.orders_nulls:
                ordered = ordered.nulls_last()
            elif column.nullable:
                statement = statement.order_by(sa.case((operand.is_(None), sa.literal(1)), else_=sa.literal(0)))
            statement = statement.order_by(ordered)
        return statement.limit(query.limit + 1)


def _group(table: Table, group: ConditionGroup) -> Expression:
    members = [
        _group(table, member) if isinstance(member, ConditionGroup) else _condition(table, member)
        for member in group.members
    ]
    return sa.and_(*members) if group.kind == "and" else sa.or_(*members)


def _condition(table: Table, condition: Condition) -> Expression:
    column, place = table.columns[condition.column], condition.value_place
    operand = column.operand(table.clause.c[column.name])
    match condition.op, condition.value:
        case "is_null", wanted:
            return operand.is_(None) if wanted else operand.is_not(None)
        case "in", tuple(values):
            return operand.in_([column.bound(value, f"{place}[{index}]") for index, value in enumerate(values)])
        case "like", str(pattern):
            # A backslash takes the next character literally.
            if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
                needed = "a pattern that does not end in a single backslash, which takes the next character literally"
                raise ToolFailed(INVALID_PARAMETER, f"Parameter '{place}' must be {needed}.")
            return operand.ilike(sa.literal(pattern, sa.Text()), escape="\\")
        case op, (str() | int() | float()) as value if op in _COMPARISONS:
            compared: Expression = _COMPARISONS[op](operand, column.bound(value, place))
            return compared
    raise ToolFailed(INVALID_PARAMETER, f"Parameter '{place}' must be text with % and _ as wildcards.")


async def _portions(
    connection: AsyncConnection, statement: sa.Select[Any], limit: int
) -> AsyncGenerator[Sequence[sa.Row[Any]], None]:
    """Fetch few rows at once, and many bit by bit: an answer that is large enough needs no more of them."""
    if limit <= _FETCHED_AT_ONCE:
        yield (await connection.execute(statement)).all()
        return
    result = await connection.stream(statement, execution_options={"yield_per": _ROWS_AT_ONCE})
    # As its own context it would stay open when this generator is closed half-way.
    try:
        async for rows in result.partitions():
            yield rows
    finally:
        await result.close()
