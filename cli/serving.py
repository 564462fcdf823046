"""Run the application under uvicorn until a signal says stop; every start and stop is in this order (T-09)."""

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from types import FrameType
from typing import Any

import uvicorn
from loguru import logger
from starlette.applications import Starlette

from toolweave.cli.commands import uncollected

# Longer than an in-process request takes to notice that its client left (api/in_process.py), shorter than the ten
# seconds that container runtimes give a process.
GRACEFUL_SHUTDOWN_S = 4
FORCED = 130
# What has not ended by then is a thread that nothing can end, or a node that does not let itself be cancelled.
LEFTOVERS_S = 0.5
# From the signal to the end, also where code on the event loop never returns.
STOP_S = 9.0
LAST_WORDS_S = 0.5
THREADS = 132


class Server(uvicorn.Server):
    """A uvicorn server that leaves signals and the application's lifespan to `serve_app`."""

    def __init__(self, app: Starlette, state: dict[str, Any], on_ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACEFUL_SHUTDOWN_S,
        )
        super().__init__(config)
        self._state = state
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, then say so."""
        self.lifespan.state.update(self._state)
        await super().startup(sockets)
        if not self.should_exit:
            self._on_ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


class Stop:
    """The wish to stop: it may come before the server is there."""

    def __init__(self) -> None:
        self.wanted = False
        self.signalled = threading.Event()
        self._server: Server | None = None

    @property
    def should_exit(self) -> bool:
        """Say so under the name by which the library that sends MCP's event streams knows it, and ends them."""
        return self.wanted

    def attach(self, server: Server) -> None:
        """Stop this server, now or when it is wanted."""
        self._server = server
        server.should_exit = self.wanted

    def request(self) -> None:
        """Let requests finish for a bounded time, then stop."""
        self.wanted = True
        if self._server is not None:
            self._server.should_exit = True

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Stop; at the second Ctrl-C end the process at once, as a kill would: nothing stored is lost (S-05)."""
        if self.wanted and number == signal.SIGINT:
            sys.stderr.write("Stopped at once; unfinished runs continue at the next start.\n")
            sys.stderr.flush()
            os._exit(FORCED)
        if not self.wanted:
            self.request()
            self.signalled.set()


async def serve_app(app: Starlette, sock: socket.socket, stop: Stop, on_ready: Callable[[], None]) -> None:
    """Start the application, serve it on the socket until `stop` is requested, stop it.

    Raises:
        Exception: what the application raised while it started or stopped.
    """
    # uvicorn's own handling of a lifespan would log the traceback of a wrong setting and drop the exception.
    async with AsyncExitStack() as stack:
        with uncollected():
            state = await stack.enter_async_context(app.router.lifespan_context(app))
        server = Server(app, dict(state or {}), on_ready)
        stop.attach(server)
        await server.serve(sockets=[sock])


def run_until_signal(
    app: Starlette, sock: socket.socket, on_ready: Callable[[], None], *, threads: int = THREADS
) -> None:
    """Serve until SIGTERM or SIGINT; return when all is stopped. Raises what the application raised.

    `threads` is how many synchronous nodes, handlers and the like may be at work at once. Those that do not end when
    all else is stopped are left behind with the process; `STOP_S` after the signal the process ends in any case.
    """
    stop, stopped = Stop(), threading.Event()
    threading.Thread(target=_end_in_time, args=(stop, stopped), name="end-in-time", daemon=True).start()
    loop_factory = uvicorn.Config(app, log_config=None).get_loop_factory()
    leave_behind = threading.Timer(LEFTOVERS_S, _end_process)
    leave_behind.daemon = True
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            loop = runner.get_loop()
            loop.set_default_executor(ThreadPoolExecutor(threads, thread_name_prefix="worker"))
            with _signals_to(stop):
                _run_to_end(loop, serve_app(app, sock, stop, on_ready))
            leave_behind.start()
    finally:
        leave_behind.cancel()
        stopped.set()
        stop.signalled.set()


def _run_to_end(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    """Run work to its end, whatever others on its loop do: a graph's `sys.exit()` breaks out of the whole loop."""
    task = loop.create_task(work)
    while not task.done():
        try:
            loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt) as error:
            if task.done():
                raise
            logger.error("{} was raised by what is served; the server goes on", type(error).__name__)


def _end_in_time(stop: Stop, stopped: threading.Event) -> None:
    stop.signalled.wait()
    if not stopped.wait(STOP_S):
        _end_process()


def _end_process() -> None:
    # On a thread: nobody may be reading what is written.
    last_words = threading.Thread(target=_say_what_remains, daemon=True)
    last_words.start()
    last_words.join(LAST_WORDS_S)
    os._exit(0)


def _say_what_remains() -> None:
    logger.warning("something that was begun does not end; unfinished runs continue at the next start")
    sys.stdout.flush()
    sys.stderr.flush()


def end_with_parent() -> None:
    """Stop in order when the process that started this one is gone: its end of our stdin closes with it."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            continue
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="end-with-parent", daemon=True).start()


@contextmanager
def _signals_to(stop: Stop) -> Iterator[None]:
    before = {number: signal.signal(number, stop.on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
