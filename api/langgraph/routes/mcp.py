"""MCP endpoint: stateless streamable HTTP, with every assistant as a tool (langgraph_api.md section 8)."""

import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any

from orjson import Fragment
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from toolweave.api.langgraph import json_rpc
from toolweave.api.langgraph.answers import KeepAliveJson, json_answer
from toolweave.api.langgraph.auth import rules
from toolweave.api.langgraph.auth.authorization import AuthRequest
from toolweave.api.langgraph.endpoints import Endpoints
from toolweave.api.langgraph.graph_description import input_schema
from toolweave.api.langgraph.requests import checked_body
from toolweave.api.langgraph.routes.system import API_VERSION
from toolweave.api.langgraph.run_requests import STATELESS_RUN, disconnect_callback, run_request
from toolweave.api.langgraph.services import ApiServices, get_services
from toolweave.errors import NotFound
from toolweave.runtime.codec import dumps, loads
from toolweave.runtime.models import Assistant, JsonObject, Page

# The characters and the length that all MCP clients and model APIs accept in a tool name.
INVALID_NAME_CHARS = re.compile(r"[^A-Za-z0-9_.-]+")
MAX_NAME_LENGTH = 64
ID_SUFFIX_LENGTH = 8
PAGE_SIZE = 1000
MESSAGES_SCHEMA: JsonObject = {
    "type": "string",
    "title": "Messages",
    "description": "The user message to send to the agent.",
}
# The effects of a graph are unknown.
TOOL_ANNOTATIONS = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": True}

# The revisions with the same stateless part; the newest answers a request for another one.
PROTOCOL_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
# Clients recognise the API by this name and version.
SERVER_INFO = {"name": "LangGraph", "version": API_VERSION}
ACCEPTED_TYPES = ("application/json", "text/event-stream")
ACCEPT_ERROR = "Accept header must include application/json or text/event-stream"

endpoints = Endpoints("MCP", "disable_mcp")


async def assistants_by_tool(services: ApiServices) -> dict[str, Assistant]:
    """Return all assistants by tool name, newest first; the default assistants of graphs get their names first."""
    found: list[Assistant] = []
    while page := await services.persistence.assistants.search(Page(PAGE_SIZE, len(found))):
        found.extend(page)
    return assign_tool_names(found)


def assign_tool_names(assistants: Sequence[Assistant]) -> dict[str, Assistant]:
    """Return the assistants by tool name: the MCP form of their name, with part of their id if it is in use."""
    named: dict[str, Assistant] = {}
    in_order = sorted(assistants, key=lambda each: (each.metadata.get("created_by") != "system", each.created_at))
    for assistant in in_order:
        plain = INVALID_NAME_CHARS.sub("_", assistant.name)[:MAX_NAME_LENGTH] or "assistant"
        unique = f"{plain[: MAX_NAME_LENGTH - ID_SUFFIX_LENGTH - 1]}_{assistant.assistant_id[-ID_SUFFIX_LENGTH:]}"
        named[next(name for name in (plain, unique, assistant.assistant_id) if name not in named)] = assistant
    names = {assistant.assistant_id: name for name, assistant in named.items()}
    return {names[assistant.assistant_id]: assistant for assistant in assistants}


async def list_tools(services: ApiServices) -> list[JsonObject]:
    """Return the `tools/list` entries of all assistants with a served graph."""
    named = await assistants_by_tool(services)
    graph_ids = {assistant.graph_id for assistant in named.values()} & set(services.graphs.graph_ids())
    inputs = {graph_id: tool_input(await input_schema(services, graph_id)) for graph_id in graph_ids}
    return [
        {
            "name": name,
            "title": assistant.name,
            "description": assistant.description or f"Tool based on the {assistant.name} assistant",
            "inputSchema": inputs[assistant.graph_id].schema,
            "annotations": TOOL_ANNOTATIONS,
        }
        for name, assistant in named.items()
        if assistant.graph_id in inputs
    ]


@dataclass(frozen=True, slots=True)
class ToolInput:
    """A tool's input schema, and how arguments become the graph's input."""

    schema: JsonObject
    is_wrapped: bool = False
    accepts_text: bool = False

    def graph_input(self, arguments: JsonObject) -> Any:
        """Return the graph's input."""
        if self.is_wrapped:
            return arguments.get("input")
        text = arguments.get("messages")
        if self.accepts_text and isinstance(text, str):
            return {**arguments, "messages": [{"role": "user", "content": text}]}
        return arguments


def tool_input(schema: JsonObject | None) -> ToolInput:
    """Return an object schema for any graph's input schema; a list of messages becomes one text."""
    if schema is None:
        return ToolInput({"type": "object"})
    if schema.get("type") != "object":
        inner = {name: part for name, part in schema.items() if name != "$defs"}
        whole = {"type": "object", "properties": {"input": inner}, "required": ["input"]}
        return ToolInput(_prune_definitions(whole, schema.get("$defs", {})), is_wrapped=True)
    properties: JsonObject = schema.get("properties", {})
    accepts_text = properties.get("messages", {}).get("type") == "array"
    if accepts_text:
        schema = {**schema, "properties": {**properties, "messages": MESSAGES_SCHEMA}}
    return ToolInput(_prune_definitions(schema, schema.get("$defs", {})), accepts_text=accepts_text)


