"""Open PostgreSQL for the event loop: the same synchronous work functions as on SQLite, executed in greenlets.

Each unit of work is one transaction on a pooled connection. A transaction that fails because of a lost connection, a
deadlock or a restarting server is executed again, so a work function must not have effects outside the database.
The pool's connections carry no session state, so they may pass through PgBouncer in transaction mode.
"""

import asyncio
import select
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import psycopg
from loguru import logger
from psycopg import sql
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from sqlalchemy import Connection, NullPool
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.util import greenlet_spawn

from toolweave.errors import PersistenceError
from toolweave.postgresql import failure_reason
from toolweave.runtime.background import background_task
from toolweave.runtime.persistence.database import DATABASE_SETTING, DISPATCHER, PostgresAddress, taken_topics
from toolweave.runtime.persistence.retries import RETRY_FOR_S, driver_error, retry_while_away

T = TypeVar("T")
Work = Callable[[Connection], Any]
RawConnection = psycopg.AsyncConnection[Any]


class Pool(AsyncConnectionPool[RawConnection]):
    """A pool that loses neither the cancellation of a task that uses a connection nor the connection."""

    async def getconn(self, timeout: float | None = None) -> RawConnection:  # noqa: ASYNC109 - as in the class above
        """Take a connection; raise a cancellation that `asyncio.wait_for` of Python 3.11 has swallowed."""
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        connection = await super().getconn(timeout)
        if task and task.cancelling() > before:
            await self.putconn(connection)
            raise asyncio.CancelledError
        return connection


# How long a connection is used without a statement that checks it.
CHECK_INTERVAL_S = 2.0
# A process that is frozen in a transaction must not hold the locks that others need to continue its runs.
BEGIN = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '10s'"

CHANNEL = "toolweave"
SEPARATOR = ","
# PostgreSQL allows 8000 bytes.
MAX_PAYLOAD_CHARS = 7900
RECONNECT_DELAY_S = 0.5
# Receives the topics of one notification; an empty list after a reconnection, when any topic may have been missed.
OnTopics = Callable[[list[str]], None]


