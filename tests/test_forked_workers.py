"""No test is lost on forked workers, also when one of them ends."""

import subprocess
from pathlib import Path

from tests.fixtures.forked_python import REAL_PYTHON

CRASHING = """
import os

def test_passes(): pass
def test_ends_its_worker(): os._exit(3)
def test_comes_after_it(): pass
"""


def test_a_worker_that_ends_fails_its_test_and_the_others_still_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"test_{name}.py").write_text(CRASHING, encoding="utf-8")
    (tmp_path / "test_fails.py").write_text("def test_fails(): assert 1 == 2\n", encoding="utf-8")

    done = subprocess.run(
        [
            REAL_PYTHON,
            "-m",
            "pytest",
            "-c",
            "/dev/null",
            "-p",
            "tests.fixtures.forked_workers",
            "--workers",
            "2",
            tmp_path,
        ],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )

    assert done.returncode == 1, done.stderr
    assert "3 failed, 4 passed" in done.stdout
    assert "the worker ended with status 3 while this test ran" in done.stdout
    assert "assert 1 == 2" in done.stdout
