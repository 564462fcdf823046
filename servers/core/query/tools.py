"""Provide the tool query_database (C-03): its parameters, the SELECT of a query, and the result's rows.

The SELECT is built with SQLAlchemy: every value is bound, and every name was looked up before (decision 0015).
"""

import asyncio
import operator
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import sqlalchemy as sa
from fastmcp.tools import ToolResult
from loguru import logger
from pydantic import Field, WithJsonSchema
from pydantic_core import to_json
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.config.settings import AllowedTable, Settings
from toolweave.errors import ConfigError
from toolweave.servers.core.query import request
from toolweave.servers.core.query.columns import MAX_CELL_LENGTH, CellFormatter, Column, Expression
from toolweave.servers.core.query.database import QueryDatabase, ReadableTable, describe_table, open_query_database
from toolweave.servers.core.query.guardrails import Guardrails, read_guardrails
from toolweave.servers.error_codes import INVALID_PARAMETER, NOT_CONFIGURED, QUERY_REFUSED, ToolFailed
from toolweave.servers.tool_server import WHOLE_NUMBER, Absent, failure, success

# JSON bytes of the rows in one result; one row is always smaller.
MAX_ROWS_BYTES = 500_000
_MAX_ROW_LENGTH = 100_000
_ROWS_PER_FETCH = 100
_DESCRIPTION_TTL_S = 60.0
_MORE_ROWS_NOTE = (
    "There are more rows. Add filters, raise the limit, or order by a column and filter for values after the last one."
)


@dataclass(slots=True)
class _Page:
    """The rows of a result that have been read so far."""

    columns: Sequence[Column]
    limit: int
    cells: CellFormatter
    rows: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0
    has_more: bool = False
    is_full: bool = False

    def add_row(self, row: sa.Row[Any]) -> bool:
        """Add a row; return False if the row or size limit is reached."""
        if len(self.rows) == self.limit:
            self.has_more = True
            return False
        cut_before = self.cells.cut_count
        cells = {column.name: column.format(value, self.cells) for column, value in zip(self.columns, row, strict=True)}
        self.size += len(to_json(cells))
        if self.rows and self.size > MAX_ROWS_BYTES:
            self.has_more = self.is_full = True
            self.cells.cut_count = cut_before
            return False
        self.rows.append(cells)
        return True

    def to_result(self) -> ToolResult:
        metadata: dict[str, Any] = {"count": len(self.rows), "limit": self.limit, "has_more": self.has_more}
        notes = []
        if self.is_full:
            notes.append("The result reached its maximum size before the row limit: name fewer columns.")
        if self.has_more:
            notes.append(_MORE_ROWS_NOTE)
        if self.cells.cut_count:
            metadata["cells_cut"] = self.cells.cut_count
            notes.append(f"Cells of more than {self.cells.max_length} characters or bytes were cut.")
        if notes:
            metadata["note"] = " ".join(notes)
        return success(self.rows, **metadata)


