"""Authorization rules of endpoints; resources and actions are those of the official server."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from langchain_core.utils.uuid import uuid7

from toolweave.api.langgraph.auth.authorization import AuthRequest, as_uuid, parse_id
from toolweave.errors import Conflict, InvalidRequest, NotFound
from toolweave.runtime.models import JsonObject
from toolweave.runtime.persistence.assistants import system_assistant_id
from toolweave.runtime.persistence.search import is_allowed

RUN_ARGUMENTS = (
    *("input", "command", "config", "context", "webhook", "interrupt_before", "interrupt_after", "stream_mode"),
    *("checkpoint", "checkpoint_id", "durability"),
)
UUID_PATTERN = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# Fields with content of users; ids in them are plain text.
CONTENT_FIELDS = frozenset({"parts", "input", "values", "update", "response", "responses"})
MAX_NAMED_IDS = 1000


async def create_thread(auth: AuthRequest) -> None:
    """Require threads.create; another user's existing thread only leads to 409."""
    fields = auth.fields
    fields.setdefault("thread_id", str(uuid7()))
    value: dict[str, Any] = {
        "thread_id": as_uuid(fields["thread_id"]),
        "metadata": fields.get("metadata") or {},
        "if_exists": fields.get("if_exists") or "raise",
    }
    if fields.get("ttl") is not None:
        value["ttl"] = fields["ttl"]
    row_filter = await auth.permit_with_changes("threads", "create", value)
    auth.filters["threads"] = row_filter
    thread_id = parse_id(fields.get("thread_id"))
    await auth.require_visible(row_filter, "threads", thread_id, Conflict(f"Thread with ID {thread_id} already exists"))


async def search_threads(auth: AuthRequest) -> None:
    """Require threads.search; the filter applies to searches and counts."""
    fields = auth.fields
    value = {
        "metadata": fields.get("metadata") or {},
        "values": fields.get("values") or {},
        "status": fields.get("status"),
        **_page_fields(fields),
    }
    if "ids" in fields:
        value["ids"] = fields["ids"]
    auth.filters["threads"] = await auth.permit_with_changes("threads", "search", value)


async def prune_threads(auth: AuthRequest) -> None:
    """Require threads.delete of all threads or none."""
    listed = auth.fields.get("thread_ids")
    ids = [row_id for row_id in map(parse_id, listed if isinstance(listed, list) else ()) if row_id is not None]
    row_filter = await auth.permit("threads", "delete", {"thread_ids": [UUID(thread_id) for thread_id in ids]})
    for thread_id in ids:
        error = NotFound("At least one thread not found or not authorized")
        await auth.require_visible(row_filter, "threads", thread_id, error)


async def read_thread(auth: AuthRequest) -> None:
    """Require threads.read."""
    await auth.permit_row("threads", "read", auth.id_in_path("thread"))


async def read_events(auth: AuthRequest) -> None:
    """Require threads.read; the filter also applies to a thread that is created later."""
    auth.filters["threads"] = await auth.permit_row("threads", "read", auth.id_in_path("thread"))


async def update_thread(auth: AuthRequest) -> None:
    """Require threads.update with the metadata to merge."""
    fields, thread_id = auth.fields, auth.id_in_path("thread")
    value = {"thread_id": as_uuid(thread_id), "metadata": fields.get("metadata") or {}}
    row_filter = await auth.permit_with_changes("threads", "update", value)
    await auth.require_visible(row_filter, "threads", thread_id, NotFound("Not Found"))


async def update_state(auth: AuthRequest) -> None:
    """Require threads.update, as a state is part of its thread."""
    await auth.permit_row("threads", "update", auth.id_in_path("thread"))


async def delete_thread(auth: AuthRequest) -> None:
    """Require threads.delete."""
    await auth.permit_row("threads", "delete", auth.id_in_path("thread"))


async def copy_thread(auth: AuthRequest) -> None:
    """Require threads.read of the original, threads.create of the copy, which has the same metadata."""
    await auth.permit_row("threads", "read", auth.id_in_path("thread"), error=Conflict("Conflict"))
    await auth.permit("threads", "create", {"thread_id": None})


async def list_runs(auth: AuthRequest) -> None:
    """Require threads.read, and threads.search, as in the official server."""
    await read_thread(auth)
    thread_id = auth.id_in_path("thread")
    await auth.permit_row("threads", "search", thread_id, {"thread_id": as_uuid(thread_id), "metadata": {}})


async def read_run(auth: AuthRequest) -> None:
    """Require threads.read."""
    value = {"thread_id": as_uuid(auth.id_in_path("thread")), "run_id": as_uuid(auth.id_in_path("run"))}
    await auth.permit_row("threads", "read", auth.id_in_path("thread"), value)


