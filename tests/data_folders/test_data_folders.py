"""Every version opens and continues what earlier versions have stored (write.py says how the folders were written)."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from tests.api.langgraph.protocol.listening import listening, on, send, stored_events
from tests.data_folders.write import (
    APP,
    APPROVAL,
    BOUND_S,
    ENVIRONMENT,
    HERE,
    INTERRUPTED,
    OF_CRON,
    PAGE,
    PENDING,
    QUESTION,
    REMOTE,
    ROLLED_BACK,
    RUNNING,
    SCRIPT,
    SUNNY,
    TOKEN,
    TOOL,
    WEATHER,
    WITH_TOKEN,
    WORKFLOW,
    change,
    chat,
    serve_weather,
    wait_for_servers,
)
from tests.fixtures.app_server import AppProcess
from tests.fixtures.web_pages import WebPages, truth_of, web_pages
from toolweave.servers.connections.oauth import TokenLocation
from toolweave.servers.connections.oauth.exchange import Grant
from toolweave.servers.connections.oauth.vault import open_vault

FOLDERS = sorted(path.stem for path in HERE.glob("*.zip"))
# The first two folders hold no threads of the product's own graphs.
PRODUCT = [name for name in FOLDERS if name not in ("schema-0004", "schema-0006")]
pytestmark = pytest.mark.requirement("S-05")
with_product_graphs = pytest.mark.parametrize("data_dir", PRODUCT, indirect=True, scope="module")


@pytest.fixture(scope="module")
def site() -> Iterator[WebPages]:
    """Serve the tool's API, and hear webhooks."""
    with web_pages() as site:
        serve_weather(site)
        yield site


@pytest.fixture(scope="module", params=FOLDERS)
def data_dir(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, site: WebPages) -> Path:
    """Unpack one stored folder, move its cron into the past and its tool and webhooks to the present site."""
    folder = tmp_path_factory.mktemp("stored") / "data"
    with ZipFile(HERE / f"{request.param}.zip") as packed:
        packed.extractall(folder)
    change(folder / "app.db", "UPDATE crons SET next_run_at = 1")
    change(folder / "app.db", "UPDATE webhook_deliveries SET url = ?", f"{site.url}/hook")
    moved = "UPDATE registered_tools SET document = json_set(document, '$.api.base_url', ?)"
    change(folder / "tools.db", moved, site.url)
    return folder


@pytest.fixture(scope="module")
def process(data_dir: Path) -> Iterator[AppProcess]:
    """Serve the folder with the present version."""
    process = AppProcess(APP / "langgraph.json", data_dir, ENVIRONMENT)
    process.start()
    yield process
    process.close()


@pytest.fixture(scope="module")
def sdk(process: AppProcess) -> Iterator[SyncLangGraphClient]:
    with get_sync_client(url=process.url) as client:
        yield client


@pytest.fixture(scope="module")
def http(process: AppProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=process.url, timeout=BOUND_S) as client:
        yield client


@pytest.fixture(scope="module")
def servers(http: httpx.Client) -> None:
    wait_for_servers(http)


def log_of(sdk: SyncLangGraphClient, thread_id: str) -> Any:
    return sdk.threads.get_state(thread_id)["values"]["log"]  # type: ignore[call-overload]


@pytest.mark.parametrize(("thread_id", "given"), [(RUNNING, "given"), (PENDING, "delayed")])
def test_a_run_that_was_under_way_or_delayed_ends_and_repeats_nothing(
    sdk: SyncLangGraphClient, http: httpx.Client, thread_id: str, given: str
) -> None:
    (run,) = sdk.runs.list(thread_id)
    http.get(f"/threads/{thread_id}/runs/{run['run_id']}/join").raise_for_status()
    assert sdk.runs.get(thread_id, run["run_id"])["status"] == "success"
    assert log_of(sdk, thread_id) == [given, "first", "held"]


@pytest.mark.parametrize("data_dir", [name for name in FOLDERS if name >= "schema-0006"], indirect=True, scope="module")
def test_a_run_that_waits_still_has_its_callers_credentials(
    sdk: SyncLangGraphClient, http: httpx.Client, data_dir: Path
) -> None:
    (run,) = sdk.runs.list(WITH_TOKEN)
    http.get(f"/threads/{WITH_TOKEN}/runs/{run['run_id']}/join").raise_for_status()
    assert log_of(sdk, WITH_TOKEN) == ["begun", "held", TOKEN["x-upstream-token"]]


