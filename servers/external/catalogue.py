"""Know which package is behind each entry of mcp.servers.jsonc that is another project's server (C-09)."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from toolweave.config.mcp import SHIPPED_MCP_CONFIG

# package.json and package-lock.json, and for each Python server a list of everything it needs, with hashes.
PINNED = SHIPPED_MCP_CONFIG.parent / "external_servers"

# Entry: package, and the program it brings.
_NPM = {
    "firecrawl": ("firecrawl-mcp", "firecrawl-mcp"),
    "brave": ("@brave/brave-search-mcp-server", "brave-search-mcp-server"),
    "supabase": ("@supabase/mcp-server-supabase", "mcp-server-supabase"),
    "filesystem": ("@modelcontextprotocol/server-filesystem", "mcp-server-filesystem"),
    "git-files": ("@modelcontextprotocol/server-filesystem", "mcp-server-filesystem"),
    "memory": ("@modelcontextprotocol/server-memory", "mcp-server-memory"),
    "thinking": ("@modelcontextprotocol/server-sequential-thinking", "mcp-server-sequential-thinking"),
    "everything": ("@modelcontextprotocol/server-everything", "mcp-server-everything"),
}
_PYTHON = {"git": "mcp-server-git", "fetch": "mcp-server-fetch", "time": "mcp-server-time"}


@dataclass(frozen=True, slots=True)
class Installation:
    """A package and its pinned version; `program` is a path below `<data_dir>/servers`, `lock` what is pinned.

    `name` is what it is installed as there: all npm packages are one installation, every Python server is its own.
    """

    kind: Literal["npm", "python"]
    package: str
    version: str
    name: str
    program: Path
    lock: Path


def installation_of(entry_name: str) -> Installation | None:
    """Find what an entry of mcp.servers.jsonc starts; None for a server that needs no installation, or is unknown."""
    if entry_name in _NPM:
        package, program = _NPM[entry_name]
        path = Path("node_modules", ".bin", program)
        return Installation("npm", package, _npm_version(package), "node_modules", path, PINNED / "package-lock.json")
    if entry_name in _PYTHON:
        package = _PYTHON[entry_name]
        lock = PINNED / f"{package}.txt"
        path = Path(entry_name, "bin", package)
        return Installation("python", package, _python_version(package, lock), entry_name, path, lock)
    return None


def _npm_version(package: str) -> str:
    wanted = json.loads((PINNED / "package.json").read_text(encoding="utf-8"))["dependencies"]
    return str(wanted[package])


def _python_version(package: str, lock: Path) -> str:
    pinned = re.search(rf"^{package}==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE)
    return pinned[1] if pinned else "?"
