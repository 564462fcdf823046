"""Move runs between their states, each move in one transaction: pending, running, ended."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from toolweave.errors import Conflict, NotFound
from toolweave.runtime.models import TERMINAL, CancelAction, JsonObject, Outcome, Run
from toolweave.runtime.persistence.json_text import from_json, from_micros, to_json
from toolweave.runtime.persistence.run_rows import (
    active_runs,
    all_active_runs,
    delayed_runs,
    delete_run,
    delete_thread,
    end_attempt,
    has_begun,
    interrupt_pending,
    mark_cancelled,
    metadata_of_attempt,
    pending_runs,
    release_thread,
    return_one,
    return_running,
    run_by_id,
    run_from,
    run_of_thread,
    set_run_metadata,
    settle_thread,
    start_run,
    startable_run,
    startable_runs,
)


class RollbackAskedError(Conflict):
    """A rollback was promised to somebody while the run's last results were on their way here."""


def claim(connection: Connection, run_id: str, now: int) -> Run | None:
    """Take a pending run for execution; None when it may not start now."""
    row = start_run.first(connection, {"of_run": run_id, "now": now})
    return None if row is None else run_from(row)


def finalise(
    connection: Connection,
    run_id: str,
    attempt: int,
    outcome: Outcome,
    now: int,
    alongside: Callable[[Connection], object] | None = None,
) -> str | None:
    """Write how an execution ended and return the thread's next run that is due.

    Raises:
        Conflict: another attempt has taken the run over, or it has ended already.
        RollbackAskedError: the run is to be rolled back, and the outcome does not do it; nothing is written.
    """
    ending = {
        "of_run": run_id,
        "of_attempt": attempt,
        "new_status": outcome.status,
        "is_rolled_back": outcome.rolled_back,
        "now": now,
    }
    ended = end_attempt.first(connection, ending)
    if ended is None:
        _refuse_stale(connection, run_id, attempt)
        return None
    if alongside is not None:
        alongside(connection)
    if ended.temporary:
        delete_thread.run(connection, {"of_thread": ended.thread_id})
        return None
    if outcome.rolled_back:
        delete_run.run(connection, {"of_run": run_id})
    elif outcome.run_metadata:
        _merge(connection, run_id, ended.metadata, outcome.run_metadata, now)
    waiting = active_runs.all(connection, {"of_thread": ended.thread_id})
    settle_thread.run(
        connection,
        {
            "of_thread": ended.thread_id,
            "new_status": "busy" if waiting else outcome.thread_status,
            "new_settled": outcome.thread_status,
            "new_values": None if outcome.values_json is None else outcome.values_json.decode(),
            "new_interrupts": to_json(outcome.interrupts),
            "new_error": None if outcome.error is None else to_json(outcome.error),
            "now": now,
        },
    )
    return next((run.run_id for run in waiting if (run.not_before or 0) <= now), None)


def tell(connection: Connection, run_id: str, attempt: int, told: JsonObject, now: int) -> bool:
    """Merge into the metadata of a run that this attempt executes; False when it does so no more."""
    row = metadata_of_attempt.first(connection, {"of_run": run_id, "of_attempt": attempt})
    if row is None:
        return False
    _merge(connection, run_id, row.metadata, told, now)
    return True


def startable(connection: Connection, thread_id: str, now: int) -> str | None:
    """Name the run of the thread that may start now, if there is one."""
    row = startable_run.first(connection, {"of_thread": thread_id, "now": now})
    return None if row is None else row.run_id


def request_cancel(connection: Connection, run_id: str, action: CancelAction, now: int) -> Run:
    """Mark a run that has begun, or end a pending one at once.

    Raises:
        NotFound: there is no such run, or it has ended.
    """
    row = run_by_id.first(connection, {"of_run": run_id})
    if row is None or row.status in TERMINAL:
        raise NotFound("No runs found to cancel.")
    if not has_begun(row):
        interrupt_pending.run(connection, {"of_run": run_id, "action": action, "now": now})
    elif row.cancel != "rollback":
        mark_cancelled.run(connection, {"of_run": run_id, "action": action})
    cancelled = run_from(run_by_id.first(connection, {"of_run": run_id}))
    if not has_begun(row):
        if action == "rollback":
            delete_run.run(connection, {"of_run": run_id})
        _release(connection, row, now)
    return cancelled


def delete(connection: Connection, thread_id: str, run_id: str, now: int) -> None:
    """Delete a run and its events; its thread is free again when it was the last active one.

    Raises:
        NotFound: the thread has no such run.
    """
    row = run_of_thread.first(connection, {"of_run": run_id, "of_thread": thread_id})
    if row is None:
        raise NotFound("Run not found")
    delete_run.run(connection, {"of_run": run_id})
    if row.status not in TERMINAL:
        _release(connection, row, now)


def recover(connection: Connection, now: int) -> list[str]:
    """Make the runs of a process that is gone pending again; name, per thread, the one that may start now."""
    return_running.run(connection, {"now": now})
    return [row.run_id for row in startable_runs.all(connection, {"now": now})]


def put_back(connection: Connection, run_id: str, now: int) -> bool:
    """Make a running run pending again, keeping its attempt."""
    return return_one.first(connection, {"of_run": run_id, "now": now}) is not None


def waiting(connection: Connection) -> list[Run]:
    """Read the pending runs, oldest first."""
    return [run_from(row) for row in pending_runs.all(connection, {})]


def active(connection: Connection) -> list[Run]:
    """Read the runs that have not ended, oldest first."""
    return [run_from(row) for row in all_active_runs.all(connection, {})]


def delayed(connection: Connection, now: int) -> list[tuple[str, datetime]]:
    """Name the pending runs that become due later, and when, soonest first."""
    return [(row.run_id, from_micros(row.not_before)) for row in delayed_runs.all(connection, {"now": now})]


def _merge(connection: Connection, run_id: str, metadata: str, told: JsonObject, now: int) -> None:
    merged = to_json({**from_json(metadata), **told})
    set_run_metadata.run(connection, {"of_run": run_id, "new_metadata": merged, "now": now})


def _refuse_stale(connection: Connection, run_id: str, attempt: int) -> None:
    row = run_by_id.first(connection, {"of_run": run_id})
    if row is None:
        return
    if row.status == "running" and row.attempt == attempt:
        raise RollbackAskedError(f"Run {run_id} is to be rolled back.")
    raise Conflict(f"Attempt {attempt} of run {run_id} is over: it is {row.status}, attempt {row.attempt}.")


def _release(connection: Connection, row: Any, now: int) -> None:
    if row.temporary:
        delete_thread.run(connection, {"of_thread": row.thread_id})
    else:
        release_thread.run(connection, {"of_thread": row.thread_id, "now": now})
