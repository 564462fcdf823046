"""Store runs and change their status (pending, running, ended), each change in one transaction."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, select

from toolweave.encryption import TextCipher
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
    Watch,
)
from toolweave.runtime.persistence import run_rows as sql
from toolweave.runtime.persistence.database import RuntimeDatabase, SqliteDatabase, dispatch, is_sqlite, lock, notify
from toolweave.runtime.persistence.events import (
    CONTROL_TOPIC,
    DELETED_TOPIC,
    RUN_TOPIC,
    THREAD_TOPIC,
    append_end,
    delete_run_events,
    delete_stored_contents,
)
from toolweave.runtime.persistence.run_rows import (
    has_started,
    new_thread_row,
    next_run,
    open_credentials,
    run_from_new,
    run_from_row,
    run_row,
    seal_credentials,
    settings_columns,
)
from toolweave.runtime.persistence.schema import runs, threads
from toolweave.runtime.persistence.search import is_allowed, store_labels, where_visible
from toolweave.runtime.persistence.threads import is_being_deleted, store_thread_state

T = TypeVar("T")
# RuntimeDatabase work in the transaction that creates or ends a run, so that both are stored or neither.
ExtraWork = Callable[[Connection], object]


class RollbackRequestedError(Conflict):
    """A client's rollback request was accepted before the run's end was stored."""


def claim_run(connection: Connection, run_id: str, now: int) -> Run | None:
    """Mark a pending run as running and return it; None if it may not start now."""
    row = sql.start_run.first(connection, {"of_run": run_id, "now": now})
    return None if row is None else run_from_row(row)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How an attempt of a run has ended; `body` is the JSON for clients that wait, None if the run is deleted."""

    run_id: str
    attempt: int
    outcome: Outcome
    body: bytes | None = None


def finalise_run(connection: Connection, end: RunEnd, now: int, works: Sequence[ExtraWork] = ()) -> str | None:
    """Store how an execution ended, execute `works`, and return the id of the thread's next due run.

    Raises:
        Conflict: another attempt executes the run, or it has ended already.
        RollbackRequestedError: a rollback was requested, and the outcome is none; nothing is stored.
    """
    run_id, outcome = end.run_id, end.outcome
    parameters = {
        "of_run": run_id,
        "of_attempt": end.attempt,
        "new_status": outcome.status,
        "is_rolled_back": outcome.rolled_back,
        "now": now,
    }
    lock_thread_of_run(connection, run_id)
    ended = sql.end_attempt.first(connection, parameters)
    if ended is None:
        _raise_if_stale(connection, run_id, end.attempt)
        return None
    for work in works:
        work(connection)
    if ended.watch:
        append_end(connection, run_id, outcome.status, None if outcome.rolled_back else end.body, ended)
    notify(connection, *topics_of_end(run_id))
    if ended.temporary:
        delete_stored_contents(connection, ended.thread_id)
        notify(connection, f"{DELETED_TOPIC}{ended.thread_id}")
        sql.delete_thread.run(connection, {"of_thread": ended.thread_id})
        return None
    if outcome.rolled_back:
        sql.delete_run.run(connection, {"of_run": run_id})
    elif outcome.run_metadata:
        _merge_metadata(connection, run_id, ended.metadata, outcome.run_metadata, now)
    waiting = store_thread_state(connection, ended.thread_id, outcome, now)
    return next_run(connection, ended.thread_id, now) if waiting else None


def merge_run_metadata(connection: Connection, run_id: str, attempt: int, added: JsonObject, now: int) -> bool:
    """Merge into the metadata of a run; False if this attempt no longer executes it."""
    row = sql.metadata_of_attempt.first(connection, {"of_run": run_id, "of_attempt": attempt})
    if row is None:
        return False
    _merge_metadata(connection, run_id, row.metadata, added, now)
    return True


def lock_thread_of_run(connection: Connection, run_id: str) -> None:
    """Exclude other changes of a run's thread until the end of the transaction."""
    if not is_sqlite(connection):
        sql.lock_thread_of_run.first(connection, {"of_run": run_id})


