"""Each log line of a request and of a run has the same ids (S-12)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_sync_client

from tests.fixtures.app_server import AppProcess

pytestmark = pytest.mark.requirement("S-12")
LANGGRAPH_JSON = Path(__file__).parent / "langgraph" / "usage_app" / "langgraph.json"
BOUND_S = 60
LINES = ("a line of a library", "a line of a thread")
MESSAGES: Any = {"messages": "hello"}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppProcess]:
    env = {"TOOLWEAVE_LOG_FORMAT": "json", "TOOLWEAVE_LOG_LEVEL": "DEBUG"}
    with AppProcess(LANGGRAPH_JSON, tmp_path_factory.mktemp("logged"), env) as started:
        yield started


def log_run(process: AppProcess, **options: Any) -> dict[str, Any]:
    """Run a graph that logs; gives the run."""
    with get_sync_client(url=process.url) as sdk:
        thread_id = sdk.threads.create()["thread_id"]
        run: Any = sdk.runs.create(thread_id, "log", input=MESSAGES, **options)
        sdk.runs.join(thread_id, run["run_id"])
        return dict(run)


def lines_of(process: AppProcess, name: str, value: str) -> list[dict[str, Any]]:
    """Give the lines that have a field with this value."""
    lines = [json.loads(line) for line in process.logs().splitlines() if line.startswith("{")]
    return [line for line in lines if line.get(name) == value]


def test_lines_of_nodes_libraries_threads_and_the_run_have_its_ids(process: AppProcess) -> None:
    config: Any = {"configurable": {"user_id": "ada"}}
    run = log_run(process, headers={"x-request-id": "request-1"}, config=config)
    process.wait_for_log('"message": "run of log')
    expected = {name: run[name] for name in ("run_id", "thread_id", "assistant_id")}
    expected |= {"graph_id": "log", "request_id": "request-1", "user_id": "ada"}
    lines = lines_of(process, "run_id", run["run_id"])
    assert {line["message"].partition(" on ")[0] for line in lines} >= {*LINES, "run of log"}
    assert all(line.items() >= expected.items() for line in lines)


def test_a_run_behind_another_one_has_only_its_own_ids(process: AppProcess) -> None:
    config: Any = {"configurable": {"user_id": "ada"}}
    with get_sync_client(url=process.url) as sdk:
        thread_id = sdk.threads.create()["thread_id"]
        first = sdk.runs.create(thread_id, "log", input=MESSAGES, config=config, headers={"x-request-id": "first"})
        second = sdk.runs.create(thread_id, "log", input=MESSAGES, headers={"x-request-id": "second"})
        sdk.runs.join(thread_id, second["run_id"])
    own = {"first": (first, "ada"), "second": (second, None)}
    for request_id, (run, user_id) in own.items():
        lines = lines_of(process, "run_id", run["run_id"])
        assert {line["message"] for line in lines} >= set(LINES)
        assert {(line["request_id"], line.get("user_id")) for line in lines} == {(request_id, user_id)}


@pytest.mark.parametrize(
    ("sent", "is_accepted"),
    [("my-id:1", True), ("x" * 128, True), ("x" * 129, False), ("a\tb", False), ("é", False), ("", False)],
)
def test_a_response_has_the_id_of_its_request_or_a_new_one(
    process: AppProcess, sent: str, *, is_accepted: bool
) -> None:
    headers = {b"x-request-id": sent.encode("latin-1")}
    for path in ("/ok", "/nowhere", "/threads/zz"):
        received = httpx.get(f"{process.url}{path}", headers=headers, timeout=BOUND_S).headers["x-request-id"]
        assert (received == sent) == is_accepted
        assert received.isascii()
        assert received


def test_responses_to_requests_without_an_id_have_different_ones(process: AppProcess) -> None:
    received = [httpx.get(f"{process.url}/ok", timeout=BOUND_S).headers["x-request-id"] for _ in range(3)]
    assert len(set(received)) == len(received)


def test_the_human_format_shows_only_what_a_search_needs(tmp_path: Path) -> None:
    with AppProcess(LANGGRAPH_JSON, tmp_path, {"TOOLWEAVE_LOG_LEVEL": "DEBUG"}) as process:
        run = log_run(process)
        process.wait_for_log("run of log")
        by_message = {text: line for line in process.logs().splitlines() for text in (*LINES, "run of") if text in line}
    ids = f" run_id={run['run_id']} thread_id={run['thread_id']}"
    for text in LINES:
        assert by_message[text].endswith(f"{text}{ids}")
    assert "run_id=" not in by_message["run of"]
    assert "request_id=" not in process.logs()
