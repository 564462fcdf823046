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
from toolweave.servers.core.query.database import QueryDatabase
from toolweave.servers.core.query.failures import Outdated, told
from toolweave.servers.core.query.guardrails import Guardrails
from toolweave.servers.core.query.models import Query
from toolweave.servers.core.query.statement import Statements
from toolweave.servers.core.query.tables import Column
from toolweave.servers.envelope import success
from toolweave.servers.error_codes import QUERY_REFUSED, QUERY_TIMEOUT, ToolFailed

# Of JSON, in one answer; one row alone is never more.
MOST_BYTES = 500_000
_MOST_IN_A_ROW = 100_000
_FETCHED_AT_ONCE = 100
_ROWS_AT_ONCE = 25
_HOW_TO_SEE_MORE = (
    "There are more rows. Filter by more, raise the limit, or order by a column and filter for values after the last."
)


@dataclass(slots=True)
class _Page:
    """The rows of an answer as far as they are read."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0
    has_more: bool = False
    is_full: bool = False


class Queries:
    """The queries of one database."""

    def __init__(self, database: QueryDatabase, catalogue: Catalogue, guardrails: Guardrails) -> None:
        self._database = database
        self._catalogue = catalogue
        self._guardrails = guardrails

    async def answer(self, query: Query) -> ToolResult:
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

    async def _answer(self, query: Query) -> ToolResult:
        try:
            await self._guardrails.check(query)
            table = await self._catalogue.table(query.table)
            statements = Statements(table, self._database.dialect)
            columns = statements.shown_columns(query)
            cells = Cells(max(1, min(LONGEST_CELL, _MOST_IN_A_ROW // len(columns))))
            statement = statements.page(query, cells.most)
            page = await self._read(statement, query, columns, cells)
        except TimeoutError:
            raise ToolFailed(QUERY_TIMEOUT, "The database did not answer in time.") from None
        except (sa.exc.SQLAlchemyError, OSError) as error:
            raise told(error) from error
        return _result(page, query, cells)

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
        shown = {column.name: dialect.shown(value, column, cells) for column, value in zip(columns, row, strict=True)}
        page.size += len(to_json(shown))
        if page.rows and page.size > MOST_BYTES:
            page.has_more = page.is_full = True
            cells.cut = cut_before
            return False
        page.rows.append(shown)
        return True


def _result(page: _Page, query: Query, cells: Cells) -> ToolResult:
    metadata: dict[str, Any] = {"count": len(page.rows), "limit": query.limit, "has_more": page.has_more}
    notes = []
    if page.is_full:
        notes.append("The answer was large enough before the limit was reached: name fewer columns.")
    if page.has_more:
        notes.append(_HOW_TO_SEE_MORE)
    if cells.cut:
        metadata["cells_cut"] = cells.cut
        notes.append(f"Cells of more than {cells.most} characters or bytes were cut.")
    if notes:
        metadata["note"] = " ".join(notes)
    return success(page.rows, **metadata)


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