def topics_of_end(run_id: str) -> tuple[str, ...]:
    """Return the topics for the processes that wait for a run or follow its thread."""
    return f"{RUN_TOPIC}{run_id}", f"{CONTROL_TOPIC}{run_id}"


def cancel_unfinished_run(
    connection: Connection, run_id: str, action: CancelAction, now: int, reason: str | None = None
) -> str | None:
    """Mark a started run as cancelled, or end a pending one at once; return the id of the run that may start now.

    Raises:
        NotFound: there is no such run, or it has ended.
    """
    lock_thread_of_run(connection, run_id)
    row = sql.run_to_change.first(connection, {"of_run": run_id})
    if row is None or row.status in TERMINAL_STATUSES:
        raise NotFound("No runs found to cancel.")
    _cancel_run(connection, row, action, now, reason)
    if not has_started(row):
        _release_thread(connection, row, now)
    notify(connection, *topics_of_end(run_id))
    return next_run(connection, row.thread_id, now)


def _cancel_run(connection: Connection, run: Any, action: CancelAction, now: int, reason: str | None) -> None:
    """End a run that has not started; mark a started one, which the engine then stops."""
    if has_started(run):
        if run.cancel != "rollback":
            sql.mark_cancelled.run(connection, {"of_run": run.run_id, "action": action, "reason": reason})
    elif action == "rollback":
        sql.delete_run.run(connection, {"of_run": run.run_id})
    else:
        parameters = {"of_run": run.run_id, "action": action, "reason": reason, "now": now}
        sql.interrupt_pending.run(connection, parameters)


def delete_run(connection: Connection, thread_id: str, run_id: str, now: int) -> None:
    """Delete a run and its events; release its thread if it was the last active run.

    Raises:
        NotFound: the thread has no such run.
    """
    lock_thread_of_run(connection, run_id)
    row = sql.run_of_thread.first(connection, {"of_run": run_id, "of_thread": thread_id})
    if row is None:
        raise NotFound("Run not found")
    delete_run_events(connection, runs.c.run_id == run_id)
    sql.delete_run.run(connection, {"of_run": run_id})
    notify(connection, *topics_of_end(run_id))
    if row.status not in TERMINAL_STATUSES:
        _release_thread(connection, row, now)


def recover_runs(connection: Connection, now: int) -> list[str]:
    """Make the running runs of an earlier process pending; return the id of the startable run of each thread."""
    sql.requeue_running.run(connection, {"now": now})
    return [row.run_id for row in sql.startable_runs.all(connection, {"now": now})]


def delayed_runs(connection: Connection, now: int) -> list[tuple[str, datetime]]:
    """Return the pending runs that become due later with their due times, soonest first."""
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
    cipher: TextCipher | None = None,
    extra_work: ExtraWork | None = None,
) -> CreatedRun:
    """Create a pending run and make its thread busy (langgraph_api.md sections 5.1, 5.7, 5.12).

    `extra_work` runs first. A thread that is created for the run gets `thread_ttl`. `cipher` encrypts the credentials.

    Raises:
        NotFound: the thread does not exist and must not be created, or it does not match the run's thread filter.
        Conflict: the thread is busy and the strategy is reject, it is being deleted, or a run with this id exists.
    """
    if extra_work is not None:
        extra_work(connection)
    if cipher is not None and new.sealed is None:
        new = replace(new, sealed=seal_credentials(cipher, new.credentials))
    head = _lock_thread(connection, new)
    active: Sequence[Any] = ()
    if head is None:
        followed_until = _create_thread(connection, new, thread_ttl)
    else:
        active, new = _join_thread(connection, new, head)
        followed_until = head.followed_until
    if (followed_until or 0) > to_micros(new.created_at):
        new = replace(new, watch=new.watch | Watch.EVENTS | Watch.THREAD)
    superseded: tuple[tuple[str, CancelAction], ...] = ()
    if new.multitask_strategy in ("interrupt", "rollback"):
        superseded = tuple((run.run_id, new.multitask_strategy) for run in active)
        for run in active:
            reason = superseded_reason(new.run_id, new.multitask_strategy)
            _cancel_run(connection, run, new.multitask_strategy, now, reason)
            notify(connection, *topics_of_end(run.run_id))
        active = [run for run in active if has_started(run)]
    is_claimed = head is not None and head.claim is not None
    is_due = not is_claimed and _is_due(new, active, now)
    dispatched = is_due and not is_sqlite(connection)
    if sql.insert_run.first(connection, run_row(new, is_promoted=dispatched)) is None:
        raise Conflict(f"Run with ID {new.run_id} already exists")
    if dispatched:
        dispatch(connection, new.run_id)
    notify(connection, f"{THREAD_TOPIC}{new.thread_id}")
    return CreatedRun(run=run_from_new(new), is_due=is_due, superseded_runs=superseded)


