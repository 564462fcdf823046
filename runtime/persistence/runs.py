"""Store runs and move them between their states, each move in one transaction: pending, running, ended."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, func, select

from toolweave.errors import Conflict, NotFound
from toolweave.runtime.codec import from_json, from_micros, to_json, to_micros, utc_now
from toolweave.runtime.models import (
    TERMINAL_STATUSES,
    CancelAction,
    CreatedRun,
    JsonObject,
    NewRun,
    Outcome,
    Run,
    RunStatus,
    ThreadTtl,
)
from toolweave.runtime.persistence import run_rows as sql
from toolweave.runtime.persistence.database import SqliteDatabase
from toolweave.runtime.persistence.run_rows import (
    has_started,
    new_thread_row,
    open_credentials,
    pending_run,
    run_from_row,
    run_row,
    seal_credentials,
)
from toolweave.runtime.persistence.schema import runs, threads
from toolweave.runtime.persistence.search import is_allowed, where_visible
from toolweave.runtime.persistence.threads import is_being_deleted, store_thread_state
from toolweave.sealing import Seal

T = TypeVar("T")
# Work that belongs to a run's creation or end: in the same transaction, both or neither.
ExtraWork = Callable[[Connection], object]


class RollbackRequestedError(Conflict):
    """A rollback was promised to somebody while the run's last results were on their way here."""


def claim_run(connection: Connection, run_id: str, now: int) -> Run | None:
    """Take a pending run for execution; None when it may not start now."""
    row = sql.start_run.first(connection, {"of_run": run_id, "now": now})
    return None if row is None else run_from_row(row)


def finalise_run(
    connection: Connection,
    run_id: str,
    attempt: int,
    outcome: Outcome,
    now: int,
    extra_work: ExtraWork | None = None,
) -> str | None:
    """Write how an execution ended and return the thread's next run that is due.

    Raises:
        Conflict: another attempt has taken the run over, or it has ended already.
        RollbackAskedError: the run is to be rolled back, and the outcome does not do it; nothing is written.
    """
    parameters = {
        "of_run": run_id,
        "of_attempt": attempt,
        "new_status": outcome.status,
        "is_rolled_back": outcome.rolled_back,
        "now": now,
    }
    ended = sql.end_attempt.first(connection, parameters)
    if ended is None:
        _raise_if_stale(connection, run_id, attempt)
        return None
    if extra_work is not None:
        extra_work(connection)
    if ended.temporary:
        sql.delete_thread.run(connection, {"of_thread": ended.thread_id})
        return None
    if outcome.rolled_back:
        sql.delete_run.run(connection, {"of_run": run_id})
    elif outcome.run_metadata:
        _merge_metadata(connection, run_id, ended.metadata, outcome.run_metadata, now)
    waiting = store_thread_state(connection, ended.thread_id, outcome, now)
    return next((run.run_id for run in waiting if (run.not_before or 0) <= now), None)


def merge_run_metadata(connection: Connection, run_id: str, attempt: int, added: JsonObject, now: int) -> bool:
    """Merge into the metadata of a run that this attempt executes; False when it does so no more."""
    row = sql.metadata_of_attempt.first(connection, {"of_run": run_id, "of_attempt": attempt})
    if row is None:
        return False
    _merge_metadata(connection, run_id, row.metadata, added, now)
    return True


def find_startable_run(connection: Connection, thread_id: str, now: int) -> str | None:
    """Name the run of the thread that may start now, if there is one."""
    row = sql.startable_run.first(connection, {"of_thread": thread_id, "now": now})
    return None if row is None else row.run_id


def request_run_cancel(connection: Connection, run_id: str, action: CancelAction, now: int) -> None:
    """Mark a run that has begun, or end a pending one at once.

    Raises:
        NotFound: there is no such run, or it has ended.
    """
    row = sql.run_by_id.first(connection, {"of_run": run_id})
    if row is None or row.status in TERMINAL_STATUSES:
        raise NotFound("No runs found to cancel.")
    _cancel_run(connection, row, action, now)
    if not has_started(row):
        _release_thread(connection, row, now)


def _cancel_run(connection: Connection, run: Any, action: CancelAction, now: int) -> None:
    """End a run that has not begun at once; mark another one, which ends when its executor has stopped it."""
    if has_started(run):
        if run.cancel != "rollback":
            sql.mark_cancelled.run(connection, {"of_run": run.run_id, "action": action})
    elif action == "rollback":
        sql.delete_run.run(connection, {"of_run": run.run_id})
    else:
        sql.interrupt_pending.run(connection, {"of_run": run.run_id, "action": action, "now": now})


