"""Every version opens and continues what earlier versions have stored (write.py says how the folders were written)."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from tests.data_folders.write import (
    APP,
    BOUND_S,
    ENVIRONMENT,
    HERE,
    INTERRUPTED,
    OF_CRON,
    PENDING,
    RUNNING,
    TOKEN,
    TOOL,
    WITH_TOKEN,
    wait_for_todo_server,
)
from tests.fixtures.app_server import AppProcess

FOLDERS = sorted(path.stem for path in HERE.glob("*.zip"))
pytestmark = pytest.mark.requirement("S-05")


@pytest.fixture(scope="module", params=FOLDERS)
def data_dir(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack one stored folder."""
    folder = tmp_path_factory.mktemp("stored") / "data"
    with ZipFile(HERE / f"{request.param}.zip") as packed:
        packed.extractall(folder)
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
    there = {thread["thread_id"] for thread in sdk.threads.search(metadata={"kind": "fixture"})}
    assert there >= {RUNNING, PENDING, INTERRUPTED, OF_CRON}
    (assistant,) = sdk.assistants.search(metadata={"kind": "fixture"})
    assert [version["name"] for version in sdk.assistants.get_versions(assistant["assistant_id"])] == [
        "Asks once",
        "Asks twice",
    ]
    (cron,) = sdk.crons.search(thread_id=OF_CRON)
    assert (cron["schedule"], cron["payload"]["input"]) == ("0 0 1 1 *", {"log": ["cron"]})


def test_store_items_tools_and_todos_are_there(sdk: SyncLangGraphClient, http: httpx.Client) -> None:
    assert sdk.store.get_item(["notes", "personal"], key="milk")["value"] == {"text": "Buy milk", "n": 1}
    assert [item["key"] for item in sdk.store.search_items(["notes"], filter={"n": 1})["items"]] == ["milk"]
    stored = http.get("/tools/weather").json()
    assert {name: stored[name] for name in ("tool_id", "name", "input_schema")} == {
        name: TOOL[name] for name in ("tool_id", "name", "input_schema")
    }
    assert stored["api"]["path"] == TOOL["api"]["path"]
    wait_for_todo_server(http)
    answer = http.post("/chat/stream", json={"message": "What are my active tasks?"}).text
    assert "Buy milk" in answer


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
