"""A file is rewritten whole or not at all, and of two edits at once none is lost."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolweave.config.documents import MAX_CONFIG_BYTES
from toolweave.config.mcp_editing import create_file, edit_file
from toolweave.errors import ConfigError


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_edit_preserves_mode_byte_order_mark_line_ends_and_link(tmp_path: Path) -> None:
    file, link = tmp_path / "real" / "mcp.jsonc", tmp_path / "mcp.jsonc"
    file.parent.mkdir()
    file.write_bytes("\ufeff{\r\n}\r\n".encode())
    file.chmod(0o640)
    link.symlink_to(file)
    assert edit_file(link, lambda text: text.replace("{", "{ä"))
    assert file.read_bytes() == "\ufeff{ä\r\n}\r\n".encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert link.is_symlink()
    assert not edit_file(link, str)
    assert names_in(file.parent) == ["mcp.jsonc"]


def test_edits_at_once_follow_each_other(tmp_path: Path) -> None:
    file = tmp_path / "mcp.jsonc"

    def add(number: int) -> bool:
        return create_file(file, "") | edit_file(file, lambda text: f"{text}{number}\n")

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(add, range(40)))
    assert sorted(map(int, file.read_text(encoding="utf-8").split())) == list(range(40))
    assert names_in(tmp_path) == ["mcp.jsonc"]


def test_a_file_is_made_once_for_its_owner_only_with_the_folder_to_it(tmp_path: Path) -> None:
    file = tmp_path / "data" / "mcp.jsonc"
    assert create_file(file, "first")
    assert not create_file(file, "second")
    assert file.read_text(encoding="utf-8") == "first"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_failed_edit_names_the_file_and_leaves_it_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "mcp.jsonc"
    file.write_text("{}", encoding="utf-8")

    def refuse(_: str) -> str:
        raise ConfigError("is not liked.", fix="Write another.")

    latin = tmp_path / "latin.jsonc"
    latin.write_bytes(b"\xe4")
    for path, reason in [
        (tmp_path / "absent.jsonc", "cannot be written (No such file or directory)."),
        (tmp_path, "cannot be written (Is a directory)."),
        (file / "below", "cannot be written (Not a directory)."),
        (latin, "is not UTF-8 text."),
        (file, "is not liked. Write another."),
    ]:
        with pytest.raises(ConfigError) as raised:
            edit_file(path, refuse)
        assert str(raised.value).startswith(f"{path}: {reason}")
    with pytest.raises(ConfigError, match="larger than 256 KiB"):
        edit_file(file, lambda text: text + " " * MAX_CONFIG_BYTES)
    with pytest.raises(ConfigError, match="cannot be written"):
        create_file(file / "below" / "mcp.jsonc", "{}")
    assert file.read_text(encoding="utf-8") == "{}"
    assert names_in(tmp_path) == ["latin.jsonc", "mcp.jsonc"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_is_read_only_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "mcp.jsonc"
    file.write_text("{}", encoding="utf-8")
    file.chmod(0o400)
    with pytest.raises(ConfigError, match="it is read-only"):
        edit_file(file, lambda _: "other")
    assert file.read_text(encoding="utf-8") == "{}"
