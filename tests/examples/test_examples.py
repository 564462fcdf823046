"""Each example does what its README says, with real servers and the real command line."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from langgraph_sdk import get_sync_client

from tests.cli.command import BOUND_S, clean_environment, serving, toolweave
from tests.fixtures.app_server import wait_for_servers

EXAMPLES = Path(__file__).parents[2] / "examples"
SHOP = {"TOOLWEAVE_MCP_CONFIG": str(EXAMPLES / "own_mcp_server" / "mcp.jsonc")}


def run_example(name: str, *args: str, cwd: Path) -> str:
    """Run a program of the examples to its end; return what it prints."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *args],
        cwd=cwd,
        env=clean_environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def user(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def test_the_chain_of_the_langchain_application_runs_the_agent_for_each_request(tmp_path: Path) -> None:
    printed = run_example("langchain_app/app.py", "Add a task to buy milk", "List my tasks", cwd=tmp_path)
    assert "Created the todo “Buy milk” (id 1)." in printed
    assert "- “Buy milk” (id 1, status active, priority medium)" in printed


def test_the_own_graph_stops_for_an_approval_and_publishes_after_it(tmp_path: Path) -> None:
    config = ("--config", str(EXAMPLES / "own_graph" / "langgraph.json"), "--data-dir", str(tmp_path))
    with serving(*config, cwd=tmp_path, command="dev") as served, get_sync_client(url=served.url) as client:
        printed = toolweave("run", '{"topic": "new books"}', cwd=tmp_path, env={"TOOLWEAVE_API_URL": served.url})
        assert "Publish this?" in printed.stdout + printed.stderr
        thread_id = client.threads.create()["thread_id"]
        waiting = client.runs.wait(thread_id, "announcement", input={"topic": "new books"})
        assert waiting["__interrupt__"][0]["value"]["draft"] == "Today: new books."  # type: ignore[call-overload]
        ended = client.runs.wait(thread_id, "announcement", command={"resume": "yes"})
    assert ended == {"topic": "new books", "draft": "Today: new books.", "published": True}


def test_the_own_mcp_server_is_called_from_the_terminal_and_by_the_agent(tmp_path: Path) -> None:
    called = toolweave("call", "shop.get_stock", "article=chess set", cwd=tmp_path, env=SHOP)
    assert called.stdout == "3 × chess set\n"
    chat = toolweave("chat", "--local", "Get the stock of the article “chess set”", cwd=tmp_path, env=SHOP)
    assert "→ get_stock(" in chat.stdout
    assert "3 × chess set\n(offline model)" in chat.stdout


def test_a_person_approves_an_order_at_the_own_mcp_server(tmp_path: Path) -> None:
    with serving(cwd=tmp_path, env=SHOP) as served, get_sync_client(url=served.url) as client:
        wait_for_servers(served.url)
        thread_id = client.threads.create()["thread_id"]
        waiting = client.runs.wait(thread_id, "agent_loop", input=user("Order the article “puzzle”"))
        [request] = waiting["__interrupt__"][0]["value"]  # type: ignore[call-overload]
        assert request["action_request"] == {"action": "order_article", "args": {"article": "puzzle"}}
        ended = client.runs.wait(thread_id, "agent_loop", command={"resume": "approve"})
    assert "Ordered 1 × puzzle; in stock: 1" in str(ended)


def test_the_remote_graph_runs_on_the_server_as_a_node_of_the_caller(tmp_path: Path) -> None:
    with serving(cwd=tmp_path) as served:
        wait_for_servers(served.url)
        printed = run_example("remote_graph/caller.py", served.url, cwd=tmp_path)
    assert "ai: Created the todo “Buy milk”" in printed
    assert printed.endswith("ai: The remote agent used 1 tool call(s).\n")
