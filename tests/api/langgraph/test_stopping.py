"""A server that gets SIGTERM cuts its streams, so that clients know there is more; nothing else stops it."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.fixtures.app_server import AppProcess

LANGGRAPH_JSON = Path(__file__).parent / "runs_app" / "langgraph.json"
TICKING = {"assistant_id": "ticking", "input": {"steps": 1, "per_step": 10**6, "pause": 0.01}}
STAYING = {"assistant_id": "staying", "input": {}}
LEAVING = {"assistant_id": "leaving", "input": {}}


@dataclass(frozen=True)
class Stop:
    """The end of a server that got SIGTERM during two runs, and the URL of the next one."""

    left: Any
    """What a run had answered before, whose node exits."""

    exit_code: int
    logs: str
    """What was logged since then."""

    cut: Exception | None
    ticking: str
    staying: str
    next_url: str


@pytest.fixture(scope="module")
def stop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stop]:
    """Have a node exit; stop the server under a client that streams and a node that does not end; start it again."""
    with AppProcess(LANGGRAPH_JSON, tmp_path_factory.mktemp("stopped"), {}) as process:
        yield stop_under_runs(process)


def stop_under_runs(process: AppProcess) -> Stop:
    exit_codes: list[int] = []
    stopping = threading.Thread(target=lambda: exit_codes.append(process.stop()))
    with ExitStack() as stack:
        http = stack.enter_context(httpx.Client(base_url=process.url, timeout=60))
        left = http.post("/runs/wait", json=LEAVING).json()
        assert http.get("/ok").is_success
        process.wait_for_log("SystemExit: 3\n")
        before = process.logs()
        with streamed(http, STAYING) as staying:
            assert any(b"here" in piece for piece in staying.iter_bytes())
        ticking = stack.enter_context(streamed(http, {**TICKING, "on_disconnect": "cancel"}))
        pieces = ticking.iter_bytes()
        assert next(pieces).startswith(b"event: metadata")
        stopping.start()
        cut = end_of(pieces)
    stopping.join()
    logs = process.logs().removeprefix(before)
    process.start()
    ticking_path, staying_path = (answer.headers["content-location"] for answer in (ticking, staying))
    return Stop(left, exit_codes[0], logs, cut, ticking_path, staying_path, process.url)


def streamed(http: httpx.Client, run: dict[str, Any]) -> Any:
    body = {**run, "stream_mode": "custom", "if_not_exists": "create"}
    return http.stream("POST", f"/threads/{uuid4()}/runs/stream", json=body)


def end_of(pieces: Iterator[bytes]) -> Exception | None:
    try:
        for _ in pieces:
            pass
    except httpx.HTTPError as error:
        return error
    return None


@pytest.mark.api("POST /threads/{thread_id}/runs/stream", "200 breaks off when the server stops; the run goes on later")
@pytest.mark.requirement("S-05")
def test_streams_break_off_without_a_traceback_and_the_run_continues_later(stop: Stop) -> None:
    assert isinstance(stop.cut, httpx.RemoteProtocolError)
    assert "incomplete chunked read" in str(stop.cut)
    assert stop.exit_code == 0
    assert "Traceback" not in stop.logs
    with httpx.Client(base_url=stop.next_url, timeout=60) as http:
        assert http.get(stop.ticking).json()["status"] in ("pending", "running")
        assert http.post(f"{stop.ticking}/cancel?wait=1").json() == {}


@pytest.mark.requirement("S-05")
def test_a_node_that_does_not_end_is_abandoned_and_started_again_later(stop: Stop) -> None:
    assert stop.exit_code == 0
    assert "Traceback" not in stop.logs
    with httpx.Client(base_url=stop.next_url, timeout=60) as http:
        assert http.get(stop.staying).json()["status"] in ("pending", "running")


def test_a_node_that_exits_ends_its_run_and_not_the_server(stop: Stop) -> None:
    assert stop.left == {"__error__": {"error": "SystemExit", "message": "3"}}
    assert stop.exit_code == 0
