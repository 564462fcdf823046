"""Refuse request bodies that no route of ours needs, before anything collects them in memory."""

import re
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolweave.api.errors import detail_response

MIB = 1024 * 1024
DIGITS = 18
BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})


class BodyLimit:
    """ASGI middleware: a body over `limit` bytes is answered with 413, whether its length was announced or not.

    It stands around the whole server and looks at requests to `paths` alone, patterns of whole paths; None means all.
    The first pattern of `other_limits` that a path matches has its own.
    """

    def __init__(
        self,
        app: ASGIApp,
        limit: int = MIB,
        paths: tuple[re.Pattern[str], ...] | None = None,
        other_limits: Mapping[re.Pattern[str], int] | None = None,
    ) -> None:
        self._app = app
        self._limit = limit
        self._paths = paths
        self._other_limits = other_limits or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Collect the body up to the limit, then pass the request on, or refuse it."""
        if scope["type"] != "http" or not self._concerns(scope):
            await self._app(scope, receive, send)
            return
        body, more = bytearray(), True
        size, limit = _announced(scope), self._limit_of(scope)
        while more and size <= limit:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            size = max(size, len(body))
            more = message.get("more_body", False)
        if size > limit:
            text = f"The request body is larger than {limit // MIB} MiB."
            await detail_response(413, text, {"connection": "close"})(scope, receive, send)
            return
        await self._app(scope, replaying(bytes(body), receive), send)

    def _limit_of(self, scope: Scope) -> int:
        if not self._other_limits:
            return self._limit
        path = _path(scope)
        return next((limit for pattern, limit in self._other_limits.items() if pattern.match(path)), self._limit)

    def _concerns(self, scope: Scope) -> bool:
        if self._paths is None:
            return True
        # Most requests of the server are for others: those that have no body cost nothing here.
        if scope["method"] in BODILESS:
            return False
        path = _path(scope)
        return any(pattern.match(path) for pattern in self._paths)


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _announced(scope: Scope) -> int:
    length = dict(scope["headers"]).get(b"content-length", b"")
    # More digits than any body has bytes: Python refuses to read thousands of them.
    return int(length[:DIGITS]) if length.isdigit() else 0


def replaying(body: bytes, receive: Receive) -> Receive:
    """Give a body again that has been read, then whatever comes."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
