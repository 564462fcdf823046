"""Parse and answer JSON-RPC 2.0 messages for MCP and A2A (langgraph_api.md section 8)."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.errors import json_response
from toolweave.api.langgraph.requests import read_json
from toolweave.errors import InvalidRequest, RequestError
from toolweave.runtime.codec import dumps
from toolweave.runtime.models import JsonObject

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602

# The id of a request, which its response repeats.
RequestId = str | int | float | None


class RpcError(RequestError):
    """A refused call; `code` and text become the `error` of the response."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


def result_message(request_id: RequestId, result: object) -> bytes:
    """Encode the response of a successful call; orjson fragments in `result` are copied unchanged."""
    return dumps({"jsonrpc": "2.0", "id": request_id, "result": result})


def rpc_answer(body: bytes) -> Response:
    """Return an HTTP response with an encoded message."""
    return Response(body, media_type="application/json")


def error_answer(request_id: RequestId, error: RequestError, *, status: int = 200) -> Response:
    """Return the error response of a call; an error without a code of its own means invalid params."""
    code = error.code if isinstance(error, RpcError) else INVALID_PARAMS
    return json_response({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": str(error)}}, status)


async def read_message(request: Request) -> JsonObject:
    """Parse the body as one message. Raises RpcError if it is not a JSON object, for example a batch."""
    try:
        message = await read_json(request)
    except InvalidRequest as error:
        raise RpcError(PARSE_ERROR, str(error)) from None
    if not isinstance(message, dict):
        raise RpcError(INVALID_REQUEST, "Invalid message format: send one object, batches are not supported")
    return message


def require_version(message: JsonObject) -> None:
    """Raise RpcError unless the message is of JSON-RPC 2.0."""
    if message.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "Invalid JSON-RPC message: missing or invalid jsonrpc version")


def params_of(message: JsonObject) -> JsonObject:
    """Return a call's params, {} if it has none. Raises RpcError if they are not an object."""
    params: Any = message.get("params")
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "Invalid params: must be an object")
    return params


def parse_request_id(message: JsonObject) -> RequestId:
    """Return a message's id, None for a notification. Raises RpcError if it is neither a string nor a number."""
    request_id: Any = message.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, str | int | float | None):
        raise RpcError(INVALID_REQUEST, "Invalid JSON-RPC request: 'id' must be a string, number, or null")
    return request_id