async def read_stateless_run(auth: AuthRequest) -> None:
    """Require threads.read of the run's temporary thread; after its deletion the filter applies to the run."""
    run_id, error = auth.id_in_path("run"), NotFound("Run not found")
    run = None if run_id is None else await auth.services.persistence.runs.find(run_id)
    thread_id = None if run is None else run.thread_id
    value = {"thread_id": as_uuid(thread_id), "run_id": as_uuid(run_id)}
    row_filter = await auth.permit_row("threads", "read", thread_id, value, error=error)
    if run is None:
        ended = await auth.services.engine.find_ended_run(run_id or "")
        if ended is not None and not is_allowed(row_filter, ended.metadata):
            raise error
    elif auth.request.query_params.get("cancel_on_disconnect"):
        await auth.permit_row("threads", "update", thread_id, {**value, "action": "interrupt"}, error=error)


async def join_run(auth: AuthRequest) -> None:
    """Require threads.read, and threads.update if a disconnect cancels the run."""
    await read_run(auth)
    if auth.request.query_params.get("cancel_on_disconnect"):
        thread_id = auth.id_in_path("thread")
        await auth.permit_row("threads", "update", thread_id, {"thread_id": as_uuid(thread_id), "action": "interrupt"})


async def delete_run(auth: AuthRequest) -> None:
    """Require threads.delete."""
    value = {"run_id": as_uuid(auth.id_in_path("run")), "thread_id": as_uuid(auth.id_in_path("thread"))}
    await auth.permit_row("threads", "delete", auth.id_in_path("thread"), value, error=NotFound("Not Found"))


async def cancel_run(auth: AuthRequest) -> None:
    """Require threads.update with the action."""
    await _permit_cancel(auth, auth.id_in_path("thread"), [auth.id_in_path("run")], None)


async def cancel_runs(auth: AuthRequest) -> None:
    """Require threads.update with the action; a cancel by status applies to threads that the filter includes."""
    fields = auth.fields
    run_ids, status = fields.get("run_ids"), fields.get("status")
    await _permit_cancel(
        auth, parse_id(fields.get("thread_id")), run_ids if isinstance(run_ids, list) else None, status
    )


async def _permit_cancel(auth: AuthRequest, thread_id: str | None, run_ids: list[Any] | None, status: Any) -> None:
    value = {
        "thread_id": as_uuid(thread_id),
        "action": auth.request.query_params.get("action") or "interrupt",
        "metadata": {"run_ids": None if run_ids is None else [as_uuid(item) for item in run_ids], "status": status},
    }
    error = NotFound("No runs found to cancel.")
    auth.filters["threads"] = await auth.permit_row("threads", "update", thread_id, value, error=error)


async def create_run(auth: AuthRequest) -> None:
    """Require threads.create_run on the thread of the path, or on the run's own thread."""
    await permit_run(auth, auth.fields, auth.id_in_path("thread"))


async def create_runs(auth: AuthRequest) -> None:
    """Require threads.create_run of each run."""
    for fields in auth.body if isinstance(auth.body, list) else ():
        if isinstance(fields, dict):
            await permit_run(auth, fields, None)


async def permit_run(auth: AuthRequest, fields: JsonObject, thread_id: str | None) -> None:
    """Authorize a run; the handler's metadata applies to it and to a thread created for it."""
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
    row_filter = await auth.permit("threads", "create_run", value)
    auth.run_threads = row_filter
    _write_metadata(fields, value)
    fields.update({name: item for name, item in arguments.items() if item is not before.get(name)})
    error = NotFound("Thread or assistant not found.")
    await auth.require_visible(row_filter, "threads", thread_id, error)
    if not await auth.may_run_assistant(row_filter, fields.get("assistant_id")):
        raise error


def _write_metadata(fields: JsonObject, value: JsonObject) -> None:
    """Copy the metadata that a handler set in `value` into the body's fields."""
    if value.get("metadata") or "metadata" in fields:
        fields["metadata"] = value.get("metadata") or {}


def _page_fields(fields: JsonObject) -> JsonObject:
    return {"limit": fields.get("limit", 10), "offset": fields.get("offset", 0)}


async def search_assistants(auth: AuthRequest) -> None:
    """Require assistants.search; the filter applies to searches and counts."""
    fields = auth.fields
    value = {"graph_id": fields.get("graph_id"), "metadata": fields.get("metadata") or {}, **_page_fields(fields)}
    auth.filters["assistants"] = await auth.permit_with_changes("assistants", "search", value)


