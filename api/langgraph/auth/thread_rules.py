"""What is asked of the handlers for threads and the runs on them; every action is the official server's."""

from typing import Any
from uuid import UUID

from langchain_core.utils.uuid import uuid7

from toolweave.api.langgraph.auth.authorization import HIDDEN, AuthRequest, as_uuid, checked_id
from toolweave.errors import Conflict, InvalidRequest, NotFound
from toolweave.runtime.models import JsonObject
from toolweave.runtime.persistence.search import allows

UNKNOWN_FOR_RUN = "Thread or assistant not found."
NOTHING_TO_CANCEL = "No runs found to cancel."
RUN_ARGUMENTS = (
    *("input", "command", "config", "context", "webhook", "interrupt_before", "interrupt_after", "stream_mode"),
    *("checkpoint", "checkpoint_id", "durability"),
)


async def create_thread(asked: AuthRequest) -> None:
    """threads.create; an existing thread of somebody else's is only said to exist."""
    fields = asked.fields
    fields.setdefault("thread_id", str(uuid7()))
    value: dict[str, Any] = {
        "thread_id": as_uuid(fields["thread_id"]),
        "metadata": fields.get("metadata") or {},
        "if_exists": fields.get("if_exists") or "raise",
    }
    if fields.get("ttl") is not None:
        value["ttl"] = fields["ttl"]
    wanted = await asked.permit_written("threads", "create", fields, value)
    asked.filters["threads"] = wanted
    thread_id = checked_id(fields.get("thread_id"))
    if not await asked.sees_thread(wanted, thread_id):
        raise Conflict(f"Thread with ID {thread_id} already exists")


async def search_threads(asked: AuthRequest) -> None:
    """threads.search; the filter applies to what is found and counted."""
    fields = asked.fields
    value = {
        "metadata": fields.get("metadata") or {},
        "values": fields.get("values") or {},
        "status": fields.get("status"),
        "limit": fields.get("limit", 10),
        "offset": fields.get("offset", 0),
    }
    if "ids" in fields:
        value["ids"] = fields["ids"]
    asked.filters["threads"] = await asked.permit_written("threads", "search", fields, value)


async def prune_threads(asked: AuthRequest) -> None:
    """threads.delete, for all of them or none."""
    given = asked.fields.get("thread_ids")
    ids = [known for known in map(checked_id, given if isinstance(given, list) else ()) if known is not None]
    wanted = await asked.permit("threads", "delete", {"thread_ids": [UUID(thread_id) for thread_id in ids]})
    for thread_id in ids:
        if not await asked.sees_thread(wanted, thread_id):
            raise NotFound("At least one thread not found or not authorized")


async def read_thread(asked: AuthRequest) -> None:
    """threads.read."""
    await asked.thread("read", asked.id_in_path("thread"))


async def listen(asked: AuthRequest) -> None:
    """threads.read; the filter applies once more to a thread that is yet to be created."""
    thread_id = asked.id_in_path("thread")
    wanted = await asked.permit("threads", "read", {"thread_id": as_uuid(thread_id)})
    asked.filters["threads"] = wanted
    if not await asked.sees_thread(wanted, thread_id):
        raise NotFound(HIDDEN.format(thread_id))


async def update_thread(asked: AuthRequest) -> None:
    """threads.update with the metadata to merge."""
    fields, thread_id = asked.fields, asked.id_in_path("thread")
    value = {"thread_id": as_uuid(thread_id), "metadata": fields.get("metadata") or {}}
    wanted = await asked.permit_written("threads", "update", fields, value)
    fields.pop("thread_id", None)
    if not await asked.sees_thread(wanted, thread_id):
        raise NotFound("Not Found")


async def update_state(asked: AuthRequest) -> None:
    """threads.update: a state is part of its thread."""
    await asked.thread("update", asked.id_in_path("thread"))


async def delete_thread(asked: AuthRequest) -> None:
    """threads.delete."""
    await asked.thread("delete", asked.id_in_path("thread"))


async def copy_thread(asked: AuthRequest) -> None:
    """threads.read of the one, threads.create of the other, which has the same metadata."""
    await asked.thread("read", asked.id_in_path("thread"), hidden=Conflict("Conflict"))
    await asked.permit("threads", "create", {"thread_id": None})


async def list_runs(asked: AuthRequest) -> None:
    """threads.read, and threads.search as in the official server."""
    await read_thread(asked)
    thread_id = asked.id_in_path("thread")
    wanted = await asked.permit("threads", "search", {"thread_id": as_uuid(thread_id), "metadata": {}})
    if not await asked.sees_thread(wanted, thread_id):
        raise NotFound(f"Thread with ID {thread_id} not found")


async def read_run(asked: AuthRequest) -> None:
    """threads.read."""
    value = {"thread_id": as_uuid(asked.id_in_path("thread")), "run_id": as_uuid(asked.id_in_path("run"))}
    await asked.thread("read", asked.id_in_path("thread"), value)


