"""The A2A endpoints: assistants as agents, and the cards that describe them (langgraph_api.md section 8)."""

import asyncio
from collections.abc import Awaitable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from toolweave.api.langgraph.a2a.agent_card import HISTORY_SCOPE_HEADER, SCOPES, agent_card
from toolweave.api.langgraph.a2a.asking import cancel_task, get_task, list_tasks
from toolweave.api.langgraph.a2a.dialect import METHODS, Dialect, Operation
from toolweave.api.langgraph.a2a.incoming import incoming
from toolweave.api.langgraph.a2a.talking import begin_talk
from toolweave.api.langgraph.answers import empty_answer, json_answer
from toolweave.api.langgraph.endpoint import Endpoint, Query
from toolweave.api.langgraph.graph_description import input_schema
from toolweave.api.langgraph.json_body import read_json
from toolweave.api.langgraph.json_rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RequestId,
    RpcError,
    error_message,
    params_of,
    request_id_of,
    result_message,
)
from toolweave.api.langgraph.live_answers import EventStream, SlowJson
from toolweave.api.langgraph.request_values import uuid_of
from toolweave.api.langgraph.routes.system import API_VERSION
from toolweave.api.langgraph.schemas.fields import STRING, one_of
from toolweave.api.langgraph.served import Served, served
from toolweave.errors import InvalidRequest, NotFound, RequestError
from toolweave.runtime.models import Assistant, JsonObject

STREAM_NOT_ACCEPTED = "Accept header must include text/event-stream for streaming"


async def message(request: Request) -> ASGIApp:
    """Take one JSON-RPC message for an assistant; errors are JSON-RPC errors in a 200."""
    request_id: RequestId = None
    try:
        received = await _object(request)
        request_id = request_id_of(received)
        _check_version(received)
        if "method" not in received and ("result" in received or "error" in received):
            return empty_answer(202)
        return await _called(request, request_id, _method_of(received), params_of(received))
    except RpcError as error:
        return _answer(error_message(request_id, error))
    except RequestError as error:
        # Of the run that was asked for: its thread, its assistant, its graph.
        return _answer(error_message(request_id, RpcError(INVALID_PARAMS, str(error))))


async def card(request: Request) -> Response:
    """Describe the assistant as an agent; refusals have a JSON-RPC error in a 400."""
    assistant_id = request.path_params.get("assistant_id") or request.query_params.get("assistant_id")
    here = served(request)
    try:
        if not assistant_id:
            raise RpcError(INVALID_PARAMS, "Missing required query parameter: assistant_id")
        assistant = await _assistant(here, assistant_id, f"Failed to get assistant '{assistant_id[:200]}': ")
    except RpcError as error:
        return json_answer({"error": {"code": error.code, "message": str(error)}}, status=400)
    async with here.graphs.open(assistant.graph_id, access="assistants.read") as graph:
        schema = await asyncio.to_thread(input_schema, graph)
    return json_answer(agent_card(assistant, schema or {}, base_url=str(request.base_url), version=API_VERSION))


async def _called(request: Request, request_id: RequestId, method: str, params: JsonObject) -> ASGIApp:
    if method not in METHODS:
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
    operation, dialect = METHODS[method]
    accepted = request.headers.get("accept", "*/*")
    if operation == "stream" and "text/event-stream" not in accepted and "*/*" not in accepted:
        incoming(params)
        return json_answer({"error": STREAM_NOT_ACCEPTED}, status=400)
    here = served(request)
    assistant = await _assistant(here, request.path_params["assistant_id"])
    task_only = _task_only(request)
    if operation in ("send", "stream"):
        return await _talk(here, assistant, dialect, operation, request_id, params, task_only)
    return _answer(
        result_message(request_id, await _ask(here, assistant, dialect, operation, params, task_only=task_only))
    )