class QueryRunner:
    """Run the queries of one database, after the guardrails have checked them."""

    def __init__(self, database: QueryDatabase, guardrails: Guardrails) -> None:
        self._database = database
        self._guardrails = guardrails
        self._descriptions: dict[str, tuple[float, ReadableTable]] = {}

    async def run(self, query: request.TableQuery) -> ToolResult:
        """Return the first rows, up to the limit; if the table's cached description is outdated, describe it again.

        Raises:
            ToolFailed: the query is refused, or the database failed.
        """
        allowed = self._guardrails.find_table(query.table)
        described_at, cached = self._descriptions.get(query.table, (0.0, None))
        is_recent = time.monotonic() - described_at < _DESCRIPTION_TTL_S
        is_current = cached and is_recent and all(name in cached.columns for _, name in query.named_columns())
        table = cached if cached and is_current else await self._describe(allowed)
        self._guardrails.check(query, table)
        # Before a connection is opened, so that none waits for the operator's function.
        await self._guardrails.check_custom_rules(query)
        try:
            return await self._fetch(query, table)
        except ToolFailed as error:
            if table is not cached or error.code not in (INVALID_PARAMETER, QUERY_REFUSED):
                raise
        table = await self._describe(allowed)
        self._guardrails.check(query, table)
        return await self._fetch(query, table)

    async def _describe(self, allowed: AllowedTable) -> ReadableTable:
        backend = self._database.backend
        table = await self._database.run(lambda connection: connection.run_sync(describe_table, allowed, backend))
        self._descriptions[allowed.label] = (time.monotonic(), table)
        return table

    async def _fetch(self, query: request.TableQuery, table: ReadableTable) -> ToolResult:
        columns = [table.columns[name] for name in query.columns or table.columns]
        max_length = max(1, min(MAX_CELL_LENGTH, _MAX_ROW_LENGTH // len(columns)))
        statement = self._build_select(table, query, columns, max_length)

        async def read(connection: AsyncConnection) -> _Page:
            page = _Page(columns, query.limit, CellFormatter(max_length))
            # Streamed, so that rows beyond the size limit are not read.
            async with connection.stream(statement, execution_options={"yield_per": _ROWS_PER_FETCH}) as rows:
                async for row in rows:
                    if not page.add_row(row):
                        break
            return page

        return (await self._database.run(read)).to_result()

    def _build_select(
        self, table: ReadableTable, query: request.TableQuery, columns: Sequence[Column], max_length: int
    ) -> sa.Select[Any]:
        """Build the SELECT, for one row more than the limit to find out whether there are more."""
        clauses = table.clause.c
        cells = [each.select(clauses[each.name], max_length).label(f"c{i}") for i, each in enumerate(columns)]
        statement = sa.select(*cells).select_from(table.clause)
        if query.filters.members:
            statement = statement.where(_group_clause(table, query.filters))
        # The primary key comes last, for a stable order of otherwise equal rows.
        named = {item.column for item in query.order_by}
        for item in (*query.order_by, *(request.Ordering(name) for name in table.key if name not in named)):
            column = table.columns[item.column]
            operand = column.operand(clauses[item.column])
            ordered = operand.desc() if item.descending else operand.asc()
            if column.nullable and self._database.supports_nulls_last:
                ordered = ordered.nulls_last()
            elif column.nullable:
                statement = statement.order_by(sa.case((operand.is_(None), sa.literal(1)), else_=sa.literal(0)))
            statement = statement.order_by(ordered)
        return statement.limit(query.limit + 1)


def _group_clause(table: ReadableTable, group: request.ConditionGroup) -> Expression:
    members = [
        _group_clause(table, member) if isinstance(member, request.ConditionGroup) else _condition_clause(table, member)
        for member in group.members
    ]
    return sa.and_(*members) if group.kind == "and" else sa.or_(*members)


def _condition_clause(table: ReadableTable, condition: request.Condition) -> Expression:
    column, path = table.columns[condition.column], condition.value_path
    operand = column.operand(table.clause.c[column.name])
    match condition.op, condition.value:
        case "is_null", is_wanted:
            return operand.is_(None) if is_wanted else operand.is_not(None)
        case "in", tuple(values):
            return operand.in_([column.bind_value(value, f"{path}[{index}]") for index, value in enumerate(values)])
        case "like", str(pattern):
            # A backslash escapes the next character, so a trailing one is invalid.
            if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
                needed = "a pattern that does not end in a single backslash, which escapes the next character"
                raise ToolFailed(INVALID_PARAMETER, f"Parameter '{path}' must be {needed}.")
            # SQLite's LIKE ignores case already and is faster.
            like = operand.like if column.cell_form == "sqlite" else operand.ilike
            return like(sa.literal(pattern, sa.Text()), escape="\\")
        case op, (str() | int() | float()) as value if op != "like":
            compared: Expression = getattr(operator, op)(operand, column.bind_value(value, path))
            return compared
    raise ToolFailed(INVALID_PARAMETER, f"Parameter '{path}' must be text with % and _ as wildcards.")


MAX_COLUMNS = 200
MAX_ROWS = 100_000
DEFAULT_LIMIT = 100
_SCALAR_SCHEMAS = [{"type": "string", "maxLength": request.MAX_TEXT_LENGTH}, {"type": "number"}, {"type": "boolean"}]
_LIST_SCHEMA = {"type": "array", "items": {"anyOf": _SCALAR_SCHEMAS}, "minItems": 1, "maxItems": request.MAX_IN_VALUES}


def _members_schema(relation: str) -> dict[str, Any]:
    description = f"Instead of column, op and value: conditions {relation}."
    return {"type": "array", "items": {"type": "object"}, "minItems": 1, "description": description}


# Not a recursive schema, which some models refuse, although a filter may contain filters.
_CONDITION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "column": {"type": "string", "description": "The column to compare.", "maxLength": request.MAX_NAME_LENGTH},
        "op": {
            "type": "string",
            "enum": list(request.OPERATORS),
            "default": "eq",
            "description": "eq, ne, lt, le, gt, ge compare; in takes a list of values; like takes a pattern with % for "
            "any characters and _ for one, and ignores case; is_null takes true or false.",
        },
        "value": {
            "anyOf": [*_SCALAR_SCHEMAS, _LIST_SCHEMA],
            "description": "What to compare with: dates and times as ISO 8601 text, bytes in base64.",
        },
        "and": _members_schema("that must all hold"),
        "or": _members_schema("of which one must hold"),
    },
}
TableName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=2 * request.MAX_NAME_LENGTH,
        description="The table to read; the operator allows certain tables, and an error lists them.",
        examples=["todos"],
    ),
]
Filters = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [{"type": "array", "items": _CONDITION, "maxItems": request.MAX_CONDITIONS}, {"type": "object"}],
            "description": "Which rows to return: a list of conditions that must all hold, each {column, op, value} or "
            'a group {"and": […]} or {"or": […]} of these; or, for equality, an object {column: value}. '
            f"At most {request.MAX_CONDITIONS} conditions, nested at most {request.MAX_DEPTH} deep. A comparison with "
            "a row's missing value does not hold; find such rows with is_null.",
            "examples": [
                {"status": "active"},
                [{"column": "due_date", "op": "lt", "value": "2026-12-24"}],
                [
                    {
                        "or": [
                            {"column": "priority", "op": "eq", "value": "high"},
                            {"column": "title", "op": "like", "value": "%milk%"},
                        ]
                    }
                ],
            ],
        }
    ),
]
Columns = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=request.MAX_NAME_LENGTH)]],
    Field(
        min_length=1,
        max_length=MAX_COLUMNS,
        description="The columns to return; all that may be read if left out.",
        examples=[["id", "title"]],
    ),
]
OrderBy = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "maxLength": request.MAX_NAME_LENGTH},
                {
                    "type": "array",
                    "items": {"type": "string", "maxLength": request.MAX_NAME_LENGTH},
                    "maxItems": request.MAX_ORDERINGS,
                },
            ],
            "description": 'What to order the rows by: "column" for ascending, "-column" or "column desc" for '
            "descending order, or a list of these; rows without a value come last.",
            "examples": ["-created_at", ["priority", "due_date desc"]],
        }
    ),
]
Limit = Annotated[
    int,
    Field(strict=True, ge=1, le=MAX_ROWS),
    WHOLE_NUMBER,
    Field(description="How many rows to return at most; the operator may allow fewer, usually 1000.", examples=[20]),
]


