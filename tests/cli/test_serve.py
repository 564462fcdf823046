"""`toolweave serve` and `dev`: the ready line, the stop at a signal, and the errors that prevent a start."""

import json
import os
import signal
import socket
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.command import (
    MCP_SERVER,
    READY,
    SAMPLE_APP,
    Running,
    serving,
    started,
    terminal,
    toolweave,
    write_mcp_file,
)
from tests.cli.processes import children_of, eventually, is_running
from tests.fixtures.forked_python import REAL_PYTHON
from tests.servers.registry.openapi_bombs import ONE_OPERATION, WHOLE

THREADED = """
import threading
from langgraph.graph import START, StateGraph

threading.Thread(target=threading.Event().wait).start()
graph = StateGraph(dict).add_node("n", lambda state: state).add_edge(START, "n").compile()
"""


def test_it_accepts_requests_from_the_ready_line_on_and_ends_clean(tmp_path: Path) -> None:
    with serving("--config", str(SAMPLE_APP), "--data-dir", str(tmp_path / "data"), cwd=tmp_path) as server:
        assert httpx.get(f"{server.url}/ok", timeout=60).json()["ok"] is True
        ended = server.signalled(signal.SIGTERM)
    assert ended.code == 0
    assert ended.stdout == f"{READY}{server.url}\n"
    assert {path.name for path in tmp_path.iterdir()} == {"data"}


def test_dev_shows_the_urls_to_open_and_logs_json_where_there_is_no_terminal(tmp_path: Path) -> None:
    env = {"TOOLWEAVE_DATADIR": "x"}
    arguments = ("--config", str(SAMPLE_APP), "--data-dir", str(tmp_path / "data"))
    with serving(*arguments, cwd=tmp_path, command="dev", env=env) as server:
        ended = server.signalled(signal.SIGINT)
    assert (ended.code, ended.stdout) == (0, f"{READY}{server.url}\n")
    assert f"Studio  {server.url}/studio\n" in ended.stderr
    assert f"Docs    {server.url}/docs\n" in ended.stderr
    assert "Toolweave serves echo, asks" in ended.stderr
    assert '"http": {"app": "toolweave.api.app:app"} in langgraph.json adds /v1, /agui and /servers\n' in ended.stderr
    [warning] = [json.loads(line) for line in ended.stderr.splitlines() if '"WARNING"' in line]
    assert "TOOLWEAVE_DATADIR (did you mean TOOLWEAVE_DATA_DIR?) sets nothing" in warning["message"]


