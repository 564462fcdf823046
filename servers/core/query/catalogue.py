"""Look at the tables that may be read, and remember what was seen for a while (C-03)."""

import asyncio
import time
from collections.abc import Collection, Iterable

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.config.query_tables import AllowedTable
from toolweave.servers.core.query.database import QueryDatabase
from toolweave.servers.core.query.tables import Column, Table
from toolweave.servers.error_codes import NOT_FOUND, ToolFailed

KEPT_FOR_S = 60.0


class Catalogue:
    """The tables by the names that callers use; looked at again when they are old, or lack what is asked for."""

    def __init__(self, allowed: Iterable[AllowedTable], database: QueryDatabase) -> None:
        self._allowed = {table.label: table for table in allowed}
        self._database = database
        self._seen: dict[str, tuple[float, Table]] = {}
        self._looking = asyncio.Lock()

    @property
    def labels(self) -> list[str]:
        """List the names of the tables that may be read."""
        return list(self._allowed)

    def allowed(self, label: str) -> AllowedTable | None:
        """Give what the setting says of a table; None of one that may not be read."""
        return self._allowed.get(label)

    async def table(self, label: str, needed: Collection[str] = ()) -> Table:
        """Describe an allowed table; one that lacks a column of `needed` is looked at again.

        Raises:
            ToolFailed: the database has no such table.
            SQLAlchemyError: the database cannot be asked.
        """
        if found := self._current(label, needed):
            return found
        seen_at = self._seen[label][0] if label in self._seen else 0.0
        async with self._looking:
            # Others who waited for the same may have looked meanwhile.
            if label in self._seen and self._seen[label][0] > seen_at and (found := self._current(label, ())):
                return found
            table = await self._look(self._allowed[label])
            self._seen[label] = (time.monotonic(), table)
            return table

    def forget(self, label: str) -> None:
        """Look again the next time: the database disagrees with what was seen."""
        self._seen.pop(label, None)

    def _current(self, label: str, needed: Collection[str]) -> Table | None:
        seen_at, table = self._seen.get(label, (0.0, None))
        if table is None or time.monotonic() - seen_at > KEPT_FOR_S:
            return None
        return table if all(name in table.columns for name in needed) else None

    async def _look(self, allowed: AllowedTable) -> Table:
        async def look(connection: AsyncConnection) -> Table | None:
            return await connection.run_sync(self._described, allowed)

        table = await self._database.run(look)
        if table is None or not table.columns:
            self.forget(allowed.label)
            raise ToolFailed(
                NOT_FOUND,
                f"The table '{allowed.label}' may be read, but the database has none of that name.",
                f"Use another table of {', '.join(self.labels)}, or ask the operator to check "
                "TOOLWEAVE_QUERY_TABLES and TOOLWEAVE_QUERY_DATABASE_URL.",
            )
        return table

    def _described(self, connection: sa.Connection, allowed: AllowedTable) -> Table | None:
        inspector = sa.inspect(connection)
        schema = allowed.schema or inspector.default_schema_name
        try:
            columns = self._readable(inspector.get_columns(allowed.name, schema), allowed)
            key = tuple(inspector.get_pk_constraint(allowed.name, schema)["constrained_columns"])
        except sa.exc.NoSuchTableError:
            # SQLite has columns for a name with other capitals, but no key.
            return None
        clause = sa.table(allowed.name, *(sa.column(name, each.type) for name, each in columns.items()), schema=schema)
        return Table(allowed.label, clause, columns, key if set(key) <= columns.keys() else ())

    def _readable(self, reflected: Iterable[ReflectedColumn], allowed: AllowedTable) -> dict[str, Column]:
        dialect = self._database.dialect
        columns = {column["name"]: dialect.described(column) for column in reflected}
        if allowed.columns is None:
            return columns
        return {name: columns[name] for name in allowed.columns if name in columns}
