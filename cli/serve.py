"""Serve a langgraph.json: `toolweave serve`, and `toolweave dev` for a person who watches it (S-02)."""

import asyncio
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from loguru import logger

from toolweave import open_files
from toolweave.api.langgraph.app import create_langgraph_app
from toolweave.cli.configuration import ConfigOption, Configuration, find_langgraph_json, read_configuration
from toolweave.cli.serve import Watched, serve_reloading
from toolweave.cli.serving import end_with_parent, listening, run_until_signal, url_of
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import mcp_place
from toolweave.config.settings import environment, unknown_variables
from toolweave.errors import ConfigError
from toolweave.nodes.model_endpoint import model_label

READY = "Toolweave is ready at {url}"
# A node at work in each run's thread must not keep handlers of requests waiting.
SPARE_THREADS = 32
STUDIO = "https://smith.langchain.com/studio/?baseUrl="

HostOption = Annotated[str | None, typer.Option("--host", help="Address to listen on.", show_default="127.0.0.1")]
PortOption = Annotated[
    int | None,
    typer.Option("--port", min=0, max=65535, help="Port to listen on, 0 takes a free one.", show_default="2024"),
]
DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="Folder of the databases.", show_default=".toolweave")
]
ReloadOption = Annotated[
    bool, typer.Option("--reload/--no-reload", help="Start the server again when the application changes.")
]
# For the server that `dev` starts: the socket it has opened, and whether it is not the first.
InheritedOption = Annotated[int | None, typer.Option("--inherited", hidden=True)]
AgainOption = Annotated[bool, typer.Option("--again", hidden=True)]
InsecureOption = Annotated[
    bool, typer.Option("--allow-insecure-bind", help="Let other machines in although there is no authentication.")
]


def serve(
    config: ConfigOption = None,
    host: HostOption = None,
    port: PortOption = None,
    data_dir: DataDirOption = None,
    allow_insecure_bind: InsecureOption = False,
) -> None:
    """Serve the graphs of a langgraph.json over the LangGraph-compatible API.

    Once requests are accepted, one line on stdout says so: "Toolweave is ready at URL". Logs go to stderr. SIGTERM and
    Ctrl-C let running requests finish for some seconds; a second Ctrl-C stops at once.
    """
    configuration = read_configuration(
        config, host=host, port=port, data_dir=data_dir, allow_insecure_bind=allow_insecure_bind or None
    )
    _serve(configuration, banner=False)


def dev(
    config: ConfigOption = None,
    host: HostOption = None,
    port: PortOption = None,
    data_dir: DataDirOption = None,
    allow_insecure_bind: InsecureOption = False,
    reload: ReloadOption = True,
    inherited: InheritedOption = None,
    again: AgainOption = False,
) -> None:
    """Serve as `toolweave serve` does, with readable logs and the URLs to open; changes start the server again."""
    environ = environment()
    options = {"host": host, "port": port, "data_dir": data_dir, "allow_insecure_bind": allow_insecure_bind or None}
    configuration = read_configuration(config, **options)
    settings = configuration.settings
    if settings.log_format == "auto":
        settings = settings.model_copy(update={"log_format": "human"})
    configuration = Configuration(configuration.served, settings)
    if inherited is not None:
        end_with_parent()
        with socket.socket(fileno=inherited) as sock:
            _serve_on(sock, configuration, banner=not again, announced=again)
    elif reload:
        _reloading(config, configuration, environ, data_dir)
    else:
        _serve(configuration, banner=True)


def _reloading(
    config: Path | None, configuration: Configuration, environ: Mapping[str, str], data_dir: Path | None
) -> None:
    settings = configuration.settings
    with _listening(configuration) as sock:
        configure_logging(settings)
        port = sock.getsockname()[1]
        command = [sys.executable, "-m", "toolweave", "dev", "--host", settings.host, "--port", str(port)]
        command += ["--inherited", str(sock.fileno())]
        command += ["--config", str(config)] if config else []
        command += ["--data-dir", str(data_dir)] if data_dir else []
        command += ["--allow-insecure-bind"] if settings.allow_insecure_bind else []
        watched = _watched(config, configuration)
        raise typer.Exit(asyncio.run(serve_reloading(command, environ, watched, sock.fileno())))


def _watched(config: Path | None, configuration: Configuration) -> Callable[[], Watched]:
    """Give what says which files belong to the application now; those of before while langgraph.json is wrong."""
    mcp_file = mcp_place(configuration.settings).own
    last = Watched.of(configuration.served, mcp_file)

    def watched() -> Watched:
        nonlocal last
        with suppress(ConfigError):
            last = Watched.of(find_langgraph_json(config), mcp_file)
        return last

    return watched


def _serve(configuration: Configuration, *, banner: bool) -> None:
    with _listening(configuration) as sock:
        _serve_on(sock, configuration, banner=banner)


def _listening(configuration: Configuration) -> AbstractContextManager[socket.socket]:
    return listening(configuration.settings, authenticated=configuration.served.auth is not None)


def _serve_on(sock: socket.socket, configuration: Configuration, *, banner: bool, announced: bool = False) -> None:
    url = f"{url_of(sock)}{configuration.served.http.mount_prefix}"
    settings = configuration.settings.model_copy(update={"port": sock.getsockname()[1]})
    configure_logging(settings)
    open_files.raise_limit()
    if configuration.is_ours:
        # A model that cannot be used is an error now, not in the first run.
        model_label(settings)
    for warning in configuration.served.warnings:
        logger.warning("{}", warning)
    for name in unknown_variables():
        logger.warning("the environment variable {} sets nothing", name)

    threads = settings.max_concurrent_runs + SPARE_THREADS

    def announce() -> None:
        if announced:
            logger.info("the server is ready again")
            return
        if banner:
            sys.stderr.write(welcome(url, configuration))
        print(READY.format(url=url), flush=True)

    run_until_signal(create_langgraph_app(configuration.served, settings), sock, announce, threads=threads)


def welcome(url: str, configuration: Configuration) -> str:
    """List the URLs that a developer opens."""
    lines = [
        ("API", url),
        ("Docs", f"{url}/docs"),
        ("Studio", f"{STUDIO}{quote(url, safe=':/')}"),
    ]
    if configuration.has_our_routes:
        lines += [("Health", f"{url}/health"), ("Chat", f"toolweave chat --url {url}")]
    graphs = ", ".join(configuration.served.graphs)
    width = max(len(name) for name, _ in lines)
    shown = "\n".join(f"  {name:<{width}}  {value}" for name, value in lines)
    return f"\nToolweave serves {graphs}\n{shown}\n  Ctrl-C stops.\n\n"
