"""Responses of the API: compact JSON, pages of searches, event streams with heartbeats, JSON of long waits."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from toolweave.api.errors import json_response
from toolweave.api.langgraph.requests import Body
from toolweave.api.request_bodies import run_until_first, wait_for_disconnect
from toolweave.runtime.codec import dumps_slices, is_large
from toolweave.runtime.events.channel import EventFilter
from toolweave.runtime.models import JsonObject, Page, StreamEvent

Row = TypeVar("Row")
HEARTBEAT = b": heartbeat\r\n\r\n"
HEARTBEAT_INTERVAL_S = 5.0
KEEP_ALIVE = b"\n"
STREAM_HEADERS = {
    "cache-control": "no-store",
    "connection": "keep-alive",
    "x-accel-buffering": "no",
    "content-type": "text/event-stream; charset=utf-8",
}
JSON_HEADERS = {"content-type": "application/json"}
# Small chunks: for a slow client, events wait in the log that all listeners share, not as a copy in its buffer.
CHUNK_BYTES = 256 * 1024
OnDisconnect = Callable[[], Awaitable[None]]


def json_answer(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response; a large value is encoded and sent in chunks, with other requests served in between."""
    if is_large(value):
        return LargeJson(value, status, headers or {})
    return json_response(value, status, headers)


