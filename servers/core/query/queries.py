"""Answer queries: have them checked, read the rows, stop where an answer is large enough (C-03)."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from fastmcp.tools import ToolResult
from pydantic_core import to_json
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.servers.core.query.catalogue import Catalogue
from toolweave.servers.core.query.cells import LONGEST_CELL, Cells
from toolweave.servers.core.query.cursor import LONGEST_CURSOR, decode_cursor, encode_cursor
from toolweave.servers.core.query.database import QueryDatabase
from toolweave.servers.core.query.dialect import LONGEST_KEY, KeyValue
from toolweave.servers.core.query.failures import Outdated, told
from toolweave.servers.core.query.guardrails import Guardrails
from toolweave.servers.core.query.models import Query
from toolweave.servers.core.query.statement import SortKey, Statements
from toolweave.servers.core.query.tables import Column, Table
from toolweave.servers.envelope import success
from toolweave.servers.error_codes import INVALID_PARAMETER, QUERY_REFUSED, QUERY_TIMEOUT, ToolFailed

# Of JSON, in one answer; one row alone is never more.
MOST_BYTES = 500_000
_MOST_IN_A_ROW = 100_000
_FETCHED_AT_ONCE = 100
_ROWS_AT_ONCE = 25


@dataclass(slots=True)
class _Page:
    """The rows of an answer as far as they are read; `last` is what a cursor keeps of the last one."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    last: Sequence[Any] = ()
    size: int = 0
    has_more: bool = False
    is_full: bool = False


class Queries:
    """The queries of one database."""

    def __init__(self, database: QueryDatabase, catalogue: Catalogue, guardrails: Guardrails) -> None:
        self._database = database
        self._catalogue = catalogue
        self._guardrails = guardrails

    async def answer(self, query: Query, cursor: str | None) -> ToolResult:
        """Answer a page of rows; a database that has changed under us is looked at again once.

        Raises:
            ToolFailed: the query is refused, or the database does not answer.
        """
        for _ in range(2):
            try:
                return await self._answer(query, cursor)
            except Outdated:
                self._catalogue.forget(query.table)
        raise ToolFailed(QUERY_REFUSED, "The database does not take the query.")

    async def _answer(self, query: Query, cursor: str | None) -> ToolResult:
        try:
            await self._guardrails.check(query)
            table = await self._catalogue.table(query.table)
            statements = Statements(table, self._database.dialect)
            after = _after(query, cursor, table, statements)
            columns = statements.shown_columns(query)
            cells = Cells(max(1, min(LONGEST_CELL, _MOST_IN_A_ROW // len(columns))))
            statement = statements.page(query, after, cells.most)
            page = await self._read(statement, query, columns, cells)
        except TimeoutError:
            raise ToolFailed(QUERY_TIMEOUT, "The database did not answer in time.") from None
        except (sa.exc.SQLAlchemyError, OSError) as error:
            raise told(error) from error
        return self._result(page, query, table, cells, statements.sort_keys(query))

    async def _read(self, statement: sa.Select[Any], query: Query, columns: Sequence[Column], cells: Cells) -> _Page:
        async def read(connection: AsyncConnection) -> _Page:
            page = _Page()
            async with aclosing(_portions(connection, statement, query.limit)) as portions:
                async for rows in portions:
                    if not all(self._takes(page, row, query.limit, columns, cells) for row in rows):
                        break
            return page

        return await self._database.run(read)

    def _takes(self, page: _Page, row: sa.Row[Any], limit: int, columns: Sequence[Column], cells: Cells) -> bool:
        if len(page.rows) == limit:
            page.has_more = True
            return False
        cut_before = cells.cut
        dialect = self._database.dialect
        shown = {column.name: dialect.shown(value, column, cells) for column, value in zip(columns, row, strict=False)}
        page.size += len(to_json(shown))
        if page.rows and page.size > MOST_BYTES:
            page.has_more = page.is_full = True
            cells.cut = cut_before
            return False
        page.rows.append(shown)
        page.last = row[len(columns) :]
        return True

    def _result(self, page: _Page, query: Query, table: Table, cells: Cells, keys: Sequence[SortKey]) -> ToolResult:
        metadata: dict[str, Any] = {"count": len(page.rows), "limit": query.limit, "has_more": page.has_more}
        cursor, obstacle = self._next(page, query, table, keys) if page.has_more else (None, None)
        metadata["next_cursor"] = cursor
        notes = []
        if page.is_full:
            notes.append("The answer was large enough before the limit was reached.")
        if cells.cut:
            metadata["cells_cut"] = cells.cut
            notes.append(f"Cells of more than {cells.most} characters or bytes were cut.")
        if obstacle:
            notes.append(f"There are more rows, but no cursor: {obstacle}. Filter by more to see others.")
        if notes:
            metadata["note"] = " ".join(notes)
        return success(page.rows, **metadata)

    def _next(self, page: _Page, query: Query, table: Table, keys: Sequence[SortKey]) -> tuple[str | None, str | None]:
        """Make the cursor, or say why there is none."""
        if not table.key:
            return None, "no columns that may be read tell the rows of this table apart, as a primary key does"
        if any(isinstance(value, str | bytes) and len(value) > LONGEST_KEY for value in page.last):
            return None, f"a value of more than {LONGEST_KEY} characters cannot be gone on after"
        dialect = self._database.dialect
        try:
            kept = [dialect.kept(value, key.column) for key, value in zip(keys, page.last, strict=True)]
        except ValueError as error:
            return None, str(error)
        if any(value is None and key.column.name in table.key for key, value in zip(keys, kept, strict=True)):
            return None, "the last row has no value in its primary key"
        cursor = encode_cursor(kept, query, table.key)
        if len(cursor) > LONGEST_CURSOR:
            return None, "the values to go on after are too long"
        return cursor, None


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


def _after(query: Query, cursor: str | None, table: Table, statements: Statements) -> list[KeyValue] | None:
    if cursor is None:
        return None
    keys = statements.sort_keys(query)
    after = decode_cursor(cursor, query, table.key, len(keys)) if table.key else None
    if after is None:
        raise ToolFailed(
            INVALID_PARAMETER,
            "Parameter 'cursor' must be the next_cursor of a previous answer to the same table, filters, columns and "
            "order_by.",
            "Leave cursor out to start from the beginning.",
        )
    return after
