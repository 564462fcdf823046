"""Ask the application's auth handlers about an endpoint; every action is the official server's."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from langchain_core.utils.uuid import uuid7

from toolweave.api.langgraph.auth.authorization import AuthRequest, as_uuid, checked_id
from toolweave.errors import Conflict, InvalidRequest, NotFound
from toolweave.runtime.models import JsonObject
from toolweave.runtime.persistence.assistants import system_assistant_id
from toolweave.runtime.persistence.search import allows

RUN_ARGUMENTS = (
    *("input", "command", "config", "context", "webhook", "interrupt_before", "interrupt_after", "stream_mode"),
    *("checkpoint", "checkpoint_id", "durability"),
)
UUIDS = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# What a user says; ids in there are text.
CONTENTS = frozenset({"parts", "input", "values", "update", "response", "responses"})
MOST_IDS = 1000


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
    wanted = await asked.permit_written("threads", "create", value)
    asked.filters["threads"] = wanted
    thread_id = checked_id(fields.get("thread_id"))
    await asked.require_seen(wanted, "threads", thread_id, Conflict(f"Thread with ID {thread_id} already exists"))


async def search_threads(asked: AuthRequest) -> None:
    """threads.search; the filter applies to what is found and counted."""
    fields = asked.fields
    value = {
        "metadata": fields.get("metadata") or {},
        "values": fields.get("values") or {},
        "status": fields.get("status"),
        **_page(fields),
    }
    if "ids" in fields:
        value["ids"] = fields["ids"]
    asked.filters["threads"] = await asked.permit_written("threads", "search", value)


async def prune_threads(asked: AuthRequest) -> None:
    """threads.delete, for all of them or none."""
    given = asked.fields.get("thread_ids")
    ids = [known for known in map(checked_id, given if isinstance(given, list) else ()) if known is not None]
    wanted = await asked.permit("threads", "delete", {"thread_ids": [UUID(thread_id) for thread_id in ids]})
    for thread_id in ids:
        hidden = NotFound("At least one thread not found or not authorized")
        await asked.require_seen(wanted, "threads", thread_id, hidden)


async def read_thread(asked: AuthRequest) -> None:
    """threads.read."""
    await asked.permit_one("threads", "read", asked.id_in_path("thread"))


async def listen(asked: AuthRequest) -> None:
    """threads.read; the filter applies once more to a thread that is yet to be created."""
    asked.filters["threads"] = await asked.permit_one("threads", "read", asked.id_in_path("thread"))


async def update_thread(asked: AuthRequest) -> None:
    """threads.update with the metadata to merge."""
    fields, thread_id = asked.fields, asked.id_in_path("thread")
    value = {"thread_id": as_uuid(thread_id), "metadata": fields.get("metadata") or {}}
    wanted = await asked.permit_written("threads", "update", value)
    await asked.require_seen(wanted, "threads", thread_id, NotFound("Not Found"))


async def update_state(asked: AuthRequest) -> None:
    """threads.update: a state is part of its thread."""
    await asked.permit_one("threads", "update", asked.id_in_path("thread"))


async def delete_thread(asked: AuthRequest) -> None:
    """threads.delete."""
    await asked.permit_one("threads", "delete", asked.id_in_path("thread"))


async def copy_thread(asked: AuthRequest) -> None:
    """threads.read of the one, threads.create of the other, which has the same metadata."""
    await asked.permit_one("threads", "read", asked.id_in_path("thread"), hidden=Conflict("Conflict"))
    await asked.permit("threads", "create", {"thread_id": None})


async def list_runs(asked: AuthRequest) -> None:
    """threads.read, and threads.search as in the official server."""
    await read_thread(asked)
    thread_id = asked.id_in_path("thread")
    await asked.permit_one("threads", "search", thread_id, {"thread_id": as_uuid(thread_id), "metadata": {}})


async def read_run(asked: AuthRequest) -> None:
    """threads.read."""
    value = {"thread_id": as_uuid(asked.id_in_path("thread")), "run_id": as_uuid(asked.id_in_path("run"))}
    await asked.permit_one("threads", "read", asked.id_in_path("thread"), value)


async def read_stateless_run(asked: AuthRequest) -> None:
    """threads.read of the run's temporary thread; of one that is gone, its run said the same of itself."""
    run_id, hidden = asked.id_in_path("run"), NotFound("Run not found")
    run = None if run_id is None else await asked.services.persistence.runs.find(run_id)
    thread_id = None if run is None else run.thread_id
    value = {"thread_id": as_uuid(thread_id), "run_id": as_uuid(run_id)}
    wanted = await asked.permit_one("threads", "read", thread_id, value, hidden=hidden)
    if run is None:
        ended = asked.services.engine.runtime.log.ended.find(run_id or "")
        if ended is not None and not allows(wanted, ended.metadata):
            raise hidden
    elif asked.request.query_params.get("cancel_on_disconnect"):
        await asked.permit_one("threads", "update", thread_id, {**value, "action": "interrupt"}, hidden=hidden)


