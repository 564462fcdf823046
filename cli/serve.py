"""Serve a langgraph.json: `toolweave serve`, and `toolweave dev`, which restarts the server after changes (S-02).

`dev` starts the server as a separate process, so that nothing of the old application stays. The listening socket
outlives it: between two servers, clients wait instead of being refused. The next server continues the runs.
"""

import asyncio
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from loguru import logger
from watchfiles import Change, DefaultFilter, awatch

from toolweave.api.langgraph.app import create_langgraph_app
from toolweave.cli.configuration import (
    DEFAULT_LANGGRAPH_JSON,
    ConfigOption,
    Configuration,
    DataDirOption,
    McpOption,
    find_langgraph_json,
    read_configuration,
    with_model,
)
from toolweave.cli.http_server import listening_socket, run_until_signal, serve_app, socket_url, stop_with_parent
from toolweave.config.langgraph_json import LangGraphJson
from toolweave.config.logs import configure_logging, wrap_for_terminal
from toolweave.config.mcp import find_mcp_config
from toolweave.config.settings import copy_environment, unknown_variables, variable_name
from toolweave.errors import ConfigError
from toolweave.files import raise_open_files_limit
from toolweave.nodes.model_endpoint import model_label

# Longer than an orderly stop takes; a server that needs more has hung.
KILL_TIMEOUT_S = 15.0
DEBOUNCE_MS = 300
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SourceFilter(DefaultFilter):
    """Accept changes of Python files, environment files, langgraph.json and the given files."""

    def __init__(self, files: Sequence[Path]) -> None:
        super().__init__()
        self._files = frozenset(str(path.absolute()) for path in files)

    def __call__(self, change: Change, path: str) -> bool:
        """Return whether a change of this file changes the application."""
        name = path.rpartition("/")[2]
        is_source = name.endswith((".py", ".env")) or name.startswith(".env") or path in self._files
        return is_source and super().__call__(change, path)


@dataclass(frozen=True, slots=True)
class WatchedFiles:
    """The folders of an application, and its files that are neither Python nor environment files."""

    folders: tuple[Path, ...]
    files: tuple[Path, ...]

    @classmethod
    def from_config(cls, config: LangGraphJson, *extra_files: Path | None) -> "WatchedFiles":
        """Collect the folder of langgraph.json, the local dependencies and the folders of all code that it names."""
        index = config.store.index
        targets = [entry.target for entry in config.graphs.values()]
        optional = (config.http.app, config.auth and config.auth.path, index and index.embed)
        targets += [target for target in optional if target]
        code = [Path(target.rpartition(":")[0]) for target in targets]
        folders = [
            config.path.absolute().parent,
            *(Path(folder) for folder in config.dependencies),
            *(path.parent for path in code if path.suffix == ".py"),
        ]
        files = tuple(path for path in (config.path, config.env_file, *extra_files) if path is not None)
        return cls(tuple(dict.fromkeys(folder for folder in folders if folder.is_dir())), files)


async def serve_with_reload(
    command: Sequence[str], environ: Mapping[str, str], current_files: Callable[[], WatchedFiles], socket_fd: int
) -> int:
    """Run `command`, which serves on the inherited socket, and restart it after every change; return its exit code.

    Return when a signal stops the server, or when the very first server cannot start. If a later one cannot start, it
    has printed the reason, and the next change restarts it. `current_files` is called again after every change.
    """
    process, is_first, stopped = await _start_server(command, environ, socket_fd), True, asyncio.Event()

    def pass_on(number: signal.Signals) -> None:
        stopped.set()
        _send_signal(process, number)

    for number in STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, pass_on, number)
    async with _watch_changes(current_files) as changed:
        while True:
            await _wait_for_exit(process, changed, stopped)
            if not (is_first or changed.is_set() or stopped.is_set()):
                logger.warning("the server is down; it restarts when the application changes")
                await _wait_for_first(changed.wait(), stopped.wait())
            if stopped.is_set() or not changed.is_set():
                return await process.wait()
            changed.clear()
            process, is_first = await _start_server((*command, "--restarted"), environ, socket_fd), False
            if stopped.is_set():  # during the start
                _send_signal(process, signal.SIGTERM)


async def _wait_for_exit(process: Process, changed: asyncio.Event, stopped: asyncio.Event) -> None:
    """Wait until the server has exited; a change stops it. One that hangs after a signal is killed."""
    await _wait_for_first(process.wait(), changed.wait(), stopped.wait())
    if process.returncode is None and not stopped.is_set():
        logger.info("the application has changed: restarting the server")
        _send_signal(process, signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(KILL_TIMEOUT_S):
            await process.wait()
    _send_signal(process, signal.SIGKILL)
    await process.wait()


def _send_signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)