class Wakeups:
    """Publish topics to all processes of the database, and receive theirs; a process receives its own, too.

    A topic is a hint that something has changed, with ids and no data. Notifications can be lost, so every waiter also
    reads the database at intervals. A process has one connection that listens.
    """

    def __init__(self, pool: Pool, url: str, arguments: dict[str, Any]) -> None:
        self._pool = pool
        self._url = url
        self._arguments = arguments
        self._topics: dict[str, None] = {}
        self._sender: asyncio.Task[None] | None = None
        self._listeners: set[OnTopics] = set()
        self._is_listening = asyncio.Event()

    def publish(self, topics: Iterable[str]) -> None:
        """Send topics soon, together with all others that are published until then."""
        self._topics.update(dict.fromkeys(topics))
        if self._topics and self._sender is None:
            self._sender = asyncio.create_task(self._send(), name="wakeups")

    def add_listener(self, listener: OnTopics) -> None:
        """Call `listener` with the topics of each notification, on the event loop."""
        self._listeners.add(listener)

    def remove_listener(self, listener: OnTopics) -> None:
        """Stop calling a listener."""
        self._listeners.discard(listener)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Receive notifications inside the block; at its end send what is unsent."""
        async with background_task(self._listen(), "wakeups-listen"):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_listening.wait(), 5)
            try:
                yield
            finally:
                if self._sender is not None:
                    await self._sender

    async def _send(self) -> None:
        # Not in the transactions: a NOTIFY holds a lock of the whole database until its transaction is on disk.
        try:
            while self._topics:
                payload = self._take_payload()
                async with self._pool.connection() as connection:
                    await connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload))
        except (psycopg.Error, PoolTimeout) as error:
            logger.debug("a notification could not be sent: {}", error)
        finally:
            self._sender = None

    def _take_payload(self) -> str:
        taken: list[str] = []
        length = 0
        while self._topics:
            topic = next(iter(self._topics))
            length += len(topic) + 1
            if length > MAX_PAYLOAD_CHARS and taken:
                break
            del self._topics[topic]
            taken.append(topic)
        return SEPARATOR.join(taken)

    async def _listen(self) -> None:
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    self._url, autocommit=True, **self._arguments
                ) as connection:
                    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
                    self._is_listening.set()
                    self._deliver([])
                    async for notification in connection.notifies():
                        self._deliver(notification.payload.split(SEPARATOR))
            except psycopg.Error as error:
                self._is_listening.clear()
                logger.warning("notifications of the database are not received: {}. Trying again.", error)
            await asyncio.sleep(RECONNECT_DELAY_S)

    def _deliver(self, topics: list[str]) -> None:
        for listener in tuple(self._listeners):
            listener(topics)


class PostgresDatabase:
    """One PostgreSQL database, used from the event loop; open it with `open_postgres`."""

    def __init__(self, pool: Pool, wakeups: Wakeups, label: str) -> None:
        self.pool = pool
        self.wakeups = wakeups
        self.label = label
        # Gives a run to the workers, inside the transaction that made it startable.
        self.dispatcher: Callable[[Connection, str], None] = _no_worker
        self._adopted: RawConnection | None = None
        self._adoption = asyncio.Lock()
        self._engine = create_async_engine(
            "postgresql+psycopg://",
            async_creator=self._adopted_connection,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            use_native_hstore=False,
        )
        self._connections: WeakKeyDictionary[RawConnection, Connection] = WeakKeyDictionary()
        self._local_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._lock_slots = asyncio.Semaphore(max(1, pool.max_size // 2))
        self._queue: deque[tuple[Work, asyncio.Future[Any] | None]] = deque()
        self._queue_task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def write(self, work: Callable[[Connection], T], *, after_queued: bool = False) -> T:
        """Run work in a transaction and return its result after the commit.

        With `after_queued` it runs after all work that `queue_write` has queued; both are executed again if the
        connection breaks during the commit, so they must be repeatable. Cancelling the caller does not cancel the work.

        Raises:
            PersistenceError: the database could not store it; nothing of this work is stored, unless the connection
                broke during the commit.
            Exception: any error of the work itself; nothing of this work is stored.
        """
        if after_queued and self._queue_task is not None:
            future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            self._queue.append((work, future))
            return await asyncio.shield(future)
        task = asyncio.create_task(self._transact(work, is_repeatable=after_queued))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def execute(self, statement: str, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Execute one statement, which is a transaction of its own, and return its rows. Raises PersistenceError."""

        async def execute(raw: RawConnection) -> Sequence[Any]:
            cursor = await raw.execute(statement.encode(), parameters)
            return await cursor.fetchall() if cursor.description is not None else ()

        return await self.attempt(execute)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run work that only reads; each of its statements sees all committed writes."""
        return await self.attempt(partial(self._run_read, work))

    def queue_write(self, work: Callable[[Connection], object]) -> None:
        """Queue work after all earlier queued work without waiting; a failure is logged."""
        self._queue.append((work, None))
        if self._queue_task is None:
            self._queue_task = asyncio.create_task(self._drain_queue(), name="postgres-queue")

    @asynccontextmanager
    async def hold_lock(self, name: str) -> AsyncIterator[None]:
        """Exclude other blocks of this name in all processes. It needs a connection of its own."""
        # A process holds or waits for a name once, and leaves connections for the work inside of the blocks.
        has_ended = False
        try:
            async with (
                self._local_locks.setdefault(name, asyncio.Lock()),
                self._lock_slots,
                self.pool.connection() as raw,
                raw.transaction(),
            ):
                await raw.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (name,))
                yield
                has_ended = True
        except psycopg.Error as error:
            if not has_ended:
                raise to_persistence_error(self.label, error) from error

    async def require_writable(self) -> None:
        """Check that the database can store data. Raises PersistenceError."""
        statement = "UPDATE alembic_version SET version_num = version_num"
        await self.write(lambda connection: connection.exec_driver_sql(statement))

    async def close(self) -> None:
        """Wait until all started and queued work has ended."""
        while self._tasks or self._queue_task is not None:
            await asyncio.wait([*self._tasks, *([self._queue_task] if self._queue_task else [])])
        for connection in tuple(self._connections.values()):
            if not connection.invalidated:
                connection.detach()

    async def _drain_queue(self) -> None:
        """Run all queued work, as much as possible in one transaction."""
        try:
            while self._queue:
                batch = list(self._queue)
                self._queue.clear()
                unawaited = [work for work, future in batch if future is None]
                if len(unawaited) == len(batch):
                    await self._run_unawaited(unawaited)
                    continue
                for work, future in batch:
                    if future is None:
                        await self._run_unawaited([work])
                    else:
                        await self._run_awaited(work, future)
        finally:
            self._queue_task = None

    async def _run_unawaited(self, works: list[Work]) -> None:
        def run_all(connection: Connection) -> None:
            for work in works:
                work(connection)

        try:
            await self._transact(run_all, is_repeatable=True)
        except Exception as error:  # noqa: BLE001 - no caller waits for it
            if len(works) > 1:
                # One of them is at fault; the others are stored.
                for work in works:
                    await self._run_unawaited([work])
                return
            logger.opt(exception=error).error("A queued write to {} failed and is not stored.", self.label)

    async def _run_awaited(self, work: Work, future: "asyncio.Future[Any]") -> None:
        try:
            result = await self._transact(work, is_repeatable=True)
        except Exception as error:  # noqa: BLE001 - the caller gets it
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(result)

    async def _transact(self, work: Callable[[Connection], T], *, is_repeatable: bool) -> T:
        return await self.attempt(partial(self._run_transaction, work, is_repeatable=is_repeatable))

    async def attempt(self, execute: Callable[[RawConnection], Awaitable[T]]) -> T:
        """Call a function with a connection; after a failure that says nothing about its work, call it again."""

        async def connect_and_execute() -> T:
            async with self.pool.connection() as raw:
                return await execute(raw)

        try:
            return await retry_while_away(connect_and_execute, (DBAPIError, psycopg.Error))
        except (DBAPIError, psycopg.Error) as error:
            raise to_persistence_error(self.label, error) from error

    async def _run_read(self, work: Callable[[Connection], T], raw: RawConnection) -> T:
        return await greenlet_spawn(work, self._connections.get(raw) or await self._adopt(raw))

    async def _run_transaction(self, work: Callable[[Connection], T], raw: RawConnection, *, is_repeatable: bool) -> T:
        connection = self._connections.get(raw) or await self._adopt(raw)
        taken_topics(connection)
        connection.info[DISPATCHER] = self.dispatcher
        await raw.execute(BEGIN)
        try:
            result = await greenlet_spawn(work, connection)
        except BaseException:
            if not raw.closed:
                await raw.execute("ROLLBACK")
            raise
        try:
            await raw.execute("COMMIT")
        except psycopg.OperationalError as error:
            if is_repeatable:
                raise
            raise PersistenceError(
                f"{self.label}: the connection broke while this change was committed, so it may be stored or not. "
                "Read the resource before you repeat the request."
            ) from error
        self.wakeups.publish(taken_topics(connection))
        return result

    async def _adopt(self, raw: RawConnection) -> Connection:
        """Return SQLAlchemy's connection over one of the pool's; the pool keeps opening and closing it."""
        async with self._adoption:
            for lost in [each for each in self._connections if each.closed]:
                del self._connections[lost]
            self._adopted = raw
            connection: Connection = await greenlet_spawn(self._engine.sync_engine.connect)
            self._connections[raw] = connection
            return connection

    async def _adopted_connection(self) -> RawConnection:
        assert self._adopted is not None  # noqa: S101 - only `_adopt` connects
        return self._adopted


def _no_worker(_connection: Connection, _run_id: str) -> None:
    """Leave a run to the workers' search for runs that no job mentions."""