async def join_run(asked: AuthRequest) -> None:
    """threads.read, and threads.update when leaving is to cancel the run."""
    await read_run(asked)
    if asked.request.query_params.get("cancel_on_disconnect"):
        thread_id = asked.id_in_path("thread")
        await asked.permit_one("threads", "update", thread_id, {"thread_id": as_uuid(thread_id), "action": "interrupt"})


async def delete_run(asked: AuthRequest) -> None:
    """threads.delete."""
    value = {"run_id": as_uuid(asked.id_in_path("run")), "thread_id": as_uuid(asked.id_in_path("thread"))}
    await asked.permit_one("threads", "delete", asked.id_in_path("thread"), value, hidden=NotFound("Not Found"))


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
    hidden = NotFound("No runs found to cancel.")
    asked.filters["threads"] = await asked.permit_one("threads", "update", thread_id, value, hidden=hidden)


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
    _write_metadata(fields, value)
    fields.update({name: item for name, item in arguments.items() if item is not before.get(name)})
    hidden = NotFound("Thread or assistant not found.")
    await asked.require_seen(wanted, "threads", thread_id, hidden)
    if not await asked.sees_assistant_to_run(wanted, fields.get("assistant_id")):
        raise hidden


def _write_metadata(fields: JsonObject, value: JsonObject) -> None:
    """Write the metadata that a handler leaves in `value` into the body's fields."""
    if value.get("metadata") or "metadata" in fields:
        fields["metadata"] = value.get("metadata") or {}


def _page(fields: JsonObject) -> JsonObject:
    return {"limit": fields.get("limit", 10), "offset": fields.get("offset", 0)}


async def search_assistants(asked: AuthRequest) -> None:
    """assistants.search; the filter applies to what is found and counted."""
    fields = asked.fields
    value = {"graph_id": fields.get("graph_id"), "metadata": fields.get("metadata") or {}, **_page(fields)}
    asked.filters["assistants"] = await asked.permit_written("assistants", "search", value)


async def create_assistant(asked: AuthRequest) -> None:
    """assistants.create; an existing assistant of somebody else's stays unseen."""
    fields = asked.fields
    value = _assistant(fields, checked_id(fields.get("assistant_id")))
    if "if_exists" in fields:
        value["if_exists"] = fields["if_exists"]
    wanted = await asked.permit_written("assistants", "create", value)
    if not await asked.sees(wanted, "assistants", checked_id(fields.get("assistant_id"))):
        # Refused as taken, whatever was to happen then: do_nothing would show it.
        fields["if_exists"] = "raise"


async def read_assistant(asked: AuthRequest) -> None:
    """assistants.read, by id or by the name of a graph."""
    given = asked.request.path_params.get("assistant_id", "")
    known = given in asked.services.graphs.names()
    await asked.permit_one("assistants", "read", system_assistant_id(given) if known else checked_id(given))


async def read_interface(asked: AuthRequest) -> None:
    """assistants.read of the graph's own assistant."""
    await asked.permit_one("assistants", "read", system_assistant_id(str(asked.request.path_params.get("graph", ""))))


