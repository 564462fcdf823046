"""List the commands; the module of a command is imported when the command is invoked, so that --help is quick."""

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from toolweave import __version__

# Command: the module that implements it (its function has the command's name), and the line in the overview.
COMMANDS = {
    "dev": ("toolweave.cli.serve", "Serve on this machine, with readable logs and the URLs to open."),
    "serve": ("toolweave.cli.serve", "Serve the graphs of a langgraph.json over the LangGraph-compatible API."),
    "chat": ("toolweave.cli.chat", "Chat with an assistant in the terminal; tool calls are shown."),
    "run": ("toolweave.cli.run", "Run an assistant once and print its result."),
    "tools": ("toolweave.cli.tools", "List the MCP servers, their state and their tools."),
    "graph": ("toolweave.cli.graph", "Print a graph's nodes and edges as text or mermaid."),
    "doctor": ("toolweave.cli.doctor", "Check configuration, model, servers and database, and say what to do."),
}


class CommandTable(TyperGroup):
    """The commands by name: one line each in the overview, imported only to be run or to show their own help."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Give the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:  # noqa: ARG002
        """Give the command's line of the overview."""
        row = COMMANDS.get(cmd_name)
        return TyperCommand(cmd_name, help=row[1]) if row else None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command that `args` starts with, and import it."""
        name, _, rest = super().resolve_command(ctx, args)
        module, _ = COMMANDS[str(name)]
        command = typer.Typer(add_completion=False)
        command.command(name)(getattr(importlib.import_module(module), str(name)))
        return name, typer.main.get_command(command), rest


app = typer.Typer(
    cls=CommandTable,
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
