"""A process that is killed loses nothing that it acknowledged (S-05)."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.runtime.persistence.records import SUCCESS
from toolweave.runtime.persistence.data_folder import Persistence, open_persistence
from toolweave.runtime.persistence.events import read_events
from toolweave.runtime.persistence.runs import RunEnd

ORDER = ("pending", "running", "success")
PROJECT = Path(__file__).parents[3]


def acknowledged_before_kill(folder: Path, lines: int) -> dict[str, str]:
    """Let the writer run until it has printed some lines, kill it, and give the last status of each run it named."""
    command = [sys.executable, "-m", "tests.runtime.persistence.crashing_writer", str(folder)]
    acknowledged: dict[str, str] = {}
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stdout is not None
        for number, line in enumerate(process.stdout, start=1):
            if number == lines:
                process.kill()
            if line.endswith("\n"):
                run_id, status = line.split()
                acknowledged[run_id] = status
    assert process.returncode == -9
    return acknowledged


async def check_nothing_lost(persistence: Persistence, acknowledged: dict[str, str]) -> None:
    for run_id, status in acknowledged.items():
        run = await persistence.runs.find(run_id)
        assert run is not None
        assert ORDER.index(run.status) >= ORDER.index(status)
        thread = await persistence.threads.get(run.thread_id)
        assert thread.status == ("idle" if run.status == "success" else "busy")
        assert thread.values == ({"n": 1} if run.status == "success" else None)
        if run.status == "success":
            # Queued before the run's last write, so it is there too.
            stored = await persistence.app.read(partial(read_events, run_id=run_id, after=-1, limit=9))
            assert len(stored) == 3


@pytest.mark.requirement("S-05")
@pytest.mark.parametrize(
    "lines", [pytest.param(1, marks=pytest.mark.slow), 40, pytest.param(400, marks=pytest.mark.slow)]
)
async def test_a_killed_process_loses_nothing_it_acknowledged_and_its_runs_go_on(tmp_path: Path, lines: int) -> None:
    acknowledged = acknowledged_before_kill(tmp_path, lines)
    assert len(acknowledged) >= lines / 3

    async with open_persistence(tmp_path) as persistence:
        await check_nothing_lost(persistence, acknowledged)
        startable = set(await persistence.runs.recover())
        for run_id in acknowledged:
            run = await persistence.runs.find(run_id)
            assert run is not None
            assert run.status in ("pending", "success")
            assert (run_id in startable) is (run.status == "pending")
        for run_id in startable:
            run = await persistence.runs.claim(run_id)
            assert run is not None
            assert await persistence.runs.finalise(RunEnd(run_id, run.attempt, SUCCESS)) is None
        assert await persistence.threads.count(status="busy") == 0
