"""The Git server reads the history of a repository, and offers nothing that changes it (C-09)."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.external.shipped import answer, offered, plane_with, refusal
from tests.servers.connections.peers import call
from toolweave.servers.connections.plane import ToolPlane

pytestmark = [pytest.mark.external]
NEEDS = ("git",)

WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")


def git(repository: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", *WHO, *args], cwd=repository, check=True, capture_output=True, text=True, encoding="utf-8"
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def repository(module_data_dir: Path) -> Path:
    """Make a repository with two commits, a staged change and one that is not staged."""
    repository = module_data_dir.parent / "repository"
    repository.mkdir()
    git(repository, "init", "--quiet", "--initial-branch=main")
    for number, text in enumerate(("one", "two"), start=1):
        (repository / "file.txt").write_text(f"{text}\n", encoding="utf-8")
        git(repository, "add", "file.txt")
        git(repository, "commit", "--quiet", "-m", f"Commit number {number}")
    (repository / "staged.txt").write_text("staged\n", encoding="utf-8")
    git(repository, "add", "staged.txt")
    (repository / "file.txt").write_text("three\n", encoding="utf-8")
    return repository


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(module_data_dir: Path, repository: Path) -> AsyncIterator[ToolPlane]:
    async with plane_with("git", data_dir=module_data_dir, env={"GIT_REPOSITORY": str(repository)}) as plane:
        yield plane


@pytest.mark.requirement("C-09")
async def test_the_history_is_read(plane: ToolPlane, repository: Path) -> None:
    log = await call(plane, "git_log", server="git", repo_path=str(repository), max_count=5)
    history = "".join(block.model_dump_json() for block in log.content)
    assert not log.isError, history
    assert history.index("Commit number 2") < history.index("Commit number 1")
    shown = await answer(plane, "git", "git_show", repo_path=str(repository), revision="HEAD")
    assert "Commit number 2" in shown
    assert "-one" in shown
    assert "+two" in shown
    assert "main" in await answer(plane, "git", "git_branch", repo_path=str(repository), branch_type="local")


@pytest.mark.requirement("C-09")
async def test_changes_are_read(plane: ToolPlane, repository: Path) -> None:
    path = str(repository)
    assert "+three" in await answer(plane, "git", "git_diff_unstaged", repo_path=path)
    assert "+staged" in await answer(plane, "git", "git_diff_staged", repo_path=path)
    assert "-one" in await answer(plane, "git", "git_diff", repo_path=path, target="HEAD~1")
    assert "staged.txt" in await answer(plane, "git", "git_status", repo_path=path)


@pytest.mark.requirement("C-09")
async def test_only_tools_that_read_are_offered(plane: ToolPlane) -> None:
    reading = ["git_branch", "git_diff", "git_diff_staged", "git_diff_unstaged", "git_log", "git_show", "git_status"]
    assert sorted(await offered(plane, "git")) == reading


async def test_another_repository_is_refused(plane: ToolPlane, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    history = await refusal(plane, "git", "git_log", repo_path=str(tmp_path))
    assert "outside" in history