async def update_assistant(asked: AuthRequest) -> None:
    """assistants.update with what is to change."""
    fields, assistant_id = asked.fields, asked.id_in_path("assistant")
    value = _assistant(fields, assistant_id)
    wanted = await asked.permit_written("assistants", "update", value)
    await asked.require_seen(wanted, "assistants", assistant_id)


def _assistant(fields: JsonObject, assistant_id: str | None) -> JsonObject:
    return {
        "assistant_id": as_uuid(assistant_id),
        "graph_id": fields.get("graph_id"),
        "config": fields.get("config") or {},
        "context": fields.get("context"),
        "metadata": fields.get("metadata") or {},
        "name": fields.get("name"),
    }


async def set_version(asked: AuthRequest) -> None:
    """assistants.update with the version."""
    assistant_id = asked.id_in_path("assistant")
    value = {"assistant_id": as_uuid(assistant_id), "version": asked.fields.get("version")}
    await asked.permit_one("assistants", "update", assistant_id, value)


async def delete_assistant(asked: AuthRequest) -> None:
    """assistants.delete; its threads, if they go too, are those that threads.delete lets through."""
    await asked.permit_one("assistants", "delete", asked.id_in_path("assistant"))
    if asked.request.query_params.get("delete_threads"):
        asked.filters["threads"] = await asked.permit("threads", "delete", {"thread_id": None})


async def create_cron(asked: AuthRequest) -> None:
    """crons.create, on a thread that threads.read shows, for an assistant the user may run."""
    fields, thread_id = asked.fields, asked.id_in_path("thread")
    value: dict[str, Any] = {
        "payload": {name: item for name, item in fields.items() if name != "metadata"},
        "schedule": fields.get("schedule"),
        "cron_id": None,
        "thread_id": as_uuid(thread_id),
        "user_id": asked.user.identity,
        "end_time": fields.get("end_time"),
        "metadata": fields.get("metadata") or {},
    }
    wanted = await asked.permit("crons", "create", value)
    _write_metadata(fields, value)
    name_or_id = fields.get("assistant_id")
    if not await asked.sees_assistant_to_run(wanted, name_or_id):
        raise NotFound(f"Assistant '{name_or_id}' not found")
    if thread_id is not None:
        await asked.permit_one("threads", "read", thread_id, hidden=NotFound(f"Thread with ID '{thread_id}' not found"))


async def search_crons(asked: AuthRequest) -> None:
    """crons.search; crons of threads that threads.search hides are hidden too."""
    fields = asked.fields
    value = {
        "assistant_id": as_uuid(fields.get("assistant_id")),
        "thread_id": as_uuid(fields.get("thread_id")),
        "metadata": fields.get("metadata") or {},
        **_page(fields),
    }
    wanted = await asked.permit("crons", "search", value)
    _write_metadata(fields, value)
    asked.filters["crons"] = wanted
    asked.filters["threads"] = await asked.permit("threads", "search", {})


async def read_cron(asked: AuthRequest) -> None:
    """crons.read."""
    await _cron(asked, "read")


async def update_cron(asked: AuthRequest) -> None:
    """crons.update with what is to change."""
    fields = asked.fields
    changes = {name: fields.get(name) for name in ("schedule", "end_time", "enabled", "on_run_completed")}
    await _cron(asked, "update", **changes, payload=dict(fields))


async def delete_cron(asked: AuthRequest) -> None:
    """crons.delete."""
    await _cron(asked, "delete")


async def _cron(asked: AuthRequest, action: str, **more: object) -> None:
    cron_id = asked.id_in_path("cron")
    value: dict[str, Any] = {"cron_id": as_uuid(cron_id), **more}
    wanted = await asked.permit("crons", action, value)
    if isinstance(changed := value.get("metadata"), dict):
        asked.fields["metadata"] = {**(asked.fields.get("metadata") or {}), **changed}
    if cron_id is None:
        return
    try:
        cron = await asked.services.persistence.crons.get(cron_id)
    except NotFound:
        return
    if not allows(wanted, cron.metadata):
        raise NotFound("Not Found")
    if cron.thread_id is not None:
        await asked.permit_one("threads", "read", cron.thread_id, hidden=NotFound("Not Found"))


