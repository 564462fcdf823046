"""The studio's sources are checked, and the files that users get are those that they build (S-11)."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fixtures.node_packages import node_with_packages

STUDIO = Path(__file__).parent.parent.parent / "studio"
BOUND_S = 240
pytestmark = [
    pytest.mark.requirement("S-11"),
    pytest.mark.timeout(600),
    pytest.mark.databases("sqlite", reason="no server"),
]


def run_npm(folder: Path, script: str) -> None:
    command = ["npm", "run", "--silent", script]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=BOUND_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_types_rules_and_unit_tests_of_the_studio_pass() -> None:
    node_with_packages(STUDIO)
    run_npm(STUDIO, "check")


@pytest.mark.slow
def test_a_build_in_another_folder_makes_the_committed_files(tmp_path: Path) -> None:
    node_with_packages(STUDIO)
    folder = tmp_path / "elsewhere"
    # Not by a pattern: packages have folders of that name.
    shutil.copytree(STUDIO, folder, ignore=lambda path, _: ["dist"] if Path(path) == STUDIO else [], symlinks=True)
    run_npm(folder, "build")
    built = {path.relative_to(folder): path.read_bytes() for path in (folder / "dist").rglob("*") if path.is_file()}
    committed = STUDIO / "dist"
    assert built == {path.relative_to(STUDIO): path.read_bytes() for path in committed.rglob("*") if path.is_file()}
