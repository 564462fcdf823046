"""Build the envelope of every tool result: data on success; type, code, message and suggestion on failure (C-06)."""

import json
from typing import Any

from fastmcp.tools import ToolResult
from mcp.types import TextContent
from pydantic_core import from_json, to_json

from toolweave.servers.error_codes import TOO_LARGE, ErrorCode


def success(data: Any, **metadata: Any) -> ToolResult:
    """Wrap a tool's data in a result; the middleware adds the text and `duration_ms`."""
    return ToolResult(content=[], structured_content={"status": "success", "data": data, "metadata": metadata})


def failure(code: ErrorCode, message: str, suggestion: str | None = None) -> ToolResult:
    """Wrap a tool's failure in a result. The caller sees `message`; the middleware adds the JSON text."""
    error = {"type": code.type, "code": code.code, "message": message, "suggestion": suggestion or code.suggestion}
    return ToolResult(content=[], structured_content={"status": "error", "error": error}, is_error=True)


def finish_envelope(result: ToolResult, duration_ms: float, *, max_bytes: int) -> ToolResult:
    """Add `duration_ms` to a success, and the envelope as JSON text to every result.

    A result of more than `max_bytes` of text is replaced by a `too_large` error.

    Raises:
        ValueError: the result contains a value that cannot be serialized as JSON.
    """
    envelope = result.structured_content
    if envelope is None or "status" not in envelope:
        return result
    if "metadata" in envelope:
        envelope["metadata"] = {"duration_ms": round(duration_ms, 2), **envelope["metadata"]}
    # The structured content is sent with null for NaN and infinity, too.
    text = to_json(envelope, inf_nan_mode="null")
    if len(text) > max_bytes:
        message = f"The answer would have {len(text):,} bytes; at most {max_bytes:,} are sent."
        return finish_envelope(failure(TOO_LARGE, message), duration_ms, max_bytes=len(text))
    result.content = [TextContent(type="text", text=text.decode())]
    return result


def parse_json(text: str | bytes) -> Any:
    """Parse JSON that an envelope can contain.

    Raises:
        ValueError: the text is not JSON, or contains a non-finite number, a lone surrogate or more than 200 levels.
    """
    value = from_json(text, allow_inf_nan=False)
    # Refuses numbers such as 1e999, which the parser reads as infinity.
    json.dumps(value, allow_nan=False)
    return value
