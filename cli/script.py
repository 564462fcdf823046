"""Write the script of a narrated video from a web page, with progress on stderr: `toolweave script`."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Column

from toolweave.cli.configuration import read_configuration
from toolweave.cli.terminal import sanitize, sanitized_json, script_paragraphs, stdout_console
from toolweave.config.logs import configure_logging
from toolweave.config.script_job import ScriptJob, env_mcp_config, env_script_settings, load_required_servers
from toolweave.config.script_settings import load_script_settings
from toolweave.config.settings import Settings
from toolweave.errors import ScriptNotSaved
from toolweave.graphs.script_generation import run_script_writer
from toolweave.nodes.script.script_file import VideoScript

BAR_WIDTH, PERCENT_WIDTH = 24, 4


@contextmanager
def show_progress() -> Iterator[Callable[[float, str], None]]:
    """Yield a function that prints progress: percent and a sentence. The bar is removed after the block."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield (
            lambda percent, message: (
                console.print(f"{percent:3.0f} %  {_one_line(message)}", soft_wrap=True) if message else None
            )
        )
        return
    # The sentence, which may contain a long URL, is cut first: bar and percent stay visible.
    columns = (
        BarColumn(bar_width=None, table_column=Column(min_width=BAR_WIDTH, max_width=BAR_WIDTH)),
        TaskProgressColumn(table_column=Column(min_width=PERCENT_WIDTH, no_wrap=True)),
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
    )
    with Progress(*columns, console=console, transient=True, expand=True) as bar:
        task = bar.add_task("", total=100.0)
        yield lambda percent, message: bar.update(task, completed=percent, description=_one_line(message), refresh=True)


def _one_line(message: str) -> str:
    return " ".join(sanitize(message).split())


def script(
    url: Annotated[str, typer.Argument(help="The page, http or https.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Write script.yaml into this folder.")
    ] = None,
    mcp_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Fetch the page by an agent with these MCP servers.", show_default="MCP_CONFIG_PATH"
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Script settings, YAML.", show_default="CONFIG_PATH")
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Language of the script.", show_default="the settings', or the page's"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the script as JSON.")] = False,
) -> None:
    """Write the script of a narrated video from a web page, and print it; no server is needed.

    Without MCP servers the page is fetched by plain HTTP, if its robots.txt allows it. Progress is printed on stderr.
    Variables of ./.env, or of the env of ./langgraph.json, apply where the environment has none.
    """
    settings = read_configuration().settings
    job = _read_job(settings, config, mcp_config)
    try:
        with show_progress() as on_progress:
            configure_logging(settings.model_copy(update={"log_level": "WARNING"}))
            video_script = asyncio.run(
                run_script_writer(
                    url, job=job, settings=settings, language=language, output_dir=output, on_progress=on_progress
                )
            )
    except ScriptNotSaved as error:
        _print_script(error.script, job, as_json=as_json)
        raise
    _print_script(video_script, job, as_json=as_json)


def _read_job(settings: Settings, config: Path | None, mcp_config: Path | None) -> ScriptJob:
    """Read the job's files: those of the options, else those that the environment names (A-05)."""
    return ScriptJob(
        settings=load_script_settings(config) if config else env_script_settings(settings),
        mcp=load_required_servers(mcp_config, settings) if mcp_config else env_mcp_config(settings),
    )


def _print_script(video_script: VideoScript, job: ScriptJob, *, as_json: bool) -> None:
    console = stdout_console()
    if as_json:
        console.print(sanitized_json(video_script.model_dump(mode="json")))
        return
    for paragraph in script_paragraphs(video_script, job.settings.personas):
        # Wrap lines for a terminal only.
        console.print(paragraph, soft_wrap=not console.is_terminal)
