"""The graphs that langgraph.json names, in a process of their own where no server has opened a tool plane."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.openai_wire import WireCall, WireTurn, openai_wire

SCRIPT = """
import asyncio
from toolweave.graphs import served
from toolweave.servers.connections.plane_slot import plane_slot

async def ask(graph, text):
    plane = await plane_slot.get_plane()
    await plane.wait_for_servers(timeout_s=60)
    result = await graph.ainvoke({"messages": [("user", text)]})
    print(graph.name, result["status"], [(message.type, message.text[-60:]) for message in result["messages"]])

asyncio.run(ask(served.todo_agent, "Add a task to buy milk"))
asyncio.run(ask(served.agent_loop, "What is there to do?"))
"""


def run_script(script: str, data_dir: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**inherited, "TOOLWEAVE_DATA_DIR": str(data_dir), **variables},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.requirement("S-04")
def test_served_graphs_work_without_a_server_on_several_loops(tmp_path: Path) -> None:
    turns = [
        WireTurn(calls=(WireCall("create_todo", '{"title": "Buy milk"}'),)),
        WireTurn(text="Added: Buy milk."),
        WireTurn(calls=(WireCall("list_todos", "{}"),)),
    ]
    with openai_wire(turns, repeat=True, keep_alive=True) as server:
        finished = run_script(
            SCRIPT, tmp_path, OPENAI_BASE_URL=server.base_url, TOOLWEAVE_MODEL="m", TOOLWEAVE_MAX_ITERATIONS="2"
        )

    assert finished.returncode == 0, finished.stderr
    todo_line, loop_line = finished.stdout.splitlines()
    assert todo_line.startswith("todo_agent done [('human', 'Add a task to buy milk'), ('ai', ''), ('tool', ")
    assert todo_line.endswith("('ai', 'Added: Buy milk.')]")
    assert loop_line.startswith("agent_loop iteration_limit ")
    assert "create_todo" in server.requests[0].tool_names
    assert "Buy milk" in server.requests[3].messages[-1]["content"], "the second graph sees the todo of the first"
    assert server.requests[0].messages[0]["content"] != server.requests[2].messages[0]["content"]


def test_a_model_setting_without_an_endpoint_fails_the_run_and_not_the_import(tmp_path: Path) -> None:
    script = """
import asyncio
from toolweave.graphs import served
print("imported", flush=True)
asyncio.run(served.agent_loop.ainvoke({"messages": [("user", "hi")]}))
"""

    finished = run_script(script, tmp_path, TOOLWEAVE_MODEL="gpt-none")

    assert (finished.returncode, finished.stdout) == (1, "imported\n")
    assert "ConfigError: settings: The model is 'gpt-none', but no endpoint is configured." in finished.stderr
