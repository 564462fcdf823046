"""Build an MCP server and its tools; give every call a timeout, an envelope and a log line (C-06).

Callers identify themselves in the `_meta` of a call (T-03). The envelope of a result has data on success; type, code,
message and suggestion on failure.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

import pydantic
from anyio.lowlevel import checkpoint_if_cancelled
from fastmcp import Context, FastMCP
from fastmcp.exceptions import NotFoundError, ToolError, ValidationError
from fastmcp.server.auth import AuthProvider
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool, ToolResult
from loguru import logger
from mcp.types import CallToolRequestParams, TextContent, ToolAnnotations
from pydantic import BeforeValidator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import from_json, to_json

from toolweave import __version__
from toolweave.config.documents import format_path, problem_text
from toolweave.errors import PersistenceError
from toolweave.servers.error_codes import (
    INTERNAL,
    INVALID_PARAMETER,
    MISSING_PARAMETER,
    TIMEOUT,
    TOO_LARGE,
    UNAVAILABLE,
    UNKNOWN_PARAMETER,
    UNKNOWN_TOOL,
    ErrorCode,
    ToolFailed,
)


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


ToolCall = MiddlewareContext[CallToolRequestParams]
NextHandler = CallNext[CallToolRequestParams, ToolResult]
TOOL_TIMEOUT_S = 4.0
CLEANUP_TIMEOUT_S = 4.0
# Of a result's JSON text.
MAX_BYTES = 1_000_000
MAX_ID_LENGTH = 256
_META_IDS = ("thread_id", "run_id", "user_id", "timestamp", "correlation_id", "idempotency_key")
READ_ONLY = ToolAnnotations(readOnlyHint=True, destructiveHint=False, idempotentHint=True, openWorldHint=False)
ADDITIVE = ToolAnnotations(readOnlyHint=False, destructiveHint=False, idempotentHint=False, openWorldHint=False)
DESTRUCTIVE = ToolAnnotations(readOnlyHint=False, destructiveHint=True, idempotentHint=True, openWorldHint=False)
READ_EXTERNAL = ToolAnnotations(readOnlyHint=True, destructiveHint=False, idempotentHint=True, openWorldHint=True)
WRITE_EXTERNAL = ToolAnnotations(readOnlyHint=False, destructiveHint=True, idempotentHint=False, openWorldHint=True)
# The type of None for an optional parameter; the JSON schema does not contain it.
Absent = SkipJsonSchema[None]


def call_meta(context: Context | None) -> dict[str, str]:
    """Return the ids in a call's `_meta`; values that are not short printable text are skipped."""
    meta = _raw_meta(context)
    return {name: meta[name] for name in _META_IDS if _is_valid_id(meta.get(name))}


def idempotency_key(context: Context) -> str | None:
    """Return the call's idempotency key, under which its first result is stored; None without one."""
    return call_meta(context).get("idempotency_key")


def _raw_meta(context: Context | None) -> Mapping[str, Any]:
    request = context.request_context if context else None
    meta = request.meta if request else None
    return (meta.model_extra or {}) if meta else {}


def _is_valid_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH and value.isprintable()


def _to_whole_number(value: object) -> object:
    # JSON has one number type, so 3.0 is the whole number 3. Texts and booleans are not accepted.
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE_NUMBER = BeforeValidator(_to_whole_number)


def declare_tool(function: Callable[..., Any], title: str, annotations: ToolAnnotations) -> Tool:
    """Create a tool from a method; models read its docstring and annotations (C-02)."""
    # No output schema: clients validate every result against it, which takes longer than the call.
    tool = Tool.from_function(function, title=title, annotations=annotations, output_schema=None)
    for parameter in tool.parameters["properties"].values():
        # With "default": null, models would send null where the schema requires a text.
        if parameter.get("default", ...) is None:
            del parameter["default"]
    return tool


_MAX_REPORTED = 5
_CODE_BY_ERROR = {"missing_argument": MISSING_PARAMETER, "unexpected_keyword_argument": UNKNOWN_PARAMETER}


