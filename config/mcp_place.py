"""Say which mcp file counts for a process: the one that was named, one in the data folder, or the one we ship."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from toolweave.config.settings import Settings

SHIPPED_MCP_CONFIG = Path(__file__).parent / "mcp.servers.jsonc"
# In the data folder; `toolweave servers add` makes it.
OWN_MCP_CONFIG = "mcp.jsonc"


@dataclass(frozen=True, slots=True)
class McpPlace:
    """The mcp file that counts and who says so; `own` is where a file of one's own is, or would be made."""

    path: Path
    chosen_by: Literal["setting", "data folder", "default"]
    own: Path

    @property
    def is_shipped(self) -> bool:
        """Say whether it is the file that comes with Toolweave, which nobody edits."""
        return self.chosen_by == "default"

    def in_words(self) -> str:
        """Name the file and say why it counts."""
        reasons = {
            "setting": "as TOOLWEAVE_MCP_CONFIG or --config says",
            "data folder": "because it is in the data folder",
            "default": "the one that comes with Toolweave",
        }
        return f"{self.path} ({reasons[self.chosen_by]})"


def mcp_place(settings: Settings) -> McpPlace:
    """Choose the file: TOOLWEAVE_MCP_CONFIG, else mcp.jsonc in the data folder if it is there, else ours (C-09).

    One that was named counts whether it exists or not, and so does a link in the data folder that leads nowhere: to
    serve something else instead would hide the mistake.
    """
    own = settings.data_dir / OWN_MCP_CONFIG
    if settings.mcp_config is not None:
        return McpPlace(settings.mcp_config, "setting", settings.mcp_config)
    if os.path.lexists(own):
        return McpPlace(own, "data folder", own)
    return McpPlace(SHIPPED_MCP_CONFIG, "default", own)
