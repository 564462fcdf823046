"""Add the MCP servers that Claude, Cursor or VS Code has configured: `toolweave servers import` (U-02)."""

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from toolweave.cli.api_client import did_you_mean
from toolweave.cli.servers import ConfigFile, DataFolder, ServersConfig, Yes, read_servers
from toolweave.cli.servers_edit import NoCheck, apply_edit, report_added
from toolweave.cli.terminal import confirm, show_table, stdout_console, styled
from toolweave.config.mcp import find_mcp_config
from toolweave.config.mcp_clients import CLIENTS, client_files, read_client_servers
from toolweave.config.mcp_editing import entry_names, ready_made_servers, with_entry, without_entry
from toolweave.errors import ConfigError


def import_servers(
    source: Annotated[
        str | None,
        typer.Argument(metavar="[claude|cursor|vscode|FILE]", help="A client, or a file.", show_default="all clients"),
    ] = None,
    yes: Yes = False,
    no_check: NoCheck = False,
    config: ConfigFile = None,
    data_dir: DataFolder = None,
) -> None:
    """Add the MCP servers of Claude Desktop, Claude Code, Cursor or VS Code to mcp.jsonc, and check whether they work.

    Servers whose names exist in mcp.jsonc stay as they are there, except disabled ready-made ones. The exit code is 1
    if a server was added and does not start.
    """
    servers = read_servers(config, data_dir)
    new = _show_found(servers, source)
    if not new:
        print("There is nothing to add.")
        return
    if not yes:
        confirm(f"Add {', '.join(new)} to {find_mcp_config(servers.settings).edit_path}?")
    apply_edit(servers, lambda text: _with_entries(text, new))
    raise typer.Exit(0 if report_added(read_servers(config, data_dir), new, no_check=no_check) else 1)


def _show_found(servers: ServersConfig, source: str | None) -> dict[str, dict[str, Any]]:
    """Print the servers in the files of the source; return the entries that can be added."""
    if source and source not in CLIENTS and not Path(source).exists():
        raise ConfigError(f"there is no client or file {source!r}. {did_you_mean(source, CLIENTS)}")
    files = client_files(source) if source is None or source in CLIENTS else [Path(source)]
    new: dict[str, dict[str, Any]] = {}
    rows = []
    for file, (name, entry) in [(path, found) for path in files for found in read_client_servers(path).items()]:
        state, about = "invalid", str(entry)
        if isinstance(entry, dict):
            url = urlsplit(entry.get("url", ""))
            # Without arguments, paths and queries, which may hold secrets.
            about = f"{entry.get('command') or f'{url.scheme}://{url.hostname}'} (in {file})"
            state = "exists, unchanged"
            if name not in new and _is_free(servers, name):
                state, new[name] = "new", entry
        rows.append([styled(name, "bold"), styled(state), styled(about)])
    show_table(stdout_console(), rows)
    if not rows:
        print(f"No servers were found for {source or ', '.join(CLIENTS)}.")
    return new


def _is_free(servers: ServersConfig, name: str) -> bool:
    """Return whether no server has this name but a disabled ready-made one, as the shipped file has it."""
    known = ready_made_servers().get(name)
    if name not in servers.names:
        return True
    return known is not None and known.raw == servers.server(name).raw and not servers.server(name).enabled


def _with_entries(text: str, new: dict[str, dict[str, Any]]) -> str:
    for name, entry in new.items():
        if name in entry_names(text):
            text = without_entry(text, name, comment=ready_made_servers()[name].comment)
        text = with_entry(text, name, entry)
    return text
