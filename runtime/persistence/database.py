"""Open a SQLite file for the event loop: a writer that commits in groups and a reader, each on its own thread.

SQLite allows one writer at a time. The writer thread takes all queued jobs, runs each in its own savepoint and commits
once; a write returns only after that commit. Readers see all committed writes. Jobs use SQLAlchemy's synchronous
`Connection`, and never begin or commit a transaction.
"""

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar, cast

from loguru import logger
from sqlalchemy import Connection, NullPool, create_engine, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from toolweave.errors import CANNOT_OPEN, DISK_FULL, ConfigError, PersistenceError, sqlite_failure
from toolweave.files import make_file
from toolweave.postgresql import connect_args

T = TypeVar("T")
Work = Callable[[Connection], Any]
SqlFunctions = Mapping[str, Callable[..., str | int | float | None]]

BUSY_TIMEOUT_S = 5.0
# NORMAL with a write-ahead log: a killed process loses nothing; a power cut loses at most the last commits.
PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON")
# Limits how long the first job of a batch waits for the last.
MAX_BATCH_JOBS = 256
# More than the rest of a disk block, so that a full disk is detected.
SPACE_CHECK_BYTES = 64 * 1024


class RuntimeDatabase(Protocol):
    """A database whose work functions are synchronous: one SQLite file, or one PostgreSQL database."""

    async def write(self, work: Callable[[Connection], T], *, after_queued: bool = False) -> T:
        """Run work in a transaction and return its result after the commit.

        `after_queued` runs it after all work that `queue_write` has queued. Cancelling the caller does not cancel it.

        Raises:
            PersistenceError: the database could not store it.
            Exception: any error of the work itself; nothing of this work is stored.
        """

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run work that only reads; it sees all committed writes."""

    def queue_write(self, work: Callable[[Connection], object]) -> None:
        """Queue work after all earlier queued work without waiting; a failure is logged."""

    async def require_writable(self) -> None:
        """Check that the database can store data. Raises PersistenceError."""


DATABASE_SETTING = "TOOLWEAVE_DATABASE_URL"


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """The URLs of one database: for the pool, and a direct one if the first leads to a connection pooler."""

    url: str
    direct_url: str | None = None

    @property
    def label(self) -> str:
        """Return the database's name for messages, without a password."""
        return make_url(self.url).set(query={}).render_as_string(hide_password=True)

    def connection_arguments(self, name: str, *, direct: bool = False) -> tuple[str, dict[str, Any]]:
        """Return the connection string and psycopg's arguments.

        Statements are prepared unless a pooler stands in between.

        Raises:
            ConfigError: the URL is not one of a PostgreSQL database.
        """
        try:
            url = make_url(self.direct_url or self.url if direct else self.url)
        except (ValueError, ArgumentError) as error:
            raise ConfigError("this is not a database URL.", source=DATABASE_SETTING) from error
        options = connect_args(url, name)
        options["prepare_threshold"] = 5 if direct or self.direct_url is None else None
        return url.set(drivername="postgresql").render_as_string(hide_password=False), options


def is_sqlite(connection: Connection) -> bool:
    """Return whether a connection is one to SQLite, which runs one write transaction at a time."""
    return connection.dialect.name == "sqlite"


def lock(connection: Connection, name: str) -> None:
    """Exclude other transactions that lock this name until the end of the transaction.

    SQLite needs no lock. On PostgreSQL the statements after it see everything that earlier holders have committed.
    """
    if not is_sqlite(connection):
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0))", {"name": name})


def notify(connection: Connection, *topics: str) -> None:
    """Publish topics to all processes after the commit; a SQLite file has only one process."""
    if not is_sqlite(connection):
        connection.info.setdefault(_TOPICS, []).extend(topics)


def taken_topics(connection: Connection) -> list[str]:
    """Return the topics of the transaction that has just been committed, and forget them."""
    topics: list[str] = connection.info.pop(_TOPICS, [])
    return topics


def dispatch(connection: Connection, run_id: str) -> None:
    """Give a run to the workers, in the transaction that made it startable."""
    connection.info[DISPATCHER](connection, run_id)


_TOPICS = "toolweave_topics"
# The key of the function that `dispatch` calls, in the info of a connection to PostgreSQL.
DISPATCHER = "toolweave_dispatcher"


@dataclass(slots=True)
class DatabaseJob:
    """A queued unit of work with its result or error; without a future no caller waits for it."""

    work: Work
    future: asyncio.Future[Any] | None
    result: object = None
    error: Exception | None = None


