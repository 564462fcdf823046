"""Serve the core tools at /ai/mcp (C-01, D-8): opened by the first request, and never in the way of anything else."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from loguru import logger
from starlette.types import ASGIApp, Receive, Scope, Send

from toolweave.api.core_guard import CoreGuard, rpc_error
from toolweave.api.errors import detail_response
from toolweave.config.settings import Settings
from toolweave.errors import ToolweaveError
from toolweave.servers.core import loading

MOUNTED_AT = "/ai"
PATH = "/mcp"
OPEN_LIMIT_S = 15.0
AGAIN_AFTER_S = 2.0
INTERNAL_ERROR = -32603


class CoreMount:
    """ASGI application to be mounted at /ai, whose one path is /mcp.

    The server takes half a second to load and is needed by few: the first request starts that, on a thread, and waits
    for it. While it cannot be opened requests are answered with 503 and the reason; it is tried again on request, at
    most every `again_after_s`.
    """

    def __init__(self, again_after_s: float = AGAIN_AFTER_S) -> None:
        self._again_after_s = again_after_s
        self._guard: CoreGuard | None = None
        self._app: ASGIApp | None = None
        self._fault = ""
        self._wanted = asyncio.Event()
        self._settled = asyncio.Event()
        self._ending = asyncio.Event()

    @asynccontextmanager
    async def running(self, settings: Settings) -> AsyncIterator[None]:
        """Answer requests until the block ends; the server is closed then.

        Raises:
            ConfigError: a `core_…` setting cannot be used.
        """
        self._guard = CoreGuard(settings, self._serve)
        self._wanted, self._settled, self._ending = asyncio.Event(), asyncio.Event(), asyncio.Event()
        owner = asyncio.create_task(self._own(settings), name="core-server")
        try:
            yield
        finally:
            self._ending.set()
            self._wanted.set()
            await owner
            self._guard = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to the server's path."""
        root = scope.get("root_path", "")
        if scope["type"] != "http" or scope["path"].removeprefix(root).rstrip("/") != PATH:
            await _not_found(scope, receive, send)
        elif self._guard is None:
            await self._unavailable("the application has not been started")(scope, receive, send)
        else:
            # With a slash at its end it is the same path: a redirect would name whatever Host the request had.
            await self._guard({**scope, "path": f"{root}{PATH}"}, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            self._wanted.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(OPEN_LIMIT_S):
                    await self._settled.wait()
        answer = self._app or self._unavailable(self._fault or f"it did not open within {OPEN_LIMIT_S:g} s")
        await answer(scope, receive, send)

    async def _own(self, settings: Settings) -> None:
        """Open the server when it is wanted, hold it to the end and close it, all in this task."""
        while True:
            await self._wanted.wait()
            if self._ending.is_set():
                return
            try:
                await asyncio.to_thread(loading.load)
                async with loading.open_http_app(settings, PATH) as self._app:
                    self._settled.set()
                    await self._ending.wait()
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing else may suffer from it
                self._fault = str(error) if isinstance(error, ToolweaveError) else "the log says why"
                logger.opt(exception=error).error("the core server at {}{} cannot be used", MOUNTED_AT, PATH)
            self._app = None
            await self._rest()

    def _unavailable(self, reason: str) -> ASGIApp:
        text = f"The core server cannot be used: {reason.rstrip('.')}."
        return rpc_error(503, INTERNAL_ERROR, text, {"retry-after": f"{math.ceil(self._again_after_s)}"})

    async def _rest(self) -> None:
        """Have requests refused at once for a while; the next one after it has the server opened again."""
        self._settled.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._again_after_s):
                await self._ending.wait()
        self._settled.clear()
        if not self._ending.is_set():
            self._wanted.clear()


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": "not found"})
    else:
        await detail_response(404, "Not Found")(scope, receive, send)
