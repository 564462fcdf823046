"""Describe one kind of database: what it is called, which setting names it, and how a new one is made."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.errors import NewerSchema


@dataclass(frozen=True, slots=True)
class DatabaseKind:
    """A kind of database; messages say such things as "the {name} is busy", with its `name`.

    `create` makes all tables; `version_table` has one row with the schema's version. A commit on SQLite survives the
    process with `synchronous` NORMAL, a power cut too with FULL.
    """

    name: str
    setting: str
    example: str
    version: int
    version_table: sa.Table
    create: Callable[[AsyncConnection], Awaitable[None]]
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"

    async def is_current(self, connection: AsyncConnection, database: str) -> bool:
        """Tell whether the schema is there.

        Raises:
            NewerSchema: a newer Toolweave wrote the database; names it and the fix.
        """
        if not await connection.run_sync(lambda sync: sa.inspect(sync).has_table(self.version_table.name)):
            return False
        version = await connection.scalar(sa.select(self.version_table.c.version))
        if version is not None and version > self.version:
            raise NewerSchema(
                f"The {self.name} {database} has schema {version}, and this Toolweave knows schemas up to "
                f"{self.version}. Nothing was changed. Upgrade Toolweave, or set {self.setting} to another database."
            )
        return version is not None

    async def make_current(self, connection: AsyncConnection, database: str) -> None:
        """Create what is absent. Raises NewerSchema."""
        if not await self.is_current(connection, database):
            await self.create(connection)
            await connection.execute(self.version_table.insert().values(version=self.version))