async def put_item(asked: AuthRequest) -> None:
    """store.put."""
    await _scoped(asked, "put", "namespace", "key", "value", "index", "ttl")


async def delete_item(asked: AuthRequest) -> None:
    """store.delete."""
    await _scoped(asked, "delete", "namespace", "key")


async def search_items(asked: AuthRequest) -> None:
    """store.search."""
    await _scoped(asked, "search", "namespace_prefix", "filter", "limit", "offset", "query", "refresh_ttl")


async def list_namespaces(asked: AuthRequest) -> None:
    """store.list_namespaces."""
    await _scoped(asked, "list_namespaces", "prefix", "suffix", "max_depth", "limit", "offset")


async def get_item(asked: AuthRequest) -> None:
    """store.get; the namespace that the handler chooses replaces the one in the query."""
    query = asked.request.query_params
    given = tuple(label for label in query.get("namespace", "").split(".") if label)
    value: dict[str, Any] = {"namespace": given, "key": query.get("key"), "refresh_ttl": query.get("refresh_ttl")}
    await asked.permit("store", "get", value)
    if tuple(value["namespace"] or ()) != given or value["key"] != query.get("key"):
        pairs = [(name, item) for name, item in query.multi_items() if name not in ("namespace", "key")]
        chosen: tuple[str, ...] = tuple(value["namespace"] or ())
        for label in chosen:
            # In the query it would be two labels, and those may be somebody else's.
            if "." in label:
                raise InvalidRequest(f"Namespace label '{label[:200]}' must be a non-empty string without periods")
        pairs += [("namespace", ".".join(chosen)), ("key", str(value["key"] or ""))]
        asked.request.scope["query_string"] = urlencode(pairs).encode()


async def _scoped(asked: AuthRequest, action: str, field: str, *others: str) -> None:
    """Ask about a namespace and other fields, and use what the handler leaves in `value`."""
    fields = asked.fields
    given, more = fields.get(field), {name: fields.get(name) for name in others}
    namespace = tuple(given) if isinstance(given, list | tuple) else given
    value: dict[str, Any] = {"namespace": namespace, **more}
    await asked.permit("store", action, value)
    if (chosen := value.pop("namespace", None)) != namespace:
        fields[field] = None if chosen is None else list(chosen)
    fields.update({name: item for name, item in value.items() if item is not more.get(name)})


async def send_command(asked: AuthRequest) -> None:
    """threads.create_run for what makes a thread run on, threads.read for what looks, threads.update for the rest."""
    thread_id, command = asked.id_in_path("thread"), asked.fields
    await asked.permit_one("threads", "read", thread_id)
    await see_named_threads(asked, "read", command)
    given = command.get("params")
    params: JsonObject = given if isinstance(given, dict) else {}
    if command.get("method") in ("run.start", "input.respond", "input.inject"):
        await permit_run(asked, params, thread_id)
        asked.run_metadata = params.get("metadata") or {}
    elif not str(command.get("method")).startswith(("agent.", "subscription.")):
        await asked.permit_one("threads", "update", thread_id)


async def see_named_threads(asked: AuthRequest, action: str, message: object = None) -> list[str]:
    """Ask about every thread and run that a message names, wherever it does: it must be this user's. Gives threads."""
    named = dict.fromkeys(_ids(asked.body if message is None else message))
    if len(named) > MOST_IDS:
        raise NotFound("Not Found")
    thread_ids: dict[str, None] = {}
    for named_id in named:
        run = await asked.services.persistence.runs.find(named_id)
        thread_id = named_id if run is None else run.thread_id
        await asked.permit_one("threads", action, thread_id, {"thread_id": thread_id})
        thread_ids[thread_id] = None
    return list(thread_ids)


def _ids(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from (found.lower() for found in UUIDS.findall(value))
    elif isinstance(value, dict):
        for name, item in value.items():
            if name not in CONTENTS:
                yield from _ids(item)
    elif isinstance(value, list):
        for item in value:
            yield from _ids(item)
