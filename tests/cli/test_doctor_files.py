"""`toolweave doctor` on the folders that the core tools may read."""

from pathlib import Path

import pytest

from toolweave.cli.doctor import catch_errors, check_file_roots, diagnose
from toolweave.config.settings import Settings


def said(settings: Settings) -> list[str]:
    found = catch_errors("file roots", check_file_roots(settings))
    return [f"{finding.level} {finding.subject}: {finding.text}" for finding in found]


def test_nothing_is_said_where_no_folder_is_named() -> None:
    assert said(Settings()) == []


def test_folders_that_are_there_are_named(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    found = said(Settings(file_roots=(str(tmp_path / "docs"), str(tmp_path))))
    assert found == [f"ok file roots: docs, {tmp_path.name}."]


def test_each_folder_that_cannot_be_used_and_a_wrong_rule_are_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = Settings(file_roots=(str(tmp_path / "gone"), str(tmp_path / "file"), str(tmp_path)), file_ignore=("!",))
    assert [line.removeprefix("warn file roots: ") for line in said(settings)] == [
        "TOOLWEAVE_FILE_ROOTS names the folder 'gone', which cannot be opened: No such file or directory.",
        "TOOLWEAVE_FILE_ROOTS names the folder 'file', which cannot be opened: Not a directory.",
        "fail file roots: settings: TOOLWEAVE_FILE_IGNORE contains an invalid pattern.",
    ]


def test_our_own_data_folder_is_told(tmp_path: Path) -> None:
    (finding,) = said(Settings(file_roots=(str(tmp_path),), data_dir=tmp_path))
    assert finding.endswith(f"the folder '{tmp_path.name}', which is Toolweave's own data folder.")


def test_doctor_makes_this_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLWEAVE_FILE_ROOTS", str(tmp_path / "gone"))
    monkeypatch.setenv("TOOLWEAVE_MCP_CONFIG", str(tmp_path / "none.jsonc"))
    assert "file roots" in {finding.subject for finding in diagnose(None, tmp_path)}