def tool_result(body: bytes) -> JsonObject:
    """Return the tool result of a run's result: JSON as text, and structured if an object; or its error."""
    value = loads(body)
    if isinstance(value, dict) and isinstance(error := value.get("__error__"), dict):
        return error_result(f"{error.get('error')}: {error.get('message')}")
    result: JsonObject = {"content": [{"type": "text", "text": body.decode()}]}
    if isinstance(value, dict):
        result["structuredContent"] = Fragment(body)
    return result


def error_result(text: str) -> JsonObject:
    """Return the result of a failed tool call."""
    return {"isError": True, "content": [{"type": "text", "text": text}]}


def _prune_definitions(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    """Retain only the definitions that are referenced."""
    schema = {name: part for name, part in schema.items() if name != "$defs"}
    used: JsonObject = {}
    found = schema
    while found:
        text = dumps(found)
        unused = definitions.keys() - used.keys()
        found = {name: definitions[name] for name in unused if dumps(f"#/$defs/{name}") in text}
        used |= found
    return {**schema, "$defs": used} if used else schema


async def permit_message(auth: AuthRequest) -> None:
    """Require assistants.search to list the tools, and threads.create_run to call one."""
    value: dict[str, Any] = {"graph_id": None, "metadata": {}, "limit": 1000, "offset": 0}
    auth.filters["assistants"] = await auth.permit("assistants", "search", value)
    if auth.fields.get("method") == "tools/call":
        params = auth.fields.get("params")
        # The assistants.search filter above decides which assistants can be called.
        fields: JsonObject = {"input": params.get("arguments") if isinstance(params, dict) else None}
        await rules.permit_run(auth, fields, None)
        auth.run_metadata = fields.get("metadata") or {}


async def permit_end_session(_auth: AuthRequest) -> None:
    """Require nothing: there are no sessions."""


@endpoints(
    "POST /mcp",
    permit_message,
    "JsonRpcMessage",
    "JsonRpcAnswer",
    read=False,
    errors=(202, 400),
    error_answers={400: "PlainError"},
)
async def handle_message(request: Request) -> ASGIApp:
    """Use assistants as MCP tools.

    The body is one JSON-RPC message; the response is plain JSON.
    """
    if not any(kind in request.headers.get("accept", "") for kind in ACCEPTED_TYPES):
        return json_answer({"error": ACCEPT_ERROR}, status=400)
    try:
        received = await json_rpc.read_message(request)
        json_rpc.require_version(received)
        request_id = json_rpc.parse_request_id(received)
        answers = "result" in received or "error" in received
        if not isinstance(received.get("method"), str) and ("method" in received or not answers):
            raise json_rpc.RpcError(json_rpc.INVALID_REQUEST, "Invalid JSON-RPC message. Missing or invalid method.")
    except json_rpc.RpcError as error:
        return json_rpc.error_answer(None, error, status=400)
    if request_id is None or "method" not in received:
        # A notification, or a response to a request that was never sent.
        return Response(None, 202)
    try:
        return await _dispatch(get_services(request), request_id, received["method"], json_rpc.params_of(received))
    except json_rpc.RpcError as error:
        return json_rpc.error_answer(request_id, error)


@endpoints("DELETE /mcp", permit_end_session, status=404, errors=())
async def end_session(_request: Request) -> Response:
    """End a session: always 404, since there are none."""
    return Response(None, 404)


async def _dispatch(services: ApiServices, request_id: json_rpc.RequestId, method: str, params: JsonObject) -> ASGIApp:
    if method == "tools/call":
        return await _call_tool(services, request_id, params)
    if method == "tools/list":
        return json_rpc.rpc_answer(json_rpc.result_message(request_id, {"tools": await list_tools(services)}))
    if method == "initialize":
        return json_rpc.rpc_answer(json_rpc.result_message(request_id, _initialize_result(params)))
    if method == "ping":
        return json_rpc.rpc_answer(json_rpc.result_message(request_id, {}))
    raise json_rpc.RpcError(json_rpc.METHOD_NOT_FOUND, f"Method not found: {method[:200]}")


def _initialize_result(params: JsonObject) -> JsonObject:
    version = params.get("protocolVersion")
    return {
        "protocolVersion": version if version in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[0],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": SERVER_INFO,
    }


async def _call_tool(services: ApiServices, request_id: json_rpc.RequestId, params: JsonObject) -> KeepAliveJson:
    """Run the tool's assistant on a temporary thread; a disconnect of the client cancels the run."""
    name, arguments = params.get("name"), params.get("arguments")
    assistant = (await assistants_by_tool(services)).get(name) if isinstance(name, str) else None
    if assistant is None or assistant.graph_id not in services.graphs.graph_ids():
        raise json_rpc.RpcError(json_rpc.INVALID_PARAMS, f"Unknown tool: {str(name)[:200]}")
    if not isinstance(arguments, dict | None):
        raise json_rpc.RpcError(json_rpc.INVALID_PARAMS, "Invalid arguments: must be an object")
    tool = tool_input(await input_schema(services, assistant.graph_id))
    fields = {"assistant_id": assistant.assistant_id, "input": tool.graph_input(arguments or {})}
    run = await run_request(services, checked_body(fields, STATELESS_RUN), assistant, None)
    started = await services.engine.start_run(run.new_run, awaited=True)
    result = _call_result(request_id, started.result())
    return KeepAliveJson(result, {}, on_disconnect=disconnect_callback(services.engine, started.run))


async def _call_result(request_id: json_rpc.RequestId, body: Awaitable[bytes]) -> bytes:
    try:
        return json_rpc.result_message(request_id, tool_result(await body))
    except NotFound:
        return json_rpc.result_message(request_id, error_result("The run was deleted before it ended."))
