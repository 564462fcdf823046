"""Answer every tool call in one envelope: data on success, else type, code, message and suggestion (C-06)."""

from dataclasses import dataclass
from typing import Any, Literal

from fastmcp.tools import ToolResult
from mcp.types import TextContent
from pydantic_core import to_json

ErrorType = Literal["validation", "not_found", "timeout", "unavailable", "internal"]


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One row of the code table: when it is used, and what the caller is told to do unless told otherwise."""

    code: str
    type: ErrorType
    meaning: str
    suggestion: str


MISSING_PARAMETER = ErrorCode(
    "missing_parameter", "validation", "A required parameter is absent.", "Add the named parameter and call again."
)
UNKNOWN_PARAMETER = ErrorCode(
    "unknown_parameter", "validation", "The tool has no such parameter.", "Leave the named parameter out."
)
INVALID_PARAMETER = ErrorCode(
    "invalid_parameter",
    "validation",
    "A parameter has the wrong type, form or range.",
    "Correct the named parameter and call again.",
)
UNKNOWN_TOOL = ErrorCode(
    "unknown_tool", "not_found", "The server has no tool of that name.", "Call one of the tools that the server lists."
)
NOT_FOUND = ErrorCode("not_found", "not_found", "What the call names does not exist.", "Check the name or id.")
TIMEOUT = ErrorCode(
    "tool_timeout", "timeout", "The tool took longer than its limit and was stopped.", "Try again, or ask for less."
)
UNAVAILABLE = ErrorCode(
    "unavailable",
    "unavailable",
    "Something the tool needs, such as its database, cannot be used.",
    "Try again in a moment.",
)
INTERNAL = ErrorCode(
    "internal_error",
    "internal",
    "The tool failed for a reason that only the server's log tells.",
    "Try again; if it fails again, look into the server's log.",
)

ERROR_CODES = (
    MISSING_PARAMETER,
    UNKNOWN_PARAMETER,
    INVALID_PARAMETER,
    UNKNOWN_TOOL,
    NOT_FOUND,
    TIMEOUT,
    UNAVAILABLE,
    INTERNAL,
)


def success(data: Any, **metadata: Any) -> ToolResult:
    """Wrap what a tool found; the middleware adds the text and `duration_ms`."""
    return _result({"status": "success", "data": data, "metadata": metadata})


def failure(code: ErrorCode, message: str, suggestion: str | None = None) -> ToolResult:
    """Wrap why a tool could not do its work, in words that may be shown to anybody; the middleware adds the text."""
    error = {
        "type": code.type,
        "code": code.code,
        "message": message,
        "suggestion": suggestion or code.suggestion,
    }
    return _result({"status": "error", "error": error}, is_error=True)


def finish(result: ToolResult, duration_ms: float) -> ToolResult:
    """Note in a success how long the call took, and write the envelope as JSON text too."""
    envelope = result.structured_content
    if envelope is None or "status" not in envelope:
        return result
    if "metadata" in envelope:
        envelope["metadata"] = {"duration_ms": round(duration_ms, 2), **envelope["metadata"]}
    result.content = [TextContent(type="text", text=to_json(envelope).decode())]
    return result


def error_code(result: ToolResult) -> str | None:
    """Return the code of an error envelope, None of a success."""
    envelope = result.structured_content or {}
    return str(envelope["error"]["code"]) if "error" in envelope else None


def _result(envelope: dict[str, Any], *, is_error: bool = False) -> ToolResult:
    return ToolResult(content=[], structured_content=envelope, is_error=is_error)
