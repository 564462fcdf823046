"""Keep ToolConfigs: register, find, search, replace and delete them, each in one transaction (W-01)."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.errors import Conflict, NotFound, StaleRevision
from toolweave.servers.databases.transactions import Database
from toolweave.servers.registry.gathered_reads import GatheredReads
from toolweave.servers.registry.importing import ImportReport, OnConflict, refuse_changed, refuse_twins, write_all
from toolweave.servers.registry.schema import REVISIONS, TOOLS
from toolweave.servers.registry.stored_tools import RegisteredTool, RowReader, row_of
from toolweave.servers.registry.taken_ids import free_id, portions, taken
from toolweave.servers.registry.tool_ids import folded, slug
from toolweave.servers.registry.tool_search import matching
from toolweave.tool_config import TOOL_ID, ToolConfig

_READ = (TOOLS.c.tool_id, TOOLS.c.revision, TOOLS.c.created_at, TOOLS.c.updated_at, TOOLS.c.document)


@dataclass(frozen=True, slots=True)
class ToolPage:
    """Some of the tools that were asked for, and how many there are of them in all."""

    tools: list[RegisteredTool]
    total: int


def utc_now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


class RegisteredTools:
    """The tools of one database, for the event loop it was opened on; `clock` is there so that tests own the time.

    What is stored of a tool and cannot be read any more counts as absent, with a warning in the log: it keeps its
    place in the total and on its page, its id stays taken, and `replace` and `delete` work on it.

    Every method raises PersistenceError where the database is busy, full, damaged or gone.
    """

    def __init__(self, database: Database, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._rows = RowReader()
        self._reads = GatheredReads(self._read)

    async def close(self) -> None:
        """End what is read at the moment; the registry is not used after that."""
        await self._reads.close()

    @property
    def url(self) -> sa.URL:
        """Say where the database is."""
        return self._database.engine.url

    async def find(self, tool_ids: Sequence[str]) -> dict[str, ToolConfig]:
        """Return those of the tools that there are, by id, in the order asked for."""
        wanted = [tool_id for tool_id in dict.fromkeys(tool_ids) if re.fullmatch(TOOL_ID, tool_id)]
        tools = await self._reads.find(wanted) if wanted else {}
        return {tool_id: tools[tool_id] for tool_id in wanted if tool_id in tools}

    async def get(self, tool_id: str) -> RegisteredTool | None:
        """Return one tool; None when there is none of that id."""
        if not re.fullmatch(TOOL_ID, tool_id):
            return None
        rows = await self._database.select(sa.select(*_READ).where(TOOLS.c.tool_id == tool_id))
        return next(iter(await self._rows.tools(rows)), None)

    async def registered(self, tool_ids: Sequence[str]) -> dict[str, RegisteredTool]:
        """Return those of the tools that there are, with their revisions, by id."""
        wanted = dict.fromkeys(tool_id for tool_id in tool_ids if re.fullmatch(TOOL_ID, tool_id))
        return {tool.config.tool_id: tool for tool in await self._select(list(wanted))}

    async def search(self, query: str | None = None, *, limit: int, offset: int = 0) -> ToolPage:
        """Return a page of the tools that have every word of the query in id, name, description, path or method."""
        conditions, order = matching(query)
        statement = sa.select(*_READ).where(*conditions).order_by(*order).limit(limit).offset(offset)
        async with self._database.read() as connection:
            rows = [dict(row) for row in (await connection.execute(statement)).mappings()]
            total = await connection.scalar(sa.select(sa.func.count()).select_from(TOOLS).where(*conditions))
        return ToolPage(await self._rows.tools(rows), total or 0)

    async def all(self) -> list[ToolConfig]:
        """Return every tool, in the order of their ids."""
        rows = await self._database.select(sa.select(*_READ).order_by(TOOLS.c.folded_id))
        return [tool.config for tool in await self._rows.tools(rows)]

    async def unused_id(self, name: str) -> str:
        """Make an id of a name that no tool has now; `create` with `rename` settles who gets it."""
        async with self._database.read() as connection:
            return await free_id(connection, slug(name))

    async def create(self, config: ToolConfig, *, rename: bool = False) -> RegisteredTool:
        """Register a tool; with `rename` under a numbered id like its own where that is taken.

        Raises:
            Conflict: the id is taken, if only in other case.
        """
        row = row_of(config)
        async with self._writing() as (connection, times):
            for same in (await taken(connection, [config.tool_id])).values():
                if not rename:
                    raise _conflict(config.tool_id, same["tool_id"])
                config = config.model_copy(update={"tool_id": await free_id(connection, config.tool_id)})
                row = row_of(config)
            await connection.execute(TOOLS.insert().values(row | times))
        return RegisteredTool(config, **times)

    async def replace(self, config: ToolConfig, *, revision: int | None = None) -> RegisteredTool:
        """Put a configuration in the place of the one with its id; with `revision` only of that one.

        Raises:
            NotFound: there is no such tool.
            StaleRevision: it has another revision by now.
        """
        row = row_of(config)
        async with self._writing() as (connection, times):
            times["created_at"] = (await _expected(connection, config.tool_id, revision))["created_at"]
            await connection.execute(TOOLS.update().where(TOOLS.c.tool_id == config.tool_id).values(row | times))
        return RegisteredTool(config, **times)

    async def delete(self, tool_id: str, *, revision: int | None = None) -> None:
        """Remove a tool; with `revision` only that one.

        Raises:
            NotFound: there is no such tool.
            StaleRevision: it has another revision by now.
        """
        async with self._writing() as (connection, _):
            await _expected(connection, tool_id, revision)
            await connection.execute(TOOLS.delete().where(TOOLS.c.tool_id == tool_id))

    async def import_all(
        self,
        configs: Iterable[ToolConfig],
        *,
        on_conflict: OnConflict = "error",
        revisions: Mapping[str, int] | None = None,
    ) -> ImportReport:
        """Register many tools, or none of them; those that `revisions` names only if they have these now.

        Raises:
            Conflict: an id comes twice among them, if only in other case; or `on_conflict` is "error" and ids are
                taken; or it is "replace" and ids are taken by ones of other case; or revisions have changed.
        """
        rows = await asyncio.to_thread(lambda: [row_of(config) for config in configs])
        refuse_twins([row["tool_id"] for row in rows], [row["folded_id"] for row in rows])
        async with self._writing() as (connection, times):
            await refuse_changed(connection, revisions or {})
            return await write_all(connection, rows, times, on_conflict)

    async def _read(self, tool_ids: Sequence[str]) -> dict[str, ToolConfig]:
        return {tool.config.tool_id: tool.config for tool in await self._select(tool_ids)}

    async def _select(self, tool_ids: Sequence[str]) -> list[RegisteredTool]:
        rows: list[Mapping[str, Any]] = []
        for portion in portions(tool_ids):
            given = {f"id_{place}": tool_id for place, tool_id in enumerate(portion)}
            rows += await self._database.select(_with_ids(len(portion)), given)
        return await self._rows.tools(rows)

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[tuple[AsyncConnection, dict[str, Any]]]:
        """Open a transaction that no other writes beside; give the revision and the times of what it writes."""
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        async with self._database.write() as connection:
            following = REVISIONS.update().values(last=REVISIONS.c.last + 1).returning(REVISIONS.c.last)
            revision: int = (await connection.execute(following)).scalar_one()
            yield connection, {"revision": revision, "created_at": now, "updated_at": now}


@lru_cache(maxsize=64)
def _with_ids(count: int) -> sa.Select[Any]:
    """Select tools by so many ids; the same statement each time, so that it is written out once."""
    return sa.select(*_READ).where(TOOLS.c.tool_id.in_([sa.bindparam(f"id_{place}", "") for place in range(count)]))


async def _expected(connection: AsyncConnection, tool_id: str, revision: int | None) -> sa.RowMapping:
    there = (await taken(connection, [tool_id])).get(folded(tool_id)) if re.fullmatch(TOOL_ID, tool_id) else None
    if there is None or there["tool_id"] != tool_id:
        raise NotFound(f"There is no tool {tool_id[:100]!r}.")
    if revision not in (None, there["revision"]):
        raise StaleRevision(f"The tool {tool_id} has changed: its revision is {there['revision']}, not {revision}.")
    return there


def _conflict(tool_id: str, same: str) -> Conflict:
    if tool_id == same:
        return Conflict(f"There is a tool registered as {tool_id} already.")
    return Conflict(f"The tool_id {tool_id} differs only in case from {same}, which is registered already.")
