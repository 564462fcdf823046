"""Move runs between their states, each move in one transaction: pending, running, ended."""

from typing import Any

from sqlalchemy import Connection, Row, select

from toolweave.errors import Conflict, NotFound
from toolweave.runtime.persistence.json_text import from_micros, to_json
from toolweave.runtime.persistence.run_rows import (
    ACTIVE,
    delete_run,
    delete_thread,
    end_run,
    mark_cancelled,
    pending_runs,
    release_thread,
    return_running,
    run_by_id,
    run_from,
    run_of_thread,
    runs_ahead,
    settle_thread,
    start_run,
)
from toolweave.runtime.persistence.tables import runs
from toolweave.runtime.runs.models import CancelAction, Outcome, Run


def claim(connection: Connection, run_id: str, now: int) -> Run | None:
    """Take a pending run for execution; None when it may not start now."""
    row = connection.execute(run_by_id, {"run_id": run_id}).one_or_none()
    if row is None or row.status != "pending" or (row.not_before or 0) > now:
        return None
    if connection.execute(runs_ahead, {"thread_id": row.thread_id, "seq": row.seq, "now": now}).scalar_one():
        return None
    connection.execute(start_run, {"of_run": run_id, "now": now})
    return run_from(connection.execute(run_by_id, {"run_id": run_id}).one())


def finalise(connection: Connection, run_id: str, attempt: int, outcome: Outcome, now: int) -> str | None:
    """Write how an execution ended and return the thread's next run that is due.

    Raises:
        Conflict: another attempt has taken the run over, or it has ended already.
    """
    row = connection.execute(run_by_id, {"run_id": run_id}).one_or_none()
    if row is None:
        return None
    if row.status != "running" or row.attempt != attempt:
        raise Conflict(f"Attempt {attempt} of run {run_id} is over: it is {row.status}, attempt {row.attempt}.")
    if row.temporary:
        connection.execute(delete_thread, {"of_thread": row.thread_id})
        return None
    if outcome.rolled_back:
        connection.execute(delete_run, {"of_run": run_id})
    else:
        connection.execute(end_run, {"of_run": run_id, "new_status": outcome.status, "now": now})
    waiting = connection.execute(pending_runs, {"thread_id": row.thread_id}).all()
    connection.execute(
        settle_thread,
        {
            "of_thread": row.thread_id,
            "new_status": "busy" if waiting else outcome.thread_status,
            "new_settled": outcome.thread_status,
            "new_values": None if outcome.values_json is None else outcome.values_json.decode(),
            "new_config": to_json(outcome.thread_config) if outcome.thread_config else None,
            "new_interrupts": to_json(outcome.interrupts),
            "new_error": None if outcome.error is None else to_json(outcome.error),
            "now": now,
        },
    )
    return next((run.run_id for run in waiting if (run.not_before or 0) <= now), None)


def startable(connection: Connection, thread_id: str, now: int) -> str | None:
    """Name the run of the thread that may start now, if there is one."""
    waiting = connection.execute(pending_runs, {"thread_id": thread_id}).all()
    oldest = next((run.run_id for run in waiting if (run.not_before or 0) <= now), None)
    if oldest is None:
        return None
    ahead = connection.execute(runs_ahead, {"thread_id": thread_id, "seq": 0, "now": now}).scalar_one()
    return None if ahead else oldest


def request_cancel(connection: Connection, run_id: str, action: CancelAction, now: int) -> Run:
    """Mark a running run, or end a pending one at once.

    Raises:
        NotFound: there is no such run, or it has ended.
    """
    row = connection.execute(run_by_id, {"run_id": run_id}).one_or_none()
    if row is None or row.status not in ACTIVE:
        raise NotFound("No runs found to cancel.")
    if row.cancel != "rollback":
        connection.execute(mark_cancelled, {"of_run": run_id, "action": action})
    if row.status == "pending":
        connection.execute(end_run, {"of_run": run_id, "new_status": "interrupted", "now": now})
    cancelled = run_from(connection.execute(run_by_id, {"run_id": run_id}).one())
    if row.status == "pending":
        if action == "rollback":
            connection.execute(delete_run, {"of_run": run_id})
        _release(connection, row, now)
    return cancelled


def delete(connection: Connection, thread_id: str, run_id: str, now: int) -> None:
    """Delete a run and its events; its thread is free again when it was the last active one.

    Raises:
        NotFound: the thread has no such run.
    """
    row = connection.execute(run_of_thread, {"run_id": run_id, "thread_id": thread_id}).one_or_none()
    if row is None:
        raise NotFound("Run not found")
    connection.execute(delete_run, {"of_run": run_id})
    _release(connection, row, now)


def recover(connection: Connection, now: int) -> list[str]:
    """Make the runs of a process that is gone pending again; name, per thread, the one that may start now."""
    connection.execute(return_running, {"now": now})
    oldest: dict[str, str] = {}
    query = select(runs.c.thread_id, runs.c.run_id, runs.c.not_before).where(runs.c.status.in_(ACTIVE))
    for row in connection.execute(query.order_by(runs.c.seq)):
        if (row.not_before or 0) <= now:
            oldest.setdefault(row.thread_id, row.run_id)
    return list(oldest.values())


def delayed(connection: Connection, now: int) -> list[tuple[str, Any]]:
    """Name the pending runs that become due later, and when."""
    query = select(runs.c.run_id, runs.c.not_before).where(runs.c.status.in_(ACTIVE), runs.c.not_before > now)
    return [(row.run_id, from_micros(row.not_before)) for row in connection.execute(query.order_by(runs.c.not_before))]


def _release(connection: Connection, row: Row[Any], now: int) -> None:
    if row.temporary:
        connection.execute(delete_thread, {"of_thread": row.thread_id})
    else:
        connection.execute(release_thread, {"of_thread": row.thread_id, "now": now})
