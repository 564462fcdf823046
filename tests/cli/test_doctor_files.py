"""`toolweave doctor` on the folders that the core tools may read, and on the two files that script jobs read (A-05)."""

from pathlib import Path
from typing import Any

from toolweave.cli.doctor import CHECKS, catch_errors
from toolweave.config.settings import Settings


def findings(*checks: str, **settings: Any) -> list[str]:
    """Run these checks; return a line for each finding."""
    found = [finding for name in checks for finding in catch_errors(name, CHECKS[name](Settings(**settings)))]
    return [f"{finding.level} {finding.subject}: {finding.text}" for finding in found]


def script_findings(**settings: Any) -> list[str]:
    return findings("script settings", "script servers", **settings)


def test_folders_and_files_that_are_not_configured_have_no_line() -> None:
    assert findings("file roots") == script_findings() == []


def test_readable_folders_are_listed(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    found = findings("file roots", file_roots=(str(tmp_path / "docs"), str(tmp_path)))
    assert found == [f"ok file roots: docs, {tmp_path.name}."]


def test_each_unusable_folder_and_an_invalid_ignore_pattern_have_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    roots = (str(tmp_path / "gone"), str(tmp_path / "file"), str(tmp_path))
    found = findings("file roots", file_roots=roots, file_ignore=("!",))
    assert [line.removeprefix("warn file roots: ") for line in found] == [
        "TOOLWEAVE_FILE_ROOTS names the folder 'gone', which cannot be opened: No such file or directory.",
        "TOOLWEAVE_FILE_ROOTS names the folder 'file', which cannot be opened: Not a directory.",
        "fail file roots: settings: TOOLWEAVE_FILE_IGNORE contains an invalid pattern.",
    ]
    (own,) = findings("file roots", file_roots=(str(tmp_path),), data_dir=tmp_path)
    assert own.endswith(f"the folder '{tmp_path.name}', which is Toolweave's own data folder.")


def test_usable_script_files_are_listed_with_the_servers_that_they_enable(tmp_path: Path) -> None:
    settings, mcp = tmp_path / "script.yaml", tmp_path / "mcp.jsonc"
    settings.write_text("language: de", encoding="utf-8")
    mcp.write_text('{"servers": {"a": {"command": "x"}, "b": {"command": "{env:NO}", "enabled": false}}}', "utf-8")

    assert script_findings(config_path=settings, mcp_config_path=mcp, model="offline") == [
        f"ok script settings: {settings}.",
        f"ok script servers: {mcp} enables a.",
    ]


def test_script_files_with_errors_and_a_model_without_an_endpoint_fail(tmp_path: Path) -> None:
    settings, mcp = tmp_path / "script.yaml", tmp_path / "mcp.jsonc"
    settings.write_text("sections: {min: 0}", encoding="utf-8")
    mcp.write_text('{"servers": {"a": {"command": "{env:NO_SUCH_VARIABLE}"}}}', "utf-8")
    assert script_findings(config_path=settings, mcp_config_path=mcp) == [
        f"fail script settings: CONFIG_PATH ({settings}:1): sections.min must be at least 1.",
        f"fail script servers: MCP_CONFIG_PATH ({mcp}): environment variable NO_SUCH_VARIABLE is not set.",
    ]

    settings.write_text("model: some/model", encoding="utf-8")
    assert script_findings(config_path=settings) == [
        "fail script settings: settings: The model is 'some/model', but no endpoint is configured."
    ]
