"""R-03: what blocks the event loop is logged while it does, with its stack, its graph and its node."""

from pathlib import Path

import httpx
import pytest

from tests.fixtures.app_server import AppProcess

LANGGRAPH_JSON = Path(__file__).parent / "runs_app" / "langgraph.json"
LOGGED = "the event loop has been blocked for more than 100 ms by block, "

pytestmark = pytest.mark.requirement("R-03")


def test_a_node_that_blocks_is_logged_once_with_its_stack_and_what_to_do(app_process: AppProcess) -> None:
    app_process.start()
    with httpx.Client(base_url=app_process.url, timeout=60) as http:
        answer = http.post("/runs/wait", json={"assistant_id": "blocking", "input": {}})
        # The node goes on as soon as it has been logged.
        assert answer.json() == {"nothing": True}
        assert http.get("/ok").status_code == 200
    app_process.wait_for_log(LOGGED)
    assert app_process.stop() == 0
    log = app_process.logs()
    assert log.count(LOGGED) == 1
    report = log[log.index(LOGGED) :]
    assert "stubborn_graphs.py:" in report
    assert "(graph blocking, node block)" in report
    assert "asyncio.to_thread" in report
    assert "warned.wait(LONGER_THAN_ANY_START_S)" in report
    assert "thread_id=" in report
    assert "run_id=" in report
