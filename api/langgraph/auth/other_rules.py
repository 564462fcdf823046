"""What is asked of the handlers for assistants, crons and the store; every action is the official server's."""

from typing import Any
from urllib.parse import urlencode

from toolweave.api.langgraph.auth.authorization import AuthRequest, as_uuid, checked_id
from toolweave.errors import InvalidRequest, NotFound
from toolweave.runtime.models import JsonObject
from toolweave.runtime.persistence.assistants import system_assistant_id
from toolweave.runtime.persistence.search import allows


async def search_assistants(asked: AuthRequest) -> None:
    """assistants.search; the filter applies to what is found and counted."""
    fields = asked.fields
    value = {
        "graph_id": fields.get("graph_id"),
        "metadata": fields.get("metadata") or {},
        "limit": fields.get("limit", 10),
        "offset": fields.get("offset", 0),
    }
    asked.filters["assistants"] = await asked.permit_written("assistants", "search", fields, value)


async def create_assistant(asked: AuthRequest) -> None:
    """assistants.create; an existing assistant of somebody else's stays unseen."""
    fields = asked.fields
    value = {
        "assistant_id": as_uuid(fields.get("assistant_id")),
        "graph_id": fields.get("graph_id"),
        "config": fields.get("config") or {},
        "context": fields.get("context"),
        "metadata": fields.get("metadata") or {},
        "name": fields.get("name"),
    }
    if "if_exists" in fields:
        value["if_exists"] = fields["if_exists"]
    wanted = await asked.permit_written("assistants", "create", fields, value)
    assistant_id = checked_id(fields.get("assistant_id"))
    if not await asked.sees_assistant(wanted, assistant_id):
        # Refused as taken, whatever was to happen then: do_nothing would show it.
        fields["if_exists"] = "raise"


async def read_assistant(asked: AuthRequest) -> None:
    """assistants.read, by id or by the name of a graph."""
    given = asked.request.path_params.get("assistant_id", "")
    known = given in asked.served.graphs.names()
    await asked.assistant("read", system_assistant_id(given) if known else checked_id(given))


async def read_interface(asked: AuthRequest) -> None:
    """assistants.read of the graph's own assistant."""
    await asked.assistant("read", system_assistant_id(str(asked.request.path_params.get("graph", ""))))


async def update_assistant(asked: AuthRequest) -> None:
    """assistants.update with what is to change."""
    fields, assistant_id = asked.fields, asked.id_in_path("assistant")
    value = {
        "assistant_id": as_uuid(assistant_id),
        "graph_id": fields.get("graph_id"),
        "config": fields.get("config") or {},
        "context": fields.get("context"),
        "metadata": fields.get("metadata") or {},
        "name": fields.get("name"),
    }
    wanted = await asked.permit_written("assistants", "update", fields, value)
    fields.pop("assistant_id", None)
    if not await asked.sees_assistant(wanted, assistant_id):
        raise NotFound("Not Found")


async def set_version(asked: AuthRequest) -> None:
    """assistants.update with the version."""
    assistant_id = asked.id_in_path("assistant")
    value = {"assistant_id": as_uuid(assistant_id), "version": asked.fields.get("version")}
    await asked.assistant("update", assistant_id, value)


async def delete_assistant(asked: AuthRequest) -> None:
    """assistants.delete; its threads, if they go too, are those that threads.delete lets through."""
    await asked.assistant("delete", asked.id_in_path("assistant"))
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
    if value.get("metadata") or "metadata" in fields:
        fields["metadata"] = value.get("metadata") or {}
    name_or_id = fields.get("assistant_id")
    if not await asked.sees_assistant_to_run(wanted, name_or_id):
        raise NotFound(f"Assistant '{name_or_id}' not found")
    if thread_id is not None:
        await asked.thread("read", thread_id, hidden=NotFound(f"Thread with ID '{thread_id}' not found"))


async def search_crons(asked: AuthRequest) -> None:
    """crons.search; crons of threads that threads.search hides are hidden too."""
    fields = asked.fields
    value = {
        "assistant_id": as_uuid(fields.get("assistant_id")),
        "thread_id": as_uuid(fields.get("thread_id")),
        "limit": fields.get("limit", 10),
        "offset": fields.get("offset", 0),
        "metadata": fields.get("metadata") or {},
    }
    wanted = await asked.permit("crons", "search", value)
    if value.get("metadata") or "metadata" in fields:
        fields["metadata"] = value.get("metadata") or {}
    asked.filters["crons"] = wanted
    asked.filters["threads"] = await asked.permit("threads", "search", {})


async def read_cron(asked: AuthRequest) -> None:
    """crons.read."""
    await _cron(asked, "read", {})


async def update_cron(asked: AuthRequest) -> None:
    """crons.update with what is to change."""
    fields = asked.fields
    changes = {name: fields.get(name) for name in ("schedule", "end_time", "enabled", "on_run_completed")}
    await _cron(asked, "update", {**changes, "payload": dict(fields)})


async def delete_cron(asked: AuthRequest) -> None:
    """crons.delete."""
    await _cron(asked, "delete", {})


async def _cron(asked: AuthRequest, action: str, more: JsonObject) -> None:
    cron_id = asked.id_in_path("cron")
    value: dict[str, Any] = {"cron_id": as_uuid(cron_id), **more}
    wanted = await asked.permit("crons", action, value)
    if isinstance(changed := value.get("metadata"), dict):
        asked.fields["metadata"] = {**(asked.fields.get("metadata") or {}), **changed}
    if cron_id is None:
        return
    try:
        cron = await asked.served.persistence.crons.get(cron_id)
    except NotFound:
        return
    if not allows(wanted, cron.metadata):
        raise NotFound("Not Found")
    if cron.thread_id is not None:
        await asked.thread("read", cron.thread_id, hidden=NotFound("Not Found"))


async def put_item(asked: AuthRequest) -> None:
    """store.put."""
    fields = asked.fields
    value = {name: fields.get(name) for name in ("key", "value", "index", "ttl")}
    await _scoped(asked, "put", "namespace", value)


async def delete_item(asked: AuthRequest) -> None:
    """store.delete."""
    await _scoped(asked, "delete", "namespace", {"key": asked.fields.get("key")})


async def search_items(asked: AuthRequest) -> None:
    """store.search."""
    fields = asked.fields
    value = {name: fields.get(name) for name in ("filter", "limit", "offset", "query", "refresh_ttl")}
    await _scoped(asked, "search", "namespace_prefix", value)


async def list_namespaces(asked: AuthRequest) -> None:
    """store.list_namespaces."""
    fields = asked.fields
    value = {name: fields.get(name) for name in ("suffix", "max_depth", "limit", "offset")}
    await _scoped(asked, "list_namespaces", "prefix", value)


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


async def _scoped(asked: AuthRequest, action: str, field: str, more: JsonObject) -> None:
    """Ask about a namespace, and use the one that the handler leaves in `value`."""
    fields = asked.fields
    given = fields.get(field)
    namespace = tuple(given) if isinstance(given, list | tuple) else given
    value: dict[str, Any] = {"namespace": namespace, **more}
    await asked.permit("store", action, value)
    if (chosen := value.pop("namespace", None)) != namespace:
        fields[field] = None if chosen is None else list(chosen)
    fields.update({name: item for name, item in value.items() if item is not more.get(name)})
