"""Make the API's plain JSON answers: compact, no charset, with the pagination headers of searches."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from toolweave.runtime.codec import dumps, dumps_slices, is_large
from toolweave.runtime.models import JsonObject

PIECE_BYTES = 256 * 1024
INDEX = re.compile(r"\[(-?[0-9]{1,9})]")


def json_answer(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer a value as JSON; a large one is encoded and sent in pieces, so that others are served between them."""
    if is_large(value):
        return LargeJson(value, status, headers or {})
    return Response(dumps(value), status, dict(headers or {}), media_type="application/json")


class LargeJson(Response):
    """A JSON answer that is encoded when it is sent."""

    def __init__(self, value: object, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(None, status, dict(headers), media_type="application/json")
        self._slices = dumps_slices(value)

    async def pieces(self) -> list[bytes]:
        """Encode the value, once, with a break after each piece; pieces of a size to send."""
        found: list[bytes] = []
        group: list[bytes] = []
        size = 0
        for encoded in self._slices:
            group.append(encoded)
            size += len(encoded)
            if size >= PIECE_BYTES:
                found.append(b"".join(group))
                group, size = [], 0
            await asyncio.sleep(0)
        return [*found, b"".join(group)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        """Encode and send."""
        pieces = await self.pieces()
        self.headers["content-length"] = str(sum(map(len, pieces)))
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def empty_answer(status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Answer without a body."""
    return Response(b"", status, dict(headers or {}))


async def page_headers(
    found: Sequence[object], *, limit: int, offset: int, count: Callable[[], Awaitable[int]]
) -> dict[str, str]:
    """Give the pagination headers for rows fetched with `limit + 1` (langgraph_api.md section 3).

    The total is that of the matches seen so far; only a page beyond the end has to count them.
    """
    if not found and offset:
        return {"x-pagination-total": str(min(offset, await count()))}
    headers = {"x-pagination-total": str(offset + len(found))}
    if len(found) > limit:
        headers["x-pagination-next"] = str(offset + limit)
    return headers


def selected(row: JsonObject, select: Sequence[str] | None) -> JsonObject:
    """Keep the selected keys, in the order asked for; all of them without a selection, or with an empty one."""
    return row if not select else {name: row[name] for name in select if name in row}


def extracted(row: JsonObject, paths: Mapping[str, str]) -> dict[str, Any]:
    """Read paths such as `values.log[-1]` out of a row; what is not there is null, empty steps are skipped."""
    return {alias: _at(row, path) for alias, path in paths.items()}


def _at(row: JsonObject, path: str) -> Any:
    value: Any = row
    for step in path.replace("[", ".[").split("."):
        if not step:
            continue
        if position := INDEX.fullmatch(step):
            index = int(position[1])
            value = value[index] if isinstance(value, list) and -len(value) <= index < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value