class QueryTools:
    """The tool as a method. Models read its docstring and annotations.

    `runner` is a ConfigError if the operator's settings allow no queries.
    """

    def __init__(self, runner: QueryRunner | ConfigError, max_rows: int) -> None:
        self._runner = runner
        self._max_rows = max_rows

    async def query_database(
        self,
        table: TableName,
        filters: Filters | Absent = None,
        columns: Columns | Absent = None,
        order_by: OrderBy | Absent = None,
        limit: Limit = DEFAULT_LIMIT,
    ) -> ToolResult:
        """Read rows of a database table: look records up, filter and sort them.

        Use it to answer questions about stored data, such as "which todos are due this week?" or "what did this
        customer order last?". It only reads, and only the tables that the operator allows. Returns the rows as objects;
        metadata.has_more is true if there are more rows.
        """
        try:
            if isinstance(self._runner, ConfigError):
                raise ToolFailed(NOT_CONFIGURED, f"query_database cannot be used: {self._runner}")
            # The default limit is reduced silently, because the caller did not choose it.
            rows = min(limit, self._max_rows) if limit == DEFAULT_LIMIT else limit
            cols = tuple(dict.fromkeys(columns)) if columns else None
            query = request.TableQuery(table, request.parse_filters(filters), cols, request.parse_order(order_by), rows)
            return await self._runner.run(query)
        except ToolFailed as error:
            return failure(error.code, str(error), error.suggestion)


@asynccontextmanager
async def open_query_tools(settings: Settings) -> AsyncIterator[QueryTools]:
    """Open the tool; the first query connects to the database.

    If a setting is invalid, the tool logs an error and returns `not_configured`.
    """
    async with AsyncExitStack() as stack:
        runner: QueryRunner | ConfigError
        try:
            # On a thread, because the operator's module may take long to import.
            guardrails = await asyncio.to_thread(read_guardrails, settings)
            runner = QueryRunner(await stack.enter_async_context(open_query_database(settings)), guardrails)
        except ConfigError as error:
            logger.error("query_database cannot be used: {}", error)
            runner = error
        yield QueryTools(runner, settings.query_max_rows)
