"""Keep runs: what was asked for, how far it is, and which may start next on a thread."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, select

from toolweave.errors import NotFound
from toolweave.runtime.models import CancelAction, CreatedRun, JsonObject, NewRun, Outcome, Run, RunStatus, ThreadTtl
from toolweave.runtime.persistence import run_transitions
from toolweave.runtime.persistence.clock import utc_now
from toolweave.runtime.persistence.credentials import opened_credentials, sealed_credentials
from toolweave.runtime.persistence.database import Database
from toolweave.runtime.persistence.json_text import to_micros
from toolweave.runtime.persistence.run_creation import create_run
from toolweave.runtime.persistence.run_rows import run_by_id, run_from, run_of_thread, thread_head
from toolweave.runtime.persistence.tables import runs, threads
from toolweave.runtime.persistence.visibility import where_visible
from toolweave.sealing import Seal

# Work that belongs to a run's creation or end: in the same transaction, both or neither.
Alongside = Callable[[Connection], object]


class RunRepository:
    """The runs of all threads; the table is the truth, engines only say when.

    At most one run of a thread is running, pending ones start in the order of their creation, and a delayed one
    holds nobody up before it is due.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime] = utc_now,
        *,
        seal: Seal,
        thread_ttl: ThreadTtl | None = None,
    ) -> None:
        self._database = database
        self._seal = seal
        self._clock = clock
        self._thread_ttl = thread_ttl

    async def create_run(self, new: NewRun, alongside: Alongside | None = None) -> CreatedRun:
        """Create a pending run, applying its multitask strategy, in one transaction (langgraph_api.md 5.7).

        `alongside` runs first in that transaction; what it raises undoes everything.

        Superseded pending runs have ended (or are gone, for rollback) when this returns; a superseded running one is
        marked, and the new run becomes due when that one is finalised.

        Raises:
            NotFound: the thread does not exist and is not to be created.
            Conflict: the thread is busy and the strategy is reject, or a run with this id exists.
            InvalidRequest: metadata or kwargs are not JSON.
        """
        now = self._now()

        def work(connection: Connection) -> CreatedRun:
            if alongside is not None:
                alongside(connection)
            sealed = new.sealed or sealed_credentials(self._seal, new.credentials)
            return create_run(connection, replace(new, sealed=sealed), now, self._thread_ttl)

        return await self._database.write(work)

    async def claim(self, run_id: str) -> Run | None:
        """Take a pending run for execution and count the attempt.

        None when it is not pending, not due, or not the first in its thread's queue. `cancel` is set on a run whose
        cancellation was asked for before a crash: end it, do not execute it.
        """
        now = self._now()
        return await self._database.write(lambda connection: run_transitions.claim(connection, run_id, now))

    async def finalise(
        self, run_id: str, attempt: int, outcome: Outcome, alongside: Alongside | None = None
    ) -> str | None:
        """Write how an execution ended, run and thread in one transaction; name the thread's next due run.

        `alongside` joins that transaction when the run ends by it. A temporary run's thread is deleted. None as well
        when the run was deleted meanwhile.

        Raises:
            Conflict: `attempt` is not the one that executes the run (it was taken over, or has ended).
            RollbackAskedError: the run is to be rolled back first; nothing is written.
        """
        now = self._now()
        return await self._database.write(
            lambda connection: run_transitions.finalise(connection, run_id, attempt, outcome, now, alongside)
        )

    async def credentials(self, run: Run) -> JsonObject:
        """Decrypt the credentials of a run's caller, the parts of `Caller.credentials`.

        Raises:
            CredentialsUnreadable: the key is another one, or gone.
        """
        return await opened_credentials(self._seal, run.sealed)

    async def tell(self, run_id: str, attempt: int, told: JsonObject) -> bool:
        """Merge into the metadata of a running run, key by key, keeping all else that is there.

        False, and nothing is written, when `attempt` is not the one that executes the run.
        """
        now = self._now()
        return await self._database.write(
            lambda connection: run_transitions.tell(connection, run_id, attempt, told, now)
        )

    async def startable(self, thread_id: str) -> str | None:
        """Name the run that may start now on a thread; ask after a pending run was cancelled or a run deleted."""
        now = self._now()
        return await self._database.read(lambda connection: run_transitions.startable(connection, thread_id, now))

    async def get(self, thread_id: str, run_id: str) -> Run:
        """Return a run of a thread.

        Raises:
            NotFound: there is no such thread, or it has no such run.
        """
        return await self._database.read(lambda connection: _get(connection, thread_id, run_id))

    async def find(self, run_id: str) -> Run | None:
        """Return a run by its id alone."""

        def work(connection: Connection) -> Run | None:
            row = run_by_id.first(connection, {"of_run": run_id})
            return None if row is None else run_from(row)

        return await self._database.read(work)

    async def request_cancel(self, run_id: str, action: CancelAction) -> Run:
        """Ask for a run's end: a pending one is interrupted (or deleted, for rollback) at once, a running one marked.

        The answer's status tells which: `interrupted` means it is over.

        Raises:
            NotFound: there is no such run, or it has ended.
        """
        now = self._now()
        return await self._database.write(
            lambda connection: run_transitions.request_cancel(connection, run_id, action, now)
        )

    async def delete(self, thread_id: str, run_id: str) -> None:
        """Delete a run and its events, also while it is running (langgraph_api.md 5.9).

        Raises:
            NotFound: the thread has no such run.
        """
        now = self._now()
        await self._database.write(lambda connection: run_transitions.delete(connection, thread_id, run_id, now))

    async def recover(self) -> list[str]:
        """Make every running run pending again, keeping its attempt; name the runs that may start now.

        Only for the start of the one process that executes runs: a run it finds running has lost its process.
        """
        now = self._now()
        return await self._database.write(lambda connection: run_transitions.recover(connection, now))

    async def put_back(self, run_id: str) -> bool:
        """Make one running run pending again, as `recover` does; False when it has ended or is gone."""
        now = self._now()
        return await self._database.write(lambda connection: run_transitions.put_back(connection, run_id, now))

    async def waiting(self) -> list[Run]:
        """Return the pending runs of all threads in the order of their creation."""
        return await self._database.read(run_transitions.waiting)

    async def active(self) -> list[Run]:
        """Return the runs of all visible threads that have not ended, in the order of their creation."""
        seen = where_visible(
            select(threads.c.thread_id).where(threads.c.status == "busy"), "threads", threads.c.metadata
        )

        def work(connection: Connection) -> list[Run]:
            found = run_transitions.active(connection)
            visible = {row.thread_id for row in connection.execute(seen)} if found else set()
            return [run for run in found if run.thread_id in visible]

        return await self._database.read(work)

    async def next_due(self) -> list[tuple[str, datetime]]:
        """Name the pending runs that become due later, and when, soonest first."""
        now = self._now()
        return await self._database.read(lambda connection: run_transitions.delayed(connection, now))

    async def list(
        self, thread_id: str, *, limit: int = 10, offset: int = 0, status: RunStatus | None = None
    ) -> list[Run]:
        """Return a thread's runs, newest first.

        Raises:
            NotFound: there is no such thread.
        """

        def work(connection: Connection) -> list[Run]:
            _require_thread(connection, thread_id)
            query = select(runs).where(runs.c.thread_id == thread_id).order_by(runs.c.seq.desc())
            if status is not None:
                query = query.where(runs.c.status == status)
            return [run_from(row) for row in connection.execute(query.limit(limit).offset(offset))]

        return await self._database.read(work)

    def _now(self) -> int:
        return to_micros(self._clock())


def _get(connection: Connection, thread_id: str, run_id: str) -> Run:
    row = run_of_thread.first(connection, {"of_run": run_id, "of_thread": thread_id})
    if row is None:
        _require_thread(connection, thread_id)
        raise NotFound("Not Found")
    return run_from(row)


def _require_thread(connection: Connection, thread_id: str) -> None:
    if thread_head.first(connection, {"of_thread": thread_id}) is None:
        raise NotFound(f"Thread with ID {thread_id} not found")