@pytest.mark.requirement("U-06")
def test_dev_on_a_terminal_logs_one_line_per_run_and_per_tool_call(elsewhere: Path) -> None:
    with terminal("dev", "--port", "0", "--no-reload", cwd=elsewhere) as dev:
        shown = dev.read_until(READY)
        url = shown.partition("API     ")[2].split()[0]
        assert f"OpenAI  {url}/v1" in shown
        dev.read_until("is ready with 5 tools")
        talk = toolweave("chat", "Add a task to buy milk", "--url", url, cwd=elsewhere)
        assert talk.code == 0, talk.stderr
        lines = dev.read_until(" success in ").splitlines()
    run, call = lines.pop(), lines.pop()
    assert call[13:].startswith("MCP call todo/create_todo ok in ")
    assert run[13:].startswith(f"run of todo_agent on thread {talk.stderr.split()[-1]}: success in ")
    assert "milk" not in "".join(lines)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"TOOLWEAVE_PORT": "abc"}, ("TOOLWEAVE_PORT must be a whole number", "unset it")),
        ({"TOOLWEAVE_MODEL": "", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, ("OPENAI_BASE_URL", "TOOLWEAVE_MODEL")),
        ({"TOOLWEAVE_MODEL": "gpt-oss"}, ("model is 'gpt-oss'", "OPENAI_API_KEY", "TOOLWEAVE_MODEL")),
        ({"TOOLWEAVE_MCP_CONFIG": "absent.jsonc"}, ("absent.jsonc: the file does not exist", "correct the path")),
        ({"TOOLWEAVE_MCP_CONFIG": "broken.jsonc"}, ("broken.jsonc:2: not valid JSON5", "Check quotes")),
        ({"TOOLWEAVE_DATA_DIR": "broken.jsonc"}, ("broken.jsonc cannot be created", "--data-dir")),
        ({"TOOLWEAVE_HOST": "0.0.0.0"}, ("0.0.0.0", "--allow-insecure-bind")),  # noqa: S104
    ],
)
def test_a_wrong_setting_or_file_is_one_paragraph_with_the_fix(
    env: dict[str, str], expected: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "broken.jsonc").write_text('{"mcpServers":\n {{}', encoding="utf-8")
    ended = toolweave("serve", cwd=tmp_path, env={"TOOLWEAVE_PORT": "0", **env})
    assert (ended.code, ended.stdout) == (1, "")
    for fragment in expected:
        assert fragment in ended.paragraph


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "the file does not exist. Create it or correct the path."),
        ('{"graphs": ', "not valid JSON5"),
        ('{"graphs": {}}', "graphs"),
        ('{"graphs": {"a": "./a.ts:graph"}}', "graphs in other languages"),
        ('{"graphs": {"a": "./absent.py:graph"}}', "cannot load"),
        ('{"graphs": {"a": "toolweave.errors:absent"}}', "has no 'absent'"),
        ('{"graphs": {"a": "toolweave.errors:ConfigError"}, "http": {"app": "toolweave.errors:x"}}', "has no 'x'"),
        ('{"graphs": {"a": "toolweave:__version__"}}', "not a graph"),
    ],
)
def test_a_langgraph_json_that_cannot_be_served_is_named(content: str | None, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "langgraph.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    ended = toolweave("serve", "--port", "0", "--config", str(path), cwd=tmp_path)
    assert (ended.code, ended.stdout) == (1, "")
    assert "langgraph.json" in ended.paragraph
    assert expected in ended.paragraph


def test_a_port_in_use_is_an_error_before_anything_is_opened(sample_server: Running, tmp_path: Path) -> None:
    port = sample_server.url.rpartition(":")[2]
    ended = toolweave("serve", "--config", str(SAMPLE_APP), "--port", port, cwd=tmp_path)
    assert (ended.code, ended.stdout) == (1, "")
    assert f"port {port} is already in use" in ended.paragraph
    assert "--port or TOOLWEAVE_PORT" in ended.paragraph
    assert list(tmp_path.iterdir()) == []


def test_a_second_server_on_a_data_folder_names_the_process_of_the_first_which_goes_on(tmp_path: Path) -> None:
    arguments = ("--config", str(SAMPLE_APP), "--data-dir", str(tmp_path / "data"))
    with serving(*arguments, cwd=tmp_path) as first:
        second = toolweave("serve", "--port", "0", *arguments, cwd=tmp_path)
        assert (second.code, second.stdout) == (1, "")
        assert f"{tmp_path / 'data'} is in use by process {first.pid} (serving on {first.url})" in second.paragraph
        assert httpx.get(f"{first.url}/ok", timeout=60).json()["ok"] is True


def test_a_database_of_a_newer_version_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "data" / "app.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('9999')")
    ended = toolweave("serve", "--config", str(SAMPLE_APP), "--port", "0", "--data-dir", "data", cwd=tmp_path)
    assert (ended.code, ended.stdout) == (1, "")
    assert "Database too new: data/app.db was written by a newer version of Toolweave" in ended.paragraph
    assert "Upgrade Toolweave" in ended.paragraph
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("alembic_version",)]
        assert connection.execute("SELECT * FROM alembic_version").fetchall() == [("9999",)]


