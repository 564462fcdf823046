"""Follow the fate of one session: alive until it is lost, and then everything that waits for it ends at once."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from anyio.streams.memory import MemoryObjectSendStream

from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.results import connection_lost, unavailable

if TYPE_CHECKING:
    import httpx
    from mcp import ClientSession

T = TypeVar("T")
REQUEST_ERROR_WAIT_S = 0.03


class SessionMonitor:
    """One session's life line between its owner, its callers and its transport.

    Callers `race` their requests against the loss. Code that sees the transport fail reports it: `lose` when it is
    gone, `suspect` when a ping should decide. The owner sleeps in `disturbance` and acts on what is reported.
    All methods belong to the owner's event loop.

    Args:
        server: the server's name.
        redaction: what hides the server's secrets.
        authorization: what gives its requests their tokens.
    """

    def __init__(self, server: str, redaction: Redaction, authorization: "httpx.Auth | None" = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.server = server
        self.redaction = redaction
        self.authorization = authorization
        self.pending_requests: PendingRequests | None = None
        self.stderr_tail = ""
        self.last_response_at = self._loop.time()
        self.tools_changed = False
        self.is_rejected = False
        self.must_poll_tools = False
        self.exited = False
        self.overdue_calls = 0
        self.loss_reason = ""
        self._ping_requested = False
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._event = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def is_lost(self) -> bool:
        """Return whether the session is over."""
        return self._lost.done()

    def mark_lost(self, reason: str = "") -> None:
        """End the session for everybody who waits on it; the first reason given stays in `why_lost`."""
        self.loss_reason = self.loss_reason or reason
        if not self._lost.done():
            self._lost.set_result(None)
            self._event.set()

    def on_lost(self, callback: Callable[["SessionMonitor"], object]) -> None:
        """Call `note` shortly after the loss."""
        self._lost.add_done_callback(lambda _: callback(self))

    def request_ping(self) -> None:
        """Ask for a ping now."""
        self._ping_requested = True
        self._event.set()

    def request_tool_list(self) -> None:
        """Ask for a fresh tool list."""
        self.tools_changed = True
        self._event.set()

    def record_response(self) -> None:
        """Note that the server answered something."""
        self.last_response_at = self._loop.time()
        self._ping_requested = False

    async def wait_for_event(self, quiet_s: float) -> None:
        """Return when the session is lost, new tools or a suspicion are reported, or `quiet_s` without an answer."""
        while not (self.is_lost or self.tools_changed or self._ping_requested):
            remaining_s = self.last_response_at + quiet_s - self._loop.time()
            if remaining_s <= 0:
                return
            self._event.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining_s):
                    await self._event.wait()

    async def run_until_lost(self, request: Coroutine[Any, Any, T]) -> T:
        """Await `request` unless the session is lost first; a cancelled caller cancels it.

        Raises:
            ServerUnavailable: the session was lost before the request ended.
        """
        if self.is_lost:
            request.close()
            raise unavailable(self.server)
        task = self.start_task(request)
        try:
            waiting: set[asyncio.Future[Any]] = {task, self._lost}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                # The request's own error may be on its way and says more: over HTTP, that it was never sent.
                await asyncio.wait({task}, timeout=REQUEST_ERROR_WAIT_S)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if task.cancelled():
            raise connection_lost(self.server)
        return task.result()

    def record_overdue_call(self, limit: int) -> None:
        """Note that a call passed its deadline: a ping decides, but `limit` in a row end the session (mcp.md 4f)."""
        self.overdue_calls += 1
        if self.overdue_calls >= limit:
            self.mark_lost(f"{limit} calls in a row were not answered in time")
        else:
            self.request_ping()

    def start_task(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start work that ends with the session at the latest."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._discard_task)
        return task

    async def cancel_tasks(self) -> None:
        """Cancel what is still running for this session and wait until it has ended."""
        while self._tasks:
            for task in self._tasks:
                if not task.cancelling():
                    task.cancel()
            await asyncio.wait(self._tasks)

    def _discard_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()


class PendingRequests(dict[Any, Any]):
    """The open requests of an SDK session by their ids, each with the stream for its answer, which has room for one.

    It takes the place of the SDK's own dictionary, and is the one place that reaches into private parts of the SDK,
    which has no hooks for what is done here: to know a request's number, to answer it in the server's place, to notice
    the end of the incoming stream, and to hand answers over without a pause. The SDK takes a request out, lets others
    run and sends the answer: where its caller was cancelled meanwhile, that fails and ends the session.
    """

    def __init__(self, session: "ClientSession", on_end: Callable[[], None]) -> None:
        super().__init__(session._response_streams)  # noqa: SLF001
        session._response_streams = self  # noqa: SLF001
        self._session = session
        # When the incoming stream ends, the SDK answers every open request with an error and has no callback. An
        # entry that no request owns makes that visible at once, where a ping would notice seconds later. Nor does the
        # server know its name, with which it could claim to answer.
        self[f"end-{uuid4()}"] = _EndOfStreamHook(on_end)

    @property
    def next_id(self) -> int:
        """Return the number that the next request takes."""
        return self._session._request_id  # noqa: SLF001

    def pop(self, request_id: Any, default: Any = None) -> Any:
        """Take a request out, to be answered or to be forgotten."""
        stream = super().pop(request_id, None)
        return default if stream is None else _ImmediateSender(stream)

    def answer(self, request_id: Any, response: Any) -> None:
        """Answer a request in the server's place, if it is still open."""
        if stream := self.pop(request_id):
            stream.send_nowait(response)


class _ImmediateSender:
    """A stream for one answer, which is sent before anything else happens."""

    def __init__(self, stream: MemoryObjectSendStream[Any]) -> None:
        self._stream = stream

    async def send(self, response: Any) -> None:
        self.send_nowait(response)

    def send_nowait(self, response: Any) -> None:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._stream.send_nowait(response)


class _EndOfStreamHook:
    """What the SDK takes for an open request, and sends an error to when the incoming stream ends."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end

    async def send(self, _: Any) -> None:
        await checkpoint_if_cancelled()
        self._on_end()

    async def aclose(self) -> None:
        pass
