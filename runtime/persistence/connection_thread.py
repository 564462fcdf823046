"""Own one database connection on one thread and run there the work that the event loop queues."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from sqlalchemy import Connection

from toolweave.errors import PersistenceError

Work = Callable[[Connection], Any]
# Bounds how long the first job of a batch waits for the last.
BATCH_LIMIT = 256


@dataclass(slots=True)
class Job:
    """One piece of work, and what became of it; without a future nobody waits for it."""

    work: Work
    future: asyncio.Future[Any] | None
    result: object = None
    error: Exception | None = None


class ConnectionThread:
    """A thread that takes all queued jobs at once, has them done, and wakes each event loop once per batch.

    `connect` runs on the thread; so do `do_batch`, which fills in every job's result or error and never raises,
    and `disconnect`.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], Connection],
        do_batch: Callable[[Connection, list[Job]], None],
        disconnect: Callable[[Connection], None],
    ) -> None:
        self._connect = connect
        self._do_batch = do_batch
        self._disconnect = disconnect
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._opened: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._closed = True

    async def open(self) -> None:
        """Start the thread and wait until its connection stands; raises what connecting raised."""
        self._opened = asyncio.get_running_loop().create_future()
        self._thread.start()
        await self._opened
        self._closed = False

    async def close(self) -> None:
        """Do everything that is queued, then disconnect and end the thread."""
        self._closed = True
        self._ended = asyncio.get_running_loop().create_future()
        self._queue.put(None)
        # Not by a thread of the loop's: all of them may be taken, by nodes that are still at work.
        await self._ended

    def submit(self, work: Work) -> asyncio.Future[Any]:
        """Queue work; the future has its result, or its error."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._put(Job(work, future))
        return future

    def submit_soon(self, work: Work) -> None:
        """Queue work that nobody waits for."""
        self._put(Job(work, None))

    def _put(self, job: Job) -> None:
        if self._closed:
            raise PersistenceError("The database is closed: the server is shutting down.")
        self._queue.put(job)

    def _serve(self) -> None:
        opened = self._opened
        assert opened is not None  # noqa: S101 - open() made it before starting the thread
        try:
            connection = self._connect()
        except Exception as error:  # noqa: BLE001 - whoever opens the database gets it
            wake(opened.get_loop(), [Job(_nothing, opened, error=error)])
            return
        wake(opened.get_loop(), [Job(_nothing, opened)])
        while self._serve_batch(connection):
            pass
        self._disconnect(connection)
        ended = self._ended
        assert ended is not None  # noqa: S101 - close() made it before it let the thread end
        wake(ended.get_loop(), [Job(_nothing, ended)])

    def _serve_batch(self, connection: Connection) -> bool:
        jobs, go_on = self._take()
        if jobs:
            self._do_batch(connection, jobs)
        by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        for job in jobs:
            if job.future is not None:
                by_loop.setdefault(job.future.get_loop(), []).append(job)
        for loop, waited_for in by_loop.items():
            wake(loop, waited_for)
        return go_on

    def _take(self) -> tuple[list[Job], bool]:
        """Take what is queued, waiting for the first job; False means that nothing will follow."""
        jobs: list[Job] = []
        job = self._queue.get()
        try:
            while job is not None:
                jobs.append(job)
                if len(jobs) == BATCH_LIMIT:
                    return jobs, True
                job = self._queue.get_nowait()
        except Empty:
            return jobs, True
        return jobs, False


def _nothing(_: Connection) -> None:
    """Be the work of a connection that has been opened."""


def wake(loop: asyncio.AbstractEventLoop, jobs: list[Job]) -> None:
    """Resolve the futures of the jobs on their loop; a loop that is gone has nobody waiting."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_resolve, jobs)


def _resolve(jobs: list[Job]) -> None:
    for job in jobs:
        if job.future is None or job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
