"""List the commands; the module of a command is imported when the command is invoked, so that --help is quick."""

from typing import Annotated

import typer

from toolweave import __version__
from toolweave.cli.commands import Row, table_of

# Command: the module that implements it (its function has the command's name), and the line in the overview.
COMMANDS: dict[str, Row] = {
    "dev": ("toolweave.cli.serve", "Serve on this machine, with readable logs and the URLs to open."),
    "serve": ("toolweave.cli.serve", "Serve the graphs of a langgraph.json over the LangGraph-compatible API."),
    "chat": ("toolweave.cli.chat", "Chat with an assistant in the terminal; tool calls are shown."),
    "run": ("toolweave.cli.run", "Run an assistant once and print its result."),
    "script": ("toolweave.cli.script", "Write the script of a narrated video from a web page."),
    "tools": ("toolweave.cli.tools", "List the MCP servers, their state and their tools."),
    "servers": ("toolweave.cli.servers", "List, add, remove and check MCP servers; sign in to remote ones."),
    "graph": ("toolweave.cli.graph", "Print a graph's nodes and edges as text or mermaid."),
    "doctor": ("toolweave.cli.doctor", "Check configuration, model, servers and database, and say what to do."),
}


app = typer.Typer(
    cls=table_of(COMMANDS),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"toolweave {__version__}")
        raise typer.Exit


@app.callback()
def toolweave(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run explicit LangGraph state graphs whose tools come from MCP servers."""