def to_persistence_error(label: str, error: Exception) -> Exception:
    """Convert a database failure to a PersistenceError; return any other error unchanged.

    A violated constraint is returned unchanged, because the work that caused it handles it.
    """
    cause = driver_error(error)
    if isinstance(cause, psycopg.IntegrityError | psycopg.ProgrammingError | psycopg.DataError):
        return error
    reason = "is busy: all connections are in use" if isinstance(cause, PoolTimeout) else failure_reason(cause)
    return PersistenceError(f"The database {label} {reason}.")


async def scalar(connection: RawConnection, query: str | sql.Composed, parameters: Sequence[str] = ()) -> Any:
    """Execute a query and return the first column of its first row, None without one."""
    row = await (await connection.execute(query, parameters)).fetchone()
    return row and row[0]


class _Check:
    """Check a connection before it is used: without a statement if it was checked shortly before.

    A server that stops or fails closes its connections, which the socket shows; only a connection that was lost
    silently needs a statement.
    """

    def __init__(self) -> None:
        self._checked: WeakKeyDictionary[RawConnection, float] = WeakKeyDictionary()

    async def __call__(self, connection: RawConnection) -> None:
        now = time.monotonic()
        if now - self._checked.get(connection, 0.0) < CHECK_INTERVAL_S and not _is_readable(connection):
            return
        await AsyncConnectionPool.check_connection(connection)
        self._checked[connection] = now


