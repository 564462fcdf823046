"""Judge what comes back for a POST: whether it is the answer, and if not, what is wrong with it."""

import httpx
from mcp.types import JSONRPCError, JSONRPCMessage, JSONRPCResponse
from pydantic_core import from_json

from toolweave.json_values import collecting_later, has_more_values
from toolweave.servers.connections.transport.event_stream import EventStream
from toolweave.servers.connections.transport.faults import NOT_MCP, OVERSIZE, TRANSPORT_FAULT, status_line
from toolweave.servers.connections.transport.message_size import MESSAGE_LIMIT, MOST_VALUES, TOO_LARGE

Problem = tuple[int, str]
"""A code of `faults` and what to say in the log."""

ENCODINGS = ("gzip", "deflate")
"""Of the encodings httpx knows those whose worst blow-up of one read (64 KiB) fits into memory."""

CHECKED_SIZE = 1024 * 1024
"""Larger answers are not parsed twice: what is wrong with them is found at the deadline."""

UNREAD_LIMIT = 64 * 1024
OF_THE_BODY = frozenset({"content-encoding", "content-length", "transfer-encoding"})


def problem_of(response: httpx.Response, *, expects_answer: bool) -> Problem | None:
    """Say what is wrong with the head of a response, None if nothing is."""
    line = status_line(response.status_code)
    if not response.is_success:
        return TRANSPORT_FAULT, line
    if not expects_answer:
        return None
    if response.status_code == httpx.codes.ACCEPTED:
        return NOT_MCP, f"{line} in place of an answer"
    if response.headers.get("content-encoding", "identity").lower() not in {"identity", *ENCODINGS}:
        return NOT_MCP, f"{line} in an encoding nobody asked for"
    if not content_type(response).startswith(("application/json", "text/event-stream")):
        return NOT_MCP, f"{line} with content type {content_type(response) or 'none'}"
    return None


async def problem_in(body: bytes | None, request_id: int | str) -> Problem | None:
    """Say what is wrong with a JSON body, None if it is the answer to that request; `body` None: it was too large."""
    if body is None or await has_more_values(body, MOST_VALUES):
        return OVERSIZE, TOO_LARGE
    if len(body) > CHECKED_SIZE:
        return None
    try:
        with collecting_later():
            value = from_json(body)
        message = JSONRPCMessage.model_validate(value).root
    except ValueError:
        return NOT_MCP, "a body that is not a JSON-RPC message"
    if isinstance(message, JSONRPCResponse | JSONRPCError) and str(message.id) == str(request_id):
        return None
    return NOT_MCP, "a body that is not the answer"


def content_type(response: httpx.Response) -> str:
    """Return the content type in lower case, empty if there is none."""
    return str(response.headers.get("content-type", "")).lower()


async def read_body(response: httpx.Response, limit: int = MESSAGE_LIMIT) -> bytes | None:
    """Read and decode a body; None if it has more than `limit` bytes."""
    parts, size = [], 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > limit:
            return None
        parts.append(part)
    return b"".join(parts)


async def emptied(response: httpx.Response) -> httpx.Response:
    """Return `response` without its body, which nobody reads; its connection is kept if the body is short."""
    await read_body(response, UNREAD_LIMIT)
    await response.aclose()
    return with_body(response, b"")


def with_body(response: httpx.Response, body: bytes | EventStream) -> httpx.Response:
    """Return `response` with another body, decoded."""
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in OF_THE_BODY]
    given = {"content": body} if isinstance(body, bytes) else {"stream": body}
    changed = httpx.Response(response.status_code, headers=headers, request=response.request, **given)
    changed.next_request = response.next_request
    return changed
