"""Run the application under uvicorn until a signal says stop; every start and stop is in this order (T-09)."""

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette

# Longer than an in-process request takes to notice that its client left (api/in_process.py), shorter than the ten
# seconds that container runtimes give a process.
GRACEFUL_SHUTDOWN_S = 4
FORCED = 130


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
        self._server: Server | None = None

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
        self.request()


async def serve_app(app: Starlette, sock: socket.socket, stop: Stop, on_ready: Callable[[], None]) -> None:
    """Start the application, serve it on the socket until `stop` is requested, stop it.

    Raises:
        Exception: what the application raised while it started or stopped.
    """
    # uvicorn's own handling of a lifespan would log the traceback of a wrong setting and drop the exception.
    async with app.router.lifespan_context(app) as state:
        server = Server(app, dict(state or {}), on_ready)
        stop.attach(server)
        await server.serve(sockets=[sock])


def run_until_signal(app: Starlette, sock: socket.socket, on_ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; return when all is stopped. Raises what the application raised."""
    stop = Stop()

    async def until_signal() -> None:
        with _signals_to(stop):
            await serve_app(app, sock, stop, on_ready)

    loop_factory = uvicorn.Config(app, log_config=None).get_loop_factory()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(until_signal())


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
