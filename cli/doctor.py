"""Check this installation and say what to do: `toolweave doctor`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from toolweave.cli.configuration import ConfigOption
from toolweave.cli.doctor import (
    Finding,
    Level,
    check_address,
    check_data_folder,
    check_files,
    check_graphs,
    check_langgraph_json,
    check_model,
    check_postgresql,
    check_registered_tools,
    check_script_files,
    check_servers,
    check_settings,
)
from toolweave.cli.terminal import stdout_console, styled
from toolweave.config.logs import configure_logging
from toolweave.config.settings import Settings

COLOURS: dict[Level, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    config: ConfigOption = None,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", metavar="DIR", help="Folder of the databases.", show_default=".toolweave"),
    ] = None,
) -> None:
    """Check settings, langgraph.json, model, databases, MCP servers, script files, registered tools, data folder, port.

    Every line is ok, warn or fail, with what to do. The exit code is 1 when anything failed. Secrets are never shown.
    """
    console = stdout_console()
    configure_logging(Settings(log_level="CRITICAL"))
    levels = [_shown(console, finding) for finding in diagnose(config, data_dir)]
    raise typer.Exit(1 if "fail" in levels else 0)


def diagnose(config: Path | None, data_dir: Path | None) -> Iterator[Finding]:
    """Make every check whose prerequisites are there, in the order in which a server would need them."""
    findings, served = check_langgraph_json(config)
    yield from findings
    findings, settings = check_settings(data_dir)
    yield from findings
    if settings is None:
        return
    if served is not None:
        yield from check_graphs(served)
    yield from check_model(settings)
    yield from check_postgresql(settings)
    yield from check_servers(settings)
    yield from check_script_files(settings)
    yield from check_registered_tools(settings)
    yield from check_files(settings)
    yield from check_data_folder(settings.data_dir)
    yield check_address(settings, authenticated=served is not None and served.auth is not None)


def _shown(console: Console, finding: Finding) -> Level:
    console.print(styled(f"{finding.level:<4}", COLOURS[finding.level]), styled(f"{finding.subject}: {finding.text}"))
    if finding.fix:
        console.print(styled(f"     → {finding.fix}"))
    return finding.level
