"""The served processes' own file: the todo server, this interpreter, this data folder, and the overrides."""

import sys
from pathlib import Path

import pytest
from sqlalchemy import make_url

from toolweave.config.mcp import SHIPPED_MCP_CONFIG, McpConfig, McpServerConfig, find_mcp_config, served_mcp_config
from toolweave.config.settings import load_settings
from toolweave.errors import ConfigError


def todo_of(config: McpConfig) -> McpServerConfig:
    (server,) = (server for server in config.servers if server.name == "todo")
    return server


def test_the_shipped_file_needs_nothing_from_the_environment(tmp_path: Path) -> None:
    config = served_mcp_config(load_settings({}, data_dir=tmp_path), {})
    assert config.warnings == ()
    assert todo_of(config) == McpServerConfig(
        name="todo",
        transport="stdio",
        command=sys.executable,
        args=("-m", "toolweave.servers.todo"),
        env={"TOOLWEAVE_TODO_DATABASE_URL": f"sqlite+aiosqlite:///{tmp_path}/todo.db"},
        prefix="",
        timeout_s=5.0,
    )


@pytest.mark.requirement("D-13")
def test_every_shipped_server_but_ours_is_disabled() -> None:
    config = served_mcp_config(load_settings({}), {})
    assert [server.name for server in config.servers if server.enabled] == ["todo"]


def test_the_file_that_is_named_counts_before_the_one_in_the_data_folder_and_that_before_ours(tmp_path: Path) -> None:
    settings = load_settings({}, data_dir=tmp_path)
    shipped = find_mcp_config(settings)
    assert (shipped.path, shipped.edit_path, shipped.is_shipped) == (SHIPPED_MCP_CONFIG, tmp_path / "mcp.jsonc", True)
    (tmp_path / "mcp.jsonc").write_text('{mcpServers: {mine: {command: "x"}}}', encoding="utf-8")
    assert [server.name for server in served_mcp_config(settings, {}).servers] == ["mine"]
    assert not find_mcp_config(settings).is_shipped
    named = tmp_path / "named.jsonc"
    named.write_text('{mcpServers: {named: {command: "x"}}}', encoding="utf-8")
    both = load_settings({"TOOLWEAVE_MCP_CONFIG": str(named)}, data_dir=tmp_path)
    assert [server.name for server in served_mcp_config(both, {}).servers] == ["named"]
    assert find_mcp_config(both).edit_path == named


def test_a_link_in_the_data_folder_that_leads_nowhere_is_an_error_and_not_our_file(tmp_path: Path) -> None:
    (tmp_path / "mcp.jsonc").symlink_to(tmp_path / "gone.jsonc")
    with pytest.raises(ConfigError, match=r"mcp\.jsonc: the file does not exist"):
        served_mcp_config(load_settings({}, data_dir=tmp_path), {})


@pytest.mark.parametrize("name", ["plain", "with space", "50%20#@:;"])
def test_the_database_is_in_the_data_folder_for_every_folder_name(tmp_path: Path, name: str) -> None:
    config = served_mcp_config(load_settings({}, data_dir=tmp_path / name), {})
    url = make_url(todo_of(config).env["TOOLWEAVE_TODO_DATABASE_URL"])
    assert url.database == str(tmp_path / name / "todo.db")


def test_a_relative_data_folder_is_made_absolute_for_the_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    config = served_mcp_config(load_settings({}), {})
    assert todo_of(config).env["TOOLWEAVE_TODO_DATABASE_URL"].endswith(f"{tmp_path}/.toolweave/todo.db")


def test_settings_decide_over_variables_of_the_same_name(tmp_path: Path) -> None:
    settings = load_settings({}, data_dir=tmp_path, todo_database_url="postgresql+psycopg://h/todos")
    environ = {"TOOLWEAVE_TODO_DATABASE_URL": "sqlite+aiosqlite:///elsewhere.db", "TOOLWEAVE_PYTHON": "/opt/python"}
    todo = todo_of(served_mcp_config(settings, environ))
    assert todo.env == {"TOOLWEAVE_TODO_DATABASE_URL": "postgresql+psycopg://h/todos"}
    assert todo.command == "/opt/python"


@pytest.mark.requirement("T-01")
def test_command_environment_and_time_limit_of_the_todo_server_can_be_overridden() -> None:
    settings = load_settings(
        {
            "TOOLWEAVE_TODO_COMMAND": "'/opt/my server/run' --stdio '{env:LITERAL}'",
            "TOOLWEAVE_TODO_ENV": '{"EXTRA": "{env:LITERAL}", "TOOLWEAVE_TODO_DATABASE_URL": "sqlite://"}',
            "TOOLWEAVE_TODO_TIMEOUT_S": "1.5",
        }
    )
    todo = todo_of(served_mcp_config(settings, {}))
    assert (todo.command, todo.args) == ("/opt/my server/run", ("--stdio", "{env:LITERAL}"))
    assert todo.env == {"EXTRA": "{env:LITERAL}", "TOOLWEAVE_TODO_DATABASE_URL": "sqlite://"}
    assert todo.timeout_s == 1.5


@pytest.mark.requirement("T-01")
def test_a_command_turns_a_remote_todo_server_into_one_over_stdio(tmp_path: Path) -> None:
    file = tmp_path / "mcp.jsonc"
    file.write_text('{servers: {todo: {url: "http://h/mcp", headers: {A: "b"}}, x: {command: "y"}}}', encoding="utf-8")
    settings = load_settings({"TOOLWEAVE_TODO_COMMAND": "run"}, mcp_config=file)
    config = served_mcp_config(settings, {})
    assert todo_of(config) == McpServerConfig(name="todo", transport="stdio", command="run")
    assert [server.name for server in config.servers] == ["todo", "x"]
    assert config.path == file
