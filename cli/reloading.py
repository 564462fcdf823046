"""Start the server anew whenever its application changes: what `toolweave dev` does between two edits.

The server is a process of its own, so that nothing of the old application stays. The listening socket outlives it:
while one server stops and the next starts, clients wait instead of being refused. Runs go on in the next server.
"""

import asyncio
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loguru import logger
from watchfiles import Change, DefaultFilter, awatch

from toolweave.config.langgraph_json import LangGraphJson

# Longer than a server takes to stop in order; then it has hung.
STOP_SECONDS = 15.0
DEBOUNCE_MS = 300
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Sources(DefaultFilter):
    """Notice Python files, environment files, langgraph.json and the files that are named besides."""

    def __init__(self, files: Sequence[Path]) -> None:
        super().__init__()
        self._files = frozenset(str(path.absolute()) for path in files)

    def __call__(self, change: Change, path: str) -> bool:
        """Say whether a change to this file is one to the application."""
        name = path.rpartition("/")[2]
        wanted = name.endswith((".py", ".env")) or name.startswith(".env") or path in self._files
        return wanted and super().__call__(change, path)


@dataclass(frozen=True, slots=True)
class Watched:
    """The folders of an application, and the files outside of the usual kinds that belong to it."""

    folders: tuple[Path, ...]
    files: tuple[Path, ...]

    @classmethod
    def of(cls, config: LangGraphJson, *also: Path | None) -> "Watched":
        """Watch the folder of langgraph.json, the local dependencies and the folders of all code that it names."""
        index = config.store.index
        named = [
            *(entry.target for entry in config.graphs.values()),
            *(
                target
                for target in (config.http.app, config.auth and config.auth.path, index and index.embed)
                if target
            ),
        ]
        targets = [target.rpartition(":")[0] for target in named]
        folders = [
            config.path.absolute().parent,
            *(Path(folder) for folder in config.dependencies if Path(folder).is_dir()),
            *(Path(target).parent for target in targets if target.endswith(".py")),
        ]
        files = tuple(path for path in (config.path, config.env_file, *also) if path is not None)
        return cls(tuple(dict.fromkeys(folder for folder in folders if folder.is_dir())), files)


class Signals:
    """The signals that ask for an end; whoever takes one passes it on."""

    def __init__(self) -> None:
        self.received = False
        self._waiting: asyncio.Queue[signal.Signals] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._receive, number)

    async def next(self) -> signal.Signals:
        """Wait for one."""
        return await self._waiting.get()

    def _receive(self, number: signal.Signals) -> None:
        self.received = True
        self._waiting.put_nowait(number)


async def serve_reloading(
    command: Sequence[str], environ: Mapping[str, str], watched: Callable[[], Watched], socket: int
) -> int:
    """Run `command`, which serves on the inherited socket, again after every change; gives its exit code.

    It is over when a signal stops it, or when the very first server cannot start. A later one that cannot has said
    why: the next change gives it another chance. `watched` is asked again after every change.
    """
    signals = Signals()
    async with _changes(watched) as changed:
        process = await _started(command, environ, socket)
        if not await _until_changed(process, changed, signals):
            return await process.wait()
        while not signals.received:
            changed.clear()
            process = await _started((*command, "--again"), environ, socket)
            if not await _until_changed(process, changed, signals) and not signals.received:
                logger.warning("the server is down; it is started again when the application changes")
                await _first_of(changed.wait(), signals.next())
        return await process.wait()


async def _until_changed(process: Process, changed: asyncio.Event, signals: Signals) -> bool:
    """Let a server run until the application changes, then stop it; False when it ended otherwise."""
    which, number = await _first_of(process.wait(), signals.next(), changed.wait())
    if which == 1:
        await _stop(process, number, signals)
    elif which == 2:
        logger.info("the application has changed: starting the server again")
        await _stop(process, signal.SIGTERM, signals)
        return not signals.received
    return False


async def _stop(process: Process, number: signal.Signals, signals: Signals) -> None:
    """Pass a signal on, and every further one, until the server has ended; one that hangs is killed."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + STOP_SECONDS
    while process.returncode is None:
        with suppress(ProcessLookupError):
            process.send_signal(number)
        try:
            async with asyncio.timeout_at(deadline):
                _, number = await _first_of(process.wait(), signals.next())
        except TimeoutError:
            number = signal.SIGKILL


async def _first_of(*waits: Coroutine[Any, Any, Any]) -> tuple[int, Any]:
    """Wait for the first to come true; gives which one it was, and what it gave."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        which = next(index for index, task in enumerate(tasks) if task.done())
        return which, tasks[which].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _started(command: Sequence[str], environ: Mapping[str, str], socket: int) -> Process:
    # In a session of its own a Ctrl-C reaches it through us alone, and once. When we die, its stdin ends.
    return await asyncio.create_subprocess_exec(
        *command, env=dict(environ), pass_fds=(socket,), stdin=PIPE, start_new_session=True
    )


@asynccontextmanager
async def _changes(watched: Callable[[], Watched]) -> AsyncIterator[asyncio.Event]:
    """Give an event that is set by every change."""
    changed = asyncio.Event()

    async def until_moved(seen: Watched) -> None:
        names = Sources(seen.files)
        async for _ in awatch(*seen.folders, watch_filter=names, debounce=DEBOUNCE_MS, recursive=True):
            changed.set()
            if watched() != seen:
                return

    async def watch() -> None:
        try:
            while True:
                await until_moved(watched())
        except (OSError, RuntimeError) as error:
            # Too many folders for this system, most likely.
            logger.warning("changes are not noticed, start the server again by hand: {}", error)

    watching = asyncio.create_task(watch())
    try:
        yield changed
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
