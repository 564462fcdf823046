"""Monitor one session: when it is lost, all tasks and requests that wait for it end at once."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
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


@dataclass(eq=False)
class SessionMonitor:
    """The state of one session, shared by its owner, its callers and its transport.

    Callers send requests inside `run_until_lost`. Transport code reports a failure: `mark_lost` if the session is over,
    `request_ping` if a ping should decide. The owner waits in `wait_for_event` and handles the reports.
    Call all methods on the owner's event loop.

    Args:
        server: the server's name.
        redaction: hides the server's secrets.
        authorization: adds tokens to the session's requests.
        is_failing: whether the server has failed lately; then its messages are logged at level DEBUG.
    """

    server: str
    redaction: Redaction
    authorization: "httpx.Auth | None" = None
    is_failing: Callable[[], bool] = lambda: False
    is_ready: bool = field(default=False, init=False)
    requests: "PendingRequests | None" = field(default=None, init=False)
    stderr_tail: str = field(default="", init=False)
    tools_changed: bool = field(default=False, init=False)
    is_rejected: bool = field(default=False, init=False)
    must_poll_tools: bool = field(default=False, init=False)
    exited: bool = field(default=False, init=False)
    overdue_calls: int = field(default=0, init=False)
    loss_reason: str = field(default="", init=False)
    _ping_requested: bool = field(default=False, init=False)
    _event: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.last_response_at = self._loop.time()
        self._lost: asyncio.Future[None] = self._loop.create_future()

    @property
    def is_lost(self) -> bool:
        """Return whether the session is over."""
        return self._lost.done()

    def mark_lost(self, reason: str = "") -> None:
        """End the session and everything that waits for it; `loss_reason` is the first non-empty reason."""
        self.loss_reason = self.loss_reason or reason
        if not self._lost.done():
            self._lost.set_result(None)
            self._event.set()

    def on_lost(self, callback: Callable[["SessionMonitor"], object]) -> None:
        """Call `callback` shortly after the loss."""
        self._lost.add_done_callback(lambda _: callback(self))

    def request_ping(self) -> None:
        """Request that the owner sends a ping now."""
        self._ping_requested = True
        self._event.set()

    def request_tool_list(self) -> None:
        """Request that the owner lists the tools again."""
        self.tools_changed = True
        self._event.set()

    def record_response(self) -> None:
        """Record that the server responded now."""
        self.last_response_at = self._loop.time()
        self._ping_requested = False

    async def wait_for_event(self, quiet_s: float) -> None:
        """Wait until the session is lost, a ping or tool list is requested, or no response arrived for `quiet_s`."""
        while not (self.is_lost or self.tools_changed or self._ping_requested):
            remaining_s = self.last_response_at + quiet_s - self._loop.time()
            if remaining_s <= 0:
                return
            self._event.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining_s):
                    await self._event.wait()

    async def run_until_lost(self, request: Coroutine[Any, Any, T]) -> T:
        """Await `request` until the session is lost; cancelling the caller cancels the request.

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
                # The request's own error can follow and is more precise: over HTTP, that it was never sent.
                await asyncio.wait({task}, timeout=REQUEST_ERROR_WAIT_S)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if task.cancelled():
            raise connection_lost(self.server)
        return task.result()

    def record_overdue_call(self, limit: int) -> None:
        """Record that a call timed out and request a ping; `limit` timeouts in a row end the session (mcp.md 4f)."""
        self.overdue_calls += 1
        if self.overdue_calls >= limit:
            self.mark_lost(f"{limit} calls in a row timed out")
        else:
            self.request_ping()

    def start_task(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that is cancelled when the session ends."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._discard_task)
        return task

    async def cancel_tasks(self) -> None:
        """Cancel the session's tasks and wait until they have ended."""
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
    """The pending requests of an SDK session: request id to the stream for its response, which has room for one.

    It replaces the SDK's own dictionary. It is the only code that uses private parts of the SDK, which has no hooks
    for this: read the next request id, answer a request in place of the server, detect the end of the incoming stream,
    and deliver responses without a pause. The SDK pops a request, yields to other tasks and sends the response; if
    the caller was cancelled meanwhile, that send fails and ends the session.
    """

    def __init__(self, session: "ClientSession", on_end: Callable[[], None]) -> None:
        super().__init__(session._response_streams)  # noqa: SLF001
        session._response_streams = self  # noqa: SLF001
        self._session = session
        # When the incoming stream ends, the SDK sends an error to every pending request and has no callback. This entry
        # belongs to no request and detects the end at once; a ping would detect it seconds later. Its id is random, so
        # that the server cannot send a response to it.
        self[f"end-{uuid4()}"] = _EndOfStreamHook(on_end)

    @property
    def next_id(self) -> int:
        """Return the id of the next request."""
        return self._session._request_id  # noqa: SLF001

    def pop(self, request_id: Any, default: Any = None) -> Any:
        """Remove and return a request's stream, whose sends do not wait."""
        stream = super().pop(request_id, None)
        return default if stream is None else _ImmediateSender(stream)

    def inject_response(self, request_id: Any, response: Any) -> None:
        """Send a response in place of the server, if the request is still pending."""
        if stream := self.pop(request_id):
            stream.send_nowait(response)


class _ImmediateSender:
    """A stream for one response, which it sends without yielding to other tasks."""

    def __init__(self, stream: MemoryObjectSendStream[Any]) -> None:
        self._stream = stream

    async def send(self, response: Any) -> None:
        self.send_nowait(response)

    def send_nowait(self, response: Any) -> None:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._stream.send_nowait(response)


class _EndOfStreamHook:
    """A pseudo request: the SDK sends an error to it when the incoming stream ends."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end

    async def send(self, _: Any) -> None:
        await checkpoint_if_cancelled()
        self._on_end()

    async def aclose(self) -> None:
        pass
