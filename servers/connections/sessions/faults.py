"""Sort what a session raises into the error taxonomy (mcp.md section 4) and describe it for an operator."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
from mcp.shared.exceptions import McpError
from mcp.types import CONNECTION_CLOSED

from toolweave.errors import ToolError
from toolweave.files import open_files_advice
from toolweave.json_values import MAX_VALUES, has_more_values
from toolweave.servers.connections import results
from toolweave.servers.connections.oauth.exchange import AuthorizationFault, status_line
from toolweave.servers.connections.redaction import describe_error

TRANSPORT_FAULT = -32080
NOT_MCP = -32081
OVERSIZE = -32082
ABANDONED = "nobody waits for it any more"
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
# Catalogues of thousands of tools come in one message.
MAX_MESSAGE_VALUES = 2 * MAX_VALUES
TOO_LARGE = f"it sent a message of more than {MAX_MESSAGE_BYTES >> 20} MiB or {MAX_MESSAGE_VALUES} values"
ID_SEARCH_BYTES = 256
# A message stands by itself on a line, or after `data:` in an event.
_ID_FIRST = re.compile(
    rb'(?:[^{]*\bdata:)?\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,\s*"(?:result|error)"'
)
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
BAD_REQUEST = 400
SESSION_NOT_FOUND = 404
UNAUTHORIZED_STATUSES = (401, 403)
RETRYABLE = (None, BAD_REQUEST, SESSION_NOT_FOUND, 408, 425, 429)
"""Statuses of requests that may succeed later; older servers answer 400 to a session they have forgotten."""
CLOSED_STREAM_ERRORS = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)


def jsonrpc_error(request_id: int | str, code: int, message: str, **data: Any) -> dict[str, Any]:
    """Build the JSON-RPC error that answers a request in the server's place."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message, "data": data}}


def describe_http_error(error: httpx.HTTPError) -> str:
    """Describe a transport error without the URL, which may hold credentials."""
    if isinstance(error, AuthorizationFault):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")


def execution_status(error: httpx.RequestError) -> str:
    """Return whether a server can have begun with a request that failed like this: no or maybe (D-5)."""
    never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return "no" if never_sent else "maybe"


def leaf_errors(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors inside nested groups: the SDK's task groups wrap twice."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaf_errors(inner)
    else:
        yield error


def ends_session(error: BaseException) -> bool:
    """Return whether no further request can succeed on the session that raised `error`."""
    if isinstance(error, McpError):
        closed = error.error.code == CONNECTION_CLOSED and error.error.message == "Connection closed"
        return closed or _status(error) == SESSION_NOT_FOUND
    return isinstance(error, CLOSED_STREAM_ERRORS)


def is_server_error(error: BaseException) -> bool:
    """Return whether `error` is a JSON-RPC error that the server itself sent."""
    faults = (TRANSPORT_FAULT, NOT_MCP, OVERSIZE)
    return isinstance(error, McpError) and not ends_session(error) and error.error.code not in faults


def is_session_rejection(error: BaseException) -> bool:
    """Return whether the server is there and refuses to open a session: by then, any error of its own is a refusal."""
    return is_unauthorized(error) or any(
        is_server_error(leaf) or _status(leaf) == BAD_REQUEST for leaf in leaf_errors(error)
    )


def is_unauthorized(error: BaseException) -> bool:
    """Return whether the server wants other credentials than the request had."""
    return any(_status(leaf) in UNAUTHORIZED_STATUSES for leaf in leaf_errors(error))


def was_not_executed(error: BaseException) -> bool:
    """Return whether a request failed before the server can have begun (D-5).

    That is so if the transport did not take it, if HTTP did not get a connection, or if a 4xx came in its place.
    """
    if isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError):
        return True
    return _fault_data(error).get("executed") == "no"


def to_tool_error(error: BaseException, server: str, tool: str | None = None) -> ToolError:
    """Return the error of our own that stands for `error`; never its raw text."""
    if isinstance(error, ToolError):
        return error
    if is_unauthorized(error):
        return results.credentials_rejected(server, tool)
    if was_not_executed(error):
        return results.unavailable(server, tool) if _status(error) in RETRYABLE else results.bad_request(server, tool)
    if ends_session(error) or (isinstance(error, McpError) and error.error.code == TRANSPORT_FAULT):
        return results.connection_lost(server, tool)
    if isinstance(error, McpError) and error.error.code == OVERSIZE:
        return results.response_too_large(server, tool)
    return results.bad_response(server, tool)