class ConnectionThread:
    """A thread with one connection; it runs all queued jobs as a batch and wakes each event loop once per batch."""

    def __init__(self, path: Path, kind: str, connect: Callable[[], Connection]) -> None:
        self._path = path
        self._connect = connect
        self._queue: SimpleQueue[DatabaseJob | None] = SimpleQueue()
        serve = self._serve_writes if kind == "writer" else self._serve_reads
        self._thread = threading.Thread(target=serve, name=f"{path.stem}-{kind}", daemon=True)
        self._closed = True

    async def open(self) -> None:
        """Start the thread and wait until it is connected; raises the error of a failed connection."""
        self._state_change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._thread.start()
        await self._state_change
        self._closed = False

    async def close(self) -> None:
        """Run all queued jobs, then disconnect and end the thread."""
        self._closed = True
        self._state_change = asyncio.get_running_loop().create_future()
        self._queue.put(None)
        # Not in a thread of the loop's executor: executing nodes may occupy all of them.
        await self._state_change

    @property
    def queue(self) -> "SimpleQueue[DatabaseJob | None]":
        """Return the queue of jobs. Raises PersistenceError when the database is closed."""
        if self._closed:
            raise PersistenceError("The database is closed: the server is shutting down.")
        return self._queue

    def _serve_writes(self) -> None:
        """Run each job of a batch in its own savepoint and commit once; a failed commit fails all jobs."""
        for connection, jobs in self._batches():
            driver = driver_of(connection)
            try:
                with transaction(connection):
                    for job in jobs:
                        driver.execute("SAVEPOINT job")
                        try:
                            job.result = job.work(connection)
                        except Exception as error:
                            job.error = to_persistence_error(self._path, error)
                            if not driver.in_transaction:
                                raise PersistenceError(str(job.error)) from error
                            driver.execute("ROLLBACK TO job")
                        driver.execute("RELEASE job")
            except Exception as error:  # noqa: BLE001 - every caller gets it
                for job in jobs:
                    job.error = job.error or _commit_error(self._path, error)
            for job in jobs:
                if job.future is None and job.error is not None:
                    logger.opt(exception=job.error).error("A queued write to {} failed and is not stored.", self._path)

    def _serve_reads(self) -> None:
        """Run each job in its own read transaction, so that it reads one snapshot."""
        for connection, jobs in self._batches():
            driver = driver_of(connection)
            for job in jobs:
                try:
                    driver.execute("BEGIN")
                    try:
                        job.result = job.work(connection)
                    finally:
                        if driver.in_transaction:
                            driver.execute("ROLLBACK")
                except Exception as error:  # noqa: BLE001 - the caller gets it
                    job.error = to_persistence_error(self._path, error)

    def _batches(self) -> Iterator[tuple[Connection, list[DatabaseJob]]]:
        """Connect, yield the queued jobs in batches, and disconnect; wake the callers after each batch."""
        try:
            connection = self._connect()
        except Exception as error:  # noqa: BLE001 - the caller of `open` gets it
            _wake_waiters([DatabaseJob(_no_op, self._state_change, error=error)])
            return
        _wake_waiters([DatabaseJob(_no_op, self._state_change)])
        job: DatabaseJob | None = DatabaseJob(_no_op, None)
        while job is not None:
            jobs: list[DatabaseJob] = []
            job = self._queue.get()
            with suppress(Empty):
                while job is not None:
                    jobs.append(job)
                    if len(jobs) == MAX_BATCH_JOBS:
                        break
                    job = self._queue.get_nowait()
            if jobs:
                yield connection, jobs
                _wake_waiters(jobs)
        disconnect(connection)
        _wake_waiters([DatabaseJob(_no_op, self._state_change)])


