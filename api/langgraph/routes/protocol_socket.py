"""Serve the thread protocol over a WebSocket on the path of a thread's events (langgraph_api.md section 7)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from uuid import uuid4

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.types import Message, Scope
from starlette.websockets import WebSocket, WebSocketDisconnect

from toolweave.api.errors import status_of
from toolweave.api.langgraph.answers import LargeJson
from toolweave.api.langgraph.endpoints import Endpoint
from toolweave.api.langgraph.requests import Handler, parse_uuid
from toolweave.api.langgraph.routes import protocol
from toolweave.api.langgraph.services import get_services
from toolweave.api.request_bodies import run_until_first
from toolweave.errors import ToolweaveError
from toolweave.json_values import has_more_values, too_many_values_text
from toolweave.runtime.codec import dumps, loads
from toolweave.runtime.events.channel import EventFilter, Subscription
from toolweave.runtime.events.log import ThreadLog
from toolweave.runtime.models import JsonObject, StreamEvent

# The HTTP endpoint for commands, which executes all commands but those about subscriptions.
Execute = Callable[[bytes], Awaitable[bytes]]
# Authorizes the client, or raises.
Admit = Callable[[], Awaitable[object]]
MAX_SUBSCRIPTIONS = 100
# Clients read a close code of 4000 plus an HTTP status as that status, and do not reconnect after most 4xx.
CLOSE_CODE_BASE = 4000
CLOSE_TOO_SLOW = 1013


class SocketSession:
    """One client's connection to one thread.

    A new subscription receives the stored events, then its response, then the live events that arrived meanwhile. An
    event that matches several subscriptions is sent once.
    """

    def __init__(self, websocket: WebSocket, log: ThreadLog, thread_id: str, execute: Execute, admit: Admit) -> None:
        self._websocket = websocket
        self._log = log
        self._thread_id = thread_id
        self._execute = execute
        self._admit = admit
        self._admitted = False
        self._send_lock = asyncio.Lock()
        # With each filter, the sequence number up to which the subscription has received stored events.
        self._subscriptions: dict[str, tuple[EventFilter, int]] = {}
        self._sent_through = 0

    async def run(self) -> bool:
        """Serve the client until it disconnects; return True if the thread's events ended before."""
        async with self._log.listen(self._thread_id, self._is_subscribed) as subscription:
            try:
                async with run_until_first(self._receive_commands(), self._send_live_events(subscription)) as tasks:
                    for task in tasks:
                        if task.done():
                            task.result()
                    return not tasks[0].done()
            except WebSocketDisconnect:
                return False

    def _is_subscribed(self, event: StreamEvent) -> bool:
        return any(event.seq > after and each.matches(event) for each, after in self._subscriptions.values())

    async def _send_live_events(self, subscription: Subscription) -> None:
        async for batch in subscription.batches():
            async with self._send_lock:
                await self._send_events(batch)

    async def _receive_commands(self) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            data: bytes = message.get("bytes") or b"" if text is None else text.encode("utf-8", "replace")
            async with self._send_lock:
                await self._websocket.send_text(dumps(await self._handle_command(data)).decode())

    async def _handle_command(self, data: bytes) -> JsonObject:
        if await has_more_values(data):
            return protocol.malformed_response(None, too_many_values_text())
        try:
            value = loads(data)
        except ValueError:
            return protocol.malformed_response(None, protocol.NOT_JSON)
        command = protocol.parse_command(value)
        if command is None:
            return protocol.malformed_response(value)
        try:
            if command.method in ("subscription.subscribe", "subscription.reconnect"):
                answer = protocol.success_response(command, await self._subscribe(command))
            elif command.method == "subscription.unsubscribe":
                answer = protocol.success_response(command, self._unsubscribe(command))
            else:
                answer = loads(await self._execute(data))
        except ToolweaveError as error:
            answer = protocol.command_error_response(command, error)
        except HTTPException as error:
            answer = protocol.error_response(command.id, "unknown_error", f"{error.status_code}: {error.detail}")
        if self._sent_through or answer["type"] == "success":
            answer["meta"] = {"applied_through_seq": self._sent_through}
        return answer

    async def _subscribe(self, command: protocol.ProtocolCommand) -> JsonObject:
        channels = protocol.require_channels(command)
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise protocol.CommandError(
                "invalid_argument", f"More than {MAX_SUBSCRIPTIONS} subscriptions of one connection."
            )
        event_filter, subscription_id = protocol.event_filter(command.params, channels), str(uuid4())
        last_seq = self._log.last_seq(self._thread_id)
        self._subscriptions[subscription_id] = (event_filter, last_seq)
        replayed = 0
        async for batch in self._log.read_stored(self._thread_id, event_filter, protocol.parse_since(command.params)):
            stored = [event for event in batch if event.seq <= last_seq]
            replayed += len(stored)
            await self._send_events(stored)
        if command.method == "subscription.reconnect":
            return {"subscription_id": subscription_id, "restored": True, "missed_events": replayed}
        return {"subscription_id": subscription_id, "replayed_events": replayed}

    def _unsubscribe(self, command: protocol.ProtocolCommand) -> JsonObject:
        subscription_id = protocol.subscription_id(command)
        if self._subscriptions.pop(subscription_id, None) is None:
            raise protocol.CommandError("no_such_subscription", f"Unknown subscription: {subscription_id[:200]}")
        return {}

    async def _send_events(self, events: list[StreamEvent]) -> None:
        if events and not self._admitted:
            # Another user may have created the thread after the client connected.
            await self._admit()
            self._admitted = True
        for event in events:
            self._sent_through = max(self._sent_through, event.seq)
            await self._websocket.send_text(event.data.decode())


