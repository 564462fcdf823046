"""The official `langgraph dev` serves our repository: graphs and routes work there as they do in our server (S-03)."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from langgraph_sdk import get_client
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from tests.fixtures.openai_wire import openai_wire
from tests.fixtures.shop_api import shop_api
from tests.fixtures.web_pages import truth_of, web_pages
from tests.nodes.model_at import calling
from tests.nodes.script.writing import script
from tests.servers.core.test_auth import ACCEPT, HELLO

HERE = Path(__file__)
ROOT = HERE.parents[2]
# An environment of its own: the official server brings packages that ours must not need.
PREPARED = ROOT / ".venv-langgraph" / "bin" / "langgraph"
BOUND_S = 90.0
ANN = {"authorization": "Bearer ann"}
SCRIPT_SETTINGS = "script.yaml"
INHERITED = ("PATH", "HOME", "LANG", "TMPDIR")
pytestmark = [pytest.mark.requirement("S-03")]


def command() -> Path:
    """Find the official command line; without it the test is left out, but not in CI."""
    path = Path(os.environ.get("TOOLWEAVE_LANGGRAPH_CLI", PREPARED))
    if not path.is_file():
        text = f"no official server at {path}: run `make official`, or set TOOLWEAVE_LANGGRAPH_CLI"
        if os.environ.get("CI") == "true":
            pytest.fail(text)
        pytest.skip(text)
    return path


KEYS = """
from langgraph_sdk import Auth

auth = Auth()

@auth.authenticate
async def authenticate(authorization: str | None):
    if authorization not in ("Bearer ann", "Bearer ben"):
        raise Auth.exceptions.HTTPException(401, "Say who you are.")
    return {"identity": authorization.removeprefix("Bearer ")}
