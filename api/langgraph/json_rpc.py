"""Read and answer JSON-RPC 2.0 messages, for the protocols that speak it: MCP and A2A (langgraph_api.md section 8)."""

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

# What a request may be named by, and an answer names it by.
RequestId = str | int | float | None


class RpcError(RequestError):
    """A call is refused: `code` and text become the answer's `error`."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


def result_message(request_id: RequestId, result: object) -> bytes:
    """Encode a result; orjson fragments in it are taken as they are."""
    return dumps({"jsonrpc": "2.0", "id": request_id, "result": result})


def rpc_answer(body: bytes) -> Response:
    """Answer with an encoded message."""
    return Response(body, media_type="application/json")


def error_answer(request_id: RequestId, error: RequestError, *, status: int = 200) -> Response:
    """Answer with a refusal; one without a code of its own is about the params."""
    code = error.code if isinstance(error, RpcError) else INVALID_PARAMS
    return json_response({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": str(error)}}, status)


async def read_message(request: Request) -> JsonObject:
    """Read a message, one and no batch. Raises RpcError when the body is no JSON object."""
    try:
        message = await read_json(request)
    except InvalidRequest as error:
        raise RpcError(PARSE_ERROR, str(error)) from None
    if not isinstance(message, dict):
        raise RpcError(INVALID_REQUEST, "Invalid message format: send one object, batches are not supported")
    return message


def require_version(message: JsonObject) -> None:
    """Accept a message of JSON-RPC 2.0. Raises RpcError."""
    if message.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "Invalid JSON-RPC message: missing or invalid jsonrpc version")


def params_of(message: JsonObject) -> JsonObject:
    """Give a call's params, {} when there are none. Raises RpcError when they are not an object."""
    params: Any = message.get("params")
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "Invalid params: must be an object")
    return params


def request_id_of(message: JsonObject) -> RequestId:
    """Give a message's id, None for a notification. Raises RpcError when it is neither text nor a number."""
    request_id: Any = message.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, str | int | float | None):
        raise RpcError(INVALID_REQUEST, "Invalid JSON-RPC request: 'id' must be a string, number, or null")
    return request_id
