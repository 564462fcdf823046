"""The application's priority function decides which waiting run starts next (S-08)."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.fixtures.app_server import serve_in_thread
from toolweave.config.langgraph_json import load_langgraph_json
from toolweave.errors import ConfigError
from toolweave.runtime import priority

LANGGRAPH_JSON = Path(__file__).parent / "apps" / "prioritised" / "langgraph.json"
SERVER_ENV = {"TOOLWEAVE_MAX_CONCURRENT_RUNS": "1"}
ADA = {"authorization": "Bearer ada"}
BOUND_S = 60
pytestmark = [
    pytest.mark.databases("sqlite", "postgresql", reason="there is one slot, and this process notes what starts"),
    pytest.mark.requirement("S-08"),
    pytest.mark.filterwarnings("ignore:The Priority API is in beta:langgraph_sdk.encryption.LangGraphBetaWarning"),
]


def of_run(settings: Any, **fields: Any) -> dict[str, Any]:
    """Return the body of a run whose thread gets these settings, if it has none."""
    return {"assistant_id": "note", "input": {}, "metadata": {"settings": settings}, **fields}


def on_new_thread() -> str:
    return f"/threads/{uuid4()}/runs/wait"


async def calls(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    recorded: list[dict[str, Any]] = (await http.get("/calls")).json()
    return recorded


async def test_runs_that_wait_start_in_the_order_of_their_threads_priorities(
    sdk: LangGraphClient, http: httpx.AsyncClient
) -> None:
    # A thread keeps its settings: the metadata of its second run has no effect.
    kept = (await sdk.threads.create())["thread_id"]
    await sdk.runs.wait(kept, "note", input={"name": ""}, metadata={"settings": {"priority": -4}})
    gate = str(uuid4())
    holding = await sdk.runs.create(None, "hold", input={"gate": gate})
    await http.get(f"/gates/{gate}/reached")
    waiting = []
    for urgency in (5, 0, -5):
        body = of_run({"priority": urgency}, input={"name": str(urgency)}, if_not_exists="create")
        waiting.append((await http.post(f"/threads/{uuid4()}/runs", json=body)).json())
    waiting.append(
        (await http.post(f"/threads/{kept}/runs", json=of_run({"priority": 5}, input={"name": "kept"}))).json()
    )
    await http.post(f"/gates/{gate}/open")
    async with asyncio.timeout(BOUND_S):
        for run in (holding, *waiting):
            await http.get(f"/threads/{run['thread_id']}/runs/{run['run_id']}/join")
    assert (await http.get("/started")).json()[-4:] == ["-5", "kept", "0", "5"]


async def test_the_function_is_called_at_the_first_run_of_a_thread_with_what_it_needs(
    sdk: LangGraphClient, http: httpx.AsyncClient
) -> None:
    assistant: Any = await sdk.assistants.create("note", metadata={"kind": "mine"})
    thread: Any = await sdk.threads.create(metadata={"of": "thread"})
    path = f"/threads/{thread['thread_id']}/runs/wait"
    body = {"assistant_id": assistant["assistant_id"], "input": {}, "metadata": {"of": "run"}}
    before = len(await calls(http))
    for _ in range(2):
        assert (await http.post(path, json=body, headers=ADA)).status_code == 200
    (call,) = (await calls(http))[before:]
    run_metadata = call.pop("run_metadata")
    assert call == {
        "user": "ada",
        "org_id": "org of ada",
        "permissions": ["premium"],
        "thread_id": thread["thread_id"],
        "thread_metadata": {"of": "thread"},
        "assistant_id": assistant["assistant_id"],
        "graph_id": "note",
        "assistant_metadata": {"kind": "mine"},
        "cron_id": None,
    }
    assert run_metadata["of"] == "run"
    found: Any = await sdk.threads.get(thread["thread_id"])
    assert found["metadata"]["of"] == "thread"
    assert not {"priority", "fairness_group"} & found.keys()


async def test_every_way_to_create_a_run_calls_the_function(http: httpx.AsyncClient) -> None:
    before, thread_id = len(await calls(http)), str(uuid4())
    message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
    rpc = {"jsonrpc": "2.0", "id": 1}
    assistant_id = (await http.post("/assistants/search", json={"graph_id": "note"})).json()[0]["assistant_id"]
    run = of_run(None)
    requests: list[tuple[str, Any]] = [
        ("/runs", run),
        ("/runs/wait", run),
        ("/runs/stream", run),
        ("/runs/batch", [run, run]),
        (f"/threads/{thread_id}/commands", {"id": 1, "method": "run.start", "params": run}),
        ("/mcp", {**rpc, "method": "tools/call", "params": {"name": "note", "arguments": {}}}),
        (f"/a2a/{assistant_id}", {**rpc, "method": "message/send", "params": {"message": message}}),
    ]
    for path, body in requests:
        accept = "text/event-stream" if path.endswith("stream") else "application/json"
        answer = await http.post(path, json=body, headers={"accept": accept})
        assert answer.status_code == 200, answer.text
    threads = [call["thread_id"] for call in (await calls(http))[before:]]
    # An A2A context is a thread.
    assert threads[:-1] == [*[None] * 5, thread_id, None]
    assert threads[-1] is not None


async def test_the_run_of_a_cron_has_the_cron_and_the_user_who_created_it(http: httpx.AsyncClient) -> None:
    gate = str(uuid4())
    body = {"assistant_id": "hold", "schedule": "* * * * * *", "input": {"gate": gate}}
    cron = (await http.post("/runs/crons", json=body, headers=ADA)).json()
    async with asyncio.timeout(BOUND_S):
        await http.get(f"/gates/{gate}/reached")
    await http.delete(f"/runs/crons/{cron['cron_id']}", headers=ADA)
    await http.post(f"/gates/{gate}/open")
    call = next(call for call in await calls(http) if call["cron_id"] is not None)
    found = [call[name] for name in ("cron_id", "user", "org_id", "permissions", "thread_id")]
    assert found == [cron["cron_id"], "ada", "org of ada", ["premium"], None]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("raise", "it raised KeyError."),
        ({"priority": 6}, "priority is 6, not an integer from -5 to 5."),
        ({"priority": True}, "priority is True, not"),
        ({"priority": -1.0}, "priority is -1.0, not"),
        ({"fairness_group": "x" * 257}, "fairness_group is not a string of at most 256 characters."),
        ({"fairness_group": 1}, "fairness_group is not a string"),
        ({"prio": 1}, "it returned the unknown key 'prio'."),
        ([1], "it returned a list, not a dict or None."),
    ],
)
async def test_a_function_that_fails_refuses_the_run_and_is_called_again(
    http: httpx.AsyncClient, settings: Any, problem: str
) -> None:
    path = on_new_thread()
    refused = await http.post(path, json=of_run(settings, if_not_exists="create"))
    assert refused.status_code == 500
    assert problem in refused.json()["detail"]
    assert "secret" not in refused.text
    assert (await http.get(path.removesuffix("/runs/wait"))).status_code == 404
    before = len(await calls(http))
    assert (await http.post(path, json=of_run({"priority": None}, if_not_exists="create"))).status_code == 200
    assert len(await calls(http)) == before + 1


async def test_a_function_that_does_not_return_refuses_the_run(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priority, "ASSIGN_TIMEOUT_S", 0.01)
    refused = await http.post("/runs/wait", json=of_run("hang"))
    assert (refused.status_code, "it raised TimeoutError." in refused.text) == (500, True)


async def test_a_run_on_a_thread_that_does_not_exist_calls_no_function(http: httpx.AsyncClient) -> None:
    before = len(await calls(http))
    assert (await http.post(on_new_thread(), json=of_run(None))).status_code == 404
    assert len(await calls(http)) == before


def test_without_auth_the_user_has_an_empty_identity(tmp_path: Path) -> None:
    config = json.loads(LANGGRAPH_JSON.read_text(encoding="utf-8"))
    del config["auth"]
    source = LANGGRAPH_JSON.with_name("prioritised.py").read_text(encoding="utf-8")
    (tmp_path / "prioritised.py").write_text(source, encoding="utf-8")
    (tmp_path / "langgraph.json").write_text(json.dumps(config), encoding="utf-8")
    with serve_in_thread(tmp_path / "langgraph.json", tmp_path / "data", {}) as server:
        assert httpx.post(f"{server.url}/runs/wait", json=of_run(None), timeout=BOUND_S).status_code == 200
        (call,) = httpx.get(f"{server.url}/calls").json()
    assert (call["user"], call["permissions"]) == ("", [])


@pytest.mark.parametrize(
    ("code", "problem", "fix"),
    [
        ("priority = 1", "is of the class int, not Priority.", "Name an object of langgraph_sdk.Priority."),
        (
            "from langgraph_sdk import Priority\npriority = Priority()",
            "has no assign function",
            "Decorate an async function with @priority.assign.",
        ),
    ],
)
def test_what_is_no_priority_function_is_a_configuration_error(
    tmp_path: Path, code: str, problem: str, fix: str
) -> None:
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    entries = {"graphs": {"g": "./mine.py:graph"}, "priority": {"path": "./mine.py:priority"}}
    (tmp_path / "langgraph.json").write_text(json.dumps(entries), encoding="utf-8")
    with pytest.raises(ConfigError, match=problem) as raised:
        priority.load_priority(load_langgraph_json(tmp_path / "langgraph.json"))
    assert raised.value.fix == fix