def _is_readable(connection: RawConnection) -> bool:
    """Return whether an idle connection has received something: its end, or a notice."""
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))


async def _leave_unchanged(_connection: RawConnection) -> None:
    """Return at once: connections carry no session state."""


async def _set_autocommit(connection: RawConnection) -> None:
    await connection.set_autocommit(True)


async def forget_at_a_crash(connection: RawConnection) -> None:
    """Commit without waiting for the disk: a crash of the server loses the changes of the last moments."""
    await _set_autocommit(connection)
    await connection.execute("SET synchronous_commit TO off")


@asynccontextmanager
async def open_pool(
    address: PostgresAddress,
    name: str,
    size: int,
    *,
    direct: bool = False,
    configure: Callable[[RawConnection], Awaitable[None]] = _set_autocommit,
) -> AsyncIterator[Pool]:
    """Open a pool whose connections are checked before each use.

    Raises:
        ConfigError: the URL is invalid.
        PersistenceError: the database cannot be reached.
    """
    url, arguments = address.connection_arguments(name, direct=direct)
    pool = Pool(
        url,
        kwargs=arguments,
        # Not an argument: procrastinate passes it to the connections that it opens beside the pool.
        configure=configure,
        min_size=1,
        max_size=size,
        open=False,
        check=_Check(),
        # With it the pool's own tasks take connections back: a cancelled caller would lose its connection.
        reset=_leave_unchanged,
        timeout=RETRY_FOR_S,
        name=name,
    )
    try:
        first = await psycopg.AsyncConnection.connect(url, autocommit=True, **arguments)
        await first.close()
    except psycopg.Error as error:
        raise PersistenceError(
            f"The database {address.label} {failure_reason(error)}. Check {DATABASE_SETTING} and that the server "
            "accepts your user."
        ) from error
    async with pool:
        yield pool


@asynccontextmanager
async def open_postgres(address: PostgresAddress, *, size: int) -> AsyncIterator[PostgresDatabase]:
    """Open the database with a pool of at most `size` connections and one that receives notifications.

    Raises:
        ConfigError: the URL is invalid.
        PersistenceError: the database cannot be reached.
    """
    url, arguments = address.connection_arguments("wakeups", direct=True)
    async with open_pool(address, "toolweave", size) as pool:
        wakeups = Wakeups(pool, url, arguments)
        database = PostgresDatabase(pool, wakeups, address.label)
        async with wakeups.listening():
            try:
                yield database
            finally:
                await database.close()
