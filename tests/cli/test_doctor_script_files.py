"""`toolweave doctor` on the two files that script jobs read (A-05)."""

from pathlib import Path
from typing import Any

import pytest

from toolweave.cli.doctor import CHECKS, catch_errors, diagnose
from toolweave.config.settings import Settings


def said(**settings: Any) -> list[str]:
    names = ("script settings", "script servers")
    found = [finding for name in names for finding in catch_errors(name, CHECKS[name](Settings(**settings)))]
    return [f"{finding.level} {finding.subject}: {finding.text}" for finding in found]


def test_nothing_is_said_where_no_file_is_named() -> None:
    assert said() == []


def test_files_that_can_be_used_are_named_with_the_servers_they_enable(tmp_path: Path) -> None:
    settings, mcp = tmp_path / "script.yaml", tmp_path / "mcp.jsonc"
    settings.write_text("language: de", encoding="utf-8")
    mcp.write_text('{"servers": {"a": {"command": "x"}, "b": {"command": "{env:NO}", "enabled": false}}}', "utf-8")

    assert said(config_path=settings, mcp_config_path=mcp, model="offline") == [
        f"ok script settings: {settings}.",
        f"ok script servers: {mcp} enables a.",
    ]


def test_both_files_that_script_jobs_would_fail_by_are_named(tmp_path: Path) -> None:
    settings, mcp = tmp_path / "script.yaml", tmp_path / "mcp.jsonc"
    settings.write_text("sections: {min: 0}", encoding="utf-8")
    mcp.write_text('{"servers": {"a": {"command": "{env:NO_SUCH_VARIABLE}"}}}', "utf-8")

    assert said(config_path=settings, mcp_config_path=mcp) == [
        f"fail script settings: CONFIG_PATH ({settings}:1): sections.min must be at least 1.",
        f"fail script servers: MCP_CONFIG_PATH ({mcp}): environment variable NO_SUCH_VARIABLE is not set.",
    ]


def test_settings_whose_model_nobody_serves_are_told(tmp_path: Path) -> None:
    settings = tmp_path / "script.yaml"
    settings.write_text("model: some/model", encoding="utf-8")

    [line] = said(config_path=settings)

    assert line == "fail script settings: settings: The model is 'some/model', but no endpoint is configured."


def test_doctor_makes_this_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFIG_PATH", str(tmp_path / "gone"))
    monkeypatch.setenv("TOOLWEAVE_MCP_CONFIG", str(tmp_path / "none.jsonc"))

    found = {finding.subject: finding for finding in diagnose(None, tmp_path)}

    assert found["script settings"].level == "fail"
    assert found["script settings"].fix == "Create it or correct the path."
