"""The server gives the answers that the official server gave to the recorded scenarios.

The recordings, the application they run on and the script that compares lie outside the repository: in the folder that
TOOLWEAVE_CONFORMANCE names, or in `shared/conformance` beside the checkout.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.app_server import AppServer

BESIDE = Path(__file__).parents[3] / "shared" / "conformance"
FOLDER = Path(os.environ.get("TOOLWEAVE_CONFORMANCE") or BESIDE)
LANGGRAPH_JSON = FOLDER / "app" / "langgraph.json"
SERVER_ENV = {"TOOLWEAVE_CORS_ORIGINS": "*"}
EXPECTED = FOLDER / "expected.json"
SCENARIOS = sorted(json.loads(EXPECTED.read_text(encoding="utf-8"))) if EXPECTED.is_file() else []
# Where we differ on purpose: the list of the folder's README, and nothing else.
ON_PURPOSE = frozenset(
    {
        "cancel_rollback_wait_False",
        "run_delete_running",
        "st_feedback_keys",
        "cron_errors",
        "mcp_list_call",
        "cancel_bad_action",
    }
)
BOUND_S = 240

pytestmark = [
    pytest.mark.requirement("S-01"),
    pytest.mark.skipif(not SCENARIOS, reason="the recorded answers are not on this machine"),
    # The first test pays for all of them.
    pytest.mark.timeout(BOUND_S + 30),
]

Compared = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory, app_server: AppServer) -> Compared:
    """Run every scenario against the server, a few at a time."""
    found = tmp_path_factory.mktemp("conformance") / "found.json"
    command = [sys.executable, str(FOLDER / "differential.py"), app_server.url, "--jobs", "6"]
    subprocess.run(
        [*command, "--expect", str(EXPECTED), "--out", str(found)],
        stdout=subprocess.DEVNULL,
        timeout=BOUND_S,
        check=False,
    )
    answers: Compared = json.loads(found.read_text(encoding="utf-8"))
    return answers


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name not in ON_PURPOSE])
def test_a_scenario_gets_the_recorded_answers(scenario: str, compared: Compared) -> None:
    result = compared[scenario]
    assert result["same"], f"ours: {result['b']}\n\nrecorded: {result['a']}"