def test_the_stream_of_a_run_that_was_under_way_can_be_read_from_its_begin(sdk: SyncLangGraphClient) -> None:
    (run,) = sdk.runs.list(RUNNING)
    updates = [
        part.data
        for part in sdk.runs.join_stream(RUNNING, run["run_id"], last_event_id="-1")
        if part.event == "updates"
    ]
    assert updates == [{"first": {"log": ["first"]}}, {"hold": {"log": ["held"]}}]


def test_an_interrupted_thread_takes_its_answer(sdk: SyncLangGraphClient) -> None:
    assert sdk.threads.get(INTERRUPTED)["status"] == "interrupted"
    sdk.runs.wait(INTERRUPTED, "ask", command={"resume": "yes"})
    assert log_of(sdk, INTERRUPTED) == ["asked", "yes"]


def test_threads_assistants_and_crons_are_there(sdk: SyncLangGraphClient) -> None:
    there = {thread["thread_id"] for thread in sdk.threads.search(metadata={"kind": "fixture"}, limit=100)}
    assert there >= {RUNNING, PENDING, INTERRUPTED, OF_CRON}
    (assistant,) = sdk.assistants.search(metadata={"kind": "fixture"})
    assert [version["name"] for version in sdk.assistants.get_versions(assistant["assistant_id"])] == [
        "Asks once",
        "Asks twice",
    ]
    (cron,) = sdk.crons.search(thread_id=OF_CRON)
    assert (cron["schedule"], cron["payload"]["input"]) == ("0 0 1 1 *", {"log": ["cron"]})


def test_a_cron_that_is_due_fires_and_its_run_ends(
    process: AppProcess, sdk: SyncLangGraphClient, http: httpx.Client
) -> None:
    process.wait_for_log("has started its run")
    (run,) = sdk.runs.list(OF_CRON)
    http.get(f"/threads/{OF_CRON}/runs/{run['run_id']}/join").raise_for_status()
    assert log_of(sdk, OF_CRON) == ["cron", "first", "held"]


@pytest.mark.usefixtures("servers")
def test_store_items_tools_and_todos_are_there_and_can_be_used(sdk: SyncLangGraphClient, http: httpx.Client) -> None:
    assert sdk.store.get_item(["notes", "personal"], key="milk")["value"] == {"text": "Buy milk", "n": 1}
    assert [item["key"] for item in sdk.store.search_items(["notes"], filter={"n": 1})["items"]] == ["milk"]
    stored = http.get("/tools/weather").json()
    assert {name: stored[name] for name in ("tool_id", "name", "input_schema")} == {
        name: TOOL[name] for name in ("tool_id", "name", "input_schema")
    }
    assert stored["api"]["path"] == TOOL["api"]["path"]
    assert http.post("/workflow", json=WEATHER).json()["output"] == SUNNY
    assert "Buy milk" in chat(http, assistant_id="todo_agent", message="What are my active tasks?")
    chat(http, assistant_id="todo_agent", message="Mark buy milk as done")
    assert "Buy milk" in chat(http, assistant_id="todo_agent", message="What are my completed tasks?")
    sdk.store.put_item(["notes", "personal"], key="milk", value={"text": "Buy oat milk", "n": 2})
    assert [item["value"]["text"] for item in sdk.store.search_items(["notes"], filter={"n": 2})["items"]] == [
        "Buy oat milk"
    ]


@with_product_graphs
@pytest.mark.usefixtures("servers")
async def test_a_call_is_approved_after_its_threads_events_were_replayed_and_runs_once(
    process: AppProcess, data_dir: Path
) -> None:
    async with httpx.AsyncClient(base_url=process.url, timeout=BOUND_S) as http:
        before = await stored_events(http, APPROVAL)
        assert on(before, "lifecycle")[0] == {"event": "running", "graph_name": "todo_agent"}
        (request,) = on(before, "input.requested")
        assert request["payload"][0]["action_request"] == {"action": "create_todo", "args": {"title": "Buy tea"}}
        async with listening(http, APPROVAL, since=before[-1]["seq"]) as listener:
            await send(http, APPROVAL, "input.respond", interrupt_id=request["interrupt_id"], response="approve")
            later = await listener.run()
    assert on(later, "lifecycle")[-1] == {"event": "completed", "graph_name": "todo_agent"}
    lines = (data_dir / "logs" / "mcp.jsonl").read_text(encoding="utf-8").splitlines()
    calls = [json.loads(line)["record"]["extra"] for line in lines]
    assert [call["outcome"] for call in calls if call["tool"] == "create_todo"] == ["ok"]


