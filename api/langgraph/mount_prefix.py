"""Serve everything below a path (`http.mount_prefix`), as behind a proxy that passes the whole path on."""

from starlette.types import ASGIApp, Receive, Scope, Send

from toolweave.api.clients import PREFIX
from toolweave.api.errors import detail_response

# Whoever watches the process asks here and knows no prefix.
WITHOUT_PREFIX = "/ok"


class MountPrefix:
    """ASGI middleware: the prefix becomes the root path, and what is outside of it is not found."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is below the prefix."""
        if scope["type"] not in ("http", "websocket") or scope["path"] == WITHOUT_PREFIX:
            await self._app(scope, receive, send)
            return
        path, prefix = scope["path"], self._prefix
        if path == prefix or path.startswith(f"{prefix}/"):
            scope["root_path"] = scope.get("root_path", "") + prefix
            scope[PREFIX] = prefix
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "not found"})
        else:
            await detail_response(404, "Not Found")(scope, receive, send)
