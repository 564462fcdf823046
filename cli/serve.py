"""Serve a langgraph.json: `toolweave serve`, and `toolweave dev` for a person who watches it (S-02)."""

import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from loguru import logger

from toolweave.api.langgraph.app import create_langgraph_app
from toolweave.cli.configuration import ConfigOption, Configuration, read_configuration
from toolweave.cli.listening import listening, url_of
from toolweave.cli.serving import run_until_signal
from toolweave.config.logs import configure_logging
from toolweave.config.settings import unknown_variables
from toolweave.nodes.chat_models import model_label

READY = "Toolweave is ready at {url}"
STUDIO = "https://smith.langchain.com/studio/?baseUrl="

HostOption = Annotated[str | None, typer.Option("--host", help="Address to listen on. [default: 127.0.0.1]")]
PortOption = Annotated[
    int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on, 0 takes a free one. [default: 2024]")
]
DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="Folder of the databases. [default: .toolweave]")
]
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
) -> None:
    """Serve as `toolweave serve` does, with readable logs and the URLs to open."""
    configuration = read_configuration(
        config, host=host, port=port, data_dir=data_dir, allow_insecure_bind=allow_insecure_bind or None
    )
    settings = configuration.settings
    if settings.log_format == "auto":
        settings = settings.model_copy(update={"log_format": "human"})
    _serve(Configuration(configuration.served, settings), banner=True)


def _serve(configuration: Configuration, *, banner: bool) -> None:
    authenticated = configuration.served.auth is not None
    with listening(configuration.settings, authenticated=authenticated) as sock:
        url = url_of(sock)
        settings = configuration.settings.model_copy(update={"port": sock.getsockname()[1]})
        configure_logging(settings)
        if configuration.is_ours:
            # A model that cannot be used is an error now, not in the first run.
            model_label(settings)
        for warning in configuration.served.warnings:
            logger.warning("{}", warning)
        for name in unknown_variables():
            logger.warning("the environment variable {} sets nothing", name)

        def announce() -> None:
            if banner:
                sys.stderr.write(welcome(url, configuration))
            print(READY.format(url=url), flush=True)

        run_until_signal(create_langgraph_app(configuration.served, settings), sock, announce)


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