def _lock_thread(connection: Connection, new: NewRun) -> Any:
    """Return the head of a run's thread, None if it does not exist; exclude other changes of it, and its creation."""
    head = sql.thread_head.first(connection, {"of_thread": new.thread_id})
    # Nobody else knows the id of a temporary thread yet.
    if head is None and not is_sqlite(connection) and not new.temporary:
        lock(connection, f"thread:{new.thread_id}")
        head = sql.thread_head.first(connection, {"of_thread": new.thread_id})
    return head


def _join_thread(connection: Connection, new: NewRun, head: Any) -> tuple[Sequence[Any], NewRun]:
    """Make an existing thread busy; return its active runs, and the new run with what it inherits."""
    inherited = from_json(head.metadata)
    if not is_allowed(new.thread_filter, inherited):
        # The thread was created after the authorization handler had been called.
        raise NotFound(NOT_FOUND_TEXT)
    if is_being_deleted(head):
        raise Conflict(DELETED_TEXT.format(thread_id=new.thread_id))
    active = sql.active_runs.all(connection, {"of_thread": new.thread_id})
    if active and new.multitask_strategy == "reject":
        raise Conflict(BUSY_TEXT)
    _mark_thread_busy(connection, new, head)
    if head.priority is not None:
        new = replace(new, priority=head.priority)
    return active, _inherit_metadata(new, inherited)


def _create_thread(connection: Connection, new: NewRun, ttl: ThreadTtl | None) -> int | None:
    """Create a run's thread; return the time until which it is followed."""
    if new.if_not_exists != "create":
        raise NotFound(NOT_FOUND_TEXT)
    created_at = to_micros(new.created_at)
    metadata = {**_owner_metadata(new), **new.thread_metadata}
    config, settings = _thread_config(new), settings_columns(new)
    row = new_thread_row(new.thread_id, metadata, created_at, ttl, status="busy", config=config, settings=settings)
    followed_until: int | None = sql.insert_thread.first(connection, {**row, "of_thread": new.thread_id}).followed_until
    if not new.temporary:
        store_labels(connection, new.thread_id, created_at, str(row["metadata"]))
    return followed_until


def _mark_thread_busy(connection: Connection, new: NewRun, head: Any) -> None:
    metadata = to_json({**from_json(head.metadata), **_owner_metadata(new)})
    if metadata != head.metadata:
        store_labels(connection, new.thread_id, to_micros(new.created_at), metadata, head.metadata)
    settings = settings_columns(new)
    sql.mark_thread_busy.run(
        connection,
        {
            "of_thread": new.thread_id,
            "new_metadata": metadata,
            "new_config": to_json(_thread_config(new)),
            "new_priority": settings["priority"],
            "new_group": settings["fairness_group"],
            "now": to_micros(new.created_at),
        },
    )


def _inherit_metadata(new: NewRun, metadata: JsonObject) -> NewRun:
    """Add the thread's metadata to a run and its checkpoints, where the run does not override them."""
    config = new.kwargs.get("config") or {}
    if not metadata:
        return new
    merged = {**config, "metadata": {**metadata, **config.get("metadata", {}), **new.metadata}}
    return replace(new, metadata={**metadata, **new.metadata}, kwargs={**new.kwargs, "config": merged})