def delete_run(connection: Connection, thread_id: str, run_id: str, now: int) -> None:
    """Delete a run and its events; its thread is free again when it was the last active one.

    Raises:
        NotFound: the thread has no such run.
    """
    row = sql.run_of_thread.first(connection, {"of_run": run_id, "of_thread": thread_id})
    if row is None:
        raise NotFound("Run not found")
    sql.delete_run.run(connection, {"of_run": run_id})
    if row.status not in TERMINAL_STATUSES:
        _release_thread(connection, row, now)


def recover_runs(connection: Connection, now: int) -> list[str]:
    """Make the runs of a process that is gone pending again; name, per thread, the one that may start now."""
    sql.requeue_running.run(connection, {"now": now})
    return [row.run_id for row in sql.startable_runs.all(connection, {"now": now})]


def delayed_runs(connection: Connection, now: int) -> list[tuple[str, datetime]]:
    """Name the pending runs that become due later, and when, soonest first."""
    return [(row.run_id, from_micros(row.not_before)) for row in sql.delayed_runs.all(connection, {"now": now})]


def _merge_metadata(connection: Connection, run_id: str, metadata: str, added: JsonObject, now: int) -> None:
    merged = to_json({**from_json(metadata), **added})
    sql.set_run_metadata.run(connection, {"of_run": run_id, "new_metadata": merged, "now": now})


def _raise_if_stale(connection: Connection, run_id: str, attempt: int) -> None:
    row = sql.run_by_id.first(connection, {"of_run": run_id})
    if row is None:
        return
    if row.status == "running" and row.attempt == attempt:
        raise RollbackRequestedError(f"Run {run_id} is to be rolled back.")
    raise Conflict(f"Attempt {attempt} of run {run_id} is over: it is {row.status}, attempt {row.attempt}.")


def _release_thread(connection: Connection, row: Any, now: int) -> None:
    if row.temporary:
        sql.delete_thread.run(connection, {"of_thread": row.thread_id})
    else:
        sql.release_thread.run(connection, {"of_thread": row.thread_id, "now": now})


NOT_FOUND_TEXT = "Thread or assistant not found."
BUSY_TEXT = "Thread is already running a task. Wait for it to finish or choose a different multitask strategy."
DELETED_TEXT = "Thread {thread_id} is being deleted, so no run was created. Try again when it is gone."


def create_run(
    connection: Connection,
    new: NewRun,
    now: int,
    thread_ttl: ThreadTtl | None = None,
    seal: Seal | None = None,
    extra_work: ExtraWork | None = None,
) -> CreatedRun:
    """Create a pending run and make its thread busy (langgraph_api.md sections 5.1, 5.7, 5.12).

    `alongside` runs first. A thread that is created for it lives for `thread_ttl`; `seal` encrypts its credentials.

    Raises:
        NotFound: the thread does not exist and is not to be created, or is not for whoever asks.
        Conflict: the thread is busy and the strategy is reject, it is being deleted, or a run with this id exists.
    """
    if extra_work is not None:
        extra_work(connection)
    if seal is not None and new.sealed is None:
        new = replace(new, sealed=seal_credentials(seal, new.credentials))
    head = sql.thread_head.first(connection, {"of_thread": new.thread_id})
    active: Sequence[Any] = ()
    claimed = head is not None and head.claim is not None
    if head is None:
        _create_thread(connection, new, thread_ttl)
    else:
        inherited = from_json(head.metadata)
        if not is_allowed(new.thread_filter, inherited):
            # It was not there yet when the application was asked about it.
            raise NotFound(NOT_FOUND_TEXT)
        if is_being_deleted(head):
            raise Conflict(DELETED_TEXT.format(thread_id=new.thread_id))
        active = sql.active_runs.all(connection, {"of_thread": new.thread_id})
        if active and new.multitask_strategy == "reject":
            raise Conflict(BUSY_TEXT)
        _mark_thread_busy(connection, new, inherited)
        new = _inherit_metadata(new, inherited)
    superseded: tuple[tuple[str, CancelAction], ...] = ()
    if new.multitask_strategy in ("interrupt", "rollback"):
        for run in active:
            _cancel_run(connection, run, new.multitask_strategy, now)
        superseded = tuple((run.run_id, new.multitask_strategy) for run in active)
        active = [run for run in active if has_started(run)]
    try:
        sql.insert_run.run(connection, run_row(new))
    except sqlite3.IntegrityError as error:
        raise Conflict(f"Run with ID {new.run_id} already exists") from error
    due = not claimed and _is_due(new, active, now)
    return CreatedRun(run=pending_run(new), is_due=due, superseded_runs=superseded)