def test_mcp_servers_that_cannot_start_are_logged_and_the_others_are_ready(tmp_path: Path) -> None:
    servers = {
        "good": {"command": sys.executable, "args": [str(MCP_SERVER)], "comand": "x"},
        "unset": {"command": "{env:ABSENT_VARIABLE}"},
        "missing": {"command": "no-such-command-anywhere"},
        "off": {"command": "{env:OTHER_VARIABLE}", "enabled": False},
    }
    expected = {"good": "ready", "unset": "misconfigured", "missing": "down", "off": "disabled"}
    with serving("--data-dir", "data", cwd=tmp_path, env=write_mcp_file(tmp_path, servers)) as server:
        health_url = f"{server.url}/health"
        eventually(lambda: states(health_url) == expected, "states")
        health = httpx.get(health_url, timeout=60).json()
        ended = server.signalled(signal.SIGTERM)
    assert health["status"] == "degraded"
    assert "ABSENT_VARIABLE" in health["servers"]["unset"]["last_error"]
    assert "no-such-command-anywhere" in health["servers"]["missing"]["last_error"]
    log = [json.loads(line) for line in ended.stderr.splitlines()]
    lines = [(line["level"], line["message"]) for line in log if line["logger"].endswith("connections.plane_slot")]
    assert [level for level, _ in lines] == ["INFO", "WARNING", "ERROR"]
    counts, ignored, wrong = (message for _, message in lines)
    assert counts.startswith(f"3 of 4 MCP servers are enabled in {tmp_path}/mcp.jsonc ")
    assert "unknown key 'comand' is ignored" in ignored
    assert wrong.startswith("MCP server unset is misconfigured: environment variable ABSENT_VARIABLE is not set")


@pytest.mark.requirement("T-09")
@pytest.mark.parametrize(
    ("number", "behave", "code"),
    [
        pytest.param(signal.SIGTERM, ["--behave", "stubborn"], 0, id="SIGTERM, a server that ignores its own"),
        pytest.param(signal.SIGINT, ["--behave", "stubborn"], 0, id="SIGINT", marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, [], -signal.SIGKILL, id="SIGKILL"),
    ],
)
def test_an_mcp_server_ends_with_the_server_that_started_it(
    number: signal.Signals, behave: list[str], code: int, tmp_path: Path
) -> None:
    env = write_mcp_file(tmp_path, {"peer": {"command": REAL_PYTHON, "args": [str(MCP_SERVER), *behave]}})
    with serving("--data-dir", "data", cwd=tmp_path, env=env, python=REAL_PYTHON) as server:
        eventually(lambda: states(f"{server.url}/health") == {"peer": "ready"}, "ready")
        children = children_of(server.pid)
        ended = server.signalled(number)
    assert ended.code == code, ended.stderr
    assert len(children) == 1
    if number == signal.SIGKILL:
        eventually(lambda: not is_running(children[0]), "the MCP server ends")
    assert not is_running(children[0])


BLOCKING = """
import threading, time
from pathlib import Path
from typing import TypedDict
from langgraph.graph import START, StateGraph

class State(TypedDict, total=False):
    n: int

def on_a_thread(state: State) -> State:
    Path("begun").touch()
    threading.Event().wait(300)

async def on_the_loop(state: State) -> State:
    Path("begun").touch()
    time.sleep(300)

thread = StateGraph(State).add_node("n", on_a_thread).add_edge(START, "n").compile()
loop = StateGraph(State).add_node("n", on_the_loop).add_edge(START, "n").compile()
"""


def blocking_app(folder: Path, **more: Any) -> Path:
    """Write an application with a node that blocks its thread for ever, and one that blocks the event loop."""
    (folder / "blocking_nodes.py").write_text(BLOCKING, encoding="utf-8")
    graphs = {name: f"./blocking_nodes.py:{name}" for name in ("thread", "loop")}
    file = folder / "langgraph.json"
    file.write_text(json.dumps({"graphs": graphs, **more}), encoding="utf-8")
    return file


def begin(server: Running, graph: str, folder: Path) -> str:
    """Start a run, wait until its node is at work and give its path."""
    thread = httpx.post(f"{server.url}/threads", json={}).json()["thread_id"]
    run = httpx.post(f"{server.url}/threads/{thread}/runs", json={"assistant_id": graph, "input": {}}).json()
    eventually((folder / "begun").exists, "the node is at work")
    return f"/threads/{thread}/runs/{run['run_id']}"


