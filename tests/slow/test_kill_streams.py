"""Kill the server again and again in the middle of twenty streamed runs, also while it takes them up again."""

import random
from pathlib import Path

import pytest

from tests.api.langgraph.killing import one_round
from tests.fixtures.app_server import AppProcess

LANGGRAPH_JSON = Path(__file__).parents[1] / "api" / "langgraph" / "runs_app" / "langgraph.json"
ROUNDS, SEED = 15, 20261123

pytestmark = [pytest.mark.slow, pytest.mark.timeout(580), pytest.mark.requirement("S-05")]


async def test_no_client_hears_a_gap_however_often_the_server_is_killed(app_process: AppProcess) -> None:
    dice = random.Random(SEED)
    app_process.start()
    for _ in range(ROUNDS):
        await one_round(app_process, dice, kills=dice.choice([1, 1, 2, 3]))