async def read_stateless_run(asked: AuthRequest) -> None:
    """threads.read of the run's temporary thread."""
    run_id = asked.id_in_path("run")
    run = None if run_id is None else await asked.served.persistence.runs.find(run_id)
    thread_id = None if run is None else run.thread_id
    value = {"thread_id": as_uuid(thread_id), "run_id": as_uuid(run_id)}
    if run is None:
        await _read_ended_run(asked, run_id, value)
        return
    await asked.thread("read", thread_id, value, hidden=NotFound("Run not found"))
    if asked.request.query_params.get("cancel_on_disconnect"):
        await asked.thread("update", thread_id, {**value, "action": "interrupt"}, hidden=NotFound("Run not found"))


async def _read_ended_run(asked: AuthRequest, run_id: str | None, value: dict[str, Any]) -> None:
    """threads.read of a thread that is gone: its run said the same of itself."""
    wanted = await asked.permit("threads", "read", value)
    metadata = None if run_id is None else asked.served.engine.runtime.log.ended.metadata(run_id)
    if metadata is not None and not allows(wanted, metadata):
        raise NotFound("Run not found")


async def join_run(asked: AuthRequest) -> None:
    """threads.read, and threads.update when leaving is to cancel the run."""
    await read_run(asked)
    if asked.request.query_params.get("cancel_on_disconnect"):
        thread_id = asked.id_in_path("thread")
        await asked.thread("update", thread_id, {"thread_id": as_uuid(thread_id), "action": "interrupt"})


async def delete_run(asked: AuthRequest) -> None:
    """threads.delete."""
    value = {"run_id": as_uuid(asked.id_in_path("run")), "thread_id": as_uuid(asked.id_in_path("thread"))}
    await asked.thread("delete", asked.id_in_path("thread"), value, hidden=NotFound("Not Found"))


async def cancel_run(asked: AuthRequest) -> None:
    """threads.update with the action."""
    await _cancel(asked, asked.id_in_path("thread"), [asked.id_in_path("run")], None)


async def cancel_runs(asked: AuthRequest) -> None:
    """threads.update with the action; by status, only the threads that the filter lets through."""
    fields = asked.fields
    run_ids, status = fields.get("run_ids"), fields.get("status")
    await _cancel(asked, checked_id(fields.get("thread_id")), run_ids if isinstance(run_ids, list) else None, status)


async def _cancel(asked: AuthRequest, thread_id: str | None, run_ids: list[Any] | None, status: Any) -> None:
    value = {
        "thread_id": as_uuid(thread_id),
        "action": asked.request.query_params.get("action") or "interrupt",
        "metadata": {"run_ids": None if run_ids is None else [as_uuid(item) for item in run_ids], "status": status},
    }
    wanted = await asked.permit("threads", "update", value)
    asked.filters["threads"] = wanted
    if not await asked.sees_thread(wanted, thread_id):
        raise NotFound(NOTHING_TO_CANCEL)


async def create_run(asked: AuthRequest) -> None:
    """threads.create_run on the thread of the path, or on one of the run's own."""
    await permit_run(asked, asked.fields, asked.id_in_path("thread"))


async def create_runs(asked: AuthRequest) -> None:
    """threads.create_run for each."""
    for fields in asked.body if isinstance(asked.body, list) else ():
        if isinstance(fields, dict):
            await permit_run(asked, fields, None)


async def permit_run(asked: AuthRequest, fields: JsonObject, thread_id: str | None) -> None:
    """Ask for a run; the handler's metadata becomes the run's, and that of a thread made for it."""
    if not isinstance(fields.get("metadata"), dict | None):
        raise InvalidRequest("metadata must be an object")
    arguments: dict[str, Any] = {name: fields.get(name) for name in RUN_ARGUMENTS}
    before = dict(arguments)
    value: dict[str, Any] = {
        "thread_id": as_uuid(thread_id),
        "assistant_id": as_uuid(fields.get("assistant_id")) or fields.get("assistant_id"),
        "run_id": None,
        "status": "pending",
        "metadata": fields.get("metadata") or {},
        "prevent_insert_if_inflight": fields.get("multitask_strategy") == "reject",
        "multitask_strategy": fields.get("multitask_strategy") or "enqueue",
        "if_not_exists": fields.get("if_not_exists") or ("create" if thread_id is None else "reject"),
        "after_seconds": fields.get("after_seconds") or 0,
        "kwargs": arguments,
    }
    wanted = await asked.permit("threads", "create_run", value)
    asked.run_threads = wanted
    if value.get("metadata") or "metadata" in fields:
        fields["metadata"] = value.get("metadata") or {}
    fields.update({name: item for name, item in arguments.items() if item is not before.get(name)})
    for seen in (
        await asked.sees_thread(wanted, thread_id),
        await asked.sees_assistant_to_run(wanted, fields.get("assistant_id")),
    ):
        if not seen:
            raise NotFound(UNKNOWN_FOR_RUN)
