"""Read a SQLite file, which is opened for reading only and never created; what takes too long is interrupted."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from toolweave.servers.core.query.sqlite_dialect import SQLiteDialect, sqlite_text
from toolweave.servers.databases.opened_file import OpenedFile
from toolweave.servers.error_codes import UNAVAILABLE, ToolFailed

T = TypeVar("T")
CONNECTIONS = 5
# So many steps of SQLite's machine take some tens of microseconds.
_STEPS_BETWEEN_LOOKS = 5_000


class _Limit:
    """When what runs on a connection must end."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def stop(self) -> None:
        """Let it end now."""
        self._end = 0.0

    def has_passed(self) -> bool:
        return time.monotonic() > self._end


class SQLiteDatabase:
    """A SQLite file; connections are opened with the first use, and anew when another file takes its place."""

    dialect = SQLiteDialect()

    def __init__(self, engine: AsyncEngine, file: Path, timeout_s: float) -> None:
        self._engine = engine
        self._path = file
        self._file = OpenedFile(file)
        self._timeout_s = timeout_s

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Do some reading on a connection; whoever is cancelled meanwhile leaves none that still reads.

        Raises:
            ToolFailed: there is no such file.
            SQLAlchemyError: whatever the database says.
        """
        if await asyncio.to_thread(self._has_changed):
            await self._engine.dispose()
        limit = _Limit(self._timeout_s)
        reading = asyncio.ensure_future(self._read(work, limit))
        # A connection whose use is cancelled half-way could not be used again: the database is interrupted instead.
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            limit.stop()
            reading.add_done_callback(_looked_at)
            await asyncio.wait({reading})
            raise

    async def _read(self, work: Callable[[AsyncConnection], Awaitable[T]], limit: _Limit) -> T:
        async with self._engine.connect() as connection:
            (await connection.get_raw_connection()).info["limit"] = limit
            return await work(connection)

    def _has_changed(self) -> bool:
        if not self._path.is_file():
            raise ToolFailed(
                UNAVAILABLE,
                "There is no database file yet, and query_database creates none.",
                "Ask the operator to check TOOLWEAVE_QUERY_DATABASE_URL; the todo database is there once the todo "
                "server was started.",
            )
        changed = self._file.has_gone()
        self._file.remember()
        return changed


@asynccontextmanager
async def open_sqlite(file: Path, timeout_s: float) -> AsyncIterator[SQLiteDatabase]:
    """Prepare the reading of a file; nothing is opened before it is needed."""
    engine = create_async_engine(
        _url(file),
        connect_args={"timeout": timeout_s},
        poolclass=AsyncAdaptedQueuePool,
        pool_size=CONNECTIONS,
        max_overflow=0,
        pool_timeout=timeout_s,
    )
    sa.event.listen(engine.sync_engine, "connect", _prepare)
    try:
        yield SQLiteDatabase(engine, file, timeout_s)
    finally:
        await engine.dispose()


def _url(file: Path) -> sa.URL:
    name = f"file:{quote(str(file.absolute()))}"
    return sa.URL.create("sqlite+aiosqlite", database=name, query={"mode": "ro", "uri": "true"})


def _prepare(connection: Any, record: Any) -> None:
    async def prepare(driver: Any) -> None:
        driver.text_factory = sqlite_text
        for pragma in ("query_only = ON", "trusted_schema = OFF"):
            await driver.execute_fetchall(f"PRAGMA {pragma}")
        await driver.set_progress_handler(has_passed, _STEPS_BETWEEN_LOOKS)

    def has_passed() -> bool:
        limit = record.info.get("limit")
        return limit is not None and limit.has_passed()

    connection.run_async(prepare)


def _looked_at(reading: "asyncio.Future[Any]") -> None:
    if not reading.cancelled():
        reading.exception()
