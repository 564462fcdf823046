import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("mcp", "fastmcp", "langchain_mcp_adapters", "starlette", "uvicorn", "fastapi")
ROOM = Path(__file__).parents[3] / "servers" / "connections"
BEHIND_THE_SESSION = {f"sessions.{name}" for name in ("elicitations", "faults", "http", "session", "stdio")}


@pytest.mark.requirement("S-04")
def test_importing_the_tool_plane_loads_neither_mcp_nor_a_web_stack() -> None:
    parts = [path.relative_to(ROOM).with_suffix("").parts for path in ROOM.rglob("*.py") if path.stem != "__init__"]
    modules = sorted({".".join(names) for names in parts if names[0] != "oauth"} - BEHIND_THE_SESSION)
    assert {"plane", "plane_slot", "connection", "tool"} <= set(modules)
    code = (
        "import sys\n"
        + "".join(f"import toolweave.servers.connections.{module}\n" for module in modules)
        + f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=False)
    assert (run.stdout, run.stderr) == ("[]\n", "")
