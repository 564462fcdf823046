"""A server that is told to stop breaks streams off, so that clients know there is more; nothing else stops it."""

import threading
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.fixtures.app_server import AppProcess

LANGGRAPH_JSON = Path(__file__).parent / "runs_app" / "langgraph.json"


@pytest.mark.api("POST /threads/{thread_id}/runs/stream", "200 breaks off when the server stops; the run goes on later")
@pytest.mark.requirement("S-05")
def test_streams_break_off_without_a_traceback_and_the_run_goes_on_later(app_process: AppProcess) -> None:
    app_process.start()
    body = {
        "assistant_id": "ticking",
        "input": {"steps": 1, "per_step": 10**6, "pause": 0.01},
        "stream_mode": "custom",
        "if_not_exists": "create",
        "on_disconnect": "cancel",
    }
    exit_codes: list[int] = []
    stopping = threading.Thread(target=lambda: exit_codes.append(app_process.stop()))
    with (
        httpx.Client(base_url=app_process.url, timeout=30) as http,
        http.stream("POST", f"/threads/{uuid4()}/runs/stream", json=body) as answer,
    ):
        path = answer.headers["content-location"]
        pieces = answer.iter_bytes()
        assert next(pieces).startswith(b"event: metadata")
        stopping.start()
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            for _ in pieces:
                pass
    stopping.join()
    assert exit_codes == [0]
    assert "Traceback" not in app_process.logs()
    app_process.start()
    with httpx.Client(base_url=app_process.url, timeout=30) as http:
        assert http.get(path).json()["status"] in ("pending", "running")
        assert http.post(f"{path}/cancel?wait=1").json() == {}


@pytest.mark.requirement("S-05")
def test_a_node_that_does_not_end_is_left_behind_and_begun_again_later(app_process: AppProcess) -> None:
    app_process.start()
    body = {"assistant_id": "staying", "input": {}, "stream_mode": "custom", "if_not_exists": "create"}
    with (
        httpx.Client(base_url=app_process.url, timeout=30) as http,
        http.stream("POST", f"/threads/{uuid4()}/runs/stream", json=body) as answer,
    ):
        path = answer.headers["content-location"]
        assert any(b"here" in piece for piece in answer.iter_bytes())
    assert app_process.stop() == 0
    assert "Traceback" not in app_process.logs()
    app_process.start()
    with httpx.Client(base_url=app_process.url, timeout=30) as http:
        assert http.get(path).json()["status"] in ("pending", "running")


def test_a_node_that_exits_ends_its_run_and_not_the_server(app_process: AppProcess) -> None:
    app_process.start()
    with httpx.Client(base_url=app_process.url, timeout=30) as http:
        answer = http.post("/runs/wait", json={"assistant_id": "leaving", "input": {}})
        assert answer.json() == {"__error__": {"error": "SystemExit", "message": "3"}}
        assert http.get("/ok").is_success
    assert app_process.stop() == 0
