"""Serve the core tools at /ai/mcp (C-01, D-8), and never in the way of anything else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from toolweave.api.core_guard import CoreGuard
from toolweave.api.core_opening import INTERNAL_ERROR, CoreOnDemand, rpc_error
from toolweave.api.errors import detail_response
from toolweave.config.settings import Settings

MOUNTED_AT = "/ai"
PATH = "/mcp"
AGAIN_AFTER_S = 2.0


class CoreMount:
    """ASGI application to be mounted at /ai, whose one path is /mcp."""

    def __init__(self, again_after_s: float = AGAIN_AFTER_S) -> None:
        self._again_after_s = again_after_s
        # Two servers in one process may serve the same application.
        self._on: dict[asyncio.AbstractEventLoop, ASGIApp] = {}

    @asynccontextmanager
    async def running(self, settings: Settings) -> AsyncIterator[None]:
        """Answer the requests on this event loop until the block ends; the core server is closed then.

        Raises:
            ConfigError: a `core_…` setting cannot be used.
        """
        server = CoreOnDemand(PATH, self._again_after_s)
        guard = CoreGuard(settings, server)
        loop = asyncio.get_running_loop()
        async with server.running(settings):
            self._on[loop] = guard
            try:
                yield
            finally:
                del self._on[loop]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to the server's path."""
        root = scope.get("root_path", "")
        if scope["type"] != "http" or scope["path"].removeprefix(root).rstrip("/") != PATH:
            await _not_found(scope, receive, send)
            return
        # Where requests are counted, they are under this path.
        scope["route"] = COUNTED
        answer = self._on.get(asyncio.get_running_loop()) or NOT_STARTED
        # With a slash at its end it is the same path: a redirect would name whatever Host the request had.
        await answer({**scope, "path": f"{root}{PATH}"}, receive, send)


NOT_STARTED = rpc_error(503, INTERNAL_ERROR, "The application has not been started.")
COUNTED = Mount(f"{MOUNTED_AT}{PATH}", NOT_STARTED)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": "not found"})
    else:
        await detail_response(404, "Not Found")(scope, receive, send)
