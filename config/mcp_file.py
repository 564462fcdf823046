"""Read mcp.jsonc as it is written: the entries, checked one by one, and what in them is ignored."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolweave.config.ignored_keys import ignored_keys
from toolweave.config.jsonc import JsoncDocument, JsonPath, read_jsonc
from toolweave.config.mcp_entry import BreakerRules, OAuth, ServerEntry, ToolFilter, check_written
from toolweave.config.problems import shown_path
from toolweave.errors import ConfigError

SERVER_KEYS = ("mcpServers", "servers")
_QUIET_KEYS = ("inputs", "$schema")
_RESERVED_NAMES = ("metrics",)
_SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, repr=False)
class WrittenServer:
    """One entry of the file: `raw` has its known keys as parsed, `place` is file:line."""

    name: str
    raw: dict[str, Any]
    entry: ServerEntry
    place: str

    def switched_on(self) -> "WrittenServer":
        """Give it as it would be if it were enabled."""
        raw = {**{key: item for key, item in self.raw.items() if key != "disabled"}, "enabled": True}
        return replace(self, raw=raw, entry=self.entry.model_copy(update={"enabled": True, "disabled": None}))


@dataclass(frozen=True, slots=True, repr=False)
class McpFile:
    """The entries in the order of the file and a sentence for each thing that is ignored."""

    servers: tuple[WrittenServer, ...]
    warnings: tuple[str, ...]


def read_mcp_file(path: Path) -> McpFile:
    """Read the file and check every entry's form.

    Raises:
        ConfigError: not readable, not JSON5, or an entry breaks the schema; names file, line and fix.
    """
    return checked_file(read_jsonc(path))


def checked_file(document: JsoncDocument) -> McpFile:
    """Check every entry's form.

    Raises:
        ConfigError: an entry breaks the schema; names place and fix.
    """
    top, entries = _server_entries(document)
    servers = []
    warnings = ignored_keys(document, (), (*SERVER_KEYS, *_QUIET_KEYS))
    for name, raw in entries.items():
        server = check_server(name, raw, _places_in(document, (top, name)))
        warnings += _entry_warnings(document, (top, name), server)
        servers.append(server)
    return McpFile(tuple(servers), tuple(warnings))


def _server_entries(document: JsoncDocument) -> tuple[str, dict[str, Any]]:
    if not isinstance(document.value, dict):
        raise ConfigError("must be an object.", source=document.place(()), fix='Write {"mcpServers": {}} at least.')
    found = [key for key in SERVER_KEYS if key in document.value]
    if len(found) != 1:
        problem = "has both mcpServers and servers." if found else "has neither mcpServers nor servers."
        raise ConfigError(problem, source=document.place(()), fix='Keep the servers under one "mcpServers" key.')
    entries = document.value[found[0]]
    if not isinstance(entries, dict):
        place = document.place((found[0],))
        raise ConfigError(f"{found[0]} must be an object.", source=place, fix='Write {"name": {…}, …}.')
    return found[0], entries


def check_server(name: str, raw: Any, place_of: Callable[[JsonPath], str]) -> WrittenServer:
    """Check the form of an entry; `place_of` says where a path inside it is.

    Raises:
        ConfigError: the name or the entry breaks the schema; names the place and the fix.
    """
    place = place_of(())
    if name in _RESERVED_NAMES:
        raise ConfigError(
            f"{name!r} is not a name for a server: /servers/{name} is a page of its own.",
            source=place,
            fix="Give it another name.",
        )
    if not _SERVER_NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a name for a server.",
            source=place,
            fix="Use 1 to 64 letters, digits, '_', '-' or '.', the first one a letter or digit.",
        )
    if not isinstance(raw, dict):
        raise ConfigError(f"server {name!r} must be an object.", source=place, fix="Write {…} with command or url.")
    entry, problems = check_written(raw)
    for location, expected in problems:
        subject = f"server {name!r}: {shown_path(location)}" if location else f"server {name!r}"
        raise ConfigError(f"{subject} {expected}.", source=place_of(location), fix="Correct the entry.")
    known = {key: item for key, item in raw.items() if key in ServerEntry.model_fields}
    return WrittenServer(name, known, entry, place)


def _places_in(document: JsoncDocument, path: JsonPath) -> Callable[[JsonPath], str]:
    return lambda location: document.place((*path, *location))


def _entry_warnings(document: JsoncDocument, path: JsonPath, server: WrittenServer) -> list[str]:
    owner = f"server {server.name!r}: "
    warnings = ignored_keys(document, path, ServerEntry.model_fields, owner=owner)
    for key, inner in (("tools", ToolFilter), ("breaker", BreakerRules), ("auth", OAuth)):
        warnings += ignored_keys(document, (*path, key), inner.model_fields, owner=f"{owner}{key}: ")
    if not server.entry.spawn:
        unused = ("headers",) if server.entry.resolved_transport() == "stdio" else ("args", "env", "cwd")
        warnings += [
            f"{document.place((*path, key))}: {owner}{key} is ignored by this transport"
            for key in unused
            if key in server.raw
        ]
    return warnings
