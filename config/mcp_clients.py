"""Read the MCP servers that other clients have configured, as entries for mcp.jsonc (U-02)."""

import json
import os
import re
from pathlib import Path
from typing import Any

from toolweave.config.documents import ConfigDocument
from toolweave.config.jsonc import read_jsonc
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
