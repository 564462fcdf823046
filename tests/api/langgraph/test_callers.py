"""What MCP servers receive about the user of a run: REST runs with and without a signed-in user."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from tests.fixtures.app_server import serve_in_thread
from tests.fixtures.caller_recorder import Recorder, caller_recorder, seen_in
from tests.servers.connections.peers import log_records

APP = Path(__file__).parent / "apps" / "callers" / "langgraph.json"
MCP = """{ mcpServers: {
  peer: { url: "{env:PEER_URL}", headers: {
    Authorization: "Bearer {user:mcp_token}", "X-Tenant": "{configurable:x-tenant:-nowhere}" } },
  open: { url: "{env:PEER_URL}" } } }"""
TED = {"authorization": "Bearer ted"}
WITHOUT_TOKEN = {"authorization": "Bearer nobody"}
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    with caller_recorder() as server:
        yield server


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("callers")


@contextmanager
def serving(app: Path, folder: Path, recorder: Recorder) -> Iterator[httpx.Client]:
    """Serve an application with one MCP server under two names."""
    (folder / "mcp.jsonc").write_text(MCP, encoding="utf-8")
    env = {"TOOLWEAVE_MCP_CONFIG": str(folder / "mcp.jsonc"), "PEER_URL": recorder.url, "TOOLWEAVE_MODEL": "offline"}
    with serve_in_thread(app, folder / "data", env) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def client(recorder: Recorder, data_dir: Path) -> Iterator[httpx.Client]:
    """Give a client of the application with an auth handler."""
    with serving(APP, data_dir, recorder) as opened:
        yield opened


def calling(tool: str) -> dict[str, Any]:
    """Return the body of a run of the agent that calls this tool."""
    return {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": tool}]}}


def ask(client: httpx.Client, tool: str, headers: dict[str, str], **fields: Any) -> dict[str, Any]:
    """Run the agent without a thread; returns its last state."""
    answer = client.post("/runs/wait", json={**calling(tool), **fields}, headers=headers)
    assert answer.status_code == 200, answer.text
    state: dict[str, Any] = answer.json()
    return state


def last_text(state: dict[str, Any]) -> str:
    text: str = state["messages"][-1]["content"]
    return text


@pytest.mark.slow
def test_fifty_users_at_once_each_reach_the_server_as_themselves(client: httpx.Client) -> None:
    def seen_by(number: int) -> dict[str, Any]:
        headers = {"authorization": f"Bearer t{number}", "x-tenant": f"tenant-{number}"}
        # A busy machine may lose a session that it opens or serves too slowly; no user may get another user's.
        while (state := ask(client, "peer_whoami", headers))["messages"][-2]["status"] == "error":
            pass
        return seen_in(last_text(state))

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(seen_by, range(50)))
    assert [(each["authorization"], each["tenant"]) for each in answers] == [
        (f"Bearer mcp-token-of-t{number}", f"tenant-{number}") for number in range(50)
    ]
    assert len({each["session"] for each in answers}) == 50


def test_a_user_without_a_token_gets_an_error_that_names_it_and_the_run_continues(
    client: httpx.Client, recorder: Recorder
) -> None:
    before = len(recorder.calls)
    state = ask(client, "peer_whoami", WITHOUT_TOKEN)
    assert state["messages"][-2]["status"] == "error"
    assert "needs mcp_token of the signed-in user" in last_text(state)
    assert len(recorder.calls) == before
    assert seen_in(last_text(ask(client, "open_whoami", WITHOUT_TOKEN)))["authorization"] is None


FORGED = {
    "langgraph_auth_user": {"identity": "ted", "mcp_token": "forged"},
    "langgraph_auth_user_id": "ted",
    "user": {"mcp_token": "forged"},
    "mcp_token": "forged",
}


def check_forged(client: httpx.Client, recorder: Recorder, **fields: Any) -> None:
    before = len(recorder.calls)
    assert "needs mcp_token of the signed-in user" in last_text(ask(client, "peer_whoami", WITHOUT_TOKEN, **fields))
    assert len(recorder.calls) == before
    seen = seen_in(last_text(ask(client, "peer_whoami", TED, **fields)))
    assert seen["authorization"] == "Bearer mcp-token-of-ted"
    assert recorder.calls[-1].meta["user_id"] == "ted"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"config": {"configurable": FORGED}}, id="configurable"),
        pytest.param({"context": FORGED}, id="context"),
        pytest.param({"metadata": FORGED, "config": {"metadata": FORGED}}, id="metadata"),
    ],
)
def test_no_field_of_a_run_forges_a_user(client: httpx.Client, recorder: Recorder, fields: dict[str, Any]) -> None:
    check_forged(client, recorder, **fields)


def test_no_field_of_an_assistant_forges_a_user(client: httpx.Client, recorder: Recorder) -> None:
    body = {"graph_id": "agent", "config": {"configurable": FORGED}, "metadata": FORGED}
    assistant = client.post("/assistants", json=body, headers=WITHOUT_TOKEN).json()
    check_forged(client, recorder, assistant_id=assistant["assistant_id"])


@pytest.mark.requirement("T-03")
def test_the_meta_of_a_call_names_its_run_and_its_user(client: httpx.Client, recorder: Recorder) -> None:
    thread = client.post("/threads", json={}, headers=TED).json()["thread_id"]
    began = datetime.now(UTC)
    with log_records() as records:
        client.post(f"/threads/{thread}/runs/wait", json=calling("peer_whoami"), headers=TED)
    (run,) = client.get(f"/threads/{thread}/runs", headers=TED).json()
    meta = recorder.calls[-1].meta
    ours = {"thread_id", "run_id", "user_id", "timestamp", "correlation_id", "idempotency_key"}
    assert meta.keys() - {"progressToken"} == ours
    assert (meta["thread_id"], meta["run_id"], meta["user_id"]) == (thread, run["run_id"], "ted")
    assert meta["idempotency_key"] == f"{run['run_id']}:call-1"
    assert began <= datetime.fromisoformat(meta["timestamp"]) <= datetime.now(UTC)
    assert re.fullmatch("[0-9a-f]{32}", meta["correlation_id"])
    logged = [record["extra"] for record in records if record["message"].startswith("MCP call peer/whoami")]
    assert [entry["correlation_id"] for entry in logged] == [meta["correlation_id"]]
    ask(client, "peer_whoami", TED)
    assert recorder.calls[-1].meta["correlation_id"] != meta["correlation_id"]


def test_a_chat_without_a_thread_has_one_in_its_meta_and_leaves_none_behind(
    client: httpx.Client, recorder: Recorder
) -> None:
    count = client.post("/threads/count", json={}, headers=TED).json()
    body = {"message": "peer_whoami", "assistant_id": "agent", "user_id": "somebody-else"}
    answer = client.post("/chat/stream", json=body, headers={**TED, "traceparent": TRACEPARENT})
    assert "mcp-token-of-ted" not in answer.text
    assert recorder.calls[-1].headers["authorization"] == "Bearer mcp-token-of-ted"
    meta = recorder.calls[-1].meta
    assert str(UUID(meta["thread_id"])) == meta["thread_id"]
    assert meta["idempotency_key"] == f"{meta['run_id']}:call-1"
    assert meta["user_id"] == "ted", "who is signed in, not who the body names"
    assert meta["traceparent"] == TRACEPARENT
    assert client.post("/threads/count", json={}, headers=TED).json() == count


def test_the_trace_of_a_request_is_sent_to_the_servers_of_its_run(client: httpx.Client, recorder: Recorder) -> None:
    ask(client, "peer_whoami", {**TED, "traceparent": TRACEPARENT, "tracestate": "vendor=1"})
    assert recorder.calls[-1].meta["traceparent"] == TRACEPARENT
    assert recorder.calls[-1].meta["tracestate"] == "vendor=1"
    ask(client, "peer_whoami", {**TED, "traceparent": "nonsense"})
    assert "traceparent" not in recorder.calls[-1].meta


@pytest.mark.requirement("T-03")
def test_tokens_are_in_no_answer_of_the_api_and_in_no_log(client: httpx.Client, data_dir: Path) -> None:
    thread = str(uuid4())
    body = {**calling("peer_hold_nothing"), "if_not_exists": "create"}
    with log_records() as records:
        client.post(f"/threads/{thread}/runs/wait", json=body, headers=TED)
        ask(client, "peer_whoami", TED)
    paths = (f"/threads/{thread}", f"/threads/{thread}/state", f"/threads/{thread}/history", f"/threads/{thread}/runs")
    shown = "".join(client.get(path, headers=TED).text for path in (*paths, "/health"))
    assert "mcp-token-of-ted" not in shown + json.dumps(records)
    assert thread in shown
    logs = [file.read_text(encoding="utf-8") for file in (data_dir / "data").rglob("*.jsonl")]
    assert "".join(logs)
    assert "mcp-token-of-ted" not in "".join(logs)


def test_without_an_auth_handler_no_user_is_signed_in_whatever_a_request_contains(
    recorder: Recorder, tmp_path: Path
) -> None:
    config = json.loads(APP.read_text(encoding="utf-8"))
    del config["auth"]
    for file in APP.parent.glob("*.py"):
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "langgraph.json").write_text(json.dumps(config), encoding="utf-8")
    # The last test: this server replaces the process's plane, and a later call would open one that no test closes.
    with serving(tmp_path / "langgraph.json", tmp_path, recorder) as client:
        forged = {"config": {"configurable": {**FORGED, "user_id": "eve"}}}
        assert "needs mcp_token of the signed-in user" in last_text(ask(client, "peer_whoami", TED, **forged))
        ask(client, "open_whoami", {}, **forged)
        assert recorder.calls[-1].meta["user_id"] == "eve"
