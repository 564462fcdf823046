"""Sort what a session raises into the error taxonomy (mcp.md section 4) and describe it for an operator."""

import asyncio
from collections.abc import Iterator

import anyio
import httpx
from mcp.shared.exceptions import McpError
from mcp.types import CONNECTION_CLOSED, INVALID_PARAMS, METHOD_NOT_FOUND

from toolweave import open_files
from toolweave.errors import ToolError
from toolweave.servers.connections.redaction import in_brief
from toolweave.servers.connections.transport.faults import NOT_MCP, OVERSIZE, TRANSPORT_FAULT, in_short, status_line
from toolweave.servers.connections.wording import declined, lost, not_understood, too_large, unauthorized, unavailable

BAD_REQUEST = 400
UNAUTHORIZED = (401, 403)
PASSING = (None, BAD_REQUEST, 404, 408, 425, 429)
"""Statuses of requests that may succeed later; older servers answer 400 to a session they have forgotten."""
BROKEN = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors inside nested groups: the SDK's task groups wrap twice."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def ends_session(error: BaseException) -> bool:
    """Say whether no further request can succeed on the session that raised `error`."""
    if isinstance(error, McpError):
        code, message, data = error.error.code, error.error.message, error.error.data
        session_unknown = code == TRANSPORT_FAULT and isinstance(data, dict) and data.get("http_status") == 404
        closed = code == CONNECTION_CLOSED and message == "Connection closed"
        return closed or session_unknown
    return isinstance(error, BROKEN)


def is_sign_of_life(error: BaseException) -> bool:
    """Say whether `error` is a JSON-RPC error that the server itself sent."""
    faults = (TRANSPORT_FAULT, NOT_MCP, OVERSIZE)
    return isinstance(error, McpError) and not ends_session(error) and error.error.code not in faults


def was_refused(error: BaseException) -> bool:
    """Say whether the server understood the request and declines it: unknown tool, wrong arguments."""
    return isinstance(error, McpError) and error.error.code in (INVALID_PARAMS, METHOD_NOT_FOUND)


def declines_caller(error: BaseException) -> bool:
    """Say whether the server is there and will not open a session for whoever asks; by then, any no is one."""
    return is_unauthorized(error) or any(
        is_sign_of_life(leaf) or _status(leaf) == BAD_REQUEST for leaf in leaves(error)
    )


def is_unauthorized(error: BaseException) -> bool:
    """Say whether the server wants other credentials than the request had."""
    return any(_status(leaf) in UNAUTHORIZED for leaf in leaves(error))


def surely_not_executed(error: BaseException) -> bool:
    """Say whether a request failed before the server can have begun (D-5).

    That is so if nobody took it off our hands, if HTTP did not get a connection, or if a 4xx came in its place.
    """
    if isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError):
        return True
    data = error.error.data if isinstance(error, McpError) and error.error.code == TRANSPORT_FAULT else None
    return isinstance(data, dict) and data.get("executed") == "no"


def classify(error: BaseException, server: str, tool: str | None = None) -> ToolError:
    """Return the error of our own that stands for `error`; never its raw text."""
    if isinstance(error, ToolError):
        return error
    if is_unauthorized(error):
        return unauthorized(server, tool)
    if surely_not_executed(error):
        return unavailable(server, tool) if _status(error) in PASSING else declined(server, tool)
    if ends_session(error) or (isinstance(error, McpError) and error.error.code == TRANSPORT_FAULT):
        return lost(server, tool)
    if isinstance(error, McpError) and error.error.code == OVERSIZE:
        return too_large(server, tool)
    return not_understood(server, tool)


def describe(error: BaseException, *, command: str | None = None) -> str:
    """Describe `error` in one line for a log, `last_error` and `doctor`."""
    found = list(leaves(error))
    # A cancellation beside a real error only says that the SDK's other tasks were stopped because of it.
    real = [leaf for leaf in found if not isinstance(leaf, asyncio.CancelledError)] or found
    told = "; ".join(dict.fromkeys(_describe_one(leaf, command) for leaf in real))
    advice = open_files.advice(error)
    return f"{told}. {advice}" if advice else told


def _status(error: BaseException) -> int | None:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code
    data = error.error.data if isinstance(error, McpError) and error.error.code == TRANSPORT_FAULT else None
    return data.get("http_status") if isinstance(data, dict) else None


def _describe_one(error: BaseException, command: str | None) -> str:
    match error:
        case McpError():
            return error.error.message
        case FileNotFoundError():
            return f"{error.filename or command} was not found"
        case PermissionError():
            return f"{error.filename or command} may not be executed"
        case httpx.HTTPStatusError():
            return status_line(error.response.status_code)
        case httpx.HTTPError():
            return in_short(error)
        case asyncio.CancelledError():
            return "the transport failed"
        case NotADirectoryError():
            return f"its working directory {error.filename} was not found"
        case _:
            return in_brief(error)
