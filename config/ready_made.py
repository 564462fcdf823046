"""Know the servers that mcp.servers.jsonc has entries for, so that a name is enough to add one (C-09, D-13)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from toolweave.config.interpolate import find_references
from toolweave.config.mcp import mcp_variables
from toolweave.config.mcp_editing import EntryText, entry_texts
from toolweave.config.mcp_file import read_mcp_file
from toolweave.config.mcp_place import SHIPPED_MCP_CONFIG
from toolweave.config.settings import Settings


@dataclass(frozen=True, slots=True)
class ReadyMade:
    """An entry of the file that we ship: `about` is the comment above it, `raw` its known keys as written."""

    name: str
    about: str
    raw: Mapping[str, Any]
    text: EntryText

    def variables(self) -> tuple[str, ...]:
        """List the variables that it needs a value of from a person."""
        return find_references(dict(self.raw), mcp_variables(Settings(), {})).missing


@cache
def ready_made() -> Mapping[str, ReadyMade]:
    """Read them, in the order of the file."""
    texts = entry_texts(shipped_text())
    return {
        written.name: ReadyMade(written.name, texts[written.name].about, written.raw, texts[written.name])
        for written in read_mcp_file(SHIPPED_MCP_CONFIG).servers
    }


def shipped_text() -> str:
    """Give the text of the file."""
    return SHIPPED_MCP_CONFIG.read_text(encoding="utf-8")