def _create_thread(connection: Connection, new: NewRun, ttl: ThreadTtl | None) -> None:
    if new.if_not_exists != "create":
        raise NotFound(NOT_FOUND_TEXT)
    created_at = to_micros(new.created_at)
    metadata = {**_owner_metadata(new), **new.thread_metadata}
    row = new_thread_row(new.thread_id, metadata, created_at, ttl, status="busy", config=_thread_config(new))
    sql.insert_thread.run(connection, row)


def _mark_thread_busy(connection: Connection, new: NewRun, metadata: JsonObject) -> None:
    sql.mark_thread_busy.run(
        connection,
        {
            "of_thread": new.thread_id,
            "new_metadata": to_json({**metadata, **_owner_metadata(new)}),
            "new_config": to_json(_thread_config(new)),
            "now": to_micros(new.created_at),
        },
    )


def _inherit_metadata(new: NewRun, metadata: JsonObject) -> NewRun:
    """Let a run say what its thread says of itself, where it does not say otherwise, and its checkpoints too."""
    config = new.kwargs.get("config") or {}
    if not metadata:
        return new
    shown = {**config, "metadata": {**metadata, **config.get("metadata", {}), **new.metadata}}
    return replace(new, metadata={**metadata, **new.metadata}, kwargs={**new.kwargs, "config": shown})


def _owner_metadata(new: NewRun) -> JsonObject:
    """Name the graph and assistant in the thread's metadata: chat pages search threads by them."""
    return {"graph_id": new.graph_id, "assistant_id": new.assistant_id}


def _thread_config(new: NewRun) -> JsonObject:
    """Give the part of the run's config that the thread shows."""
    return {**new.thread_config, "configurable": {}}


def _is_due(new: NewRun, active: Sequence[Any], now: int) -> bool:
    """Tell whether nothing keeps the new run from starting: no delay, no running run, no older one that is due."""
    if new.not_before is not None and to_micros(new.not_before) > now:
        return False
    return not any(run.status == "running" or (run.not_before or 0) <= now for run in active)