async def create_assistant(auth: AuthRequest) -> None:
    """Require assistants.create; another user's existing assistant only leads to 409."""
    fields = auth.fields
    value = _assistant_value(fields, parse_id(fields.get("assistant_id")))
    if "if_exists" in fields:
        value["if_exists"] = fields["if_exists"]
    row_filter = await auth.permit_with_changes("assistants", "create", value)
    if not await auth.is_visible(row_filter, "assistants", parse_id(fields.get("assistant_id"))):
        # Always refused: do_nothing would return the other user's assistant.
        fields["if_exists"] = "raise"


async def read_assistant(auth: AuthRequest) -> None:
    """Require assistants.read, by id or by the name of a graph."""
    name_or_id = auth.request.path_params.get("assistant_id", "")
    is_graph = name_or_id in auth.services.graphs.graph_ids()
    await auth.permit_row("assistants", "read", system_assistant_id(name_or_id) if is_graph else parse_id(name_or_id))


async def read_interface(auth: AuthRequest) -> None:
    """Require assistants.read of the graph's system assistant."""
    await auth.permit_row("assistants", "read", system_assistant_id(str(auth.request.path_params.get("graph", ""))))


async def update_assistant(auth: AuthRequest) -> None:
    """Require assistants.update with the changes."""
    fields, assistant_id = auth.fields, auth.id_in_path("assistant")
    value = _assistant_value(fields, assistant_id)
    row_filter = await auth.permit_with_changes("assistants", "update", value)
    await auth.require_visible(row_filter, "assistants", assistant_id)


def _assistant_value(fields: JsonObject, assistant_id: str | None) -> JsonObject:
    return {
        "assistant_id": as_uuid(assistant_id),
        "graph_id": fields.get("graph_id"),
        "config": fields.get("config") or {},
        "context": fields.get("context"),
        "metadata": fields.get("metadata") or {},
        "name": fields.get("name"),
    }


async def set_version(auth: AuthRequest) -> None:
    """Require assistants.update with the version."""
    assistant_id = auth.id_in_path("assistant")
    value = {"assistant_id": as_uuid(assistant_id), "version": auth.fields.get("version")}
    await auth.permit_row("assistants", "update", assistant_id, value)


async def delete_assistant(auth: AuthRequest) -> None:
    """Require assistants.delete; `delete_threads` applies to threads that the filter of threads.delete includes."""
    await auth.permit_row("assistants", "delete", auth.id_in_path("assistant"))
    if auth.request.query_params.get("delete_threads"):
        auth.filters["threads"] = await auth.permit("threads", "delete", {"thread_id": None})


async def create_cron(auth: AuthRequest) -> None:
    """Require crons.create, on a thread that the user may read, for an assistant that the user may run."""
    fields, thread_id = auth.fields, auth.id_in_path("thread")
    value: dict[str, Any] = {
        "payload": {name: item for name, item in fields.items() if name != "metadata"},
        "schedule": fields.get("schedule"),
        "cron_id": None,
        "thread_id": as_uuid(thread_id),
        "user_id": auth.user.identity,
        "end_time": fields.get("end_time"),
        "metadata": fields.get("metadata") or {},
    }
    row_filter = await auth.permit("crons", "create", value)
    _write_metadata(fields, value)
    name_or_id = fields.get("assistant_id")
    if not await auth.may_run_assistant(row_filter, name_or_id):
        raise NotFound(f"Assistant '{name_or_id}' not found")
    if thread_id is not None:
        await auth.permit_row("threads", "read", thread_id, error=NotFound(f"Thread with ID '{thread_id}' not found"))


async def search_crons(auth: AuthRequest) -> None:
    """Require crons.search; the filter of threads.search applies to the threads of crons."""
    fields = auth.fields
    value = {
        "assistant_id": as_uuid(fields.get("assistant_id")),
        "thread_id": as_uuid(fields.get("thread_id")),
        "metadata": fields.get("metadata") or {},
        **_page_fields(fields),
    }
    row_filter = await auth.permit("crons", "search", value)
    _write_metadata(fields, value)
    auth.filters["crons"] = row_filter
    auth.filters["threads"] = await auth.permit("threads", "search", {})


async def update_cron(auth: AuthRequest) -> None:
    """Require crons.update with the changes."""
    fields = auth.fields
    changes = {name: fields.get(name) for name in ("schedule", "end_time", "enabled", "on_run_completed")}
    await _permit_cron("update", auth, **changes, payload=dict(fields))


