"""Limit the size of request bodies, read them again, and parse JSON that names no field twice."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from fastapi import HTTPException
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolweave.api.errors import detail_response
from toolweave.json_values import MAX_VALUES, has_more_values, pause_gc, too_many_values_text
from toolweave.runtime.codec import loads

MIB = 1024 * 1024
MAX_LENGTH_DIGITS = 18
BODILESS_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class BodyLimit(NamedTuple):
    """The limits of a body: bytes, and JSON values in it."""

    max_bytes: int
    max_values: int = MAX_VALUES


class BodyLimiter:
    """ASGI middleware: answer 413 to a body over its path's limit, with or without a content-length.

    `limits` maps patterns of whole paths to limits; the first match applies. Other paths have no limit.
    """

    def __init__(self, app: ASGIApp, limits: Mapping[re.Pattern[str], BodyLimit]) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body up to the limit, then pass the request on or refuse it."""
        pattern = matching_pattern(scope, self._limits) if scope["type"] == "http" else None
        if pattern is None:
            await self._app(scope, receive, send)
            return
        try:
            body = await read_limited_body(Request(scope, receive), self._limits[pattern])
        except ClientDisconnect:
            return
        except HTTPException as refused:
            answer = detail_response(refused.status_code, refused.detail, {"connection": "close"})
            await answer(scope, receive, send)
            return
        await self._app(scope, replay_body(body, receive), send)


async def read_limited_body(request: Request, limit: BodyLimit) -> bytes:
    """Return the body of a request.

    Raises:
        HTTPException: 413, the body has more bytes or values than the limit allows.
        ClientDisconnect: the client disconnected before the end of the body.
    """
    too_large = HTTPException(
        413,
        f"The request body is larger than {limit.max_bytes // MIB} MiB. Send less at a time, or store the data "
        "elsewhere and send its address.",
    )
    announced = request.headers.get("content-length", "")
    # Enough digits for any real length: Python refuses to parse thousands of them.
    if announced.isdecimal() and int(announced[:MAX_LENGTH_DIGITS]) > limit.max_bytes:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit.max_bytes:
            raise too_large
    data = bytes(body)
    if await has_more_values(data, limit.max_values):
        raise HTTPException(413, too_many_values_text(limit.max_values))
    return data


def matching_pattern(scope: Scope, paths: Iterable[re.Pattern[str]]) -> re.Pattern[str] | None:
    """Return the first pattern that matches the path; None for methods without a body."""
    if scope["method"] in BODILESS_METHODS:
        return None
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    return next((pattern for pattern in paths if pattern.match(path)), None)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields a body already read, then the messages of `receive`."""
    is_replayed = False

    async def replay() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


@asynccontextmanager
async def run_until_first(*work: Coroutine[Any, Any, Any]) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Run coroutines until the first ends, and yield their tasks; cancel the others after the block."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# Stored values are read by other programs, too, which may not support deeper nesting.
MAX_DEPTH = 100
_LARGE_BYTES = 65_536


class StrictJsonRoute(APIRoute):
    """A route that parses JSON bodies with `strict_json`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, with requests that parse their JSON strictly."""
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handler(_StrictRequest(request.scope, request.receive))

        return strict


class _StrictRequest(Request):
    async def json(self) -> Any:
        """Parse the body as JSON, a large one on a thread."""
        body = await self.body()
        return strict_json(body) if len(body) < _LARGE_BYTES else await asyncio.to_thread(strict_json, body)


def strict_json(data: bytes) -> Any:
    """Parse a JSON body.

    Raises:
        HTTPException: 422, the body is not JSON in UTF-8, is nested too deeply, or names a field of an object twice.
    """
    try:
        value = loads(data)
    except ValueError:
        raise HTTPException(422, "The body is not JSON in UTF-8.") from None
    if is_deeper_than(value, data, MAX_DEPTH):
        raise HTTPException(422, f"The body is nested more than {MAX_DEPTH} levels deep.")
    # Of two fields with one name, a parser that checked the body before us may have used the other.
    with pause_gc():
        json.loads(data, object_pairs_hook=_object_without_duplicates, parse_int=str, parse_float=str)
    return value


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise HTTPException(422, "The body names a field of an object twice.")
    return found


def is_deeper_than(value: Any, data: bytes, levels: int) -> bool:
    """Return whether a value is nested deeper than `levels`; few brackets in its JSON `data` exclude that at once."""
    if data.count(b"[") + data.count(b"{") <= levels:
        return False
    layer = [value]
    for _ in range(levels):
        inner = (item.values() if isinstance(item, dict) else item for item in layer if isinstance(item, dict | list))
        layer = [child for children in inner for child in children if isinstance(child, dict | list)]
        if not layer:
            return False
    return True
