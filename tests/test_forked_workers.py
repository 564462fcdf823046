"""No test is lost on forked workers, also when one of them ends; programs are forked as they were started."""

import socket
import subprocess
import sys
from pathlib import Path

from tests.fixtures.forked_python import REAL_PYTHON

CRASHING = """
import os

def test_passes(): pass
def test_ends_its_worker(): os._exit(3)
def test_comes_after_it(): pass
"""
LEAVING_GARBAGE = """
class Failing:
    def __init__(self): self.cycle = self
    def __del__(self): raise RuntimeError("found by the collector")

def test_leaves_garbage(): Failing()
"""


def test_a_worker_that_ends_fails_its_test_and_the_others_still_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"test_{name}.py").write_text(CRASHING, encoding="utf-8")
    (tmp_path / "test_fails.py").write_text("def test_fails(): assert 1 == 2\n", encoding="utf-8")
    (tmp_path / "test_garbage.py").write_text(LEAVING_GARBAGE, encoding="utf-8")
    options = ["-c", "/dev/null", "-p", "tests.fixtures.forked_workers", "--workers", "2"]

    done = subprocess.run(
        [REAL_PYTHON, "-m", "pytest", *options, tmp_path],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )

    assert done.returncode == 1, done.stderr
    # Garbage is collected after a worker's last test, and fails it although it has passed.
    assert "4 failed, 5 passed" in done.stdout
    assert "the worker ended with status 3 at this test" in done.stdout
    assert "assert 1 == 2" in done.stdout
    assert "found by the collector" in done.stdout


def test_a_program_that_ends_before_its_request_leaves_the_others_their_parent(tmp_path: Path) -> None:
    folder, program = Path(sys.executable).parent, tmp_path / "program.py"
    program.write_text("import os, sys; print('toolweave' in sys.modules, oct(os.umask(0)))", encoding="utf-8")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as gone:
        gone.connect(str(folder / "parent"))
    assert subprocess.check_output([sys.executable, program], umask=0o27) == b"True 0o27\n"
