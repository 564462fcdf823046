"""Store ToolConfigs: register, find, search, replace and delete them, each in one transaction (W-01)."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.config.settings import Settings
from toolweave.errors import Conflict, NotFound, StaleRevision
from toolweave.servers.databases.database import BUSY_TIMEOUT_S, Database, open_database
from toolweave.servers.registry.stored_tools import (
    REVISIONS,
    TOOLS,
    TOOLS_DATABASE,
    RegisteredTool,
    RowReader,
    fold_id,
    format_ids,
    numbered_ids,
    search_clauses,
    tool_row,
)
from toolweave.tool_config import TOOL_ID, ToolConfig

# SQLite allows 32 766 parameters in one statement, PostgreSQL 65 535.
_IDS_PER_STATEMENT = 1_000
_IDS_PER_ATTEMPT = 100
# Long enough for hundreds of simultaneous requests.
_QUEUE_TIMEOUT_S = 30.0
_READ_COLUMNS = (TOOLS.c.tool_id, TOOLS.c.revision, TOOLS.c.created_at, TOOLS.c.updated_at, TOOLS.c.document)
# One object, so that it is compiled once.
_LAST_REVISION = sa.select(REVISIONS.c.last)
OnConflict = Literal["error", "replace", "skip"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The created, replaced and skipped ids of an import, each list in the order of the import."""

    created: list[str]
    replaced: list[str]
    skipped: list[str]


@dataclass(frozen=True, slots=True)
class ToolPage:
    """A page of the tools that match a search, and the number of all matches."""

    tools: list[RegisteredTool]
    total: int


