"""Translate exceptions to HTTP responses: one table for our own routes and the compatible API."""

import re
from collections.abc import Mapping
from typing import cast

from fastapi.exceptions import RequestValidationError
from loguru import logger
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ExceptionHandler
from starlette.websockets import WebSocket

from toolweave import errors
from toolweave.runtime.codec import dumps

ERROR_STATUSES: Mapping[type[errors.ToolweaveError], int] = {
    errors.BadRequest: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.InvalidRequest: 422,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.StaleRevision: 412,
    errors.ModelError: 502,
    errors.OutboundRefused: 422,
    errors.OutboundFailed: 502,
    errors.ServerUnavailable: 503,
    errors.ToolTimeout: 504,
    errors.ToolError: 502,
    errors.PersistenceError: 503,
    errors.ToolweaveError: 500,
}


WRONG_CONTENT_TYPE = "The body is read as JSON only with the header content-type: application/json."
_NOT_AN_OBJECT = frozenset({"model_attributes_type", "model_type"})
_JSON_CONTENT_TYPE = re.compile(r"application/(?:[^;\s]+\+)?json\s*(?:;|$)", re.IGNORECASE)


def status_of(error: errors.ToolweaveError) -> int:
    """Return the HTTP status of an error: that of its nearest class in the table."""
    return next(ERROR_STATUSES[cls] for cls in type(error).__mro__ if cls in ERROR_STATUSES)


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response; the value may contain objects that FastAPI's encoder refuses."""
    return Response(dumps(value), status, dict(headers or {}), media_type="application/json")


def detail_response(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response `{"detail": "<text>"}`, the only error body of the API (langgraph_api.md section 3)."""
    return json_response({"detail": detail}, status, headers)


async def answer_error(request: Request, error: Exception) -> Response:
    """Answer one of our own errors with its status in the table; log it from 500 on."""
    status = status_of(cast("errors.ToolweaveError", error))
    if status >= 500:
        logger.opt(exception=error).error("{} {} failed: {}", request.method, request.url.path, error)
    return detail_response(status, str(error))


async def answer_http_exception(_request: Request, error: Exception) -> Response:
    """Answer an HTTPException of a handler or of the router (404, 405) in the API's error format."""
    refused = cast("HTTPException", error)
    return detail_response(refused.status_code, str(refused.detail), refused.headers)


async def answer_disconnect(_request: Request, _error: Exception) -> None:
    """Send no response: the client disconnected while its request was being read."""


async def answer_invalid_body(request: Request, error: Exception) -> Response:
    """Answer 422 and name each wrong field, not its value, which may be huge or invalid text."""
    refused = cast("RequestValidationError", error)
    if any(problem["type"] in _NOT_AN_OBJECT for problem in refused.errors()) and not _JSON_CONTENT_TYPE.match(
        request.headers.get("content-type", "")
    ):
        return detail_response(422, WRONG_CONTENT_TYPE)
    wrong = [{name: problem[name] for name in ("type", "loc", "msg")} for problem in refused.errors()]
    return json_response({"detail": wrong}, 422)


async def answer_unexpected(request: Request | WebSocket, error: Exception) -> Response:
    """Log an exception that no other handler caught, and answer 500; on a WebSocket raise it again."""
    if isinstance(request, WebSocket):
        raise error
    logger.opt(exception=error).error("{} {} failed", request.method, request.url.path)
    return detail_response(500, "Internal Server Error")


EXCEPTION_HANDLERS: Mapping[type[Exception], ExceptionHandler] = {
    errors.ToolweaveError: answer_error,
    HTTPException: answer_http_exception,
    ClientDisconnect: answer_disconnect,  # type: ignore[dict-item]
}
# Used outside all middleware of the application.
OUTERMOST_HANDLERS: Mapping[type[Exception], ExceptionHandler] = {**EXCEPTION_HANDLERS, Exception: answer_unexpected}