async def _talk(
    here: Served,
    assistant: Assistant,
    dialect: Dialect,
    operation: Operation,
    request_id: RequestId,
    params: JsonObject,
    task_only: bool,
) -> ASGIApp:
    streams = operation == "stream"
    talk = await begin_talk(here, assistant, dialect, params, task_only=task_only, listen=streams)
    if streams:
        return EventStream(talk.updates(request_id), {})
    configuration = params.get("configuration") or {}
    if configuration.get("blocking") is False or configuration.get("returnImmediately") is True:
        return _answer(result_message(request_id, dialect.task_answer(talk.begun())))
    return SlowJson(_finished(request_id, dialect, talk.finished()), {})


async def _ask(
    here: Served, assistant: Assistant, dialect: Dialect, operation: Operation, params: JsonObject, *, task_only: bool
) -> JsonObject:
    if operation == "cancel":
        return await cancel_task(here, assistant, dialect, params)
    asked = get_task if operation == "get" else list_tasks
    return await asked(here, assistant, dialect, params, task_only=task_only)


async def _finished(request_id: RequestId, dialect: Dialect, task: Awaitable[JsonObject]) -> bytes:
    return result_message(request_id, dialect.task_answer(await task))


async def _object(request: Request) -> JsonObject:
    try:
        received = await read_json(request)
    except InvalidRequest:
        raise RpcError(PARSE_ERROR, "Invalid JSON payload") from None
    if not isinstance(received, dict):
        raise RpcError(INVALID_REQUEST, "Invalid message format: expected object")
    return received


def _check_version(received: JsonObject) -> None:
    if received.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "Invalid JSON-RPC message: missing or invalid jsonrpc version")


def _method_of(received: JsonObject) -> str:
    method = received.get("method")
    if method is None:
        raise RpcError(INVALID_REQUEST, "Invalid JSON-RPC request: missing 'method' field")
    if not isinstance(method, str):
        raise RpcError(METHOD_NOT_FOUND, "Method not found: method must be a string")
    return method


def _task_only(request: Request) -> bool:
    scope = request.headers.get(HISTORY_SCOPE_HEADER, SCOPES[0])
    if scope not in SCOPES:
        raise RpcError(INVALID_PARAMS, "historyScope must be 'context' or 'task'")
    return scope == "task"


async def _assistant(here: Served, assistant_id: str, doing: str = "") -> Assistant:
    try:
        assistant = await here.persistence.assistants.get(uuid_of(assistant_id, "assistant"))
    except InvalidRequest as error:
        raise RpcError(INVALID_PARAMS, f"{doing}{error}") from None
    except NotFound:
        raise RpcError(INVALID_PARAMS, f"Assistant '{assistant_id}' not found") from None
    if assistant.graph_id not in here.graphs.names():
        raise RpcError(INTERNAL_ERROR, f"Graph '{assistant.graph_id[:200]}' is not served any more")
    return assistant


def _answer(body: bytes) -> Response:
    return Response(body, 200, media_type="application/json")


_TAG = "A2A"
_AGENT = "/a2a/{assistant_id}"
_CARD = ".well-known/agent-card.json"
_REFUSED = {400: "PlainError"}
_SCOPE = Query(HISTORY_SCOPE_HEADER, one_of(*SCOPES), "header")

ENDPOINTS = (
    Endpoint(
        "POST",
        _AGENT,
        message,
        "Send a message to an assistant, or ask about a task",
        _TAG,
        "JsonRpcMessage",
        "JsonRpcAnswer",
        errors=(202, 400),
        query=(_SCOPE,),
        error_answers=_REFUSED,
    ),
    Endpoint("GET", _AGENT, card, "Describe an agent", _TAG, answer="AgentCard", errors=(400,), error_answers=_REFUSED),
    Endpoint(
        "GET",
        f"{_AGENT}/{_CARD}",
        card,
        "Describe an agent",
        _TAG,
        answer="AgentCard",
        errors=(400,),
        error_answers=_REFUSED,
    ),
    Endpoint(
        "GET",
        f"/{_CARD}",
        card,
        "Describe an agent",
        _TAG,
        answer="AgentCard",
        errors=(400,),
        query=(Query("assistant_id", STRING),),
        error_answers=_REFUSED,
    ),
)