async def _wait_for_first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until the first of them has finished; cancel the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def _start_server(command: Sequence[str], environ: Mapping[str, str], socket_fd: int) -> Process:
    # In its own session it receives Ctrl-C only through this process, and once. If this process dies, its stdin ends.
    return await asyncio.create_subprocess_exec(
        *command, env=dict(environ), pass_fds=(socket_fd,), stdin=PIPE, start_new_session=True
    )


@asynccontextmanager
async def _watch_changes(current_files: Callable[[], WatchedFiles]) -> AsyncIterator[asyncio.Event]:
    """Yield an event that every change sets."""
    changed = asyncio.Event()

    async def watch_until_files_change(files: WatchedFiles) -> None:
        source_filter = SourceFilter(files.files)
        async for _ in awatch(*files.folders, watch_filter=source_filter, debounce=DEBOUNCE_MS, recursive=True):
            changed.set()
            if current_files() != files:
                return

    async def watch() -> None:
        try:
            while True:
                await watch_until_files_change(current_files())
        except (OSError, RuntimeError) as error:
            # Most likely too many folders for this system.
            logger.warning("changes are not detected; restart the server by hand after a change: {}", error)

    task = asyncio.create_task(watch())
    try:
        yield changed
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


READY_MESSAGE = "Toolweave is ready at {url}"
# Added to one thread per concurrent run, so that request handlers do not wait for nodes.
HANDLER_THREADS = 32
HostOption = Annotated[str | None, typer.Option("--host", help="Address to listen on.", show_default="127.0.0.1")]
PortOption = Annotated[
    int | None,
    typer.Option("--port", min=0, max=65535, help="Port to listen on, 0 takes a free one.", show_default="2024"),
]
ReloadOption = Annotated[
    bool, typer.Option("--reload/--no-reload", help="Restart the server when the application changes.")
]
WorkerOption = Annotated[
    bool, typer.Option("--worker/--no-worker", help="Execute runs in this process, too; without, on PostgreSQL only.")
]
# For the server that `dev` starts: the socket that `dev` has opened, and whether it is a restart.
InheritedSocketOption = Annotated[int | None, typer.Option("--inherited", hidden=True)]
RestartedOption = Annotated[bool, typer.Option("--restarted", hidden=True)]
InsecureOption = Annotated[
    bool, typer.Option("--allow-insecure-bind", help="Accept other machines although there is no authentication.")
]


def serve(
    config: ConfigOption = None,
    host: HostOption = None,
    port: PortOption = None,
    data_dir: DataDirOption = None,
    allow_insecure_bind: InsecureOption = False,
    worker: WorkerOption = True,
) -> None:
    """Serve the graphs of a langgraph.json over the LangGraph-compatible API.

    When the server accepts requests, it prints "Toolweave is ready at URL" on stdout. Logs go to stderr. SIGTERM and
    Ctrl-C stop it after running requests have had some seconds to finish; a second Ctrl-C stops it at once.
    """
    configuration = read_configuration(
        config, host=host, port=port, data_dir=data_dir, allow_insecure_bind=allow_insecure_bind or None
    )
    if not worker and configuration.settings.database_url is None:
        fix = "Set it, and start toolweave worker beside this server."
        raise ConfigError("--no-worker needs a PostgreSQL database.", source="TOOLWEAVE_DATABASE_URL", fix=fix)
    with _listening_socket(configuration) as sock:
        _serve(sock, configuration, executes_runs=worker)


def dev(
    config: ConfigOption = None,
    host: HostOption = None,
    port: PortOption = None,
    data_dir: DataDirOption = None,
    mcp: McpOption = None,
    allow_insecure_bind: InsecureOption = False,
    reload: ReloadOption = True,
    inherited: InheritedSocketOption = None,
    is_restart: RestartedOption = False,
) -> None:
    """Serve as `toolweave serve` does, with readable logs and the URLs to open; restart after changes."""
    environ = copy_environment() | ({variable_name("mcp_config"): str(mcp)} if mcp else {})
    options = {"host": host, "port": port, "data_dir": data_dir, "allow_insecure_bind": allow_insecure_bind or None}
    configuration = read_configuration(config, **options, mcp_config=mcp)
    if inherited is not None:
        stop_with_parent()
        with socket.socket(fileno=inherited) as sock:
            sock.set_inheritable(False)  # `dev` holds it open, too; a program that a server starts must not
            _serve(sock, configuration, is_dev=True, is_restart=is_restart)
    elif reload:
        _dev_with_reload(config, configuration, environ, data_dir)
    else:
        with _listening_socket(configuration) as sock:
            _serve(sock, configuration, is_dev=True)


