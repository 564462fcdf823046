"""The example of docs/callers.md runs as it is printed there."""

import json
import re
from pathlib import Path

import httpx

from tests.fixtures.app_server import serve_in_thread
from tests.fixtures.caller_recorder import caller_recorder
from tests.fixtures.doc_pages import DOCS, code_blocks
from tests.fixtures.openai_wire import WireCall, WireTurn, openai_wire

PAGE = (DOCS / "callers.md").read_text(encoding="utf-8")
TURNS = [WireTurn(calls=(WireCall("github_whoami", "{}"),)), WireTurn(text="You are known there.")] * 2


def test_its_example_calls_the_server_with_each_users_own_token(tmp_path: Path) -> None:
    for name, language in (("mcp.jsonc", "jsonc"), ("auth.py", "python"), ("langgraph.json", "json")):
        (block,) = code_blocks(PAGE, language)
        (tmp_path / name).write_text(block, encoding="utf-8")
    (command,) = code_blocks(PAGE, "sh")
    body = re.search(r"-d '(.*)'", command)
    assert body is not None
    with caller_recorder() as github, openai_wire(TURNS) as model:
        github.needs_token = True
        env = {
            "TOOLWEAVE_MCP_CONFIG": str(tmp_path / "mcp.jsonc"),
            "GITHUB_MCP_URL": github.url,
            "OPENAI_BASE_URL": model.base_url,
            "TOOLWEAVE_MODEL": "m",
        }
        with (
            serve_in_thread(tmp_path / "langgraph.json", tmp_path / "data", env) as server,
            httpx.Client(base_url=server.url, timeout=60) as client,
        ):
            assert client.post("/runs/wait", json=json.loads(body[1])).status_code == 401
            for name in ("ada", "bob"):
                headers = {"Authorization": f"Bearer session-of-{name}", "X-Tenant": "blue"}
                state = client.post("/runs/wait", json=json.loads(body[1]), headers=headers).json()
                assert state["messages"][-1]["content"] == "You are known there."
            health = client.get("/health").json()["servers"]["github"]
    assert [(call.headers["authorization"], call.headers["x-tenant"]) for call in github.calls] == [
        ("Bearer gho_token_of_ada", "blue"),
        ("Bearer gho_token_of_bob", "blue"),
    ]
    assert health["state"] == "ready"
    assert github.url not in command, "the page names the public server"
