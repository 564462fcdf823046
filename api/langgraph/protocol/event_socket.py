"""Accept WebSockets on the path of a thread's events, and close them with what an HTTP client would be told."""

from collections.abc import Iterable
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.types import Message, Scope
from starlette.websockets import WebSocket

from toolweave.api.errors import status_of
from toolweave.api.langgraph.answers import LargeJson
from toolweave.api.langgraph.endpoint import Endpoint, Handler
from toolweave.api.langgraph.protocol.socket_session import SocketSession
from toolweave.api.langgraph.request_values import uuid_of
from toolweave.api.langgraph.served import served
from toolweave.errors import NotFound, ToolweaveError

# Clients read a close code of 4000 plus an HTTP status as that status, and do not come back for most of 4xx.
STATUS_CODES = 4000
GONE = 4404
TOO_FAR_BEHIND = 1013


def event_sockets(endpoints: Iterable[Endpoint]) -> list[WebSocketRoute]:
    """Make the route out of what admits a client (GET) and what takes its commands (POST); none without them."""
    found = {endpoint.method: endpoint for endpoint in endpoints}
    if found.keys() != {"GET", "POST"}:
        return []
    admit, command = found["GET"].handler, found["POST"].handler

    async def connect(websocket: WebSocket) -> None:
        await websocket.accept()
        code, reason = await _serve(websocket, admit, command)
        if code is not None:
            await websocket.close(code, reason)

    return [WebSocketRoute(found["GET"].path, connect)]


async def _serve(websocket: WebSocket, admit: Handler, command: Handler) -> tuple[int | None, str]:
    """Serve one client; gives the code to close with, None when it has left by itself."""
    try:
        return await _admitted(websocket, admit, command)
    except ToolweaveError as error:
        return STATUS_CODES + status_of(error), str(error)[:100]
    except HTTPException as error:
        return STATUS_CODES + error.status_code, str(error.detail)[:100]


async def _admitted(websocket: WebSocket, admit: Handler, command: Handler) -> tuple[int | None, str]:
    request = _request(websocket.scope, b"", "GET")
    thread_id = uuid_of(websocket.path_params["thread_id"], "thread")
    await admit(request)

    async def carry_out(data: bytes) -> bytes:
        answer = await command(_request(websocket.scope, data, "POST"))
        if isinstance(answer, LargeJson):
            return b"".join(await answer.pieces())
        return bytes(answer.body) if isinstance(answer, Response) else b""

    here = served(request)
    session = SocketSession(
        websocket, here.engine.runtime.announcements.log, thread_id, carry_out, partial(admit, request)
    )
    if not await session.run():
        return None, ""
    try:
        await here.persistence.threads.get(thread_id)
    except NotFound as error:
        return GONE, str(error)
    return TOO_FAR_BEHIND, "Read faster, or subscribe to less."


def _request(scope: Scope, body: bytes, method: str) -> Request:
    """Dress a message as the HTTP request it could have been, so that the same guards and handlers see it."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request({**scope, "type": "http", "method": method}, receive)
