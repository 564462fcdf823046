"""Look after the MCP servers of mcp.jsonc: the commands below `toolweave servers`."""

import typer

from toolweave.cli.commands import Row, table_of

# Command: the function that implements it, and the line in the overview.
COMMANDS: dict[str, Row] = {
    "list": ("toolweave.cli.servers_state:list_servers", "List the configured and the ready-made servers."),
    "add": ("toolweave.cli.servers_edit:add", "Add a server: a ready-made one by its name, or any other."),
    "remove": ("toolweave.cli.servers_edit:remove", "Take a server out of mcp.jsonc."),
    "check": ("toolweave.cli.servers_state:check", "Start servers for a moment and say whether they work."),
    "tools": ("toolweave.cli.servers_state:tools", "List the tools of servers with their parameters."),
    "login": ("toolweave.cli.servers_state:login", "Sign in to a remote server with OAuth, in the browser."),
    "logout": ("toolweave.cli.servers_state:logout", "Forget the tokens of a remote server."),
}

servers = typer.Typer(
    cls=table_of(COMMANDS),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@servers.callback()
def overview() -> None:
    """Look after the MCP servers of mcp.jsonc."""