class ToolRepository:
    """The tools in one database, for the event loop that opened it; `clock` is a parameter for tests.

    A stored tool that this version cannot read is skipped with a warning in the log. It still counts in totals and
    pages, its id stays taken, and `replace` and `delete` work on it.

    Every method raises PersistenceError if the database is busy, full, damaged or gone.
    """

    def __init__(self, database: Database, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._clock = clock
        self._row_reader = RowReader()
        self._listed: tuple[int, list[ToolConfig]] = (-1, [])

    @property
    def url(self) -> sa.URL:
        """Return the database's URL."""
        return self._database.engine.url

    async def find(self, tool_ids: Sequence[str]) -> dict[str, ToolConfig]:
        """Return the registered ones of these tools, by id, in the order of `tool_ids`."""
        tools = await self.find_registered(tool_ids)
        return {tool_id: tools[tool_id].config for tool_id in dict.fromkeys(tool_ids) if tool_id in tools}

    async def get(self, tool_id: str) -> RegisteredTool | None:
        """Return one tool; None if its id is not registered."""
        return (await self.find_registered([tool_id])).get(tool_id)

    async def find_registered(self, tool_ids: Iterable[str]) -> dict[str, RegisteredTool]:
        """Return the registered ones of these tools, with their revisions, by id."""
        rows: list[Mapping[str, Any]] = []
        for batch in batches(dict.fromkeys(tool_id for tool_id in tool_ids if re.fullmatch(TOOL_ID, tool_id))):
            values = {f"id_{place}": tool_id for place, tool_id in enumerate(batch)}
            rows += await self._database.select(_select_by_ids(len(batch)), values)
        return {tool.config.tool_id: tool for tool in await self._row_reader.read_tools(rows)}

    async def search(self, query: str | None = None, *, limit: int, offset: int = 0) -> ToolPage:
        """Return a page of the tools with every word of the query in their id, name, description, path or method."""
        conditions, order = search_clauses(query)
        statement = sa.select(*_READ_COLUMNS).where(*conditions).order_by(*order).limit(limit).offset(offset)
        async with self._database.read() as connection:
            rows = [dict(row) for row in (await connection.execute(statement)).mappings()]
            total = await connection.scalar(sa.select(sa.func.count()).select_from(TOOLS).where(*conditions))
        return ToolPage(await self._row_reader.read_tools(rows), total or 0)

    async def list_all(self) -> list[ToolConfig]:
        """Return all tools, in the order of their ids; they are read again only after a change."""
        [last] = await self._database.select(_LAST_REVISION, {})
        if last["last"] != self._listed[0]:
            rows = await self._database.select(sa.select(*_READ_COLUMNS).order_by(TOOLS.c.folded_id), {})
            self._listed = last["last"], [tool.config for tool in await self._row_reader.read_tools(rows)]
        return [*self._listed[1]]

    async def create(self, config: ToolConfig, *, rename: bool = False) -> RegisteredTool:
        """Register a tool; with `rename`, add a number to its id if that is taken.

        Raises:
            Conflict: the id is taken, possibly in other case.
        """
        row = tool_row(config)
        async with self._write_transaction() as (connection, times):
            for same in (await rows_by_id(connection, [config.tool_id])).values():
                if not rename:
                    raise _id_conflict(config.tool_id, same["tool_id"])
                config = config.model_copy(update={"tool_id": await find_free_id(connection, config.tool_id)})
                row = tool_row(config)
            await connection.execute(TOOLS.insert().values(row | times))
        return RegisteredTool(config, **times)

    async def replace(self, config: ToolConfig, *, revision: int | None = None) -> RegisteredTool:
        """Replace the tool with the same id; with `revision`, only if it still has that revision.

        Raises:
            NotFound: there is no such tool.
            StaleRevision: it has another revision.
        """
        row = tool_row(config)
        async with self._write_transaction() as (connection, times):
            times["created_at"] = (await _existing_row(connection, config.tool_id, revision))["created_at"]
            await connection.execute(TOOLS.update().where(TOOLS.c.tool_id == config.tool_id).values(row | times))
        return RegisteredTool(config, **times)

    async def delete(self, tool_id: str, *, revision: int | None = None) -> None:
        """Delete a tool; with `revision`, only if it still has that revision.

        Raises:
            NotFound: there is no such tool.
            StaleRevision: it has another revision.
        """
        async with self._write_transaction() as (connection, _):
            await _existing_row(connection, tool_id, revision)
            await connection.execute(TOOLS.delete().where(TOOLS.c.tool_id == tool_id))

    async def import_all(
        self,
        configs: Iterable[ToolConfig],
        *,
        on_conflict: OnConflict = "error",
        revisions: Mapping[str, int] | None = None,
    ) -> ImportReport:
        """Register all the tools or none; tools named in `revisions` must still have these revisions.

        Raises:
            Conflict: an id occurs twice, possibly in other case; `on_conflict` is "error" and ids are taken; it is
                "replace" and ids are taken in other case; or revisions have changed.
        """
        rows = await asyncio.to_thread(lambda: [tool_row(config) for config in configs])
        counts = Counter(row["folded_id"] for row in rows)
        if twins := [row["tool_id"] for row in rows if counts[row["folded_id"]] > 1]:
            raise Conflict(f"Tool ids occur more than once in the import: {format_ids(twins)}.")
        async with self._write_transaction() as (connection, times):
            await _check_revisions(connection, revisions or {})
            return await _write_all(connection, rows, times, on_conflict)

    @asynccontextmanager
    async def _write_transaction(self) -> AsyncIterator[tuple[AsyncConnection, dict[str, Any]]]:
        """Open a write transaction; yield its connection, and the revision and times of the rows that it writes."""
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        async with self._database.write() as connection:
            following = REVISIONS.update().values(last=REVISIONS.c.last + 1).returning(REVISIONS.c.last)
            revision: int = (await connection.execute(following)).scalar_one()
            yield connection, {"revision": revision, "created_at": now, "updated_at": now}


@lru_cache(maxsize=64)
def _select_by_ids(count: int) -> sa.Select[Any]:
    """Return the SELECT of tools by `count` ids, cached so that it is compiled once."""
    return sa.select(*_READ_COLUMNS).where(TOOLS.c.tool_id.in_([sa.bindparam(f"id_{place}") for place in range(count)]))


async def _existing_row(connection: AsyncConnection, tool_id: str, revision: int | None) -> sa.RowMapping:
    row = (await rows_by_id(connection, [tool_id])).get(fold_id(tool_id)) if re.fullmatch(TOOL_ID, tool_id) else None
    if row is None or row["tool_id"] != tool_id:
        raise NotFound(f"There is no tool {tool_id[:100]!r}.")
    if revision not in (None, row["revision"]):
        raise StaleRevision(f"The tool {tool_id} has changed: its revision is {row['revision']}, not {revision}.")
    return row


def _id_conflict(tool_id: str, same: str) -> Conflict:
    if tool_id == same:
        return Conflict(f"There is a tool registered as {tool_id} already.")
    return Conflict(f"The tool_id {tool_id} differs only in case from {same}, which is registered already.")


async def _check_revisions(connection: AsyncConnection, revisions: Mapping[str, int]) -> None:
    """Raise Conflict if tools have been deleted or have other revisions than these."""
    stored = {row["tool_id"]: row["revision"] for row in (await rows_by_id(connection, revisions)).values()}
    if changed := [tool_id for tool_id, revision in revisions.items() if stored.get(tool_id) != revision]:
        raise Conflict(f"Others have changed {format_ids(changed)} meanwhile; nothing was stored. Try again.")


async def _write_all(
    connection: AsyncConnection, rows: Sequence[Mapping[str, Any]], times: Mapping[str, Any], on_conflict: OnConflict
) -> ImportReport:
    """Write rows with the columns of `tool_row`; `times` contains the revision and times of new rows.

    A replaced tool keeps its creation time.

    Raises:
        Conflict: `on_conflict` is "error" and ids are taken, or it is "replace" and ids are taken in other case.
    """
    stored = await rows_by_id(connection, [row["tool_id"] for row in rows])
    old = {row["tool_id"]: stored[row["folded_id"]] for row in rows if row["folded_id"] in stored}
    refused = {"error": list(old), "replace": [i for i, row in old.items() if row["tool_id"] != i], "skip": []}
    if refused[on_conflict]:
        raise Conflict(f"Tools are registered already, if only in other case, as {format_ids(refused[on_conflict])}.")
    replaced = list(old) if on_conflict == "replace" else []
    for batch in batches(replaced):
        await connection.execute(TOOLS.delete().where(TOOLS.c.tool_id.in_(batch)))
    written = [row for row in rows if row["tool_id"] not in old or on_conflict == "replace"]
    created = {tool_id: {"created_at": old[tool_id]["created_at"]} for tool_id in replaced}
    if written:
        values = [{**row, **times, **created.get(row["tool_id"], {})} for row in written]
        await connection.execute(sa.insert(TOOLS), values)
    return ImportReport(
        created=[row["tool_id"] for row in written if row["tool_id"] not in old],
        replaced=replaced,
        skipped=list(old) if on_conflict == "skip" else [],
    )


def batches(items: Iterable[T], size: int = _IDS_PER_STATEMENT) -> Iterator[Sequence[T]]:
    """Yield the items in batches of `size`, by default as many as one statement may contain."""
    iterator = iter(items)
    while batch := tuple(islice(iterator, size)):
        yield batch


async def rows_by_id(connection: AsyncConnection, tool_ids: Iterable[str]) -> dict[str, sa.RowMapping]:
    """Return the rows, without documents, whose ids equal one of `tool_ids` in any case; by folded id."""
    columns = (TOOLS.c.tool_id, TOOLS.c.folded_id, TOOLS.c.revision, TOOLS.c.created_at)
    found: dict[str, sa.RowMapping] = {}
    for batch in batches({fold_id(tool_id) for tool_id in tool_ids}):
        rows = await connection.execute(sa.select(*columns).where(TOOLS.c.folded_id.in_(batch)))
        found |= {row["folded_id"]: row for row in rows.mappings()}
    return found


async def find_free_id(connection: AsyncConnection, tool_id: str) -> str:
    """Return the id if it is free, else the first free numbered variant of it."""
    for candidates in batches(numbered_ids(tool_id), _IDS_PER_ATTEMPT):
        stored = await rows_by_id(connection, candidates)
        if free := next((candidate for candidate in candidates if fold_id(candidate) not in stored), None):
            return free
    raise AssertionError("the numbered ids have no end")


@asynccontextmanager
async def open_tool_registry(settings: Settings) -> AsyncIterator[ToolRepository]:
    """Open the registry at TOOLWEAVE_TOOLS_DATABASE_URL, else TOOLWEAVE_DATABASE_URL, else tools.db in the data folder.

    Raises:
        ConfigError: the URL is invalid, or its driver is not installed.
        NewerSchema: a newer Toolweave wrote the database; nothing was changed.
        PersistenceError: it cannot be opened; the message contains its name and the fix.
    """
    async with open_registry_at(await asyncio.to_thread(database_url, settings)) as registry:
        yield registry


@asynccontextmanager
async def open_registry_at(
    url: str | sa.URL, *, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> AsyncIterator[ToolRepository]:
    """Open the registry in the database at a SQLAlchemy URL; raises as `open_tool_registry`."""
    async with open_database(
        url, TOOLS_DATABASE, busy_timeout_s=busy_timeout_s, queue_timeout_s=_QUEUE_TIMEOUT_S
    ) as database:
        yield ToolRepository(database)


def database_url(settings: Settings) -> str:
    """Return the URL from the settings, by default of the SQLite file in the data folder."""
    return settings.tools_database_url or f"sqlite+aiosqlite:///{settings.data_dir.absolute() / 'tools.db'}"
