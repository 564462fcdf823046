"""Hand answers to those who wait for them without a pause in which they may leave: the SDK would end the session."""

import contextlib
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream


class HandedAnswers(dict[Any, Any]):
    """The open requests of an SDK session by their ids, each with the stream for its answer, which has room for one.

    The SDK takes a request out, lets others run and sends the answer. Where its caller was cancelled meanwhile, that
    fails, and the session would end with everybody's calls.
    """

    def pop(self, request_id: Any, default: Any = None) -> Any:
        """Take a request out, to be answered or to be forgotten."""
        stream = super().pop(request_id, None)
        return default if stream is None else _AtOnce(stream)


class _AtOnce:
    """A stream for one answer, which is sent before anything else happens."""

    def __init__(self, stream: MemoryObjectSendStream[Any]) -> None:
        self._stream = stream

    async def send(self, answer: Any) -> None:
        self.send_nowait(answer)

    def send_nowait(self, answer: Any) -> None:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._stream.send_nowait(answer)