class RunRepository:
    """The runs of all threads; the table is the truth, engines only say when.

    At most one run of a thread is running, pending ones start in the order of their creation, and a delayed one
    holds nobody up before it is due.
    """

    def __init__(
        self,
        database: SqliteDatabase,
        clock: Callable[[], datetime] = utc_now,
        *,
        seal: Seal,
        thread_ttl: ThreadTtl | None = None,
    ) -> None:
        self._database = database
        self._seal = seal
        self._clock = clock
        self._thread_ttl = thread_ttl

    async def create_run(self, new: NewRun, extra_work: ExtraWork | None = None) -> CreatedRun:
        """Create a pending run, applying its multitask strategy, in one transaction (langgraph_api.md 5.7).

        `alongside` runs first in that transaction; what it raises undoes everything.

        Superseded pending runs have ended (or are gone, for rollback) when this returns; a superseded running one is
        marked, and the new run becomes due when that one is finalised.

        Raises:
            NotFound: the thread does not exist and is not to be created.
            Conflict: the thread is busy and the strategy is reject, or a run with this id exists.
            InvalidRequest: metadata or kwargs are not JSON.
        """
        work = partial(
            create_run, new=new, now=self._now(), thread_ttl=self._thread_ttl, seal=self._seal, extra_work=extra_work
        )
        return await self._database.write(work)

    async def claim(self, run_id: str) -> Run | None:
        """Take a pending run for execution and count the attempt.

        None when it is not pending, not due, or not the first in its thread's queue. `cancel` is set on a run whose
        cancellation was asked for before a crash: end it, do not execute it.
        """
        return await self._write(claim_run, run_id=run_id)

    async def finalise(
        self, run_id: str, attempt: int, outcome: Outcome, extra_work: ExtraWork | None = None
    ) -> str | None:
        """Write how an execution ended, run and thread in one transaction; name the thread's next due run.

        `alongside` joins that transaction when the run ends by it. A temporary run's thread is deleted. None as well
        when the run was deleted meanwhile.

        Raises:
            Conflict: `attempt` is not the one that executes the run (it was taken over, or has ended).
            RollbackAskedError: the run is to be rolled back first; nothing is written.
        """
        return await self._write(finalise_run, run_id=run_id, attempt=attempt, outcome=outcome, extra_work=extra_work)

    async def credentials(self, run: Run) -> JsonObject:
        """Decrypt the credentials of a run's caller, the parts of `Caller.credentials`.

        Raises:
            CredentialsUnreadable: the key is another one, or gone.
        """
        return await open_credentials(self._seal, run.sealed)

    async def merge_metadata(self, run_id: str, attempt: int, added: JsonObject) -> bool:
        """Merge into the metadata of a running run, key by key, keeping all else that is there.

        False, and nothing is written, when `attempt` is not the one that executes the run.
        """
        return await self._write(merge_run_metadata, run_id=run_id, attempt=attempt, added=added)

    async def find_startable(self, thread_id: str) -> str | None:
        """Name the run that may start now on a thread; ask after a pending run was cancelled or a run deleted."""
        return await self._database.read(partial(find_startable_run, thread_id=thread_id, now=self._now()))

    async def get(self, thread_id: str, run_id: str) -> Run:
        """Return a run of a thread.

        Raises:
            NotFound: there is no such thread, or it has no such run.
        """

        def work(connection: Connection) -> Run:
            row = sql.run_of_thread.first(connection, {"of_run": run_id, "of_thread": thread_id})
            if row is None:
                _require_thread(connection, thread_id)
                raise NotFound("Not Found")
            return run_from_row(row)

        return await self._database.read(work)

    async def find(self, run_id: str) -> Run | None:
        """Return a run by its id alone."""

        def work(connection: Connection) -> Run | None:
            row = sql.run_by_id.first(connection, {"of_run": run_id})
            return None if row is None else run_from_row(row)

        return await self._database.read(work)

    async def request_cancel(self, run_id: str, action: CancelAction) -> None:
        """Ask for a run's end: a pending one is interrupted (or deleted, for rollback) at once, a running one marked.

        Raises:
            NotFound: there is no such run, or it has ended.
        """
        await self._write(request_run_cancel, run_id=run_id, action=action)

    async def delete(self, thread_id: str, run_id: str) -> None:
        """Delete a run and its events, also while it is running (langgraph_api.md 5.9).

        Raises:
            NotFound: the thread has no such run.
        """
        await self._write(delete_run, thread_id=thread_id, run_id=run_id)

    async def recover(self) -> list[str]:
        """Make every running run pending again, keeping its attempt; name the runs that may start now.

        Only for the start of the one process that executes runs: a run it finds running has lost its process.
        """
        return await self._write(recover_runs)

    async def requeue(self, run_id: str) -> bool:
        """Make one running run pending again, as `recover` does; False when it has ended or is gone."""
        return await self._write(
            lambda connection, **given: sql.requeue_run.first(connection, given) is not None, of_run=run_id
        )

    async def list_pending(self) -> list[Run]:
        """Return the pending runs of all threads in the order of their creation."""
        return await self._database.read(
            lambda connection: [run_from_row(row) for row in sql.pending_runs.all(connection, {})]
        )

    async def list_active(self) -> list[Run]:
        """Return the runs of all visible threads that have not ended, in the order of their creation."""
        visible_ids = where_visible(
            select(threads.c.thread_id).where(threads.c.status == "busy"), "threads", threads.c.metadata
        )

        def work(connection: Connection) -> list[Run]:
            found = [run_from_row(row) for row in sql.all_active_runs.all(connection, {})]
            visible = {row.thread_id for row in connection.execute(visible_ids)} if found else set()
            return [run for run in found if run.thread_id in visible]

        return await self._database.read(work)

    async def list_delayed(self) -> list[tuple[str, datetime]]:
        """Name the pending runs that become due later, and when, soonest first."""
        return await self._database.read(partial(delayed_runs, now=self._now()))

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
            return [run_from_row(row) for row in connection.execute(query.limit(limit).offset(offset))]

        return await self._database.read(work)

    def _now(self) -> int:
        return to_micros(self._clock())

    async def _write(self, work: Callable[..., T], **arguments: object) -> T:
        return await self._database.write(partial(work, now=self._now(), **arguments))


def _require_thread(connection: Connection, thread_id: str) -> None:
    if sql.thread_head.first(connection, {"of_thread": thread_id}) is None:
        raise NotFound(f"Thread with ID {thread_id} not found")


def resumable_runs(connection: Connection, thread_id: str, *, from_created_at: int, from_moment: int) -> list[Run]:
    """Give the run that was created at `from_created_at` and those that came after it, in microseconds.

    One run at a time executes on a thread: the order of their ends is that of their events. When there is no such run,
    or no more, it is those that have not ended by `from_moment`.
    """
    ended = runs.c.status.in_(sorted(TERMINAL_STATUSES))
    query = (
        select(runs)
        .where(runs.c.thread_id == thread_id, func.json_extract(runs.c.kwargs, "$.resumable") == 1)
        .order_by(~ended, runs.c.updated_at, runs.c.seq)
    )
    found = [run_from_row(row) for row in connection.execute(query)]
    for index, run in enumerate(found):
        if to_micros(run.created_at) == from_created_at:
            return found[index:]
    return [run for run in found if run.status not in TERMINAL_STATUSES or to_micros(run.updated_at) > from_moment]
