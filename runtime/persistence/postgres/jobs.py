"""Wake up workers by procrastinate: one job for each run that may start, inserted in the transaction that decides so.

A job carries no work: the worker that fetches it claims the most urgent run in `runs`, which is the truth. Locks,
retries, schedules and job results of procrastinate are not used (docs/decisions/0019).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, LiteralString

from loguru import logger
from procrastinate import App, PsycopgConnector
from procrastinate.connector import Notify
from procrastinate.exceptions import ConnectorException
from procrastinate.schema import SchemaManager
from procrastinate.worker import Worker
from psycopg import Error as DriverError
from sqlalchemy import Connection
from sqlalchemy.util import await_only

from toolweave.errors import PersistenceError
from toolweave.runtime.persistence.postgres.database import Pool

QUEUE = "toolweave"
TASK = "toolweave:execute"
# Notifications wake a worker; this finds jobs whose notification was lost.
POLLING_INTERVAL_S = 2.0
RETRY_DELAY_S = 0.25
LOCK_PROCRASTINATE = "SELECT pg_advisory_xact_lock(hashtextextended('procrastinate', 0))"
# The table exists in all versions, the function since version 3, whose later versions keep it.
FIND_PROCRASTINATE = "SELECT to_regclass('procrastinate_jobs'), to_regproc('procrastinate_defer_jobs_v1')"
# Executes the most urgent run; it returns when the run has ended.
ExecuteNext = Callable[[], Awaitable[None]]


class PatientConnector(PsycopgConnector):
    """A connector that waits for a server that restarts; procrastinate's worker would stop instead."""

    async def execute_query_async(self, query: LiteralString, **arguments: Any) -> None:
        """Execute a statement."""
        await _retried(super().execute_query_async, query, arguments)

    async def execute_query_one_async(self, query: LiteralString, **arguments: Any) -> dict[str, Any]:
        """Execute a statement and return its row."""
        row: dict[str, Any] = await _retried(super().execute_query_one_async, query, arguments)
        return row

    async def execute_query_all_async(self, query: LiteralString, **arguments: Any) -> list[dict[str, Any]]:
        """Execute a statement and return its rows."""
        rows: list[dict[str, Any]] = await _retried(super().execute_query_all_async, query, arguments)
        return rows

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        """Receive notifications until cancelled; connect again after a lost connection."""
        channels = tuple(channels)
        while True:
            try:
                await super().listen_notify(on_notification, channels)
            except ConnectorException as error:
                logger.warning("the notifications of jobs are not received: {}. Trying again.", error)
            await asyncio.sleep(RETRY_DELAY_S)


async def _retried(execute: Callable[..., Awaitable[Any]], query: LiteralString, arguments: dict[str, Any]) -> Any:
    while True:
        try:
            return await execute(query, **arguments)
        except ConnectorException as error:
            # A statement that fails for another reason than the connection would fail again.
            if getattr(error.__cause__, "sqlstate", None) not in (None, "57P01", "57P02", "57P03"):
                raise
            logger.debug("the queue of jobs cannot be used: {}", error)
            await asyncio.sleep(RETRY_DELAY_S)


class JobQueue:
    """The queue of wake-ups; every process inserts jobs, workers fetch them."""

    def __init__(self) -> None:
        # Each job is logged with its run by the engine.
        logging.getLogger("procrastinate").setLevel(logging.WARNING)
        self._app = App(connector=PatientConnector())
        self._execute_next: ExecuteNext | None = None
        self._task = self._app.task(name=TASK, queue=QUEUE)(self._run_job)

    def dispatch(self, connection: Connection, run_id: str) -> None:
        """Insert a job in the transaction of the connection; `run_id` is for the eyes of an operator."""
        driver: Any = connection.connection.driver_connection
        try:
            await_only(self._task.configure(connection=driver).defer_async(run_id=run_id))
        except ConnectorException as error:
            raise error.__cause__ if isinstance(error.__cause__, DriverError) else error from error

    async def work(self, pool: Pool, execute_next: ExecuteNext, slots: int, stopping: asyncio.Event) -> None:
        """Execute up to `slots` runs at a time until `stopping` is set and all of them have ended.

        `pool` leads to the database directly, because notifications do not pass through PgBouncer.
        """
        self._execute_next = execute_next
        await self._app.connector.open_async(pool)
        worker = Worker(
            self._app,
            queues=[QUEUE],
            concurrency=slots,
            fetch_job_polling_interval=POLLING_INTERVAL_S,
            # Cancelling a run is our own task: see the engine.
            abort_job_polling_interval=3600.0,
            delete_jobs="always",
            install_signal_handlers=False,
        )
        running = asyncio.create_task(worker.run(), name="job-queue")  # type: ignore[no-untyped-call]
        try:
            stopped = asyncio.create_task(stopping.wait())
            await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
        finally:
            worker.stop()  # type: ignore[no-untyped-call]
            await running

    async def _run_job(self, run_id: str) -> None:  # noqa: ARG002 - see `dispatch`
        assert self._execute_next is not None  # noqa: S101 - only `work` fetches jobs
        await self._execute_next()


async def prepare_procrastinate(pool: Pool) -> None:
    """Create procrastinate's tables and functions if they are absent.

    Raises:
        PersistenceError: they are of an older version of procrastinate.
    """
    async with pool.connection() as connection, connection.transaction():
        await connection.execute(LOCK_PROCRASTINATE)
        table, function = await (await connection.execute(FIND_PROCRASTINATE)).fetchone() or (None, None)
        if table is None:
            await connection.execute(SchemaManager.get_schema())
        elif function is None:
            raise PersistenceError(
                "The database has the tables of an older procrastinate: run the migrations of procrastinate, or use "
                "another database or schema (TOOLWEAVE_DATABASE_URL)."
            )