"""


@contextmanager
def official_server(folder: Path, langgraph_json: Path = ROOT / "langgraph.json", prefix: str = "") -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    env = {name: os.environ[name] for name in INHERITED if name in os.environ} | {
        "TOOLWEAVE_MODEL": "offline",
        "TOOLWEAVE_DATA_DIR": str(folder / "data"),
        "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1",
        "TOOLWEAVE_FILE_ROOTS": str(HERE.parent),
        "CONFIG_PATH": str(folder / SCRIPT_SETTINGS),
        "TOOLWEAVE_MCP_CONFIG": str(_with_the_core_server(folder)),
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "LANGGRAPH_DISABLE_FILE_PERSISTENCE": "true",
    }
    arguments = ("dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", str(port))
    log = folder / "server.log"
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [command(), *arguments, "--config", str(langgraph_json)],
            cwd=folder,
            env=env,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{port}{prefix}"
            _await_start(url, process, log)
            yield url
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(60)


def _with_the_core_server(folder: Path) -> Path:
    """Write an mcp.jsonc of the todo server and the core server in the same process."""
    todo: dict[str, Any] = {"command": "{env:TOOLWEAVE_PYTHON}", "args": ["-m", "toolweave.servers.todo"], "prefix": ""}
    todo["env"] = {"TOOLWEAVE_TODO_DATABASE_URL": "{env:TOOLWEAVE_TODO_DATABASE_URL}"}
    path = folder / "mcp.jsonc"
    path.write_text(json.dumps({"mcpServers": {"todo": todo, "core": {"builtin": "core"}}}), encoding="utf-8")
    return path


def _await_start(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until the server answers and its todo server has connected; it announces neither to us."""
    deadline = time.monotonic() + BOUND_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/health", trust_env=False, timeout=60).json()["servers"]["todo"]["state"] == "ready":
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    pytest.fail(f"the official server did not start:\n{log.read_text(encoding='utf-8')[-5000:]}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("official")


@pytest.fixture(scope="module")
def official(folder: Path) -> Iterator[str]:
    with official_server(folder) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(official: str) -> Any:
    async with httpx.AsyncClient(base_url=official, timeout=60, trust_env=False) as client:
        yield client


async def test_it_lists_our_graphs_with_their_descriptions(http: httpx.AsyncClient) -> None:
    found = {one["graph_id"]: one["description"] for one in (await http.post("/assistants/search", json={})).json()}
    assert found.keys() == {"agent_loop", "todo_agent", "workflow", "script_writer"}
    assert all(found.values())


async def test_the_todo_agent_uses_its_tools_and_remembers(official: str) -> None:
    async with get_client(url=official, api_key=None) as client:
        thread: Any = await client.threads.create()
        for text in ("Add a task to buy milk", "What are my active tasks?"):
            ask: Any = {"messages": [{"role": "user", "content": text}]}
            state: Any = await client.runs.wait(thread["thread_id"], "todo_agent", input=ask)
    assert any(message["type"] == "tool" for message in state["messages"])
    assert "milk" in state["messages"][-1]["content"].lower()


async def test_our_own_routes_are_served_beside_the_api(http: httpx.AsyncClient) -> None:
    health = (await http.get("/health")).json()
    assert health["servers"]["todo"]["state"] == "ready"
    body = {"message": "What are my active tasks?"}
    answer = await http.post("/chat/stream", json=body)
    assert answer.status_code == 200, answer.text
    events = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    assert events
    assert "error" not in events


async def test_clients_of_openais_api_and_of_ag_ui_are_served_there_too(http: httpx.AsyncClient) -> None:
    models = [model["id"] for model in (await http.get("/v1/models")).json()["data"]]
    assert models == ["agent_loop", "todo_agent"]
    ask = {"role": "user", "content": "What are my active tasks?"}
    whole = await http.post("/v1/chat/completions", json={"model": "todo_agent", "messages": [ask]})
    assert whole.status_code == 200, whole.text
    assert whole.json()["choices"][0]["message"]["content"]
    streamed = await http.post("/v1/responses", json={"model": "todo_agent", "input": ask["content"], "stream": True})
    assert "event: response.completed" in streamed.text
    run = {"threadId": str(uuid4()), "runId": "1", "messages": [{"id": "1", **ask}]}
    events = (await http.post("/agui/todo_agent", json=run)).text
    assert all(name in events for name in ("RUN_STARTED", "TOOL_CALL_RESULT", "TEXT_MESSAGE_CONTENT", "RUN_FINISHED"))


async def test_tools_are_registered_and_a_workflow_calls_one_there_too(http: httpx.AsyncClient) -> None:
    with shop_api() as shop:
        tools = {"document": shop.document, "operations": ["get_product"], "prefix": "shop_"}
        imported = await http.post("/tools/import/openapi", json=tools)
        assert (imported.status_code, imported.json()["created"]) == (201, ["shop_get_product"])
        tool = imported.json()["tools"][0]
        created = await http.post("/tools", json={**tool, "tool_id": None, "name": "Look at a product"})
        assert (created.status_code, created.json()["tool_id"]) == (201, "look_at_a_product")
        body = {"user_instructions": "Get the product 2", "tool_ids": ["shop_get_product", "look_at_a_product"]}
        answer = await http.post("/workflow", json=body)
        assert answer.status_code == 200, answer.text
        assert (answer.json()["status"], answer.json()["raw_response"]["body"]["id"]) == ("success", 2)
        unknown = await http.post("/workflow", json={**body, "tool_ids": ["nobody"]})
        assert (unknown.status_code, unknown.json()["error_stage"]) == (200, "tool_retrieval")


async def test_a_page_is_fetched_and_its_script_written_there_too(official: str, folder: Path) -> None:
    with web_pages() as site, openai_wire([calling(script())]) as wire:
        (folder / SCRIPT_SETTINGS).write_text(f"{{model: m, base_url: '{wire.base_url}'}}", encoding="utf-8")
        async with get_client(url=official, api_key=None) as client:
            answer: Any = await client.runs.wait(None, "script_writer", input={"url": site.page("news.html")})
            thread_id = (await client.threads.create())["thread_id"]
            options: Any = {"input": {"url": site.url + "/status/404"}, "raise_error": False}
            await client.runs.wait(thread_id, "script_writer", **options)
            missing: Any = await client.threads.get(thread_id)
            (folder / SCRIPT_SETTINGS).write_text("{sections: few}", encoding="utf-8")
            await client.runs.wait(thread_id, "script_writer", **options)
            unread: Any = await client.threads.get(thread_id)
    assert answer["script"]["title"] == script()["title"], answer
    assert answer["source"]["title"] == truth_of("news.html")["title"]
    assert "answered 404" in str(missing["error"])
    assert f"CONFIG_PATH ({folder / SCRIPT_SETTINGS}:1)" in str(unread["error"])


async def test_the_state_of_the_process_and_of_its_mcp_servers_is_shown_there_too(
    official: str, http: httpx.AsyncClient, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for path, status in (("/health/live", "ok"), ("/health/ready", "ready"), ("/health", "ok")):
        answer = await http.get(path)
        assert (path, answer.status_code, answer.json()["status"]) == (path, 200, status)
    assert (await http.get("/servers/todo")).json()["tools"] == 5
    assert 'toolweave_mcp_server_state{server="todo",state="ready"} 1.0' in (await http.get("/servers/metrics")).text


async def test_the_core_tools_are_reached_over_http_and_in_the_same_process_there_too(
    official: str, http: httpx.AsyncClient
) -> None:
    async with streamable_http_client(f"{official}/ai/mcp") as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()
        assert len((await session.list_tools()).tools) == 5
        for tool, arguments in (
            ("read_file", {"path": str(HERE)}),
            ("search_files", {"pattern": "packaging", "directory": str(HERE.parent), "content": True}),
            ("query_database", {"table": "todos"}),
        ):
            answer = (await session.call_tool(tool, arguments)).structuredContent
            assert answer is not None
            assert answer["status"] == "success", answer
    core = (await http.get("/servers/core")).json()
    assert (core["transport"], core["state"], core["tools"]) == ("in_process", "ready", 5)
    foreign = await http.post("/ai/mcp", json={}, headers={"origin": "https://evil.example.org"})
    assert foreign.status_code == 403


@pytest.mark.slow
async def test_its_auth_handler_decides_who_may_use_our_routes_and_the_core_tools(tmp_path: Path) -> None:
    (tmp_path / "keys.py").write_text(KEYS, encoding="utf-8")
    theirs = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
    theirs |= {"auth": {"path": "./keys.py:auth"}, "env": {}}
    theirs["http"]["mount_prefix"] = "/api"
    (tmp_path / "langgraph.json").write_text(json.dumps(theirs), encoding="utf-8")
    with official_server(tmp_path, tmp_path / "langgraph.json", "/api") as url:
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False, headers=ACCEPT) as http:
            for headers, status in (({}, 401), ({"authorization": "Bearer eve"}, 401), (ANN, 200)):
                opened = await http.post("/ai/mcp", json=HELLO, headers=headers)
                pages = [await http.get(page, headers=headers) for page in ("/servers", "/tools")]
                assert [answer.status_code for answer in (opened, *pages)] == [status] * 3
            session = {"mcp-session-id": opened.headers["mcp-session-id"]}
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            assert (await http.post("/ai/mcp", json=ping, headers={**session, **ANN})).status_code == 200
            for headers, status in (({}, 401), ({"authorization": "Bearer ben"}, 404)):
                assert (await http.post("/ai/mcp", json=ping, headers={**session, **headers})).status_code == status
            streamed = await http.post("/chat/stream", json={"message": "Hello!"}, headers=ANN)
            assert "event: message" in streamed.text
            refused = await http.post("/chat/stream", json={"message": "Hello!"})
            assert "event: message" not in refused.text
