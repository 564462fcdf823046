"""Define the commands; a command's module is imported when the command runs, so that --help is fast."""

import importlib
from collections.abc import Mapping
from inspect import cleandoc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from toolweave import __version__
from toolweave.cli import gc_disabled

CommandEntry = tuple[str, str]
"""A command's target (`module:function`, or `module` if the function has the command's name) and its help text."""


def command_group_class(commands: Mapping[str, CommandEntry]) -> type[TyperGroup]:
    """Return a class for the group of these commands; a target that is a `typer.Typer` has its own commands."""

    class CommandTable(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = {name: TyperCommand(name, help=text) for name, (_, text) in commands.items()}

        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
            name, _, rest = super().resolve_command(ctx, args)
            return name, typer.main.get_command(_load_app(str(name), commands[str(name)][0])), rest

    return CommandTable


def _command_group(commands: Mapping[str, CommandEntry]) -> typer.Typer:
    return typer.Typer(
        cls=command_group_class(commands),
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _load_app(name: str, target: str) -> typer.Typer:
    module, _, function = target.partition(":")
    with gc_disabled():
        command = getattr(importlib.import_module(module), function or name)
    if isinstance(command, typer.Typer):
        return command
    app = typer.Typer(add_completion=False)
    # Typer keeps the line breaks of a docstring's later paragraphs.
    paragraphs = cleandoc(command.__doc__).split("\n\n")
    app.command(name, help="\n\n".join(each.replace("\n", " ") for each in paragraphs))(command)
    return app


COMMANDS: dict[str, CommandEntry] = {
    "dev": ("toolweave.cli.serve", "Serve on this machine, with readable logs and the URLs to open."),
    "serve": ("toolweave.cli.serve", "Serve the graphs of a langgraph.json over the LangGraph-compatible API."),
    "worker": ("toolweave.cli.worker", "Execute runs without serving HTTP, beside API replicas on PostgreSQL."),
    "chat": ("toolweave.cli.chat", "Chat with an assistant in the terminal; tool calls are shown."),
    "run": ("toolweave.cli.run", "Run an assistant once and print its result."),
    "script": ("toolweave.cli.script", "Write the script of a narrated video from a web page."),
    "tools": ("toolweave.cli.servers.state", "List the MCP servers, their state and their tools."),
    "call": ("toolweave.cli.call", "Call one tool of an MCP server and print its result."),
    "servers": ("toolweave.cli.commands", "List, add, remove and check MCP servers; sign in to remote ones."),
    "db": ("toolweave.cli.commands", "Create, upgrade, check or fill the database."),
    "graph": ("toolweave.cli.graph", "Print a graph's nodes and edges as text or mermaid."),
    "doctor": ("toolweave.cli.doctor", "Check configuration, model, servers and database, and suggest fixes."),
}
app = _command_group(COMMANDS)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"toolweave {__version__}")
        raise typer.Exit


@app.callback()
def toolweave(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run explicit LangGraph state graphs whose tools come from MCP servers."""


SERVER_COMMANDS: dict[str, CommandEntry] = {
    "list": ("toolweave.cli.servers.state:list_servers", "List the configured and the ready-made servers."),
    "add": ("toolweave.cli.servers.edit:add", "Add a server: a ready-made one by its name, or any other."),
    "import": ("toolweave.cli.servers.import_clients:import_servers", "Add the servers of Claude, Cursor or VS Code."),
    "remove": ("toolweave.cli.servers.edit:remove", "Remove a server from mcp.jsonc."),
    "check": ("toolweave.cli.servers.state:check", "Start servers briefly and report whether they work."),
    "tools": ("toolweave.cli.servers.state:tools", "List the tools of servers with their parameters."),
    "login": ("toolweave.cli.servers.state:login", "Sign in to a remote server with OAuth, in the browser."),
    "logout": ("toolweave.cli.servers.state:logout", "Delete the tokens of a remote server."),
}
servers = _command_group(SERVER_COMMANDS)


@servers.callback()
def servers_group() -> None:
    """Manage the MCP servers of mcp.jsonc."""


DB_COMMANDS: dict[str, CommandEntry] = {
    "upgrade": ("toolweave.cli.db", "Create or upgrade all tables of the configured database."),
    "check": ("toolweave.cli.db", "Check the configured database; nothing is changed."),
    "copy": ("toolweave.cli.db", "Copy a data folder into the PostgreSQL database."),
}
db = _command_group(DB_COMMANDS)


@db.callback()
def db_group() -> None:
    """Create, upgrade, check or fill the database of TOOLWEAVE_DATABASE_URL, or that of the data folder."""
