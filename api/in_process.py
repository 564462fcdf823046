"""Call an ASGI application as an HTTP client would, without a socket, streaming as it answers.

httpx's own ASGI transport collects the whole body before it returns, which would turn every stream into a wait.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

import httpx

Message = MutableMapping[str, Any]
AsgiApp = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]

# How long a closed response waits for the application to notice before its task is cancelled.
LEAVE_SECONDS = 3.0
UNREAD_MESSAGES = 256


class StreamingAsgiTransport(httpx.AsyncBaseTransport):
    """Carry httpx requests into an ASGI application; body chunks arrive as the application sends them.

    Closing the response early tells the application `http.disconnect`. An exception of the application becomes
    httpx.RemoteProtocolError.
    """

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Start the application on the request and return once it has sent its status and headers."""
        exchange = _Exchange(await request.aread())
        exchange.task = asyncio.create_task(_run(self._app, _scope(request), exchange))
        try:
            start = await exchange.next_message()
        except asyncio.CancelledError:
            # Whoever asked has a limit of time and has gone: nobody else would ever end the application's task.
            exchange.left.set()
            exchange.task.cancel()
            raise
        if start is None:
            await exchange.leave()
            raise httpx.RemoteProtocolError("the application ended without a response", request=request)
        return httpx.Response(start["status"], headers=start.get("headers", []), stream=_Body(exchange))


class _Exchange:
    """One request and its response, between the client's task and the application's."""

    def __init__(self, body: bytes) -> None:
        self.body: bytes | None = body
        self.left = asyncio.Event()
        self.messages: asyncio.Queue[Message | None] = asyncio.Queue(UNREAD_MESSAGES)
        self.task: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        """Give the request body once, then nothing until the client leaves."""
        if self.body is not None:
            body, self.body = self.body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Pass a message on; after the client has left, drop it."""
        if not self.left.is_set():
            await self.messages.put(message)

    async def next_message(self) -> Message | None:
        """Wait for the application's next message; None when it has ended."""
        return await self.messages.get()

    async def leave(self) -> None:
        """Tell the application that the client is gone, and end it when it does not notice."""
        self.left.set()
        while not self.messages.empty():
            self.messages.get_nowait()
        if self.task is not None and not self.task.done():
            await asyncio.wait([self.task], timeout=LEAVE_SECONDS)
            self.task.cancel()
            await asyncio.wait([self.task])


class _Body(httpx.AsyncByteStream):
    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange
        self._complete = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._exchange.next_message()
            if message is None:
                if not self._complete:
                    raise httpx.RemoteProtocolError("the application ended in the middle of a response")
                return
            if message["type"] == "http.response.body":
                self._complete = not message.get("more_body", False)
                if chunk := message.get("body"):
                    yield chunk

    async def aclose(self) -> None:
        await self._exchange.leave()


async def _run(app: AsgiApp, scope: MutableMapping[str, Any], exchange: _Exchange) -> None:
    try:
        await app(scope, exchange.receive, exchange.send)
    finally:
        if not exchange.left.is_set():
            await exchange.messages.put(None)


def _scope(request: httpx.Request) -> MutableMapping[str, Any]:
    raw_path, _, query = request.url.raw_path.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 0),
        "server": (request.url.host, request.url.port or 80),
        "state": {},
        "extensions": {},
    }
