"""S-05: one process, files in one folder; runs survive kill -9 and go on from their checkpoint."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk import get_sync_client

from tests.fixtures.app_server import AppProcess

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def app_process(data_dir: Path) -> Iterator[AppProcess]:
    """Give a running server to stop or to kill; each test leaves it running."""
    with AppProcess(LANGGRAPH_JSON, data_dir, {}) as process:
        yield process


@pytest.mark.requirement("S-05")
def test_a_killed_run_continues_from_its_checkpoint(app_process: AppProcess) -> None:
    thread_id, gate = str(uuid4()), str(uuid4())
    run_input = {"n": 1, "gate": gate}
    body = {"assistant_id": "gated", "input": run_input, "if_not_exists": "create", "stream_resumable": True}
    with httpx.Client(base_url=app_process.url, timeout=60) as http:
        run = http.post(f"/threads/{thread_id}/runs", json=body).json()
        http.get(f"/gates/{gate}/reached")
        app_process.kill()
    app_process.start()
    with httpx.Client(base_url=app_process.url, timeout=60) as http:
        http.get(f"/gates/{gate}/reached")
        http.post(f"/gates/{gate}/open")
        values = http.get(f"/threads/{thread_id}/runs/{run['run_id']}/join").json()
        # Each node ran once for the state: what was checkpointed before the kill is not repeated.
        assert values == {"n": 4, "gate": gate, "log": ["add", "passed", "double"]}
        assert http.get(f"/threads/{thread_id}/runs/{run['run_id']}").json()["status"] == "success"
        assert http.get(f"/threads/{thread_id}").json()["status"] == "idle"
        replayed = http.get(f"/threads/{thread_id}/runs/{run['run_id']}/stream", headers={"last-event-id": "-1"}).text
        assert f'data: {{"run_id":"{run["run_id"]}","attempt":2}}' in replayed


@pytest.mark.requirement("S-05")
def test_threads_are_the_same_after_a_restart(app_process: AppProcess, data_dir: Path) -> None:
    with get_sync_client(url=app_process.url, api_key=None) as sdk:
        thread = sdk.threads.create(metadata={"kept": True})
        sdk.runs.wait(thread["thread_id"], "ask", input={"n": 5})
    assert app_process.stop() == 0
    suffixes = {path.suffix for path in data_dir.iterdir() if path.is_file()}
    assert suffixes <= {".db", ".db-wal", ".db-shm", ".lock", ""}
    app_process.start()
    with get_sync_client(url=app_process.url, api_key=None) as sdk:
        stored: Any = sdk.threads.get(thread["thread_id"])
        assert (stored["status"], stored["metadata"]["kept"]) == ("interrupted", True)
        resumed: Any = sdk.runs.wait(thread["thread_id"], "ask", command={"resume": "yes"})
    assert resumed == {"n": 6, "log": ["yes", "add"]}
