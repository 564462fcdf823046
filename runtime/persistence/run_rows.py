"""Translate between runs and rows, and hold the statements of the run path.

Statements are built once: building one costs four times what running it does.
"""

from typing import Any

from sqlalchemy import Row, bindparam, delete, exists, func, insert, or_, select, update

from toolweave.runtime.persistence.json_text import from_json, from_micros, to_json, to_micros
from toolweave.runtime.persistence.tables import runs, threads
from toolweave.runtime.runs.models import NewRun, Run

ACTIVE = ("pending", "running")

run_by_id = select(runs).where(runs.c.run_id == bindparam("run_id"))
run_of_thread = run_by_id.where(runs.c.thread_id == bindparam("thread_id"))
active_runs = (
    select(runs).where(runs.c.thread_id == bindparam("thread_id"), runs.c.status.in_(ACTIVE)).order_by(runs.c.seq)
)
pending_runs = (
    select(runs.c.run_id, runs.c.not_before)
    .where(runs.c.thread_id == bindparam("thread_id"), runs.c.status == "pending")
    .order_by(runs.c.seq)
)
runs_ahead = select(
    exists().where(
        runs.c.thread_id == bindparam("thread_id"),
        or_(
            runs.c.status == "running",
            (runs.c.status == "pending")
            & (runs.c.seq < bindparam("seq"))
            & (func.coalesce(runs.c.not_before, 0) <= bindparam("now")),
        ),
        runs.c.status.in_(ACTIVE),
    )
)
insert_run = insert(runs)
start_run = (
    update(runs)
    .where(runs.c.run_id == bindparam("of_run"))
    .values(status="running", attempt=runs.c.attempt + 1, updated_at=bindparam("now"))
)
end_run = (
    update(runs)
    .where(runs.c.run_id == bindparam("of_run"))
    .values(status=bindparam("new_status"), updated_at=bindparam("now"))
)
mark_cancelled = update(runs).where(runs.c.run_id == bindparam("of_run")).values(cancel=bindparam("action"))
delete_run = delete(runs).where(runs.c.run_id == bindparam("of_run"))
return_running = update(runs).where(runs.c.status == "running").values(status="pending", updated_at=bindparam("now"))

thread_head = select(threads.c.metadata, threads.c.config).where(threads.c.thread_id == bindparam("thread_id"))
insert_thread = insert(threads)
occupy_thread = (
    update(threads)
    .where(threads.c.thread_id == bindparam("of_thread"))
    .values(
        status="busy", metadata=bindparam("new_metadata"), config=bindparam("new_config"), updated_at=bindparam("now")
    )
)
settle_thread = (
    update(threads)
    .where(threads.c.thread_id == bindparam("of_thread"))
    .values(
        status=bindparam("new_status"),
        settled=bindparam("new_settled"),
        state_values=func.coalesce(bindparam("new_values"), threads.c.state_values),
        config=func.coalesce(bindparam("new_config"), threads.c.config),
        interrupts=bindparam("new_interrupts"),
        error=bindparam("new_error"),
        updated_at=bindparam("now"),
        state_updated_at=bindparam("now"),
    )
)
release_thread = (
    update(threads)
    .where(
        threads.c.thread_id == bindparam("of_thread"),
        ~exists().where(runs.c.thread_id == threads.c.thread_id, runs.c.status.in_(ACTIVE)),
    )
    .values(status=threads.c.settled, updated_at=bindparam("now"))
)
delete_thread = delete(threads).where(threads.c.thread_id == bindparam("of_thread"))


def run_from(row: Row[Any]) -> Run:
    """Make the record of a row of `runs`."""
    return Run(
        run_id=row.run_id,
        thread_id=row.thread_id,
        assistant_id=row.assistant_id,
        graph_id=row.graph_id,
        status=row.status,
        metadata=from_json(row.metadata),
        kwargs=from_json(row.kwargs),
        multitask_strategy=row.multitask_strategy,
        created_at=from_micros(row.created_at),
        updated_at=from_micros(row.updated_at),
        not_before=None if row.not_before is None else from_micros(row.not_before),
        attempt=row.attempt,
        cancel=row.cancel,
    )


def row_of(new: NewRun) -> dict[str, object]:
    """Make the row of a run that is about to be created."""
    created_at = to_micros(new.created_at)
    return {
        "run_id": new.run_id,
        "thread_id": new.thread_id,
        "assistant_id": new.assistant_id,
        "graph_id": new.graph_id,
        "status": "pending",
        "metadata": to_json(new.metadata),
        "kwargs": to_json(new.kwargs),
        "multitask_strategy": new.multitask_strategy,
        "temporary": int(new.temporary),
        "attempt": 0,
        "cancel": None,
        "not_before": None if new.not_before is None else to_micros(new.not_before),
        "created_at": created_at,
        "updated_at": created_at,
    }


def pending_run(new: NewRun) -> Run:
    """Make the record of a run as it is right after its creation."""
    return Run(
        run_id=new.run_id,
        thread_id=new.thread_id,
        assistant_id=new.assistant_id,
        graph_id=new.graph_id,
        status="pending",
        metadata=new.metadata,
        kwargs=new.kwargs,
        multitask_strategy=new.multitask_strategy,
        created_at=new.created_at,
        updated_at=new.created_at,
        not_before=new.not_before,
        attempt=0,
        cancel=None,
    )