def _dev_with_reload(
    config: Path | None, configuration: Configuration, environ: Mapping[str, str], data_dir: Path | None
) -> None:
    settings = configuration.settings
    with _listening_socket(configuration) as sock:
        configure_logging(settings)
        port = sock.getsockname()[1]
        command = [sys.executable, "-m", "toolweave", "dev", "--host", settings.host, "--port", str(port)]
        command += ["--inherited", str(sock.fileno())]
        command += ["--config", str(config)] if config else []
        command += ["--data-dir", str(data_dir)] if data_dir else []
        command += ["--allow-insecure-bind"] if settings.allow_insecure_bind else []
        current_files = _watched_files(config, configuration)
        raise typer.Exit(asyncio.run(serve_with_reload(command, environ, current_files, sock.fileno())))


def _watched_files(config: Path | None, configuration: Configuration) -> Callable[[], WatchedFiles]:
    """Return a function for the application's current files; while langgraph.json is invalid, the last known ones."""
    mcp_file = find_mcp_config(configuration.settings).edit_path
    last = WatchedFiles.from_config(configuration.langgraph_json, mcp_file)

    def current_files() -> WatchedFiles:
        nonlocal last
        with suppress(ConfigError):
            last = WatchedFiles.from_config(find_langgraph_json(config), mcp_file)
        return last

    return current_files


def _listening_socket(configuration: Configuration) -> AbstractContextManager[socket.socket]:
    return listening_socket(configuration.settings, authenticated=configuration.langgraph_json.auth is not None)


def _serve(
    sock: socket.socket,
    configuration: Configuration,
    *,
    is_dev: bool = False,
    is_restart: bool = False,
    executes_runs: bool = True,
) -> None:
    url = f"{socket_url(sock)}{configuration.langgraph_json.http.mount_prefix}"
    settings = configuration.settings.model_copy(update={"port": sock.getsockname()[1]})
    configure_logging(settings, with_activity=is_dev)
    raise_open_files_limit()
    model = ""
    if configuration.has_toolweave_graphs and is_dev:
        configuration, model = with_model(Configuration(configuration.langgraph_json, settings))
        settings = configuration.settings
    elif configuration.has_toolweave_graphs:
        # Fail now, not in the first run, if the model cannot be used.
        model_label(settings)
    for warning in configuration.langgraph_json.warnings:
        logger.warning("{}", warning)
    for name in unknown_variables():
        logger.warning("the environment variable {} sets nothing", name)

    threads = settings.max_concurrent_runs + HANDLER_THREADS

    def announce() -> None:
        if is_restart:
            logger.info("the server is ready again{}", f" with the model {model}" if model else "")
            return
        if is_dev:
            sys.stderr.write(wrap_for_terminal(welcome_text(url, configuration, model), sys.stderr, " " * 10))
        print(READY_MESSAGE.format(url=url), flush=True)

    app = create_langgraph_app(configuration.langgraph_json, settings, executes_runs=executes_runs)
    drain_s = settings.drain_timeout_s if settings.database_url is not None and executes_runs else 0.0
    run_until_signal(lambda stop: serve_app(app, sock, stop, announce), threads=threads, drain_s=drain_s)


def welcome_text(url: str, configuration: Configuration, model: str) -> str:
    """Return a banner with the URLs that a developer opens."""
    lines = [("API", url), ("Docs", f"{url}/docs"), ("Studio", f"{url}/studio")]
    if configuration.has_toolweave_routes:
        lines += [("OpenAI", f"{url}/v1"), ("Health", f"{url}/health"), ("Chat", f"toolweave chat --url {url}")]
    elif configuration.langgraph_json.http.app is None:
        setting = f'"http": {{"app": "{DEFAULT_LANGGRAPH_JSON.http.app}"}}'
        lines += [("Hint", f"{setting} in langgraph.json adds /v1, /agui and /servers")]
    lines += [("Model", model)] if model else []
    graphs = ", ".join(configuration.langgraph_json.graphs)
    width = max(len(name) for name, _ in lines)
    listing = "\n".join(f"  {name:<{width}}  {value}" for name, value in lines)
    return f"\nToolweave serves {graphs}\n{listing}\n  Ctrl-C stops.\n\n"
