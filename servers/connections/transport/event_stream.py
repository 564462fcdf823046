"""Watch an event stream on its way to the SDK: what is in it, and when it ends."""

import contextlib
import json
from collections.abc import AsyncIterator, Callable

import anyio
import httpx

from toolweave.servers.connections.transport.event_limit import EventLimiter, error_event
from toolweave.servers.connections.transport.faults import ABANDONED, OVERSIZE, TRANSPORT_FAULT, in_short
from toolweave.servers.connections.transport.message_size import TOO_LARGE

ENDED = "the event stream ended without an answer"
ELICITATION = b"elicitation/create"
LONGEST_LINE = 64 * 1024
"""Of a line that has come in part so much is kept, to see whether it is a question; longer ones nobody is shown."""

OnElicitation = Callable[[int | str, int | str], None]
"""Called with the ids of a question of the server and of the request on whose stream it came."""


def nobody_asked(*_: int | str) -> None:
    """Take no note of a question."""


class EventStream(httpx.AsyncByteStream):
    """An event stream that says when it ends, and ends with an error event for the request that waits on it.

    Args:
        response: the stream as the server sends it.
        report: called with why it ended.
        request_id: the request whose answer this stream brings; None for the stream of all other messages.
        on_elicitation: called with the server's questions on it.
        on_close: called when the SDK is done with it.
    """

    def __init__(
        self,
        response: httpx.Response,
        report: Callable[[str], None],
        request_id: int | str | None = None,
        on_elicitation: OnElicitation = nobody_asked,
        on_close: Callable[[], None] = nobody_asked,
    ) -> None:
        self._response = response
        self._report = report
        self._request_id = request_id
        self._on_elicitation = on_elicitation
        self._on_close = on_close
        self._limiter = EventLimiter()
        self._begun = b""
        self._abandoned = False
        self._scope = anyio.CancelScope()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        resumable = False
        code, fault = TRANSPORT_FAULT, ENDED
        chunks = self._response.aiter_bytes()
        try:
            while (chunk := await self._next(chunks)) is not None:
                # A stream with event ids is one the SDK itself takes up again.
                resumable = resumable or chunk.startswith(b"id:") or b"\nid:" in chunk
                if self._request_id is not None:
                    self._note_elicitations(chunk, self._request_id)
                yield self._limiter.feed(chunk)
                if self._limiter.is_dropping and self._request_id is not None:
                    code, fault = OVERSIZE, TOO_LARGE
                    break
        except httpx.RequestError as error:
            fault = in_short(error)
        if self._abandoned:
            fault = ABANDONED
        else:
            self._report(fault)
        if self._request_id is not None and (self._abandoned or code == OVERSIZE or not resumable):
            yield b"\n\n" + error_event(self._request_id, code, fault)

    async def aclose(self) -> None:
        """Let go of the connection."""
        self._on_close()
        await self._response.aclose()

    def abandon(self) -> None:
        """End the stream: nobody waits for its answer any more."""
        self._abandoned = True
        self._scope.cancel()

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        if self._abandoned:
            return None
        with anyio.CancelScope() as self._scope:
            return await anext(chunks, None)
        return None

    def _note_elicitations(self, chunk: bytes, request_id: int | str) -> None:
        """Tell whose stream a question came on, also one that comes in pieces."""
        seen = self._begun + chunk
        end = max(seen.rfind(b"\n"), seen.rfind(b"\r")) + 1
        self._begun = seen[end : end + LONGEST_LINE]
        if ELICITATION not in seen[:end]:
            return
        for line in seen[:end].splitlines():
            if line.startswith(b"data:") and ELICITATION in line:
                with contextlib.suppress(ValueError, TypeError, KeyError):
                    message = json.loads(line[5:])
                    if message["method"] == ELICITATION.decode():
                        self._on_elicitation(message["id"], request_id)