def explain_invalid_arguments(error: pydantic.ValidationError, parameters: Iterable[str]) -> tuple[ErrorCode, str]:
    """Return the code of the first validation error, and one sentence for each of the first errors (C-07).

    A sentence names the parameter by its path, such as `tags[0]`, and never contains its value. `parameters` are the
    names that the tool has.
    """
    details = error.errors(include_url=False, include_input=False)
    # pydantic also reports that None was expected, which the parameter's schema does not show.
    relevant = [detail for detail in details if detail["type"] != "none_required"][:_MAX_REPORTED]
    sentences = []
    for detail in relevant:
        # The location also contains the types that pydantic tried; only list indexes belong to the path.
        parameter, *inside = detail["loc"]
        name = excerpt(format_path((parameter, *(step for step in inside if isinstance(step, int)))))
        if _CODE_BY_ERROR.get(detail["type"]) is UNKNOWN_PARAMETER:
            sentences.append(f"There is no parameter '{name}'; the tool takes {', '.join(parameters)}.")
        else:
            sentences.append(f"Parameter '{name}' {problem_text(detail)}.")
    return _CODE_BY_ERROR.get(relevant[0]["type"], INVALID_PARAMETER), " ".join(sentences)


def unserializable_argument(arguments: Mapping[str, Any]) -> str | None:
    """Return the name of an argument that cannot be serialized as JSON; only calls inside this process can have one."""
    for name, value in arguments.items():
        try:
            to_json({name: value})
        except ValueError:
            return name
    return None


def excerpt(text: str) -> str:
    """Return a caller's text for a message: 64 characters at most, with ? for unprintable ones."""
    return "".join(character if character.isprintable() else "?" for character in text[:64])


