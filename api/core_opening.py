"""Open the core server when the first request comes, hold it, and try again when that failed."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from loguru import logger
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolweave.config.settings import Settings
from toolweave.errors import ToolweaveError
from toolweave.servers.core import loading

OPEN_LIMIT_S = 15.0
INTERNAL_ERROR = -32603


class CoreOnDemand:
    """ASGI application that is the core server from the first request on.

    Loading it takes half a second and few need it: that is done on a thread, and the request waits. While the server
    cannot be opened requests are answered with 503 and the reason; it is tried again on request, at most every
    `again_after_s`.
    """

    def __init__(self, path: str, again_after_s: float) -> None:
        self._path = path
        self._again_after_s = again_after_s
        self._app: ASGIApp | None = None
        self._fault = ""
        self._wanted = asyncio.Event()
        self._settled = asyncio.Event()
        self._ending = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to the server."""
        if self._app is None:
            self._wanted.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(OPEN_LIMIT_S):
                    await self._settled.wait()
        await _to_its_end(self._app or self._unavailable(), scope, receive, send)

    @asynccontextmanager
    async def running(self, settings: Settings) -> AsyncIterator[None]:
        """Answer requests until the block ends; the server is closed then."""
        owner = asyncio.create_task(self._own(settings), name="core-server")
        try:
            yield
        finally:
            self._ending.set()
            self._wanted.set()
            await owner

    async def _own(self, settings: Settings) -> None:
        """Open the server when it is wanted, hold it to the end and close it, all in this task."""
        while True:
            await self._wanted.wait()
            if self._ending.is_set():
                return
            try:
                await asyncio.to_thread(loading.load)
                async with loading.open_http_app(settings, self._path) as self._app:
                    self._settled.set()
                    await self._ending.wait()
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing else may suffer from it
                self._fault = str(error) if isinstance(error, ToolweaveError) else "The log says why."
                logger.opt(exception=error).error("the core server cannot be used")
            self._app = None
            await self._rest()

    async def _rest(self) -> None:
        """Have requests refused at once for a while; the next one after it has the server opened again."""
        self._settled.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._again_after_s):
                await self._ending.wait()
        self._settled.clear()
        if not self._ending.is_set():
            self._wanted.clear()

    def _unavailable(self) -> ASGIApp:
        reason = self._fault or f"It did not open within {OPEN_LIMIT_S:g} s."
        text = f"The core server cannot be used right now. {reason}"
        return rpc_error(503, INTERNAL_ERROR, text, {"retry-after": f"{math.ceil(self._again_after_s)}"})


async def _to_its_end(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer, and end what the library leaves half-said: its event streams, when the server is told to stop."""
    half_said = False

    async def noticing(message: Message) -> None:
        nonlocal half_said
        half_said = message["type"] == "http.response.start" or message.get("more_body", False)
        await send(message)

    await app(scope, receive, noticing)
    if half_said:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def rpc_error(status: int, code: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with a JSON-RPC error that belongs to no request, as MCP servers do."""
    error = {"jsonrpc": "2.0", "id": "server-error", "error": {"code": code, "message": message}}
    return Response(json.dumps(error), status, dict(headers or {}), media_type="application/json")
