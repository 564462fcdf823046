"""Endpoints of a thread's states: the newest, one at a checkpoint, the history, and writing."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.langgraph.answers import json_answer
from toolweave.api.langgraph.components import body_schema
from toolweave.api.langgraph.endpoint import Endpoint, Query
from toolweave.api.langgraph.json_schema import BOOLEAN, MAX_LIMIT, STRING, list_of
from toolweave.api.langgraph.requests import Body, path_uuid, query_flag, query_integer, query_words, read_body
from toolweave.api.langgraph.served import served
from toolweave.api.langgraph.thread_states import read_history, read_state, update_state
from toolweave.api.langgraph.wire import selected_state

UPDATE = body_schema("ThreadStateUpdate")
AT_CHECKPOINT = body_schema("ThreadStateCheckpointRequest")
HISTORY = body_schema("ThreadStateSearch")


async def get(request: Request) -> Response:
    """Give a thread's newest state."""
    subgraphs = query_flag(request, "subgraphs")
    state = await read_state(served(request), path_uuid(request, "thread"), subgraphs=subgraphs)
    return json_answer(selected_state(state, query_words(request, "select")))


async def get_at(request: Request) -> Response:
    """Give a thread's state at a checkpoint; an unknown one is an empty state."""
    checkpoint = {"checkpoint_id": request.path_params["checkpoint_id"]}
    subgraphs = query_flag(request, "subgraphs")
    state = await read_state(served(request), path_uuid(request, "thread"), checkpoint, subgraphs=subgraphs)
    return json_answer(selected_state(state, query_words(request, "select")))


async def post_at(request: Request) -> Response:
    """Give a thread's state at a checkpoint that may lie in a subgraph."""
    thread_id = path_uuid(request, "thread")
    body = await read_body(request, AT_CHECKPOINT)
    state = await read_state(
        served(request), thread_id, body.fields["checkpoint"], subgraphs=body.get("subgraphs", False)
    )
    return json_answer(selected_state(state, body.get("select", ())), headers=body.headers())


async def update(request: Request) -> Response:
    """Write into a thread's state."""
    thread_id = path_uuid(request, "thread")
    body = await read_body(request, UPDATE)
    checkpoint = dict(body.get("checkpoint", {}))
    if "checkpoint_id" in body.fields:
        checkpoint["checkpoint_id"] = body.fields["checkpoint_id"]
    written = await update_state(
        served(request), thread_id, body.get("values"), as_node=body.get("as_node"), checkpoint=checkpoint
    )
    answer = {"checkpoint": written, "configurable": written, "checkpoint_id": written["checkpoint_id"]}
    return json_answer(answer, headers=body.headers())


async def search_history(request: Request) -> Response:
    """Give a thread's states, newest first."""
    thread_id = path_uuid(request, "thread")
    body = await read_body(request, HISTORY)
    states = await read_history(
        served(request),
        thread_id,
        limit=body.get("limit", 1),
        before=_before(body),
        metadata=body.get("metadata"),
        checkpoint=body.get("checkpoint"),
    )
    shown = [selected_state(state, body.get("select", ())) for state in states]
    return json_answer(shown, headers=body.headers())


async def get_history(request: Request) -> Response:
    """Give a thread's states, newest first."""
    limit = query_integer(request, "limit", default=1, least=1, most=MAX_LIMIT)
    before = request.query_params.get("before")
    states = await read_history(
        served(request), path_uuid(request, "thread"), limit=limit, before=before, metadata=None, checkpoint=None
    )
    return json_answer([selected_state(state, query_words(request, "select")) for state in states])


def _before(body: Body) -> str | None:
    """Read `before` in all the forms that SDKs send: an id, a checkpoint, a config holding one."""
    before: Any = body.get("before")
    if isinstance(before, dict):
        before = before.get("configurable", before)
    if isinstance(before, dict):
        before = before.get("checkpoint_id")
    return before if isinstance(before, str) and before else None


_TAG = "Threads"
_STATE = "/threads/{thread_id}/state"
_SELECT = Query("select", list_of(STRING))
_SUBGRAPHS = (Query("subgraphs", BOOLEAN), _SELECT)
_BOTH = (404, 422)
_LIMIT = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 1}

ENDPOINTS = (
    Endpoint("GET", _STATE, get, "Get the state", _TAG, answer="ThreadState", errors=_BOTH, query=_SUBGRAPHS),
    Endpoint(
        "POST",
        _STATE,
        update,
        "Update the state",
        _TAG,
        body="ThreadStateUpdate",
        answer="ThreadStateUpdated",
        errors=(400, 404, 409, 422),
    ),
    Endpoint(
        "POST",
        f"{_STATE}/checkpoint",
        post_at,
        "Get the state at a checkpoint",
        _TAG,
        body="ThreadStateCheckpointRequest",
        answer="ThreadState",
        errors=_BOTH,
    ),
    Endpoint(
        "GET",
        f"{_STATE}/{{checkpoint_id}}",
        get_at,
        "Get the state at a checkpoint",
        _TAG,
        answer="ThreadState",
        errors=_BOTH,
        query=_SUBGRAPHS,
    ),
    Endpoint(
        "GET",
        "/threads/{thread_id}/history",
        get_history,
        "Get the history",
        _TAG,
        answer="ThreadState",
        answers_list=True,
        errors=_BOTH,
        query=(Query("limit", _LIMIT), Query("before", STRING), _SELECT),
    ),
    Endpoint(
        "POST",
        "/threads/{thread_id}/history",
        search_history,
        "Search the history",
        _TAG,
        body="ThreadStateSearch",
        answer="ThreadState",
        answers_list=True,
        errors=_BOTH,
    ),
)
