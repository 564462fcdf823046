"""The operator's folders: which they are, how paths name them, and the error of a folder that cannot be used."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.servers.core.files.file_client import SECRET, FileClient, file_client, tree
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError
from toolweave.servers.core.files.tools import FileTools


async def test_several_roots_begin_paths_with_their_names(root: Path, tmp_path: Path) -> None:
    other = tree(tmp_path / "other", {"readme.md": "The other one.\n", "src/x.py": "x"})
    async with file_client(root, other) as files:
        assert await files.read("root/readme.md") == "# Title\n\nHello world.\n"
        assert await files.read("other/readme.md") == "The other one.\n"
        assert await files.read(str(other / "readme.md")) == "The other one.\n"
        assert await files.paths("readme.md") == ["root/readme.md", "other/readme.md"]
        assert await files.paths("other/**/*.py") == ["other/src/x.py"]
        assert await files.paths("*.py", directory="other") == ["other/src/x.py"]
        assert await files.paths("src/*.py", directory="other") == ["other/src/x.py"]
        assert await files.paths("other", content=True) == ["other/readme.md"]
        for path in ("readme.md", "outside/secret.txt", "../readme.md", "root/../other/readme.md", "other/../../x"):
            error = await files.refusal("read_file", path=path)
            assert error["code"] == "forbidden_path"
            assert error["suggestion"] == "Begin the path with one of: root, other."
        assert await files.code(".") == "invalid_parameter"


async def test_a_link_may_lead_from_one_root_into_another(root: Path, tmp_path: Path) -> None:
    other = tree(tmp_path / "other", {"x.txt": "x"})
    (root / "absolute.txt").symlink_to(other / "x.txt")
    (root / "relative.txt").symlink_to("../other/x.txt")
    async with file_client(root, other) as files:
        answer = await files.call("read_file", path="root/absolute.txt")
        assert answer["data"] == {"path": "other/x.txt", "content": "x"}
        assert await files.code("root/relative.txt") == "forbidden_path"
    async with file_client(root) as files:
        assert await files.code("absolute.txt") == "forbidden_path"


async def test_roots_of_one_name_get_different_names_and_a_root_within_another_is_searched_once(tmp_path: Path) -> None:
    first = tree(tmp_path / "a/docs", {"1.txt": "", "inner/2.txt": ""})
    second = tree(tmp_path / "b/docs", {"3.txt": ""})
    async with file_client(first, second, first / "inner", f"{first}/") as files:
        assert await files.paths("*.txt") == ["docs/1.txt", "docs/inner/2.txt", "docs-2/3.txt"]
        assert await files.read("docs-2/3.txt") == ""
        assert await files.read("inner/2.txt") == ""
        assert (await files.call("read_file", path=str(first / "inner/2.txt")))["data"]["path"] == "inner/2.txt"


async def test_absolute_paths_within_a_root_are_taken_and_never_answered(root: Path, files: FileClient) -> None:
    for path in (f"{root}/readme.md", f"/{root}//./readme.md", f"{root}/docs/../readme.md"):
        assert (await files.call("read_file", path=path))["data"]["path"] == "readme.md"
    assert await files.paths("*.md", directory=str(root / "docs")) == ["docs/deep/er/notes.md", "docs/setup.md"]
    assert await files.code(f"{root}-other/x") == "forbidden_path"
    assert await files.code(f"{root}/../root/readme.md") == "forbidden_path"


async def test_a_root_may_itself_be_a_link_and_is_known_by_both_places(root: Path, tmp_path: Path) -> None:
    (tmp_path / "entry").symlink_to(root)
    (root / "back.md").symlink_to(root / "readme.md")
    (root / "around.md").symlink_to(tmp_path / "entry/readme.md")
    async with file_client(tmp_path / "entry") as files:
        for path in ("readme.md", str(root / "readme.md"), str(tmp_path / "entry/readme.md"), "back.md", "around.md"):
            assert (await files.call("read_file", path=path))["data"]["path"] == "readme.md"


async def test_relative_roots_are_taken_from_where_the_server_was_started(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with file_client("root", "./root/../root") as files:
        monkeypatch.chdir("/")
        assert await files.read("readme.md") == "# Title\n\nHello world.\n"


async def test_a_root_that_cannot_be_used_is_named_and_the_others_go_on(root: Path, tmp_path: Path) -> None:
    tree(tmp_path, {"file": SECRET})
    async with file_client(tmp_path / "absent", root, tmp_path / "file") as files:
        error = await files.refusal("read_file", path="absent/x")
        assert error["code"] == "not_configured"
        assert (
            error["message"]
            == "TOOLWEAVE_FILE_ROOTS names the folder 'absent', which cannot be opened: No such file or directory."
        )
        error = await files.refusal("search_files", pattern="*", directory="file")
        assert (
            error["message"] == "TOOLWEAVE_FILE_ROOTS names the folder 'file', which cannot be opened: Not a directory."
        )
        answer = await files.search("*.md", limit=1)
        assert answer["data"][0]["path"] == "root/docs/deep/er/notes.md"
        answer = await files.search("main.*")
        assert [match["path"] for match in answer["data"]] == ["root/src/main.py"]
        assert answer["metadata"]["unusable_roots"] == ["absent", "file"]
        tree(tmp_path / "absent", {"late.txt": "now"})
        assert await files.read("absent/late.txt") == "now"


async def test_a_root_that_goes_away_is_an_error_and_works_again_when_it_is_back(
    root: Path, tmp_path: Path, files: FileClient
) -> None:
    moved = tmp_path / "moved"
    await asyncio.to_thread(root.rename, moved)
    for tool, arguments in (("read_file", {"path": "readme.md"}), ("search_files", {"pattern": "*"})):
        error = await files.refusal(tool, **arguments)
        assert error["code"] == "not_configured"
        assert str(tmp_path) not in str(error)
    await asyncio.to_thread(moved.rename, root)
    assert await files.read("readme.md") == "# Title\n\nHello world.\n"


@pytest.mark.parametrize("rule", ["!", "\\"])
def test_an_invalid_ignore_rule_is_an_error_of_its_setting(rule: str) -> None:
    with pytest.raises(ConfigError, match="TOOLWEAVE_FILE_IGNORE") as caught:
        FileTools(Settings(file_ignore=(rule,)))
    assert os.linesep not in str(caught.value)
