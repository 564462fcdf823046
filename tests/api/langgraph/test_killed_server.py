"""S-05: a server killed in the middle of twenty streamed runs finishes them all, and no client misses an event."""

import random
from pathlib import Path

import pytest

from tests.api.langgraph.killing import one_round
from tests.fixtures.app_server import AppProcess

LANGGRAPH_JSON = Path(__file__).parent / "runs_app" / "langgraph.json"
SEED = 20261122


@pytest.mark.requirement("S-05")
@pytest.mark.api(
    "GET /threads/{thread_id}/runs/{run_id}/stream", "200 goes on without a gap after the server was killed"
)
async def test_twenty_runs_outlive_a_killed_server(app_process: AppProcess) -> None:
    app_process.start()
    await one_round(app_process, random.Random(SEED), kills=1)
