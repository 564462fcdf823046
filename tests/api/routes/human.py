"""Serve our application with tools that need a person: todos are created with approval only, and a server that asks."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ASKING = Path(__file__).parents[2] / "fixtures" / "asking_server.py"


def with_a_person(folder: Path, *, asking: bool = True) -> Mapping[str, str]:
    """Write an mcp.jsonc to `folder` and give the environment that serves it."""
    servers: dict[str, Any] = {
        "todo": {
            "command": "{env:TOOLWEAVE_PYTHON}",
            "args": ["-m", "toolweave.servers.todo"],
            "env": {"TOOLWEAVE_TODO_DATABASE_URL": "{env:TOOLWEAVE_TODO_DATABASE_URL}"},
            "prefix": "",
            "timeout_s": 60,
            "approve": ["create_*"],
        }
    }
    if asking:
        servers["asking"] = {
            "command": sys.executable,
            "args": [str(ASKING)],
            "prefix": "",
            "timeout_s": 60,
            "elicit": True,
        }
    path = folder / "mcp.jsonc"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_MCP_CONFIG": str(path)}
