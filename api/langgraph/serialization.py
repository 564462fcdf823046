"""JSON forms of assistants, crons, threads and thread states (langgraph_api.md section 4)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import Interrupt, PregelTask, StateSnapshot

from toolweave.errors import InvalidRequest
from toolweave.runtime.models import Assistant, Cron, JsonObject, Thread, timestamp
from toolweave.runtime.runs.streams import api_metadata, checkpoint_ids

VALUES_PREFIX = "values."


def row_json(row: object, *names: str) -> JsonObject:
    """Return the named attributes of a row as JSON, in the order of `names`."""
    values = ((name, getattr(row, name)) for name in names)
    return {name: timestamp(value) if isinstance(value, datetime) else value for name, value in values}


def assistant_json(assistant: Assistant) -> JsonObject:
    """Return the JSON form of an assistant, or of one of its versions, which have no `updated_at`."""
    updated = () if assistant.updated_at is None else ("updated_at",)
    names = ("assistant_id", "graph_id", "config", "context", "metadata", "name", "created_at", *updated)
    return row_json(assistant, *names, "version", "description")


def cron_json(cron: Cron) -> JsonObject:
    """Return a cron's JSON form; times that come from a schedule or a caller have no microseconds."""
    return {
        **row_json(cron, "cron_id", "assistant_id", "thread_id", "user_id"),
        "end_time": cron.end_time and cron.end_time.isoformat(),
        **row_json(cron, "schedule", "timezone", "payload"),
        "next_run_date": cron.next_run_at and cron.next_run_at.isoformat(),
        **row_json(cron, "metadata", "on_run_completed", "enabled", "created_at", "updated_at"),
    }


def thread_json(thread: Thread) -> JsonObject:
    """Return a thread's JSON form; `error` and `interrupts` are absent until its first run has ended."""
    ended = () if thread.interrupts is None else ("error", "interrupts")
    names = ("thread_id", "created_at", "updated_at", "state_updated_at", "metadata", "status", "config", "values")
    return row_json(thread, *names, *ended)


def thread_state_json(snapshot: StateSnapshot) -> JsonObject:
    """Return the JSON form of a state; its values stay unchanged, the JSON encoder converts messages."""
    checkpoint = _checkpoint(snapshot.config)
    parent, metadata = _checkpoint(snapshot.parent_config), snapshot.metadata
    return {
        "values": snapshot.values,
        "next": list(snapshot.next),
        "tasks": [_task_json(task) for task in snapshot.tasks],
        "metadata": metadata if metadata is None else api_metadata(metadata, snapshot.config["configurable"]),
        "created_at": snapshot.created_at,
        "checkpoint": checkpoint,
        "parent_checkpoint": parent,
        "interrupts": [_interrupt_json(interrupt) for interrupt in snapshot.interrupts],
        "checkpoint_id": checkpoint and checkpoint["checkpoint_id"],
        "parent_checkpoint_id": parent and parent["checkpoint_id"],
    }


def select_state_fields(state: JsonObject, select: Sequence[str]) -> JsonObject:
    """Return the selected fields of a ThreadState, `values.<key>` for a single value; without a selection all.

    Raises:
        InvalidRequest: a state has no such field.
    """
    if not select:
        return state
    chosen = {name: state[name] for name in select if name in state}
    keys = [name.removeprefix(VALUES_PREFIX) for name in select if name.startswith(VALUES_PREFIX)]
    for name in select:
        if name not in state and not name.startswith(VALUES_PREFIX):
            raise InvalidRequest(f"Invalid select: '{name[:200]}' is not one of {', '.join(state)} or values.<key>")
    if keys and "values" not in chosen:
        values = state["values"] if isinstance(state["values"], dict) else {}
        chosen["values"] = {key: values[key] for key in keys if key in values}
    return chosen


def _checkpoint(config: RunnableConfig | None) -> JsonObject | None:
    ids = checkpoint_ids(config)
    return ids if ids and ids.get("checkpoint_id") else None


def _task_json(task: PregelTask) -> JsonObject:
    state: Any = task.state
    error: object = task.error
    nested = thread_state_json(state) if isinstance(state, StateSnapshot) else None
    return {
        "id": task.id,
        "name": task.name,
        "path": list(task.path),
        "error": repr(error) if isinstance(error, BaseException) else error,
        "interrupts": [_interrupt_json(interrupt) for interrupt in task.interrupts],
        "checkpoint": checkpoint_ids(state) if isinstance(state, dict) else None,
        "state": nested,
        "result": task.result,
    }


def _interrupt_json(interrupt: Interrupt) -> JsonObject:
    return {"id": interrupt.id, "value": interrupt.value}


EMPTY_STATE = thread_state_json(StateSnapshot({}, (), {}, None, None, None, (), ()))
