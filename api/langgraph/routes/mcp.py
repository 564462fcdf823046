"""The MCP endpoint: stateless streamable HTTP, every assistant a tool (langgraph_api.md section 8)."""

from collections.abc import Awaitable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from toolweave.api.langgraph.answers import empty_answer, json_answer
from toolweave.api.langgraph.endpoint import Endpoint
from toolweave.api.langgraph.json_body import checked_body, read_json
from toolweave.api.langgraph.json_rpc import (
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
from toolweave.api.langgraph.live_answers import SlowJson
from toolweave.api.langgraph.mcp_tools import (
    failed_result,
    input_of_graph,
    named_assistants,
    tool_listing,
    tool_result,
)
from toolweave.api.langgraph.routes.system import API_VERSION
from toolweave.api.langgraph.run_connections import cancelling
from toolweave.api.langgraph.run_request import STATELESS, run_request
from toolweave.api.langgraph.served import Served, served
from toolweave.errors import InvalidRequest, NotFound
from toolweave.runtime.models import JsonObject

# The revisions whose stateless part is alike; a client that asks for another one is offered the newest of them.
PROTOCOL_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
# Clients know the API by this name, as they do its version.
SERVER_INFO = {"name": "LangGraph", "version": API_VERSION}
WANTED_TYPES = ("application/json", "text/event-stream")
NOT_ACCEPTED = "Accept header must include application/json or text/event-stream"


async def message(request: Request) -> ASGIApp:
    """Take one JSON-RPC message; the answer is plain JSON."""
    if not any(kind in request.headers.get("accept", "") for kind in WANTED_TYPES):
        return json_answer({"error": NOT_ACCEPTED}, status=400)
    try:
        received = checked_message(await _parsed(request))
    except RpcError as error:
        return _answer(error_message(None, error), status=400)
    request_id: RequestId = received.get("id")
    if request_id is None or "method" not in received:
        # A notification, or an answer to a question that nobody asked.
        return empty_answer(202)
    try:
        return await _called(served(request), request_id, received["method"], params_of(received))
    except RpcError as error:
        return _answer(error_message(request_id, error))


async def end_session(_request: Request) -> Response:
    """Say that there is no session to end."""
    return empty_answer(404)


def checked_message(received: Any) -> JsonObject:
    """Check the form of a JSON-RPC message. Raises RpcError."""
    if isinstance(received, list):
        raise RpcError(INVALID_REQUEST, "Batches are not supported: send one message per request.")
    if not isinstance(received, dict):
        raise RpcError(INVALID_REQUEST, "Invalid message format.")
    if received.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "Invalid JSON-RPC message. Missing or invalid jsonrpc version.")
    request_id_of(received)
    answers = "result" in received or "error" in received
    if not isinstance(received.get("method"), str) and ("method" in received or not answers):
        raise RpcError(INVALID_REQUEST, "Invalid JSON-RPC message. Missing or invalid method.")
    return received


async def _parsed(request: Request) -> Any:
    try:
        return await read_json(request)
    except InvalidRequest as error:
        raise RpcError(PARSE_ERROR, str(error)) from None


async def _called(here: Served, request_id: RequestId, method: str, params: JsonObject) -> ASGIApp:
    if method == "tools/call":
        return await _call_tool(here, request_id, params)
    if method == "tools/list":
        return _answer(result_message(request_id, {"tools": await tool_listing(here)}))
    if method == "initialize":
        return _answer(result_message(request_id, _greeting(params)))
    if method == "ping":
        return _answer(result_message(request_id, {}))
    raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:200]}")


def _greeting(params: JsonObject) -> JsonObject:
    wanted = params.get("protocolVersion")
    return {
        "protocolVersion": wanted if wanted in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[0],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": SERVER_INFO,
    }


async def _call_tool(here: Served, request_id: RequestId, params: JsonObject) -> SlowJson:
    """Run the tool's assistant on a thread of its own; a client that leaves takes the run with it."""
    name, arguments = params.get("name"), params.get("arguments")
    assistant = (await named_assistants(here)).get(name) if isinstance(name, str) else None
    if assistant is None or assistant.graph_id not in here.graphs.names():
        raise RpcError(INVALID_PARAMS, f"Unknown tool: {str(name)[:200]}")
    if not isinstance(arguments, dict | None):
        raise RpcError(INVALID_PARAMS, "Invalid arguments: must be an object")
    taken = await input_of_graph(here, assistant.graph_id)
    fields = {"assistant_id": assistant.assistant_id, "input": taken.graph_input(arguments or {})}
    wanted = run_request(checked_body(fields, STATELESS), assistant, None, here.graphs.metadata(assistant.graph_id))
    started = await here.engine.start(wanted.new)
    result = _result(request_id, started.result())
    return SlowJson(result, {}, when_gone=cancelling(here.engine, started.run))


async def _result(request_id: RequestId, ended: Awaitable[bytes]) -> bytes:
    try:
        return result_message(request_id, tool_result(await ended))
    except NotFound:
        return result_message(request_id, failed_result("The run was deleted before it ended."))


def _answer(body: bytes, *, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


_TAG = "MCP"

ENDPOINTS = (
    Endpoint(
        "POST",
        "/mcp",
        message,
        "Use assistants as MCP tools",
        _TAG,
        "JsonRpcMessage",
        "JsonRpcAnswer",
        errors=(202, 400),
        error_answers={400: "PlainError"},
    ),
    Endpoint("DELETE", "/mcp", end_session, "End a session, of which there are none", _TAG, status=404, errors=()),
)