def imported(url: str, document: Any) -> int | None:
    """Import a document; None where the server ended before it answered."""
    try:
        return httpx.post(f"{url}/tools/import/openapi", json=document, timeout=60).status_code
    except httpx.TransportError:
        return None


@pytest.mark.requirement("S-05")
@pytest.mark.parametrize(
    "document", [ONE_OPERATION["properties behind chains"], pytest.param(WHOLE["parameters"], marks=pytest.mark.slow)]
)
def test_neither_imports_nor_a_node_that_blocks_its_thread_delay_the_stop(document: Any, tmp_path: Path) -> None:
    app = blocking_app(tmp_path, http={"app": "toolweave.api.app:app"})
    arguments = ("--config", str(app), "--data-dir", str(tmp_path / "data"))
    with (
        serving(*arguments, cwd=tmp_path, env=write_mcp_file(tmp_path, {})) as server,
        ThreadPoolExecutor(24) as clients,
    ):
        run = begin(server, "thread", tmp_path)
        sent = [clients.submit(imported, server.url, document) for _ in range(24)]
        assert all(httpx.get(f"{server.url}/tools", timeout=30).is_success for _ in range(4))
        ended = server.signalled(signal.SIGTERM)
        assert {each.result() for each in sent} <= {201, 422, 500, 503, None}
    assert (ended.code, "continue at the next start" in ended.stderr) == (0, True)
    with serving(*arguments, cwd=tmp_path, env=write_mcp_file(tmp_path, {})) as server:
        assert httpx.get(f"{server.url}{run}").json()["status"] in ("pending", "running")


@pytest.mark.slow
@pytest.mark.requirement("S-05")
def test_a_node_that_blocks_the_event_loop_does_not_outlive_the_signal(tmp_path: Path) -> None:
    app = blocking_app(tmp_path)
    with serving("--config", str(app), "--data-dir", str(tmp_path / "data"), cwd=tmp_path) as server:
        begin(server, "loop", tmp_path)
        ended = server.signalled(signal.SIGTERM)
    assert (ended.code, "continue at the next start" in ended.stderr) == (0, True)


def test_a_local_run_whose_node_blocks_its_thread_ends_at_an_interrupt(tmp_path: Path) -> None:
    blocking_app(tmp_path)
    with started("run", "{}", "--assistant", "thread", "--local", cwd=tmp_path) as running:
        eventually((tmp_path / "begun").exists, "the node is at work")
        ended = running.signalled(signal.SIGINT)
    assert ended.code == 130


def test_a_second_interrupt_stops_at_once_while_a_run_goes_on(tmp_path: Path) -> None:
    with serving("--config", str(SAMPLE_APP), "--data-dir", str(tmp_path / "data"), cwd=tmp_path) as server:
        body = {"assistant_id": "waits", "input": {"messages": []}}
        with httpx.stream("POST", f"{server.url}/runs/stream", json=body, timeout=60) as response:
            assert response.status_code == 200
            next(response.iter_raw())
            os.kill(server.pid, signal.SIGINT)
            eventually(lambda: not accepts(server.url), "it stops accepting")
            ended = server.signalled(signal.SIGINT)
    assert ended.code == 130
    assert ended.stderr.endswith("Stopped at once; unfinished runs continue at the next start.\n")


def states(health: str) -> dict[str, str]:
    return {name: server["state"] for name, server in httpx.get(health, timeout=60).json()["servers"].items()}


def accepts(url: str) -> bool:
    host, _, port = url.removeprefix("http://").partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=60).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("graph", ["graph", "absent"])
def test_a_thread_that_an_application_never_ends_does_not_keep_the_process(graph: str, tmp_path: Path) -> None:
    (tmp_path / "threaded.py").write_text(THREADED, encoding="utf-8")
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": {"g": f"./threaded.py:{graph}"}}), encoding="utf-8")
    if graph == "absent":
        assert toolweave("serve", "--port", "0", cwd=tmp_path).code == 1
        return
    with serving("--data-dir", str(tmp_path / "data"), cwd=tmp_path) as server:
        assert server.signalled(signal.SIGTERM).code == 0