class EnvelopeMiddleware(Middleware):
    """Convert validation errors, unknown tools, timeouts and every other failure into envelopes (C-06, T-05).

    `timeout_s` is below the caller's deadline of 5 s, so that the caller receives our reason. A result of more than
    `max_bytes` of JSON text becomes an error, too.
    """

    def __init__(self, *, timeout_s: float = TOOL_TIMEOUT_S, max_bytes: int = MAX_BYTES) -> None:
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._stopping: set[asyncio.Future[ToolResult]] = set()
        # FastMCP logs a refused call with all its arguments, however large they are.
        logging.getLogger("fastmcp.server.server").setLevel(logging.ERROR)
        logging.getLogger("fastmcp.server.server").addFilter(_is_unexpected)

    @asynccontextmanager
    async def lifespan(self, _server: FastMCP[None]) -> AsyncIterator[None]:
        """Wait for stopped calls to clean up before the server closes the resources that they use."""
        yield
        if self._stopping:
            await asyncio.wait(self._stopping, timeout=CLEANUP_TIMEOUT_S)

    async def on_call_tool(self, context: ToolCall, call_next: NextHandler) -> ToolResult:
        """Call the tool, return its envelope, and log the call with the ids in its `_meta` (T-03)."""
        started = time.perf_counter()
        outcome: Literal["success", "error", "cancelled"] = "cancelled"
        code = None
        try:
            result = self._finish(context, await self._call_tool(context, call_next), started)
            await _end_cancellation(context)
            code = (result.structured_content or {}).get("error", {}).get("code")
            outcome = "error" if result.is_error else "success"
        finally:
            duration_ms = (time.perf_counter() - started) * 1000
            tool = excerpt(context.message.name)
            logger.bind(
                tool=tool,
                outcome=outcome,
                code=code,
                duration_ms=round(duration_ms, 2),
                meta=call_meta(context.fastmcp_context),
            ).log("INFO" if outcome == "success" else "WARNING", "tool call {}: {}", tool, code or outcome)
        return result

    def _finish(self, context: ToolCall, result: ToolResult, started: float) -> ToolResult:
        duration_ms = (time.perf_counter() - started) * 1000
        try:
            return finish_envelope(result, duration_ms, max_bytes=self._max_bytes)
        except ValueError as error:
            name = excerpt(context.message.name)
            logger.opt(exception=error).error("the result of tool call {} cannot be serialized as JSON", name)
            return finish_envelope(failure(INTERNAL, f"{name} failed."), duration_ms, max_bytes=self._max_bytes)

    async def _call_tool(self, context: ToolCall, call_next: NextHandler) -> ToolResult:
        name = context.message.name
        key = _raw_meta(context.fastmcp_context).get("idempotency_key")
        if key is not None and not _is_valid_id(key):
            return failure(
                INVALID_PARAMETER,
                f"Parameter '_meta.idempotency_key' must be printable text of 1 to {MAX_ID_LENGTH} characters.",
            )
        if bad := unserializable_argument(context.message.arguments or {}):
            return failure(
                INVALID_PARAMETER, f"Parameter '{excerpt(bad)}' must be valid Unicode text, without lone surrogates."
            )
        try:
            return await self._call_with_timeout(asyncio.ensure_future(call_next(context)))
        except NotFoundError:
            return failure(UNKNOWN_TOOL, f"There is no tool '{excerpt(name)}'.")
        except ValidationError as error:
            return await self._invalid_parameters(context, error)
        except TimeoutError:
            return failure(TIMEOUT, f"{name} did not finish within {self._timeout_s:g} s and was stopped.")
        except ToolError as error:
            # FastMCP logs the original error and raises a ToolError instead.
            if isinstance(error.__cause__, ToolFailed):
                return failure(error.__cause__.code, str(error.__cause__), error.__cause__.suggestion)
            if isinstance(error.__cause__, PersistenceError):
                return failure(UNAVAILABLE, str(error.__cause__))
            return failure(INTERNAL, f"{name} failed.")
        except Exception as error:  # noqa: BLE001  the last handler: the caller must not see the reason
            logger.opt(exception=error).error("tool call {} failed", excerpt(name))
            return failure(INTERNAL, f"{excerpt(name)} failed.")

    async def _call_with_timeout(self, call: asyncio.Future[ToolResult]) -> ToolResult:
        """Wait for the call until the timeout. A stopped call cleans up in the background."""
        try:
            await asyncio.wait({call}, timeout=self._timeout_s)
        finally:
            if not call.done():
                call.cancel()
                self._stopping.add(call)
                call.add_done_callback(self._on_stopped)
            elif not call.cancelled():
                call.exception()  # retrieved, because nobody reads it if this task is cancelled now
        if not call.done():
            raise TimeoutError
        return call.result()

    def _on_stopped(self, call: asyncio.Future[ToolResult]) -> None:
        self._stopping.discard(call)
        if not call.cancelled() and (error := call.exception()):
            logger.opt(exception=error).warning("a stopped tool call failed while it ended")

    async def _invalid_parameters(self, context: ToolCall, error: ValidationError) -> ToolResult:
        server = context.fastmcp_context.fastmcp if context.fastmcp_context else None
        tool = await server.get_tool(context.message.name) if server else None
        if tool is None or not isinstance(error.__cause__, pydantic.ValidationError):
            return failure(INVALID_PARAMETER, "The parameters do not match the tool's schema.")
        return failure(*explain_invalid_arguments(error.__cause__, tool.parameters["properties"]))


def tool_server(
    name: str,
    instructions: str,
    *,
    timeout_s: float = TOOL_TIMEOUT_S,
    max_bytes: int = MAX_BYTES,
    auth: AuthProvider | None = None,
) -> FastMCP[None]:
    """Build a server without tools. It stops a call after `timeout_s` and returns every result in an envelope (T-05).

    `auth` authenticates callers over HTTP.
    """
    envelope = EnvelopeMiddleware(timeout_s=timeout_s, max_bytes=max_bytes)
    return FastMCP(
        name,
        instructions=instructions,
        version=__version__,
        lifespan=envelope.lifespan,
        middleware=[envelope],
        mask_error_details=True,
        on_duplicate="error",
        auth=auth,
    )


async def _end_cancellation(context: ToolCall) -> None:
    """Raise if the call was cancelled meanwhile; otherwise make it impossible to cancel it.

    The SDK answers a cancelled call itself. It closes the whole session if the tool's result follows, or if the
    cancellation arrives while the result is sent.
    """
    await checkpoint_if_cancelled()
    if context.fastmcp_context and (request := context.fastmcp_context.request_context):
        request.session._in_flight.pop(request.request_id, None)  # noqa: SLF001 - there is no public way


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Return False for errors that a tool raised on purpose: our own log line reports these."""
    return not (record.exc_info and isinstance(record.exc_info[1], ToolFailed))