class LargeJson(Response):
    """A JSON response whose large value is encoded when it is sent."""

    def __init__(self, value: object, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(None, status, dict(headers), media_type="application/json")
        self._slices = dumps_slices(value)

    async def encoded_chunks(self) -> list[bytes]:
        """Encode the value (once only), with a pause for other tasks after each chunk."""
        chunks: list[bytes] = []
        for chunk in self._slices:
            chunks.append(chunk)
            await asyncio.sleep(0)
        return chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        """Encode the value and send it."""
        chunks = await self.encoded_chunks()
        self.headers["content-length"] = str(sum(map(len, chunks)))
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for chunk in _merge_chunks(chunks):
            await send(_body_message(chunk))
        await send(_body_message(b"", more=False))


async def page_answer(
    body: Body,
    search: Callable[..., Awaitable[Sequence[Row]]],
    count: Callable[[], Awaitable[int]],
    to_json: Callable[[Row], JsonObject],
    *,
    extract: Mapping[str, str] | None = None,
) -> Response:
    """Return a page of a search as the body requests it, with pagination headers (langgraph_api.md section 3).

    The total counts the matches up to this page; only a page beyond the end calls `count`.
    """
    limit, offset = body.get("limit", 10), body.get("offset", 0)
    found = await search(Page(limit + 1, offset, body.get("sort_by"), body.get("sort_order")))
    total = min(offset, await count()) if offset and not found else offset + len(found)
    headers = {"x-pagination-total": str(total)}
    if len(found) > limit:
        headers["x-pagination-next"] = str(offset + limit)
    rows = []
    for row in map(to_json, found[:limit]):
        rows.append(select_fields(row, body.get("select")))
        if extract:
            rows[-1]["extracted"] = extract_values(row, extract)
    return json_answer(rows, headers=headers)


def select_fields(row: JsonObject, select: Sequence[str] | None) -> JsonObject:
    """Return the selected keys of a row in the requested order; without a selection all of them."""
    return row if not select else {name: row[name] for name in select if name in row}


def extract_values(row: JsonObject, paths: Mapping[str, str]) -> dict[str, Any]:
    """Return the values at paths such as `values.log[-1]`; missing values are null, empty steps are skipped."""
    return {alias: _value_at(row, path) for alias, path in paths.items()}


def _value_at(row: JsonObject, path: str) -> Any:
    value: Any = row
    try:
        for step in filter(None, path.replace("[", ".[").split(".")):
            value = value[int(step.strip("[]"))] if isinstance(value, list) else value[step]
    except (LookupError, TypeError, ValueError):
        return None
    return value


class KeepAliveResponse:
    """An ASGI response that sends keep-alives until it is complete; calls `on_disconnect` if the client disconnects."""

    keep_alive_interval_s = HEARTBEAT_INTERVAL_S

    def __init__(self, headers: Mapping[str, str], *, keep_alive: bytes, on_disconnect: OnDisconnect | None) -> None:
        self._headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        self._keep_alive = keep_alive
        self._on_disconnect = on_disconnect

    async def write(self, send: Send) -> bytes:
        """Send the body except its end, and return the end."""
        raise NotImplementedError

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response until it is complete or the client disconnects.

        A server that stops cancels slow responses. They end incomplete, which the client detects; the run continues at
        the next start (S-05).
        """
        with suppress(asyncio.CancelledError):
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            async with run_until_first(self._write(send), wait_for_disconnect(receive)) as (writing, _):
                if writing.done():
                    writing.result()
                elif self._on_disconnect is not None:
                    await self._on_disconnect()

    async def _write(self, send: Send) -> None:
        keep_alives = asyncio.create_task(self._send_keep_alives(send))
        try:
            end = await self.write(send)
        finally:
            keep_alives.cancel()
        await send(_body_message(end, more=False))

    async def _send_keep_alives(self, send: Send) -> None:
        # At fixed times from the start of the connection: clients rely on the interval and reconnect without it.
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += self.keep_alive_interval_s
            await asyncio.sleep(due - loop.time())
            await send(_body_message(self._keep_alive))


def run_filter(modes: Collection[str], namespaces: Collection[str] = ()) -> EventFilter:
    """Return the filter of a run's stream; empty modes or namespaces select all.

    The filter always passes `error` events, and complete messages in both message modes. A namespace is the part after
    the event name: "" is the root graph, `child:<task id>` a subgraph without its own subgraphs.
    """
    channels = frozenset({*modes, "error", *(("messages-tuple",) if "messages" in modes else ())})
    paths = frozenset(tuple(steps.split("|")) if steps else () for steps in namespaces)
    return EventFilter(channels if modes else None, paths, exact=True)


class EventStream(KeepAliveResponse):
    """An SSE response with the events of a run as they occur; with `only`, those that pass this filter."""

    def __init__(
        self,
        batches: AsyncGenerator[Sequence[StreamEvent]],
        headers: Mapping[str, str],
        *,
        only: EventFilter | None = None,
        on_disconnect: OnDisconnect | None = None,
    ) -> None:
        super().__init__({**STREAM_HEADERS, **headers}, keep_alive=HEARTBEAT, on_disconnect=on_disconnect)
        self._batches = batches
        self._only = only

    async def write(self, send: Send) -> bytes:
        """Send one SSE frame per event; events of one batch are sent together."""
        async with aclosing(self._batches) as batches:
            async for batch in batches:
                events = (event for event in batch if self._only is None or self._only.matches(event))
                for chunk in _merge_chunks(sse_frame(event.event, event.data, event.id) for event in events):
                    await send(_body_message(chunk))
        return b""


class KeepAliveJson(KeepAliveResponse):
    """A JSON response that sends a line break every 5 s until the result exists."""

    def __init__(
        self, result: Awaitable[bytes], headers: Mapping[str, str], *, on_disconnect: OnDisconnect | None = None
    ) -> None:
        super().__init__({**JSON_HEADERS, **headers}, keep_alive=KEEP_ALIVE, on_disconnect=on_disconnect)
        self._result = result

    async def write(self, send: Send) -> bytes:  # noqa: ARG002 - nothing is sent before the end
        """Wait for the result."""
        return await self._result


def sse_frame(event: str, data: bytes, event_id: str | None = None) -> bytes:
    r"""Return the SSE frame of an event: `event`, `data` and, if there is one, `id`, with CRLF line ends.

    `data` is compact JSON, so it contains no line breaks.
    """
    head = b"event: " + event.encode() + b"\r\ndata: " + data + b"\r\n"
    if event_id is None:
        return head + b"\r\n"
    return head + b"id: " + event_id.encode() + b"\r\n\r\n"


def _body_message(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


def _merge_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Join chunks until they have at least `CHUNK_BYTES`."""
    group: list[bytes] = []
    size = 0
    for chunk in chunks:
        group.append(chunk)
        size += len(chunk)
        if size >= CHUNK_BYTES:
            yield b"".join(group)
            group, size = [], 0
    if group:
        yield b"".join(group)
