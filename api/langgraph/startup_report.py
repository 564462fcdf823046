"""Say in one paragraph why the server could not start, instead of a traceback."""

from loguru import logger
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolweave.errors import ToolweaveError


class StartupReport:
    """ASGI middleware around the lifespan: a failure becomes `lifespan.startup.failed` with a readable message."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; hold back the router's traceback of a failed start or stop."""
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        failed: list[Message] = []

        async def holding(message: Message) -> None:
            if message["type"].endswith(".failed"):
                failed.append(message)
            else:
                await send(message)

        try:
            await self._app(scope, receive, holding)
        except Exception as error:  # noqa: BLE001 - the top-level handler of the lifespan
            kind = failed[0]["type"] if failed else "lifespan.startup.failed"
            await send({"type": kind, "message": _paragraph(error)})


def _paragraph(error: Exception) -> str:
    if isinstance(error, ToolweaveError):
        return str(error)
    logger.opt(exception=error).debug("the lifespan failed")
    return f"{type(error).__name__}: {error} (the traceback is in the log at level DEBUG)"
