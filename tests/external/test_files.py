"""The filesystem server, which may write in one folder, and the reading half of it on a repository (C-09)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.external.shipped import answer, offered, plane_with, refusal
from toolweave.servers.connections.plane import ToolPlane

pytestmark = [pytest.mark.external, pytest.mark.slow]

SECRET = "not for anybody"
READING = {
    "git-files_directory_tree",
    "git-files_get_file_info",
    "git-files_list_allowed_directories",
    "git-files_list_directory",
    "git-files_list_directory_with_sizes",
    "git-files_read_multiple_files",
    "git-files_read_text_file",
    "git-files_search_files",
}


@pytest.fixture(scope="module")
def folder(module_data_dir: Path) -> Path:
    """Give the folder that may be read and written; beside it lies a file that may not."""
    folder = module_data_dir.parent / "files"
    folder.mkdir()
    (folder / "code.py").write_text("def greet():\n    return 'hello'\n", encoding="utf-8")
    (folder.parent / "secret.txt").write_text(SECRET, encoding="utf-8")
    (folder / "way-out").symlink_to(folder.parent)
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(module_data_dir: Path, folder: Path) -> AsyncIterator[ToolPlane]:
    env = {"FILESYSTEM_FOLDER": str(folder), "GIT_REPOSITORY": str(folder)}
    async with plane_with("filesystem", "git-files", data_dir=module_data_dir, env=env) as plane:
        yield plane


@pytest.mark.requirement("C-09")
async def test_a_file_that_was_written_is_read_back_and_edited(plane: ToolPlane, folder: Path) -> None:
    path = str(folder / "notes.txt")
    await answer(plane, "filesystem", "write_file", path=path, content="Grüße\nfrom a tool\n")
    assert (folder / "notes.txt").read_text(encoding="utf-8") == "Grüße\nfrom a tool\n"
    assert "Grüße" in await answer(plane, "filesystem", "read_text_file", path=path)
    edits = [{"oldText": "a tool", "newText": "an agent"}]
    await answer(plane, "filesystem", "edit_file", path=path, edits=edits)
    assert (folder / "notes.txt").read_text(encoding="utf-8") == "Grüße\nfrom an agent\n"


@pytest.mark.requirement("C-09")
@pytest.mark.parametrize("way", ["../secret.txt", "way-out/secret.txt", "sub/../../secret.txt", "{outside}"])
@pytest.mark.parametrize("server", ["filesystem", "git-files"])
async def test_nothing_outside_the_folder_is_read(plane: ToolPlane, folder: Path, server: str, way: str) -> None:
    path = way.format(outside=folder.parent / "secret.txt") if way == "{outside}" else f"{folder}/{way}"
    text = await refusal(plane, server, "read_text_file", path=path)
    assert "Access denied" in text or "does not exist" in text
    assert SECRET not in text


@pytest.mark.requirement("C-09")
@pytest.mark.parametrize("way", ["../new.txt", "way-out/new.txt"])
async def test_nothing_outside_the_folder_is_written(plane: ToolPlane, folder: Path, way: str) -> None:
    text = await refusal(plane, "filesystem", "write_file", path=f"{folder}/{way}", content="x")
    assert "Access denied" in text
    assert not (folder.parent / "new.txt").exists()


async def test_files_of_a_repository_are_found_and_read(plane: ToolPlane, folder: Path) -> None:
    assert set(await offered(plane, "git-files")) == READING
    found = await answer(plane, "git-files", "search_files", path=str(folder), pattern="*.py")
    assert found.splitlines() == [str(folder / "code.py")]
    assert "def greet" in await answer(plane, "git-files", "read_text_file", path=str(folder / "code.py"))


async def test_of_many_edits_at_once_none_is_lost(plane: ToolPlane, folder: Path) -> None:
    lines = [f"line {number}\n" for number in range(20)]
    (folder / "many.txt").write_text("".join(lines), encoding="utf-8")
    edits = [[{"oldText": line, "newText": line.replace("line", "edited")}] for line in lines]
    path = str(folder / "many.txt")
    await asyncio.gather(*(answer(plane, "filesystem", "edit_file", path=path, edits=each) for each in edits))
    assert (folder / "many.txt").read_text(encoding="utf-8") == "".join(lines).replace("line", "edited")
