"""Answer every tool call in one envelope: data on success, else type, code, message and suggestion (C-06)."""

import json
from typing import Any

from fastmcp.tools import ToolResult
from mcp.types import TextContent
from pydantic_core import from_json, to_json

from toolweave.servers.error_codes import TOO_LARGE, ErrorCode


def success(data: Any, **metadata: Any) -> ToolResult:
    """Wrap what a tool found; the middleware adds the text and `duration_ms`."""
    return ToolResult(content=[], structured_content={"status": "success", "data": data, "metadata": metadata})


def failure(code: ErrorCode, message: str, suggestion: str | None = None) -> ToolResult:
    """Wrap why a tool could not do its work, in words that may be shown to anybody; the middleware adds the text."""
    error = {"type": code.type, "code": code.code, "message": message, "suggestion": suggestion or code.suggestion}
    return ToolResult(content=[], structured_content={"status": "error", "error": error}, is_error=True)


def finish_envelope(result: ToolResult, duration_ms: float, *, max_bytes: int) -> ToolResult:
    """Note in a success how long the call took, and write the envelope as JSON text too.

    An answer whose text has more than `most_bytes` is replaced by the error that says so.

    Raises:
        ValueError: there is something in the answer that cannot be written as JSON.
    """
    envelope = result.structured_content
    if envelope is None or "status" not in envelope:
        return result
    if "metadata" in envelope:
        envelope["metadata"] = {"duration_ms": round(duration_ms, 2), **envelope["metadata"]}
    # Not a number and infinity are null in the structured content as it is sent, too.
    text = to_json(envelope, inf_nan_mode="null")
    if len(text) > max_bytes:
        message = f"The answer would have {len(text):,} bytes; at most {max_bytes:,} are sent."
        return finish_envelope(failure(TOO_LARGE, message), duration_ms, max_bytes=len(text))
    result.content = [TextContent(type="text", text=text.decode())]
    return result


def parse_json(text: str | bytes) -> Any:
    """Parse JSON that an envelope can carry.

    Raises:
        ValueError: it is no JSON, or holds a number that is not finite, half of a surrogate pair, or more than 200
            levels.
    """
    value = from_json(text, allow_inf_nan=False)
    # Such as 1e999.
    json.dumps(value, allow_nan=False)
    return value
