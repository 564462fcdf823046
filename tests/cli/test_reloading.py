"""`toolweave dev` starts the server again when the application changes: nothing stored is lost, errors are shown."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from watchfiles import Change

from tests.cli.command import READY, Running, serving, toolweave
from tests.cli.processes import children_of, eventually, is_running
from tests.fixtures.forked_python import REAL_PYTHON
from toolweave.cli.serve import SourceFilter, WatchedFiles
from toolweave.config.langgraph_json import load_langgraph_json

GRAPH = """
import asyncio
import os
from pathlib import Path
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict


class State(TypedDict, total=False):
    waits: bool
    text: str


async def say(state: State) -> State:
    while state.get("waits") and not Path("go").exists():
        await asyncio.sleep(0.02)
    return {"text": "%s" + os.environ.get("ENDING", "")}


graph = StateGraph(State).add_node("say", say).add_edge(START, "say").compile()
"""


def write(folder: Path, answer_of: str) -> None:
    (folder / "graph.py").write_text(GRAPH % answer_of, encoding="utf-8")


@pytest.fixture
def app(tmp_path: Path) -> Path:
    write(tmp_path, "one")
    config = {"graphs": {"talk": "./graph.py:graph"}, "env": ".env"}
    (tmp_path / "langgraph.json").write_text(json.dumps(config), encoding="utf-8")
    return tmp_path


def answer_of(server: Running) -> str:
    body = {"assistant_id": "talk", "input": {"waits": False}}
    try:
        answer = httpx.post(f"{server.url}/runs/wait", json=body, timeout=60)
        return str(answer.json().get("text"))
    except (httpx.TransportError, ValueError):
        return "nothing"


def test_an_edit_takes_effect_an_error_is_shown_and_runs_go_on_in_the_next_server(app: Path) -> None:
    with serving("--data-dir", str(app / "data"), cwd=app, command="dev") as server:
        assert answer_of(server) == "one"
        thread = httpx.post(f"{server.url}/threads", json={}, timeout=60).json()["thread_id"]
        body = {"assistant_id": "talk", "input": {"waits": True}}
        run = httpx.post(f"{server.url}/threads/{thread}/runs", json=body, timeout=60).json()["run_id"]

        write(app, "two")
        eventually(lambda: answer_of(server) == "two", "the edit takes effect")
        (app / "go").touch()
        ended = httpx.get(f"{server.url}/threads/{thread}/runs/{run}/join", timeout=60)
        assert ended.json() == {"waits": True, "text": "two"}

        (app / "graph.py").write_text("raise ValueError('a mistake')\n", encoding="utf-8")
        eventually(lambda: "the server is down" in server.stderr(), "the error is shown")
        assert "graph 'talk': cannot load" in server.stderr()
        assert "ValueError: a mistake" in server.stderr()
        assert server.process.poll() is None

        write(app, "four")
        (app / ".env").write_text("ENDING=!\n", encoding="utf-8")
        eventually(lambda: answer_of(server) == "four!", "the correction takes effect")
        over = server.signalled(signal.SIGINT)
    assert (over.code, over.stdout) == (0, f"{READY}{server.url}\n")
    assert over.stderr.count("Studio  ") == 1


def test_files_that_langgraph_json_names_later_are_watched_too(
    app: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    write(elsewhere, "one")
    config = {"graphs": {"talk": f"{elsewhere}/graph.py:graph"}, "env": "variables.txt"}
    (app / "variables.txt").write_text("ENDING=?\n", encoding="utf-8")
    with serving("--data-dir", str(app / "data"), cwd=app, command="dev") as server:
        (app / "langgraph.json").write_text("{", encoding="utf-8")
        eventually(lambda: "the server is down" in server.stderr(), "the error is shown")
        (app / "langgraph.json").write_text(json.dumps(config), encoding="utf-8")
        eventually(lambda: answer_of(server) == "one?", "the other graph is served")
        write(elsewhere, "two")
        eventually(lambda: answer_of(server) == "two?", "its edit takes effect")


def test_the_server_ends_with_the_one_that_started_it(app: Path) -> None:
    with serving("--data-dir", str(app / "data"), cwd=app, command="dev", python=REAL_PYTHON) as server:
        children = [child for child in children_of(server.pid) if is_running(child)]
        assert children
        os.kill(server.pid, signal.SIGKILL)
        eventually(lambda: not any(is_running(child) for child in children), "the server ends")


def test_a_first_server_that_cannot_start_ends_the_command(app: Path) -> None:
    (app / "graph.py").write_text("raise ValueError('a mistake')\n", encoding="utf-8")
    ended = toolweave("dev", "--port", "0", "--data-dir", str(app / "data"), cwd=app)
    assert (ended.code, ended.stdout) == (1, "")
    assert "ValueError: a mistake" in ended.paragraph


def test_without_reload_an_edit_waits_for_the_next_start(app: Path) -> None:
    with serving("--no-reload", "--data-dir", str(app / "data"), cwd=app, command="dev") as server:
        write(app, "two")
        assert answer_of(server) == "one"
        assert server.signalled(signal.SIGTERM).code == 0


def test_only_files_of_the_application_are_watched(app: Path) -> None:
    (app / "lib").mkdir()
    (app / "src").mkdir()
    config = {"graphs": {"g": "./src/deep.py:graph", "m": "module:graph"}, "dependencies": [".", "./lib", "requests"]}
    (app / "langgraph.json").write_text(json.dumps(config), encoding="utf-8")
    watched = WatchedFiles.from_config(load_langgraph_json(app / "langgraph.json"), app / "mcp.jsonc", None)
    assert watched.folders == (app, app / "lib", app / "src")
    elsewhere = app.parent
    (app / "langgraph.json").write_text(
        json.dumps(
            {
                **config,
                "env": "variables.txt",
                "http": {"app": f"{elsewhere}/web.py:app"},
                "auth": {"path": "./lib/deep/auth.py:auth"},
                "store": {"index": {"embed": "./src/embed.py:embed", "dims": 3}},
            }
        ),
        encoding="utf-8",
    )
    (app / "lib" / "deep").mkdir()
    more = WatchedFiles.from_config(load_langgraph_json(app / "langgraph.json"))
    assert more.folders == (app, app / "lib", app / "src", elsewhere, app / "lib" / "deep")
    assert SourceFilter(more.files)(Change.modified, str(app / "variables.txt"))
    notices = SourceFilter(watched.files)
    for name in ("graph.py", "lib/deep/er.py", ".env", ".env.local", "prod.env", "langgraph.json", "mcp.jsonc"):
        assert notices(Change.modified, str(app / name)), name
    for name in ("data/app.db", "data/app.db-wal", "notes.txt", "other.json", ".venv/lib/x.py", "__pycache__/x.py"):
        assert not notices(Change.modified, str(app / name)), name


@pytest.mark.parametrize("options", [(), ("--no-reload",)])
def test_the_programs_of_mcp_servers_do_not_inherit_the_listening_socket(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    with serving("--data-dir", "data", *options, command="dev", cwd=tmp_path) as server:
        port = f":{int(server.url.rpartition(':')[2]):04X}"
        rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()]
        [inode] = [row[9] for row in rows if row[1].endswith(port) and row[3] == "0A"]  # it listens
        eventually(lambda: any(map(is_todo_server, descendants(server.pid))), "the todo server runs")
        holders = [pid for pid in descendants(server.pid) if f"socket:[{inode}]" in open_files(pid)]
        assert holders == [] if options else len(holders) == 1, "only the process that serves"
        assert not any(map(is_todo_server, holders))


def descendants(pid: int) -> list[int]:
    return [each for child in children_of(pid) for each in (child, *descendants(child))]


def is_todo_server(pid: int) -> bool:
    try:
        return b"toolweave.servers.todo" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def open_files(pid: int) -> list[str]:
    found = []
    # A process may close a file, or end, while its files are listed.
    with suppress(FileNotFoundError, ProcessLookupError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                found.append(str(file.readlink()))
    return found
