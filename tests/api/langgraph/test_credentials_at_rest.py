"""A run has its caller's tokens. Files of the data folder have them only encrypted, and only until the run ends."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.fixtures.app_server import AppProcess

pytestmark = pytest.mark.requirement("R-02")

LANGGRAPH_JSON = Path(__file__).parent / "apps" / "sealed" / "langgraph.json"
SECRETS = {"token": "secret-token-7f3a9", "key": "secret-key-7f3a9", "header": "secret-header-7f3a9"}
KNOWN = {name: hashlib.sha256(value.encode()).hexdigest() for name, value in SECRETS.items()}
OF_USER = {name: KNOWN[name] for name in ("token", "key")}
SIGNED_IN = {"authorization": f"Bearer {SECRETS['token']}", "x-api-key": SECRETS["key"], "x-session": SECRETS["header"]}
EVERY_MODE = ["values", "updates", "messages-tuple", "custom", "tasks", "checkpoints", "debug", "events"]
SHOW: dict[str, Any] = {"assistant_id": "show", "input": {}}
# Nobody listens there: the webhook waits in the database to be sent again.
WEBHOOK = "https://127.0.0.1:9/hook"
ENV = {"TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1"}


@contextmanager
def client(process: AppProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=process.url, timeout=30, headers=SIGNED_IN) as opened:
        yield opened


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def process(data_dir: Path) -> Iterator[AppProcess]:
    with AppProcess(LANGGRAPH_JSON, data_dir, ENV) as started:
        yield started


def found_in(folder: Path) -> list[str]:
    """Name each file of a folder that holds a secret, and the secret's name."""
    contents = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return [
        f"{name} in {path}" for path, data in contents.items() for name in SECRETS if SECRETS[name].encode() in data
    ]


def rows(data_dir: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{(data_dir / 'app.db').as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


def sealed_runs(data_dir: Path) -> dict[str, str]:
    """Give the status of each run that has credentials, by its id."""
    return dict(rows(data_dir, "SELECT run_id, status FROM runs WHERE sealed IS NOT NULL"))


def new_thread(http: httpx.Client) -> str:
    return str(http.post("/threads", json={}).json()["thread_id"])


def held_run(http: httpx.Client, thread_id: str, **fields: Any) -> tuple[str, str]:
    """Start a run that waits in the middle; give its id and its gate."""
    gate = str(uuid4())
    body = {"assistant_id": "hold", "input": {"gate": gate}, **fields}
    run_id = http.post(f"/threads/{thread_id}/runs", json=body).json()["run_id"]
    http.get(f"/gates/{gate}/reached")
    return run_id, gate


def test_no_kind_of_run_leaves_a_token_in_a_file(process: AppProcess, data_dir: Path) -> None:
    with client(process) as http:
        thread = new_thread(http)
        wanted = {**SHOW, "webhook": WEBHOOK}
        answer = http.post(f"/threads/{thread}/runs/wait", json=wanted)
        assert answer.json() == {"known": KNOWN}
        assert http.post("/runs/wait", json=wanted).json()["known"] == KNOWN
        streamed = {"stream_mode": EVERY_MODE, "stream_resumable": True, "stream_subgraphs": True}
        for graph in ("show", "nested", "fail"):
            body = {**wanted, **streamed, "assistant_id": graph}
            assert KNOWN["header"] in http.post(f"/threads/{new_thread(http)}/runs/stream", json=body).text
            assert KNOWN["header"] in http.post("/runs/stream", json={**body, "on_completion": "keep"}).text
        run = http.post(f"/threads/{thread}/runs", json=wanted).json()
        assert http.get(f"/threads/{thread}/runs/{run['run_id']}/join").json()["known"] == KNOWN
        command = {"id": 1, "method": "run.start", "params": SHOW}
        assert http.post(f"/threads/{thread}/commands", json=command).status_code == 200
        asking = new_thread(http)
        http.post(f"/threads/{asking}/runs/wait", json={**wanted, "assistant_id": "ask"})
        resumed = {**wanted, "assistant_id": "ask", "input": None, "command": {"resume": "yes"}}
        assert http.post(f"/threads/{asking}/runs/wait", json=resumed).json()["known"] == KNOWN
        held, gate = held_run(http, thread, **streamed)
        delayed = http.post(f"/threads/{thread}/runs", json={**wanted, "after_seconds": 3600}).json()["run_id"]
        assert sealed_runs(data_dir) == {held: "running", delayed: "pending"}
        assert found_in(data_dir) == []
        http.post(f"/gates/{gate}/open")
        assert http.get(f"/threads/{thread}/runs/{held}/join").json()["known"] == KNOWN
        http.post(f"/threads/{thread}/runs/{delayed}/cancel")
        assert rows(data_dir, "SELECT count(*) FROM webhook_deliveries")[0][0] > 0
        assert sealed_runs(data_dir) == {}
        assert found_in(data_dir) == []
    process.kill()
    assert found_in(data_dir) == []
    assert not [name for name in SECRETS if SECRETS[name] in process.logs()]


@pytest.mark.parametrize("action", ["interrupt", "rollback"])
def test_a_cancelled_and_a_superseded_run_have_no_credentials_left(
    process: AppProcess, data_dir: Path, action: str
) -> None:
    with client(process) as http:
        thread = new_thread(http)

        def running_and_pending() -> list[str]:
            running, _ = held_run(http, thread)
            pending = http.post(f"/threads/{thread}/runs", json=SHOW).json()["run_id"]
            assert sealed_runs(data_dir) == {running: "running", pending: "pending"}
            return [running, pending]

        for run_id in reversed(running_and_pending()):
            http.post(f"/threads/{thread}/runs/{run_id}/cancel", params={"wait": "true", "action": action})
        assert sealed_runs(data_dir) == {}
        running_and_pending()
        superseding = http.post(f"/threads/{thread}/runs/wait", json={**SHOW, "multitask_strategy": action})
        assert superseding.json()["known"] == KNOWN
        assert sealed_runs(data_dir) == {}


def test_a_run_continues_after_a_kill_with_the_tokens_of_its_caller(process: AppProcess, data_dir: Path) -> None:
    with client(process) as http:
        thread = new_thread(http)
        run_id, gate = held_run(http, thread)
    process.kill()
    assert found_in(data_dir) == []
    process.start()
    with client(process) as http:
        http.get(f"/gates/{gate}/reached")
        http.post(f"/gates/{gate}/open")
        assert http.get(f"/threads/{thread}/runs/{run_id}/join").json()["known"] == KNOWN
        assert http.get(f"/threads/{thread}/runs/{run_id}").json()["status"] == "success"
        assert sealed_runs(data_dir) == {}
        assert found_in(data_dir) == []


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        pytest.param({}, "the file key has changed", id="the key in a file"),
        pytest.param({"TOOLWEAVE_TOKEN_KEY": "one key"}, "TOOLWEAVE_TOKEN_KEY has changed", id="the configured key"),
    ],
)
def test_a_run_whose_tokens_cannot_be_decrypted_fails_and_names_the_reason(
    data_dir: Path, key: dict[str, str], problem: str
) -> None:
    with AppProcess(LANGGRAPH_JSON, data_dir, {**ENV, **key}) as first, client(first) as http:
        thread = new_thread(http)
        run_id, _ = held_run(http, thread)
        first.kill()
    (data_dir / "oauth" / "key").unlink(missing_ok=True)
    changed = dict.fromkeys(key, "another")
    with AppProcess(LANGGRAPH_JSON, data_dir, {**ENV, **changed}) as second, client(second) as http:
        error = http.get(f"/threads/{thread}/runs/{run_id}/join").json()["__error__"]
        assert error["error"] == "CredentialsUnreadable"
        assert problem in error["message"]
        assert "Create the run again" in error["message"]
        assert http.get(f"/threads/{thread}/runs/{run_id}").json()["status"] == "error"
        assert http.post(f"/threads/{thread}/runs/wait", json=SHOW).json()["known"] == KNOWN
        assert sealed_runs(data_dir) == {}