def describe_errors(error: BaseException) -> str:
    """Describe `error` in one line for a log, `last_error` and `doctor`."""
    errors = list(leaf_errors(error))
    # A cancellation beside a real error only says that the SDK's other tasks were stopped because of it.
    real = [leaf for leaf in errors if not isinstance(leaf, asyncio.CancelledError)] or errors
    text = "; ".join(dict.fromkeys(map(_describe_one, real)))
    advice = open_files_advice(error)
    return f"{text}. {advice}" if advice else text


def _status(error: BaseException) -> int | None:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code
    return _fault_data(error).get("http_status")


def _fault_data(error: BaseException) -> dict[str, Any]:
    """Return what is known of a fault in whose place our HTTP client has answered."""
    data = error.error.data if isinstance(error, McpError) and error.error.code == TRANSPORT_FAULT else None
    return data if isinstance(data, dict) else {}


def _describe_one(error: BaseException) -> str:
    match error:
        case McpError():
            return error.error.message
        case OSError() if error.filename:
            return f"{error.filename} {error.strerror}"
        case httpx.HTTPStatusError():
            return status_line(error.response)
        case httpx.HTTPError():
            return describe_http_error(error)
        case asyncio.CancelledError():
            return "the transport failed"
        case _:
            return describe_error(error)


@dataclass(frozen=True, slots=True)
class Oversize:
    """What is left of a message over the limit: the request it answers, None where that does not show."""

    request_id: int | None


class MessageSplitter:
    """Cut a stream of bytes into messages, in bounded memory; one over `limit` bytes comes out as an `Oversize`.

    A message over the limit is dropped as it comes in. The request it answers is still known, because an id stands
    at one end or the other of what every JSON library writes.

    Args:
        end: what ends a message.
        longest_end: of at most how many bytes that is.
        limit: how many bytes a message may have.
    """

    def __init__(self, end: re.Pattern[bytes], max_end_bytes: int, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._end = end
        self._overlap = max_end_bytes - 1
        self._max_bytes = max_bytes
        self._pending = b""
        self._reset()

    @property
    def is_dropping(self) -> bool:
        """Return whether the message that is coming in is over the limit."""
        return self._size > self._max_bytes

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        """Return the messages that `data` completes, with their ends."""
        data, start, messages = self._pending + data, 0, []
        for match in self._end.finditer(data):
            self._append(data[start : match.end()])
            start = match.end()
            messages.append(self._pop_message())
        # An end may come in pieces.
        pending_from = max(start, len(data) - self._overlap)
        self._append(data[start:pending_from])
        self._pending = data[pending_from:]
        return messages

    def flush(self) -> bytes | Oversize:
        """Return what came after the last end."""
        self._append(self._pending)
        self._pending = b""
        return self._pop_message()

    def _reset(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._head = self._tail = b""

    def _append(self, part: bytes) -> None:
        self._size += len(part)
        self._parts.append(part)
        if self.is_dropping:
            text = b"".join(self._parts)
            self._head = self._head or text[:ID_SEARCH_BYTES]
            self._tail = (self._tail + text)[-ID_SEARCH_BYTES:]
            self._parts.clear()

    def _pop_message(self) -> bytes | Oversize:
        message = Oversize(response_id(self._head, self._tail)) if self.is_dropping else b"".join(self._parts)
        self._reset()
        return message


async def limit_values(message: bytes | Oversize) -> bytes | Oversize:
    """Replace a message that has so many values that all other servers and users would wait for its parsing."""
    if isinstance(message, bytes) and await has_more_values(message, MAX_MESSAGE_VALUES):
        return Oversize(response_id(message[:ID_SEARCH_BYTES], message[-ID_SEARCH_BYTES:]))
    return message


def response_id(head: bytes, tail: bytes) -> int | None:
    """Read the id of the request that a JSON-RPC response answers from the response's two ends."""
    errors = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    return int(errors[1]) if errors else None
