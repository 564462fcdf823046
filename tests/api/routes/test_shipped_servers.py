"""As it is shipped, the application starts its own todo server and none of other projects (D-13)."""

from pathlib import Path

import pytest

from tests.api.routes.lifespans import running
from tests.external.shipped import shipped_entries
from tests.fixtures.mcp_server import child_pids
from toolweave.config.settings import Settings


@pytest.mark.requirement("D-13")
async def test_no_external_server_is_started_and_health_is_ok_without_them(tmp_path: Path) -> None:
    async with running(Settings(data_dir=tmp_path, model="offline")) as (_, http):
        health = (await http.get("/health")).json()
        listed = (await http.get("/servers")).json()
        started = child_pids(str(tmp_path / "servers"))
        ready = (await http.post("/servers/memory/reconnect")).json()
    states = {name: server["state"] for name, server in health["servers"].items()}
    assert states == dict.fromkeys(shipped_entries(), "disabled") | {"todo": "ready"}
    assert (health["status"], "detail" in health) == ("ok", False)
    assert [server["name"] for server in listed] == list(shipped_entries())
    assert ready == {"detail": "The MCP server 'memory' is disabled."}
    assert started == []
    assert not (tmp_path / "servers").exists()
