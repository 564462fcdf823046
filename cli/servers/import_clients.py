"""Add the MCP servers of other clients to mcp.jsonc: `toolweave servers import` (U-02)."""

import json
import os
import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from toolweave.cli.api_client import did_you_mean
from toolweave.cli.servers.edit import NoCheck, apply_edit, report_added
from toolweave.cli.servers.probe import ConfigFile, DataFolder, ServersConfig, Yes, read_servers
from toolweave.cli.terminal import confirm, show_table, stdout_console, styled
from toolweave.config.documents import ConfigDocument
from toolweave.config.jsonc import read_jsonc
from toolweave.config.mcp import find_mcp_config
from toolweave.config.mcp_editing import entry_names, ready_made_servers, with_entry, without_entry
from toolweave.config.mcp_entry import check_server, is_entry
from toolweave.errors import ConfigError

# Claude Code stores its servers beside its whole state.
MAX_CLIENT_BYTES = 8_388_608
_PROFILES = ("~/.config", "~/Library/Application Support", "~/AppData/Roaming")  # Linux, macOS, Windows
CLIENTS = {
    "claude": (".mcp.json", "~/.claude.json", *(f"{each}/Claude/claude_desktop_config.json" for each in _PROFILES)),
    "cursor": (".cursor/mcp.json", "~/.cursor/mcp.json"),
    "vscode": (".vscode/mcp.json", *(f"{each}/Code/User/mcp.json" for each in _PROFILES)),
}
_REFERENCE = re.compile(r'\$\{(?:(?P<kind>env|input):)?(?P<name>[^{}:"]+)(?P<default>:-[^{}"]*)?\}')


def client_files(client: str | None) -> list[Path]:
    """Return the present files of a client, or of all: of each, the current folder's before the user's."""
    names = CLIENTS[client] if client else [name for each in CLIENTS.values() for name in each]
    return [path for name in names if (path := Path(name).expanduser()).is_file()]


def read_client_servers(path: Path) -> dict[str, dict[str, Any] | ConfigError]:
    """Return the entries of a client's file by name, or the error of each that is invalid.

    Of the projects in ~/.claude.json only the current folder counts. Keys that Toolweave does not know are left out.

    Raises:
        ConfigError: the file cannot be read.
    """
    document = read_jsonc(path, MAX_CLIENT_BYTES)
    project = ("projects", str(Path.cwd()), "mcpServers")
    blocks = map(document.value_at, ((), ("mcpServers",), ("servers",), ("mcp", "servers"), project))
    entries: dict[str, dict[str, Any] | ConfigError] = {}
    for written, raw in [member for block in blocks if isinstance(block, dict) for member in block.items()]:
        if not is_entry(raw):
            continue
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", written).strip("-_.") or written
        try:
            entries[name] = check_server(name, _translate(raw, path), ConfigDocument(raw, {}, str(path)), ()).raw
        except ConfigError as error:
            entries[name] = error
    return entries


def _translate(entry: dict[str, Any], path: Path) -> dict[str, Any]:
    """Translate a client's references to {env:NAME} or to the text that they mean, and make relative paths absolute.

    `${NAME}` stays if the entry sets NAME in `env`: its program may replace it.
    """
    home, folder, own = Path.home(), path.absolute().parent, entry.get("env")
    places = {"userHome": str(home), "pathSeparator": os.sep, "/": os.sep}
    if folder in (home, home / ".cursor"):
        folder = Path.cwd()
    elif folder.name in (".cursor", ".vscode"):
        folder = folder.parent
        places["workspaceFolder"] = str(folder)

    def replacement(match: re.Match[str]) -> str:
        kind, name, default = match["kind"], match["name"], match["default"] or ""
        if kind == "input":
            return f"{{env:{re.sub('[^A-Za-z0-9]+', '_', name).upper()}}}"
        is_variable = name.isidentifier() and name.isupper() and not (isinstance(own, dict) and name in own)
        return f"{{env:{name}{default}}}" if kind or is_variable else json.dumps(places.get(name, match[0]))[1:-1]

    translated: dict[str, Any] = json.loads(_REFERENCE.sub(replacement, json.dumps(entry)))
    for key in ("cwd", "command"):
        text = translated.get(key)
        if isinstance(text, str) and os.sep in text and not text.startswith("{"):
            translated[key] = os.path.normpath(folder / text)
    return translated


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
    found: list[tuple[Path, str, dict[str, Any] | ConfigError]] = []
    for file in files:
        try:
            found += [(file, name, entry) for name, entry in read_client_servers(file).items()]
        except ConfigError as error:
            if len(files) == 1:
                raise
            found.append((file, file.name, error))
    new: dict[str, dict[str, Any]] = {}
    rows = []
    for file, name, entry in found:
        state, about = "invalid", str(entry)
        if isinstance(entry, dict):
            url = urlsplit(entry.get("url", ""))
            # Without arguments, paths and queries, which may hold secrets.
            host = url.netloc.rpartition("@")[2]
            about = f"{entry.get('command') or f'{url.scheme}://{host}'} (in {file})"
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
