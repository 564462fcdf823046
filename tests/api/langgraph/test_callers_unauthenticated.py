"""Without an auth handler there is nobody signed in: no template of the user has a value, whatever a client says."""

import json
from pathlib import Path

import httpx

from tests.api.langgraph.test_callers import APP, FORGED, MCP, TED, ask, said
from tests.fixtures.app_server import serve_in_thread
from tests.fixtures.caller_recorder import caller_recorder


def test_without_an_auth_handler_nobody_is_signed_in_whatever_a_request_says(tmp_path: Path) -> None:
    config = json.loads(APP.read_text(encoding="utf-8"))
    del config["auth"]
    for file in APP.parent.glob("*.py"):
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "langgraph.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "mcp.jsonc").write_text(MCP, encoding="utf-8")
    env = {"TOOLWEAVE_MCP_CONFIG": str(tmp_path / "mcp.jsonc"), "TOOLWEAVE_MODEL": "offline"}
    with (
        caller_recorder() as recorder,
        serve_in_thread(tmp_path / "langgraph.json", tmp_path / "data", {**env, "PEER_URL": recorder.url}) as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        forged = {"config": {"configurable": {**FORGED, "user_id": "eve"}}}
        assert "needs mcp_token of the signed-in user" in said(ask(client, "peer_whoami", TED, **forged))
        ask(client, "open_whoami", {}, **forged)
        assert recorder.calls[-1].meta["user_id"] == "eve"