@pytest.mark.parametrize(
    "key", [{}, pytest.param({"TOOLWEAVE_TOKEN_KEY": "a key that several processes share"}, marks=pytest.mark.slow)]
)
def test_a_cron_fires_with_its_users_tokens_and_stores_them_encrypted_only(data_dir: Path, key: dict[str, str]) -> None:
    with AppProcess(LANGGRAPH_JSON, data_dir, {**ENV, **key}) as process, client(process) as http:
        thread = new_thread(http)
        body = {**SHOW, "schedule": "* * * * * *"}
        with http.stream("GET", f"/threads/{thread}/stream?stream_modes=lifecycle") as stream:
            cron = http.post(f"/threads/{thread}/runs/crons", json=body).json()
            assert any("run_done" in line for line in stream.iter_lines())
        assert http.get(f"/threads/{thread}").json()["values"]["known"] == OF_USER
        assert rows(data_dir, "SELECT count(*) FROM crons WHERE sealed IS NOT NULL") == [(1,)]
        assert SECRETS["token"] not in http.get(f"/runs/crons/{cron['cron_id']}").text
        assert found_in(data_dir) == []
        http.delete(f"/runs/crons/{cron['cron_id']}")
        assert rows(data_dir, "SELECT count(*) FROM crons") == [(0,)]


def test_the_json_of_a_run_has_neither_the_tokens_nor_the_headers(process: AppProcess) -> None:
    with client(process) as http:
        thread = new_thread(http)
        body = {**SHOW, "after_seconds": 3600}
        run = http.post(f"/threads/{thread}/runs", json=body).json()
        shown = [http.get(f"/threads/{thread}/runs").text, str(run)]
        assert not [name for name in SECRETS if any(SECRETS[name] in text for text in shown)]
        configurable = run["kwargs"]["config"]["configurable"]
        assert configurable["langgraph_auth_user"]["identity"] == "ada"
        assert "x-session" not in configurable