@with_product_graphs
@pytest.mark.usefixtures("servers")
def test_the_question_of_a_tools_server_takes_its_answer(sdk: SyncLangGraphClient) -> None:
    assert sdk.threads.get_state(QUESTION)["next"] == ["answer_questions"]
    answer: Any = sdk.runs.wait(QUESTION, "agent_loop", command={"resume": [{"type": "response", "args": "Eve"}]})
    assert [message["content"] for message in answer["messages"] if message["type"] == "tool"] == ["Hello Eve"]


@with_product_graphs
def test_a_workflow_goes_on_where_it_stopped_and_takes_another_turn(sdk: SyncLangGraphClient, site: WebPages) -> None:
    state = sdk.threads.get_state(WORKFLOW)
    assert (state["next"], state["values"]["output"]) == (["format"], SUNNY)  # type: ignore[call-overload]
    site.requests.clear()
    resumed: Any = sdk.runs.wait(WORKFLOW, "workflow", input=None)
    assert (resumed["status"], resumed["output"], site.requests) == ("success", SUNNY, [])
    assert "Paris" in resumed["formatted_response"]
    again: Any = sdk.runs.wait(WORKFLOW, "workflow", input=WEATHER)
    assert (again["status"], again["output"], site.requests) == ("success", SUNNY, ["/v1/Paris"])


@with_product_graphs
def test_a_script_is_written_from_a_page_that_was_fetched_before(sdk: SyncLangGraphClient) -> None:
    assert sdk.threads.get_state(SCRIPT)["next"] == ["write"]
    answer: Any = sdk.runs.wait(SCRIPT, "script_writer", input=None)
    assert answer["source"]["language"] == "de"
    assert truth_of(PAGE)["article"][0] in json.dumps(answer["script"], ensure_ascii=False)


@with_product_graphs
def test_a_cancelled_run_is_rolled_back_and_its_thread_asks_again(sdk: SyncLangGraphClient, http: httpx.Client) -> None:
    for run in sdk.runs.list(ROLLED_BACK):
        http.get(f"/threads/{ROLLED_BACK}/runs/{run['run_id']}/join")
    (run,) = sdk.runs.list(ROLLED_BACK)
    assert run["status"] == "success"
    (task,) = sdk.threads.get_state(ROLLED_BACK)["tasks"]
    assert [interrupt["value"] for interrupt in task["interrupts"]] == [{"question": "go on?"}]
    sdk.runs.wait(ROLLED_BACK, "ask_held", command={"resume": "no"})
    assert log_of(sdk, ROLLED_BACK) == ["asked", "no", "held"]


@with_product_graphs
def test_an_undelivered_webhook_is_sent_again(sdk: SyncLangGraphClient, site: WebPages) -> None:
    body = json.loads(site.posted.get(timeout=BOUND_S))
    assert (body["thread_id"], body["status"]) == (INTERRUPTED, "success")
    assert body["run_id"] == sdk.runs.list(INTERRUPTED)[-1]["run_id"]


def test_tokens_of_a_remote_server_are_read(data_dir: Path) -> None:
    config = ("--config", str(APP / "mcp.jsonc"), "--data-dir", str(data_dir))
    listed = subprocess.run(
        [sys.executable, "-m", "toolweave", "servers", "list", *config],
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={"TOOLWEAVE_TOKEN_STORE": "file", "PATH": ""},
    ).stdout
    assert "signed in" in listed


@with_product_graphs
def test_a_grant_has_its_refresh_token_and_its_end(data_dir: Path) -> None:
    grant = Grant.from_json(open_vault(TokenLocation(data_dir / "oauth", "file")).read(REMOTE) or "")
    assert grant is not None
    assert (grant.access_token, grant.tokens.refresh_token) == ("fixture-token", "fixture-renewal")
    assert grant.is_expired(time.time() + 3600 * 24)
