"""Read JSON bodies that say one thing only: UTF-8, bounded in depth, no name twice."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from toolweave.json_values import collecting_later
from toolweave.runtime.codec import loads

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
