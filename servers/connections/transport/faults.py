"""Name what can go wrong between us and a server, as the JSON-RPC errors that stand for an answer."""

from http import HTTPStatus
from typing import Any

import httpx

from toolweave.servers.connections.transport.authorization_fault import AuthorizationFault

TRANSPORT_FAULT = -32080
NOT_MCP = -32081
OVERSIZE = -32082

ABANDONED = "nobody waits for it any more"


def error_message(request_id: int | str, code: int, message: str, **data: Any) -> dict[str, Any]:
    """Build the JSON-RPC error that answers a request in the server's place."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message, "data": data}}


def in_short(error: httpx.HTTPError) -> str:
    """Describe a transport error without the URL, which may hold credentials."""
    if isinstance(error, AuthorizationFault):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")


def status_line(status: int) -> str:
    """Write a status as `HTTP 503 Service Unavailable`."""
    known = {entry.value: entry.phrase for entry in HTTPStatus}
    return f"HTTP {status} {known.get(status, '')}".rstrip()


def executed_after(error: httpx.RequestError) -> str:
    """Say whether a server can have begun with a request that failed like this: no or maybe (D-5)."""
    never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return "no" if never_sent else "maybe"
