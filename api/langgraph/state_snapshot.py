"""Give a StateSnapshot the JSON form of a ThreadState (langgraph_api.md section 4)."""

from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import Interrupt, PregelTask, StateSnapshot

from toolweave.errors import InvalidRequest
from toolweave.runtime.models import JsonObject
from toolweave.runtime.runs.streams import checkpoint_ids, shown_metadata

VALUE = "values."

NO_STATE: JsonObject = {
    "values": {},
    "next": [],
    "tasks": [],
    "metadata": None,
    "created_at": None,
    "checkpoint": None,
    "parent_checkpoint": None,
    "interrupts": [],
    "checkpoint_id": None,
    "parent_checkpoint_id": None,
}


def thread_state_json(snapshot: StateSnapshot) -> JsonObject:
    """Give the state's JSON form; values stay as they are, the encoder knows messages."""
    checkpoint = _checkpoint(snapshot.config)
    parent = _checkpoint(snapshot.parent_config)
    return {
        "values": snapshot.values,
        "next": list(snapshot.next),
        "tasks": [_task_json(task) for task in snapshot.tasks],
        "metadata": _metadata(snapshot),
        "created_at": snapshot.created_at,
        "checkpoint": checkpoint,
        "parent_checkpoint": parent,
        "interrupts": [_interrupt_json(interrupt) for interrupt in snapshot.interrupts],
        "checkpoint_id": checkpoint and checkpoint["checkpoint_id"],
        "parent_checkpoint_id": parent and parent["checkpoint_id"],
    }


def selected_state(state: JsonObject, select: Sequence[str]) -> JsonObject:
    """Keep some fields of a ThreadState, and of its values those named as `values.<key>`; nothing selected is all.

    Raises:
        InvalidRequest: a state has no such field.
    """
    if not select:
        return state
    fields = {name: state[name] for name in select if name in state}
    keys = [name.removeprefix(VALUE) for name in select if name.startswith(VALUE)]
    for name in select:
        if name not in state and not name.startswith(VALUE):
            raise InvalidRequest(f"Invalid select: '{name[:200]}' is not one of {', '.join(state)} or values.<key>")
    if keys and "values" not in fields:
        values = state["values"] if isinstance(state["values"], dict) else {}
        fields["values"] = {key: values[key] for key in keys if key in values}
    return fields


def interrupts_json(snapshot: StateSnapshot) -> JsonObject:
    """Map the ids of waiting tasks to their interrupts, as a thread shows them."""
    return {
        task.id: [_interrupt_json(interrupt) for interrupt in task.interrupts]
        for task in snapshot.tasks
        if task.interrupts
    }


def _checkpoint(config: RunnableConfig | None) -> JsonObject | None:
    ids = checkpoint_ids(config)
    return ids if ids and ids.get("checkpoint_id") else None


def _metadata(snapshot: StateSnapshot) -> JsonObject | None:
    if snapshot.metadata is None:
        return None
    return shown_metadata(snapshot.metadata, snapshot.config["configurable"])


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