async def _permit_cron(action: str, auth: AuthRequest, **more: object) -> None:
    cron_id = auth.id_in_path("cron")
    value: dict[str, Any] = {"cron_id": as_uuid(cron_id), **more}
    row_filter = await auth.permit("crons", action, value)
    if isinstance(changed := value.get("metadata"), dict):
        auth.fields["metadata"] = {**(auth.fields.get("metadata") or {}), **changed}
    if cron_id is None:
        return
    try:
        cron = await auth.services.persistence.crons.get(cron_id)
    except NotFound:
        return
    if not is_allowed(row_filter, cron.metadata):
        raise NotFound("Not Found")
    if cron.thread_id is not None:
        await auth.permit_row("threads", "read", cron.thread_id, error=NotFound("Not Found"))


read_cron, delete_cron = (partial(_permit_cron, action) for action in ("read", "delete"))


async def get_item(auth: AuthRequest) -> None:
    """Require store.get; a namespace or key that the handler sets replaces that of the query."""
    query = auth.request.query_params
    requested = tuple(label for label in query.get("namespace", "").split(".") if label)
    value: dict[str, Any] = {"namespace": requested, "key": query.get("key"), "refresh_ttl": query.get("refresh_ttl")}
    await auth.permit("store", "get", value)
    if tuple(value["namespace"] or ()) != requested or value["key"] != query.get("key"):
        pairs = [(name, item) for name, item in query.multi_items() if name not in ("namespace", "key")]
        chosen: tuple[str, ...] = tuple(value["namespace"] or ())
        for label in chosen:
            # In the query a period separates labels, so the namespace might become another user's.
            if "." in label:
                raise InvalidRequest(f"Namespace label '{label[:200]}' must be a non-empty string without periods")
        pairs += [("namespace", ".".join(chosen)), ("key", str(value["key"] or ""))]
        auth.request.scope["query_string"] = urlencode(pairs).encode()


async def _permit_store(action: str, names: tuple[str, ...], auth: AuthRequest) -> None:
    """Authorize access to the store; the handler may replace the namespace, the first name, and the other fields."""
    fields, (field, *others) = auth.fields, names
    labels, more = fields.get(field), {name: fields.get(name) for name in others}
    namespace = tuple(labels) if isinstance(labels, list | tuple) else labels
    value: dict[str, Any] = {"namespace": namespace, **more}
    await auth.permit("store", action, value)
    if (chosen := value.pop("namespace", None)) != namespace:
        fields[field] = None if chosen is None else list(chosen)
    fields.update({name: item for name, item in value.items() if item is not more.get(name)})


put_item = partial(_permit_store, "put", ("namespace", "key", "value", "index", "ttl"))
delete_item = partial(_permit_store, "delete", ("namespace", "key"))
search_items = partial(
    _permit_store, "search", ("namespace_prefix", "filter", "limit", "offset", "query", "refresh_ttl")
)
list_namespaces = partial(_permit_store, "list_namespaces", ("prefix", "suffix", "max_depth", "limit", "offset"))


async def send_command(auth: AuthRequest) -> None:
    """Require threads.create_run for commands that start or resume runs, else threads.read or threads.update."""
    thread_id, command = auth.id_in_path("thread"), auth.fields
    await auth.permit_row("threads", "read", thread_id)
    await permit_named_threads(auth, "read", command)
    value = command.get("params")
    params: JsonObject = value if isinstance(value, dict) else {}
    if command.get("method") in ("run.start", "input.respond", "input.inject"):
        await permit_run(auth, params, thread_id)
        auth.run_metadata = params.get("metadata") or {}
    elif not str(command.get("method")).startswith(("agent.", "subscription.")):
        await auth.permit_row("threads", "update", thread_id)


async def permit_named_threads(auth: AuthRequest, action: str, message: object = None) -> list[str]:
    """Authorize access to the threads of all thread and run ids anywhere in a message, and return these threads."""
    ids = dict.fromkeys(_find_ids(auth.body if message is None else message))
    if len(ids) > MAX_NAMED_IDS:
        raise NotFound("Not Found")
    thread_ids: dict[str, None] = {}
    for row_id in ids:
        run = await auth.services.persistence.runs.find(row_id)
        thread_id = row_id if run is None else run.thread_id
        await auth.permit_row("threads", action, thread_id, {"thread_id": thread_id})
        thread_ids[thread_id] = None
    return list(thread_ids)


def _find_ids(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from (row_id.lower() for row_id in UUID_PATTERN.findall(value))
    elif isinstance(value, dict):
        for name, item in value.items():
            if name not in CONTENT_FIELDS:
                yield from _find_ids(item)
    elif isinstance(value, list):
        for item in value:
            yield from _find_ids(item)