def superseded_reason(run_id: str, action: CancelAction) -> str:
    """Return the cancel reason of a run that a new run superseded."""
    return f"superseded by run {run_id} (multitask_strategy={action})"


def _owner_metadata(new: NewRun) -> JsonObject:
    """Return the graph and assistant for the thread's metadata, by which chat pages search threads."""
    return {"graph_id": new.graph_id, "assistant_id": new.assistant_id}


def _thread_config(new: NewRun) -> JsonObject:
    """Return the part of the run's config that the thread shows."""
    return {**new.thread_config, "configurable": {}}


def _is_due(new: NewRun, active: Sequence[Any], now: int) -> bool:
    """Return whether the new run may start: no delay, no running run, and no older run that is due."""
    if new.not_before is not None and to_micros(new.not_before) > now:
        return False
    return not any(run.status == "running" or (run.not_before or 0) <= now for run in active)


@dataclass(frozen=True, slots=True)
class RunRepository:
    """The runs of all threads; the table is authoritative, the engine only schedules.

    At most one run of a thread is running. Pending runs start in the order of their creation. A delayed run does not
    block others before it is due.
    """

    database: RuntimeDatabase
    clock: Callable[[], datetime] = utc_now
    cipher: TextCipher = field(kw_only=True)
    thread_ttl: ThreadTtl | None = None

    async def create_run(self, new: NewRun, extra_work: ExtraWork | None = None) -> CreatedRun:
        """Create a pending run and apply its multitask strategy, in one transaction (langgraph_api.md 5.7).

        `extra_work` runs first in that transaction; if it raises, nothing is stored. When this returns, superseded
        pending runs have ended (or are deleted, for rollback). A superseded running run is marked, and the new run
        becomes due when that one is finalised.

        Raises:
            NotFound: the thread does not exist and must not be created.
            Conflict: the thread is busy and the strategy is reject, or a run with this id exists.
            InvalidRequest: metadata or kwargs are not JSON.
        """
        if new.credentials and new.sealed is None and not isinstance(self.database, SqliteDatabase):
            # SQLite's writer thread encrypts; work on PostgreSQL runs on the event loop.
            sealed = await asyncio.to_thread(seal_credentials, self.cipher, new.credentials)
            new = replace(new, sealed=sealed)
        work = partial(
            create_run, new=new, now=self._now(), thread_ttl=self.thread_ttl, cipher=self.cipher, extra_work=extra_work
        )
        return await self.database.write(work)

    async def claim(self, run_id: str) -> Run | None:
        """Mark a pending run as running and count the attempt.

        Return None if it is not pending, not due, or not the first in its thread's queue. If `cancel` is set, a
        cancellation was requested before a crash: the engine must end the run without executing it.
        """
        return await self._write(claim_run, run_id=run_id)

    async def finalise(self, end: RunEnd, works: Sequence[ExtraWork] = ()) -> str | None:
        """Store a run's end and its thread's state in one transaction; return the id of the thread's next due run.

        `works` run in that transaction if it ends the run. A temporary run's thread is deleted. Return None also if the
        run was deleted meanwhile.

        Raises:
            Conflict: the attempt does not execute the run any more (another attempt does, or it has ended).
            RollbackRequestedError: the run must be rolled back first; nothing is stored.
        """
        work = partial(finalise_run, end=end, now=self._now(), works=works)
        return await self.database.write(work, after_queued=True)

    async def credentials(self, run: Run | NewRun) -> JsonObject:
        """Decrypt the sealed credentials of a run's caller, the result of `Caller.credentials`.

        Raises:
            CredentialsUnreadable: the key has changed or is missing.
        """
        return await open_credentials(self.cipher, run.sealed)

    async def merge_metadata(self, run_id: str, attempt: int, added: JsonObject) -> bool:
        """Merge keys into the metadata of a running run.

        Return False and store nothing if `attempt` no longer executes the run.
        """
        return await self._write(merge_run_metadata, run_id=run_id, attempt=attempt, added=added)

    async def find_startable(self, thread_id: str) -> str | None:
        """Return the id of the run that may start now on a thread; call it after a deletion."""
        return await self._write(lambda connection, now: next_run(connection, thread_id, now))

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

        return await self.database.read(work)

    async def find(self, run_id: str) -> Run | None:
        """Return a run by its id, None if there is none."""

        def work(connection: Connection) -> Run | None:
            row = sql.run_by_id.first(connection, {"of_run": run_id})
            return None if row is None else run_from_row(row)

        return await self.database.read(work)

    async def request_cancel(self, run_id: str, action: CancelAction, reason: str | None = None) -> str | None:
        """Request a run's end: interrupt a pending run (or delete it, for rollback), mark a running one.

        Return the id of the thread's run that may start now.

        Raises:
            NotFound: there is no such run, or it has ended.
        """
        return await self._write(cancel_unfinished_run, run_id=run_id, action=action, reason=reason)

    async def delete(self, thread_id: str, run_id: str) -> None:
        """Delete a run and its events, even while it is running (langgraph_api.md 5.9).

        Raises:
            NotFound: the thread has no such run.
        """
        await self._write(delete_run, thread_id=thread_id, run_id=run_id)

    async def recover(self) -> list[str]:
        """Make all running runs pending again with the same attempt; return the ids of runs that may start now.

        Only for the start of the process that executes runs: a run that is running then has lost its process.
        """
        return await self._write(recover_runs)

    async def requeue(self, run_id: str) -> bool:
        """Make one running run pending again, like `recover`; False if it has ended or was deleted."""
        return await self._write(
            lambda connection, **values: sql.requeue_run.first(connection, values) is not None, of_run=run_id
        )

    async def list_pending(self) -> list[Run]:
        """Return the pending runs of all threads in the order of their creation."""
        return await self.database.read(
            lambda connection: [run_from_row(row) for row in sql.pending_runs.all(connection, {})]
        )

    async def list_active(self) -> list[Run]:
        """Return the runs of all visible threads that have not ended, in the order of their creation."""
        active = select(runs.c.thread_id).where(sql.ACTIVE)
        visible_ids = where_visible(
            select(threads.c.thread_id).where(threads.c.thread_id.in_(active)), "threads", threads.c.metadata
        )

        def work(connection: Connection) -> list[Run]:
            found = [run_from_row(row) for row in sql.all_active_runs.all(connection, {})]
            visible = {row.thread_id for row in connection.execute(visible_ids)} if found else set()
            return [run for run in found if run.thread_id in visible]

        return await self.database.read(work)

    async def list_delayed(self) -> list[tuple[str, datetime]]:
        """Return the pending runs that become due later with their due times, soonest first."""
        return await self.database.read(partial(delayed_runs, now=self._now()))

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

        return await self.database.read(work)

    def _now(self) -> int:
        return to_micros(self.clock())

    async def _write(self, work: Callable[..., T], **arguments: object) -> T:
        return await self.database.write(partial(work, now=self._now(), **arguments))


def _require_thread(connection: Connection, thread_id: str) -> None:
    if sql.thread_exists.first(connection, {"of_thread": thread_id}) is None:
        raise NotFound(f"Thread with ID {thread_id} not found")


def resumable_runs(connection: Connection, thread_id: str, *, from_created_at: int, from_moment: int) -> list[Run]:
    """Return the run that was created at `from_created_at` and those after it (microseconds).

    A thread executes one run at a time, so the order of their ends is that of their events. Without such a run, return
    those that had not ended by `from_moment`.
    """
    ended = runs.c.status.in_(sorted(TERMINAL_STATUSES))
    query = (
        select(runs)
        .where(runs.c.thread_id == thread_id, runs.c.kwargs.contains('"resumable":true'))
        .order_by(~ended, runs.c.updated_at, runs.c.seq)
    )
    found = [run for row in connection.execute(query) if (run := run_from_row(row)).kwargs.get("resumable") is True]
    for index, run in enumerate(found):
        if to_micros(run.created_at) == from_created_at:
            return found[index:]
    return [run for run in found if run.status not in TERMINAL_STATUSES or to_micros(run.updated_at) > from_moment]
