"""Follow the fate of one session: alive until it is lost, and then everything that waits for it ends at once."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from toolweave.errors import ToolProtocolError
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.results import lost, unavailable

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
LAST_ANSWER_S = 0.03


class Link:
    """One session's life line between its owner, its callers and its transport.

    Callers `race` their requests against the loss. Whoever sees the transport fail reports it: `lose` when it is
    gone, `suspect` when a ping should decide. The owner sleeps in `disturbance` and acts on what it is told.
    All methods belong to the owner's event loop.
    """

    def __init__(self, server: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.server = server
        self.last_words = ""
        self.heard_at = self._loop.time()
        self.tools_changed = False
        self.declined = False
        self.authorization: httpx.Auth | None = None
        self.redaction: Redaction | None = None
        self.deaf = False
        self.exited = False
        self._suspected = False
        self._calls = 0
        self._overdue = 0
        self.why_lost = ""
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._disturbed = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def is_lost(self) -> bool:
        """Say whether the session is over."""
        return self._lost.done()

    @property
    def is_busy(self) -> bool:
        """Say whether a tool call is waiting for its answer."""
        return self._calls > 0

    def lose(self, reason: str = "") -> None:
        """End the session for everybody who waits on it; the first reason given stays in `why_lost`."""
        self.why_lost = self.why_lost or reason
        if not self._lost.done():
            self._lost.set_result(None)
            self._disturbed.set()

    def when_lost(self, tell: Callable[["Link"], object]) -> None:
        """Have somebody told of the loss, shortly after it."""
        self._lost.add_done_callback(lambda _: tell(self))

    def suspect(self) -> None:
        """Ask for a ping now."""
        self._suspected = True
        self._disturbed.set()

    def announce_new_tools(self) -> None:
        """Ask for a fresh tool list."""
        self.tools_changed = True
        self._disturbed.set()

    def heard(self) -> None:
        """Note that the server answered something."""
        self.heard_at = self._loop.time()
        self._suspected = False

    async def disturbance(self, quiet_s: float) -> None:
        """Return when the session is lost, new tools or a suspicion are reported, or `quiet_s` without an answer."""
        while not (self.is_lost or self.tools_changed or self._suspected):
            left = self.heard_at + quiet_s - self._loop.time()
            if left <= 0:
                return
            self._disturbed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._disturbed.wait()

    async def race(self, request: Coroutine[Any, Any, T]) -> T:
        """Await `request` unless the session is lost first; a cancelled caller cancels it.

        Raises:
            ServerUnavailable: the session was lost before the request ended.
        """
        if self.is_lost:
            request.close()
            raise unavailable(self.server)
        task = self.spawn(request)
        try:
            waiting: set[asyncio.Future[Any]] = {task, self._lost}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                # What this request itself met may be on its way and tells more: over HTTP, that it was never sent.
                await asyncio.wait({task}, timeout=LAST_ANSWER_S)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if task.cancelled():
            raise lost(self.server)
        return task.result()

    async def call(self, request: Coroutine[Any, Any, T]) -> T:
        """Race a tool call; while one is open the server counts as busy."""
        self._calls += 1
        try:
            result = await self.race(request)
        except ToolProtocolError:
            self._overdue = 0
            raise
        finally:
            self._calls -= 1
        self._overdue = 0
        self.heard()
        return result

    def note_overdue(self, limit: int) -> None:
        """Note that a call passed its deadline: a ping decides, but `limit` in a row end the session (mcp.md 4f)."""
        self._overdue += 1
        if self._overdue >= limit:
            self.lose(f"{limit} calls in a row were not answered in time")
        else:
            self.suspect()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start work that ends with the session at the latest."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)
        return task

    async def drain(self) -> None:
        """Cancel what is still running for this session and wait until it has ended."""
        while self._tasks:
            for task in self._tasks:
                if not task.cancelling():
                    task.cancel()
            await asyncio.wait(self._tasks)

    def _finish(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()
