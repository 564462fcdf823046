"""What is asked of the handlers for the protocols within the API: MCP, A2A and the newer streaming protocol."""

import re
from collections.abc import Iterator
from typing import Any

from toolweave.api.langgraph.auth.authorization import AuthRequest, checked_id
from toolweave.api.langgraph.auth.other_rules import read_assistant
from toolweave.api.langgraph.auth.thread_rules import permit_run
from toolweave.api.langgraph.routes.a2a_tasks import METHODS
from toolweave.errors import NotFound
from toolweave.runtime.models import JsonObject

UUIDS = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# What a user says; ids in there are text.
CONTENTS = frozenset({"parts", "input", "values", "update", "response", "responses"})
MOST_IDS = 1000


async def speak_mcp(asked: AuthRequest) -> None:
    """assistants.search for the tools that are there, threads.create_run for a call."""
    value: dict[str, Any] = {"graph_id": None, "metadata": {}, "limit": 1000, "offset": 0}
    asked.filters["assistants"] = await asked.permit("assistants", "search", value)
    if asked.fields.get("method") == "tools/call":
        params = asked.fields.get("params")
        # The tool's assistant is found among those that may be seen.
        await _permit_own_run(asked, {"input": params.get("arguments") if isinstance(params, dict) else None})


async def end_mcp(_asked: AuthRequest) -> None:
    """Nothing: there are no sessions."""


async def speak_a2a(asked: AuthRequest) -> None:
    """assistants.read, threads.create_run for a message, threads.read or search for what is asked about."""
    await read_assistant(asked)
    named = await _see_named_threads(asked, "read")
    operation, _ = METHODS.get(str(asked.fields.get("method")), (None, None))
    if operation in ("send", "stream"):
        fields: JsonObject = {"assistant_id": asked.request.path_params["assistant_id"]}
        # Who may read a thread need not be allowed to talk on it.
        threads: list[str | None] = [known for known in named if await asked.has_thread(known)]
        for thread_id in threads or [None]:
            await permit_run(asked, fields, thread_id)
        asked.run_metadata = fields.get("metadata") or {}
    elif operation == "cancel":
        await _see_named_threads(asked, "update")
    elif operation == "list":
        asked.filters["threads"] = await asked.permit("threads", "search", {"metadata": {}})


async def read_card(asked: AuthRequest) -> None:
    """assistants.read."""
    given = asked.request.path_params.get("assistant_id") or asked.request.query_params.get("assistant_id")
    await asked.assistant("read", checked_id(given))


async def send_command(asked: AuthRequest) -> None:
    """threads.create_run for what makes a thread run on, threads.read for what looks, threads.update for the rest."""
    await permit_command(asked, asked.id_in_path("thread"), asked.fields)


async def permit_command(asked: AuthRequest, thread_id: str | None, command: JsonObject) -> None:
    """Ask for one command of the newer protocol."""
    await asked.thread("read", thread_id)
    await _see_named_threads(asked, "read", command)
    given = command.get("params")
    params: JsonObject = given if isinstance(given, dict) else {}
    if command.get("method") in ("run.start", "input.respond", "input.inject"):
        await permit_run(asked, params, thread_id)
        asked.run_metadata = params.get("metadata") or {}
    elif not str(command.get("method")).startswith(("agent.", "subscription.")):
        await asked.thread("update", thread_id)


async def _permit_own_run(asked: AuthRequest, fields: JsonObject) -> None:
    await permit_run(asked, fields, None)
    asked.run_metadata = fields.get("metadata") or {}


async def _see_named_threads(asked: AuthRequest, action: str, message: object = None) -> list[str]:
    """Ask about every thread and run that a message names, wherever it does: it must be this user's. Gives threads."""
    named = dict.fromkeys(_ids(asked.body if message is None else message))
    if len(named) > MOST_IDS:
        raise NotFound("Not Found")
    thread_ids: dict[str, None] = {}
    for named_id in named:
        run = await asked.served.persistence.runs.find(named_id)
        thread_id = named_id if run is None else run.thread_id
        wanted = await asked.permit("threads", action, {"thread_id": thread_id})
        if not await asked.sees_thread(wanted, thread_id):
            raise NotFound(f"Thread with ID {thread_id} not found")
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