class SqliteDatabase:
    """One SQLite file, used from the event loop (S-05); open it with `open_sqlite`."""

    def __init__(self, path: Path, writer: ConnectionThread, reader: ConnectionThread) -> None:
        self.path = path
        self._writer = writer
        self._reader = reader

    async def write(self, work: Callable[[Connection], T], *, after_queued: bool = False) -> T:  # noqa: ARG002
        """Run work in the writer's transaction and return its result after the commit.

        All work runs in the order of the calls, `after_queued` or not. Cancelling the caller does not cancel a queued
        write.

        Raises:
            PersistenceError: the database could not store it; nothing of this work is stored.
            Exception: any error of the work itself; nothing of this work is stored.
        """
        future = asyncio.get_running_loop().create_future()
        self._writer.queue.put(DatabaseJob(work, future))
        return cast("T", await future)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run work that only reads, in one snapshot with all committed writes."""
        future = asyncio.get_running_loop().create_future()
        self._reader.queue.put(DatabaseJob(work, future))
        return cast("T", await future)

    def queue_write(self, work: Callable[[Connection], object]) -> None:
        """Queue work after all earlier writes without waiting; a failure is logged."""
        self._writer.queue.put(DatabaseJob(work, None))

    async def require_writable(self) -> None:
        """Check that the database can store data: commit an empty write, and allocate space on its disk for a moment.

        The commit alone is not enough: SQLite reuses blocks of its log, also on a full disk.

        Raises:
            PersistenceError: the database cannot store data, and why.
        """
        await self.write(partial(_check_writable, self.path))


def _check_writable(path: Path, connection: Connection) -> None:
    connection.execute(text("UPDATE alembic_version SET version_num = version_num"))
    probe = path.with_name(f".{path.name}.space")
    try:
        with os.fdopen(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(bytes(SPACE_CHECK_BYTES))
    except OSError as error:
        raise PersistenceError(f"{path}: its folder has no free space: {error.strerror}. {DISK_FULL.fix}") from error
    finally:
        probe.unlink(missing_ok=True)


@asynccontextmanager
async def open_sqlite(
    path: Path, prepare: Callable[[Connection], object] | None = None, *, functions: SqlFunctions | None = None
) -> AsyncIterator[SqliteDatabase]:
    """Open the file, creating it if necessary, and run all queued jobs before closing it.

    `prepare` runs first, in one transaction on the writer's connection; it creates or upgrades the tables. `functions`
    are SQL functions by name.

    Raises:
        PersistenceError: the file cannot be opened, is damaged, or is not writable.
    """
    writer = ConnectionThread(path, "writer", partial(connect_writer, path, prepare, functions))
    reader = ConnectionThread(path, "reader", partial(connect_reader, path, functions))
    await writer.open()
    try:
        await reader.open()
        try:
            yield SqliteDatabase(path, writer, reader)
        finally:
            await reader.close()
    finally:
        await writer.close()


def connect_writer(
    path: Path, prepare: Callable[[Connection], object] | None, functions: SqlFunctions | None = None
) -> Connection:
    """Open the writing connection and run `prepare` in one transaction; a new file is private to its owner.

    Raises:
        PersistenceError: the file cannot be opened, is damaged, or is not writable.
    """
    with translate_errors(path):
        try:
            make_file(path)
        except OSError as error:
            raise PersistenceError(f"{path}: unable to open database file. {CANNOT_OPEN.fix}") from error
        connection = _connect(path, functions)
        try:
            if prepare is not None:
                with transaction(connection):
                    prepare(connection)
        except BaseException:
            disconnect(connection)
            raise
    return connection


def connect_reader(path: Path, functions: SqlFunctions | None = None) -> Connection:
    """Open a read-only connection."""
    with translate_errors(path):
        connection = _connect(path, functions)
        driver_of(connection).execute("PRAGMA query_only=ON")
    return connection


def _connect(path: Path, functions: SqlFunctions | None) -> Connection:
    def create() -> sqlite3.Connection:
        driver = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, cached_statements=256)
        try:
            for pragma in PRAGMAS:
                driver.execute(f"PRAGMA {pragma}")
        except sqlite3.Error:
            driver.close()
            raise
        for name, function in (functions or {}).items():
            driver.create_function(name, -1, function, deterministic=True)
        return driver

    # AUTOCOMMIT leaves BEGIN and COMMIT to us.
    engine = create_engine("sqlite://", creator=create, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    return engine.connect()


def disconnect(connection: Connection) -> None:
    """Close a connection and its engine."""
    connection.close()
    connection.engine.dispose()


def driver_of(connection: Connection) -> sqlite3.Connection:
    """Return the driver's connection of a SQLAlchemy connection."""
    return cast("sqlite3.Connection", connection.connection.driver_connection)


@contextmanager
def transaction(connection: Connection) -> Iterator[sqlite3.Connection]:
    """Run the block in a transaction with the write lock; roll back after an error."""
    driver = driver_of(connection)
    driver.execute("BEGIN IMMEDIATE")
    try:
        yield driver
        driver.execute("COMMIT")
    finally:
        # SQLite ends the transaction by itself after some failures (a full disk).
        if driver.in_transaction:
            driver.execute("ROLLBACK")


def to_persistence_error(path: Path, error: Exception) -> Exception:
    """Convert a database failure to a PersistenceError; return any other error unchanged.

    A violated constraint is returned unchanged, because the work that caused it handles it.
    """
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    if not isinstance(cause, sqlite3.DatabaseError) or isinstance(
        cause, sqlite3.IntegrityError | sqlite3.ProgrammingError
    ):
        return error
    converted = PersistenceError(f"{path}: {cause}. {sqlite_failure(cause).fix}")
    converted.__cause__ = error
    return converted


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Convert database failures inside the block by `to_persistence_error`."""
    try:
        yield
    except (sqlite3.Error, DBAPIError) as error:
        converted = to_persistence_error(path, error)
        if converted is error:
            raise
        raise converted from error


def _commit_error(path: Path, error: Exception) -> Exception:
    """Return a new error for one caller: two tasks must not share one traceback."""
    cause = to_persistence_error(path, error)
    commit_error = PersistenceError(f"This write was not stored. {cause}")
    commit_error.__cause__ = cause
    return commit_error


def _no_op(_: Connection) -> None:
    """Do nothing; the work of jobs that report an opened or closed connection."""


def _wake_waiters(jobs: list[DatabaseJob]) -> None:
    """Resolve the futures of the jobs on their loops; ignore closed loops."""
    by_loop: dict[asyncio.AbstractEventLoop, list[DatabaseJob]] = {}
    for job in jobs:
        if job.future is not None:
            by_loop.setdefault(job.future.get_loop(), []).append(job)
    for loop, loop_jobs in by_loop.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve_futures, loop_jobs)


def _resolve_futures(jobs: list[DatabaseJob]) -> None:
    for job in jobs:
        if job.future is None or job.future.done():
            pass
        elif job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
        # Free the memory: the thread references its last batch until the next one.
        job.work, job.future, job.result = _no_op, None, None
