"""Create a run: its thread, its multitask strategy and its row, in one transaction."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from toolweave.errors import Conflict, NotFound
from toolweave.runtime.models import CancelAction, CreatedRun, JsonObject, NewRun, ThreadTtl
from toolweave.runtime.persistence.claims import is_being_deleted
from toolweave.runtime.persistence.json_text import from_json, to_json, to_micros
from toolweave.runtime.persistence.run_rows import (
    active_runs,
    delete_run,
    has_begun,
    insert_run,
    insert_thread,
    interrupt_pending,
    mark_cancelled,
    occupy_thread,
    pending_run,
    row_of,
    thread_head,
)
from toolweave.runtime.persistence.thread_expiry import ttl_columns
from toolweave.runtime.persistence.visibility import allows

UNKNOWN = "Thread or assistant not found."
BUSY = "Thread is already running a task. Wait for it to finish or choose a different multitask strategy."
DELETED_MEANWHILE = "Thread {thread_id} is being deleted, so no run was created. Try again when it is gone."


def create_run(connection: Connection, new: NewRun, now: int, thread_ttl: ThreadTtl | None = None) -> CreatedRun:
    """Create a pending run and make its thread busy (langgraph_api.md sections 5.1, 5.7, 5.12).

    A thread that is created for it lives for `thread_ttl`.

    Raises:
        NotFound: the thread does not exist and is not to be created, or is not for whoever asks.
        Conflict: the thread is busy and the strategy is reject, it is being deleted, or a run with this id exists.
    """
    head = thread_head.first(connection, {"of_thread": new.thread_id})
    active: Sequence[Any] = ()
    claimed = head is not None and head.claim is not None
    if head is None:
        _create_thread(connection, new, thread_ttl)
    else:
        inherited = from_json(head.metadata)
        if not allows(new.on_threads, inherited):
            # It was not there yet when the application was asked about it.
            raise NotFound(UNKNOWN)
        if is_being_deleted(head):
            raise Conflict(DELETED_MEANWHILE.format(thread_id=new.thread_id))
        active = active_runs.all(connection, {"of_thread": new.thread_id})
        if active and new.multitask_strategy == "reject":
            raise Conflict(BUSY)
        _occupy(connection, new, inherited)
        new = _inheriting(new, inherited)
    superseded: tuple[tuple[str, CancelAction], ...] = ()
    if new.multitask_strategy in ("interrupt", "rollback"):
        superseded = _supersede(connection, active, new.multitask_strategy, now)
        active = [run for run in active if has_begun(run)]
    try:
        insert_run.run(connection, row_of(new))
    except sqlite3.IntegrityError as error:
        raise Conflict(f"Run with ID {new.run_id} already exists") from error
    due = not claimed and _due(new, active, now)
    return CreatedRun(run=pending_run(new), due=due, superseded=superseded)


def _create_thread(connection: Connection, new: NewRun, ttl: ThreadTtl | None) -> None:
    if new.if_not_exists != "create":
        raise NotFound(UNKNOWN)
    created_at = to_micros(new.created_at)
    insert_thread.run(
        connection,
        {
            "thread_id": new.thread_id,
            "status": "busy",
            "settled": "idle",
            "metadata": to_json({**_ownership(new), **new.thread_metadata}),
            "config": to_json(_thread_config(new)),
            "created_at": created_at,
            "updated_at": created_at,
            "state_updated_at": created_at,
            **ttl_columns(ttl, created_at),
        },
    )


def _occupy(connection: Connection, new: NewRun, metadata: JsonObject) -> None:
    occupy_thread.run(
        connection,
        {
            "of_thread": new.thread_id,
            "new_metadata": to_json({**metadata, **_ownership(new)}),
            "new_config": to_json(_thread_config(new)),
            "now": to_micros(new.created_at),
        },
    )


def _inheriting(new: NewRun, metadata: JsonObject) -> NewRun:
    """Let a run say what its thread says of itself, where it does not say otherwise, and its checkpoints too."""
    config = new.kwargs.get("config") or {}
    if not metadata:
        return new
    shown = {**config, "metadata": {**metadata, **config.get("metadata", {}), **new.metadata}}
    return replace(new, metadata={**metadata, **new.metadata}, kwargs={**new.kwargs, "config": shown})


def _ownership(new: NewRun) -> JsonObject:
    """Name the graph and assistant in the thread's metadata: chat pages search threads by them."""
    return {"graph_id": new.graph_id, "assistant_id": new.assistant_id}


def _thread_config(new: NewRun) -> JsonObject:
    """Give the part of the run's config that the thread shows."""
    return {**new.thread_config, "configurable": {}}


def _supersede(
    connection: Connection, active: Sequence[Any], action: CancelAction, now: int
) -> tuple[tuple[str, CancelAction], ...]:
    """Cancel the thread's runs: those that have not begun at once, the others when their executor has stopped them."""
    for run in active:
        if has_begun(run):
            if run.cancel != "rollback":
                mark_cancelled.run(connection, {"of_run": run.run_id, "action": action})
        elif action == "rollback":
            delete_run.run(connection, {"of_run": run.run_id})
        else:
            interrupt_pending.run(connection, {"of_run": run.run_id, "action": action, "now": now})
    return tuple((run.run_id, action) for run in active)


def _due(new: NewRun, active: Sequence[Any], now: int) -> bool:
    """Tell whether nothing keeps the new run from starting: no delay, no running run, no older one that is due."""
    if new.not_before is not None and to_micros(new.not_before) > now:
        return False
    return not any(run.status == "running" or (run.not_before or 0) <= now for run in active)
