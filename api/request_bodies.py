"""Refuse request bodies that no route of ours needs, before anything collects them in memory."""

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from fastapi import HTTPException
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolweave.api.errors import detail_response
from toolweave.json_values import MAX_VALUES, collecting_later, has_more_values, too_many_values
from toolweave.runtime.codec import loads

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


# What is kept is read by others, too: they need not be able to go deeper than this.
DEEPEST = 100
_LARGE = 65_536


class StrictJsonRoute(APIRoute):
    """A route whose JSON bodies are read by `strict_json`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Give the handler, with requests that read their JSON strictly."""
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handler(_StrictRequest(request.scope, request.receive))

        return strict


class _StrictRequest(Request):
    async def json(self) -> Any:
        """Read the body as JSON, a large one on a thread."""
        body = await self.body()
        return strict_json(body) if len(body) < _LARGE else await asyncio.to_thread(strict_json, body)


def strict_json(data: bytes) -> Any:
    """Decode a JSON body.

    Raises:
        HTTPException: 422 for what is not JSON in UTF-8, nested too deeply, or names a field of an object twice.
    """
    try:
        value = loads(data)
    except ValueError:
        raise HTTPException(422, "The body is not JSON in UTF-8.") from None
    if data.count(b"[") + data.count(b"{") > DEEPEST and _deeper_than(value, DEEPEST):
        raise HTTPException(422, f"The body is nested more than {DEEPEST} levels deep.")
    # Who checked a body with another parser than ours may have seen the other one of two.
    with collecting_later():
        json.loads(data, object_pairs_hook=_each_once, parse_int=str, parse_float=str)
    return value


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise HTTPException(422, "The body names a field of an object twice.")
    return found


def _deeper_than(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        layer = [inner for item in layer for inner in _inside(item)]
        if not layer:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [item for item in items if isinstance(item, dict | list)]
