"""Answer over time: event streams with heartbeats, and JSON that may be long in coming (sections 5.2 and 6)."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from toolweave.api.langgraph.event_filter import EVERYTHING, EventFilter
from toolweave.runtime.events.channel import HEARTBEAT, HEARTBEAT_SECONDS, LoggedEvent, frame

KEEP_ALIVE = b"\n"
STREAM_HEADERS = {
    "cache-control": "no-store",
    "connection": "keep-alive",
    "x-accel-buffering": "no",
    "content-type": "text/event-stream; charset=utf-8",
}
JSON_HEADERS = {"content-type": "application/json"}

# Whoever reads slowly has events waiting, which all listeners share, rather than a copy of them on its way.
PIECE_BYTES = 256 * 1024

WhenGone = Callable[[], Awaitable[None]]


class LiveAnswer:
    """An ASGI response whose body is written while the client stays; `when_gone` is called if it leaves first."""

    seconds_between_keep_alives = HEARTBEAT_SECONDS

    def __init__(self, headers: Mapping[str, str], *, keep_alive: bytes, when_gone: WhenGone | None) -> None:
        self._headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        self._keep_alive = keep_alive
        self._when_gone = when_gone

    async def write(self, send: Send) -> bytes:
        """Send the body; what is returned is its end."""
        raise NotImplementedError

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or stop as soon as the client has gone.

        A server that stops cancels what takes too long. The answer then breaks off without its end, so that the client
        sees that there is more; the run goes on at the next start (S-05).
        """
        with suppress(asyncio.CancelledError):
            await self._answer(receive, send)

    async def _answer(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        writing = asyncio.create_task(self._write(send))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait((writing, leaving), return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                writing.result()
            elif self._when_gone is not None:
                await self._when_gone()
        finally:
            await _stopped(writing, leaving)

    async def _write(self, send: Send) -> None:
        beating = asyncio.create_task(self._beat(send))
        try:
            end = await self.write(send)
        finally:
            beating.cancel()
        await send(_part(end, more=False))

    async def _beat(self, send: Send) -> None:
        # A fixed ticker from the start of the connection: clients learn the cadence and reconnect when it fails.
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += self.seconds_between_keep_alives
            await asyncio.sleep(due - loop.time())
            await send(_part(self._keep_alive))


class EventStream(LiveAnswer):
    """Send a run's events as they happen, those that the filter shows."""

    def __init__(
        self,
        batches: AsyncGenerator[Sequence[LoggedEvent]],
        headers: Mapping[str, str],
        *,
        shown: EventFilter = EVERYTHING,
        when_gone: WhenGone | None = None,
    ) -> None:
        super().__init__({**STREAM_HEADERS, **headers}, keep_alive=HEARTBEAT, when_gone=when_gone)
        self._batches = batches
        self._shown = shown

    async def write(self, send: Send) -> bytes:
        """Send one frame per event; those that are there at the same time go out together."""
        async with aclosing(self._batches) as batches:
            async for batch in batches:
                for piece in self._pieces(batch):
                    await send(_part(piece))
        return b""

    def _pieces(self, batch: Sequence[LoggedEvent]) -> Iterator[bytes]:
        frames: list[bytes] = []
        size = 0
        for event in batch:
            if self._shown.shows(event.event):
                frames.append(frame(event.event, event.data, event.id))
                size += len(frames[-1])
            if size > PIECE_BYTES:
                yield b"".join(frames)
                frames, size = [], 0
        if frames:
            yield b"".join(frames)


class SlowJson(LiveAnswer):
    """Send JSON when it is there; until then a line break every 5 s keeps the connection open."""

    def __init__(
        self, result: Awaitable[bytes], headers: Mapping[str, str], *, when_gone: WhenGone | None = None
    ) -> None:
        super().__init__({**JSON_HEADERS, **headers}, keep_alive=KEEP_ALIVE, when_gone=when_gone)
        self._result = result

    async def write(self, send: Send) -> bytes:  # noqa: ARG002 - the whole body is its end
        """Wait for the result."""
        return await self._result


def _part(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _stopped(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
