"""Refuse request bodies that no route of ours needs, before anything collects them in memory."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolweave.api.errors import detail_response
from toolweave.json_values import MAX_VALUES, has_more_values, too_many_values

MIB = 1024 * 1024
DIGITS = 18
BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})


class Limit(NamedTuple):
    """The most bytes of a body, and the most JSON values in it."""

    size: int
    values: int = MAX_VALUES


class BodyLimit:
    """ASGI middleware: a body over `limit` bytes is answered with 413, whether its length was announced or not.

    So is one of more JSON values than are parsed.

    It stands around the whole server and looks at requests to `paths` alone, patterns of whole paths; None means all.
    The first pattern of `other_limits` that a path matches has its own.
    """

    def __init__(
        self,
        app: ASGIApp,
        limit: int = MIB,
        paths: tuple[re.Pattern[str], ...] | None = None,
        other_limits: Mapping[re.Pattern[str], Limit] | None = None,
    ) -> None:
        self._app = app
        self._limit = Limit(limit)
        self._paths = paths
        self._other_limits = other_limits or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Collect the body up to the limit, then pass the request on, or refuse it."""
        if scope["type"] != "http" or not (self._paths is None or may_have_body(scope, self._paths)):
            await self._app(scope, receive, send)
            return
        body, more = bytearray(), True
        size, limit = _announced(scope), self._limit_of(scope)
        while more and size <= limit.size:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            size = max(size, len(body))
            more = message.get("more_body", False)
        if size > limit.size:
            await _refuse(f"The request body is larger than {limit.size // MIB} MiB.", scope, receive, send)
            return
        if await has_more_values(bytes(body), limit.values):
            await _refuse(too_many_values(limit.values), scope, receive, send)
            return
        await self._app(scope, replaying(bytes(body), receive), send)

    def _limit_of(self, scope: Scope) -> Limit:
        if not self._other_limits:
            return self._limit
        path = _path(scope)
        return next((limit for pattern, limit in self._other_limits.items() if pattern.match(path)), self._limit)


def may_have_body(scope: Scope, paths: tuple[re.Pattern[str], ...]) -> bool:
    """Say whether a request to one of these paths may have a body; most of the server's requests have none."""
    if scope["method"] in BODILESS:
        return False
    path = _path(scope)
    return any(pattern.match(path) for pattern in paths)


async def _refuse(text: str, scope: Scope, receive: Receive, send: Send) -> None:
    await detail_response(413, text, {"connection": "close"})(scope, receive, send)


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