def websocket_routes(sockets: Iterable[Endpoint], endpoints: Iterable[Endpoint]) -> list[WebSocketRoute]:
    """Return the WebSocket routes for `sockets`; the endpoint for commands executes the commands they receive."""
    handlers = {each.path: each.handler for each in endpoints}
    return [WebSocketRoute(each.path, partial(_connect, each.handler, handlers[protocol.COMMANDS])) for each in sockets]


async def _connect(admit: Handler, command: Handler, websocket: WebSocket) -> None:
    await websocket.accept()
    code, reason = await _serve(websocket, admit, command)
    if code is not None:
        await websocket.close(code, reason)


async def _serve(websocket: WebSocket, admit: Handler, command: Handler) -> tuple[int | None, str]:
    """Serve one client; return the close code and reason, None if the client has disconnected."""
    request = _http_request(websocket.scope, b"", "GET")
    services = get_services(request)

    async def execute(data: bytes) -> bytes:
        answer = await command(_http_request(websocket.scope, data, "POST"))
        if isinstance(answer, LargeJson):
            return b"".join(await answer.encoded_chunks())
        return bytes(answer.body) if isinstance(answer, Response) else b""

    try:
        thread_id = parse_uuid(websocket.path_params["thread_id"], "thread")
        await admit(request)
        log = services.engine.runtime.publishers.log
        if not await SocketSession(websocket, log, thread_id, execute, partial(admit, request)).run():
            return None, ""
        await services.persistence.threads.get(thread_id)
    except ToolweaveError as error:
        return CLOSE_CODE_BASE + status_of(error), str(error)[:100]
    except HTTPException as error:
        return CLOSE_CODE_BASE + error.status_code, str(error.detail)[:100]
    return CLOSE_TOO_SLOW, "The client reads too slowly: read faster, or subscribe to fewer channels."


def _http_request(scope: Scope, body: bytes, method: str) -> Request:
    """Return the HTTP request with this message as its body, for the guards and handlers of the HTTP endpoints."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request({**scope, "type": "http", "method": method}, receive)
