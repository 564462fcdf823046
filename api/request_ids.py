"""Give each request an id, which its response has in `x-request-id` and its log lines in `request_id` (S-12)."""

from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolweave.log_ids import log_ids

HEADER = b"x-request-id"
SCOPE_KEY = "toolweave.request_id"
MAX_ID_CHARS = 128


class RequestIds:
    """ASGI middleware that accepts the caller's `x-request-id`, or makes one, and writes it into the scope."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its id."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request_id = _received_id(scope) or uuid4().hex
        scope[SCOPE_KEY] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.accept"):
                others = [header for header in message.get("headers", ()) if header[0].lower() != HEADER]
                message["headers"] = [*others, (HEADER, request_id.encode())]
            await send(message)

        with log_ids(request_id=request_id):
            await self._app(scope, receive, send_with_id)


def _received_id(scope: Scope) -> str | None:
    """Return the caller's id; None if there is none, or if it does not fit on a log line."""
    value = next((value for name, value in scope["headers"] if name == HEADER), b"").decode("latin-1")
    fits = 0 < len(value) <= MAX_ID_CHARS and value.isascii() and value.isprintable()
    return value if fits else None
