"""`toolweave doctor`: every check, with what to do, and never a secret."""

import asyncio
import socket
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.command import MCP_SERVER, SAMPLE_APP, Ended, serving, toolweave, write_mcp_file
from tests.fixtures.openai_wire import WireTurn, openai_wire
from tests.servers.registry.tools import opened, tool
from toolweave.cli.doctor import catch_errors, check_model, check_schema
from toolweave.config.settings import Settings, load_settings
from toolweave.tool_config import ToolConfig

SECRET = "sk-very-secret"


def test_where_all_is_well_every_line_is_ok_and_nothing_is_left_behind(elsewhere: Path) -> None:
    good = {"command": sys.executable, "args": [str(MCP_SERVER)]}
    off = {"command": "{env:ABSENT}", "enabled": False}
    ended = doctor(elsewhere, {"off": off, "good": good, "idle": off})
    assert ended.code == 0, ended.stdout
    assert {line.split()[0] for line in ended.stdout.splitlines()} == {"ok"}
    for subject in ("settings:", "langgraph.json:", "graphs: todo_agent", "model:", "mcp.jsonc:", "server good:"):
        assert f"ok   {subject}" in ended.stdout
    assert "\nok   disabled servers: off, idle.\n" in ended.stdout
    assert f"mcp.jsonc: {elsewhere}/mcp.jsonc (set by TOOLWEAVE_MCP_CONFIG, --mcp or --config)." in ended.stdout
    assert "data folder: the first server will create .toolweave" in ended.stdout
    assert [path.name for path in elsewhere.iterdir()] == ["mcp.jsonc"]


def test_one_run_finds_every_problem_with_its_fix(elsewhere: Path) -> None:
    (elsewhere / "langgraph.json").write_text(
        '{"graphs": {"a": "./absent.py:a"}, "http": {"app": "json:dumps"}, "grahps": 1}', encoding="utf-8"
    )
    (elsewhere / ".toolweave").write_text("a file", encoding="utf-8")
    servers = {
        "unset": {"command": "{env:ABSENT}"},
        "missing": {"command": "no-such-command"},
        "files": {"command": "{env:TOOLWEAVE_DATA_DIR}/servers/node_modules/.bin/mcp-server-filesystem"},
    }
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        env = {"TOOLWEAVE_PORT": port, "TOOLWEAVE_MODLE": SECRET, "OPENAI_API_KEY": SECRET, "TOOLWEAVE_MODEL": ""}
        ended = doctor(elsewhere, servers, **env, CONFIG_PATH="absent.yaml", TOOLWEAVE_FILE_ROOTS="absent")
    assert ended.code == 1
    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    for beginning in (
        "warn langgraph.json: ",
        "warn settings: the environment variable TOOLWEAVE_MODLE (did you mean TOOLWEAVE_MODEL?)",
        f"fail graphs: {elsewhere}/langgraph.json: graph 'a': cannot load",
        "fail http.app: ",
        "fail model: settings: OPENAI_API_KEY or OPENAI_BASE_URL is set, but no model",
        "fail server unset: misconfigured: environment variable ABSENT",
        "     → Set ABSENT in .env or in the environment.",
        "fail server missing: down: ",
        "fail server files: down: ",
        "     → Install it: toolweave servers add filesystem",
        "fail script settings: CONFIG_PATH ",
        "     → Create it or correct the path.",
        "warn file roots: TOOLWEAVE_FILE_ROOTS names the folder 'absent', which cannot be opened",
        "fail data folder: .toolweave is not a folder",
        f"fail address: port {port} is already in use",
    ):
        assert any(line.startswith(beginning) for line in lines), (beginning, ended.stdout)
    assert SECRET not in ended.stdout


def test_a_setting_of_the_wrong_form_ends_the_checks_that_need_the_settings(elsewhere: Path) -> None:
    ended = toolweave("doctor", "--config", "absent.json", cwd=elsewhere, env={"TOOLWEAVE_PORT": "abc"})
    assert ended.code == 1
    assert "fail langgraph.json: absent.json: the file does not exist." in ended.stdout
    assert "fail settings: settings: TOOLWEAVE_PORT must be a whole number." in ended.stdout


def test_a_running_server_is_no_failure(tmp_path: Path) -> None:
    arguments = ("--config", str(SAMPLE_APP), "--data-dir", str(tmp_path / "data"))
    with serving(*arguments, cwd=tmp_path) as server:
        env = {"TOOLWEAVE_PORT": server.url.rpartition(":")[2]}
        ended = doctor(tmp_path, {}, *arguments, **env)
        assert f"is in use by process {server.pid}" in ended.stdout
    assert ended.code == 0, ended.stdout
    assert f"warn address: a server is already running at {server.url}." in ended.stdout
    assert "app.db has the current schema" in ended.stdout


@pytest.mark.parametrize(
    ("turn", "level", "expected"),
    [(WireTurn(), "ok", "answers"), (WireTurn(status=401), "fail", "rejects the key (401)")],
)
def test_doctor_sends_the_key_to_the_endpoint_of_the_model(turn: WireTurn, level: str, expected: str) -> None:
    with openai_wire([turn]) as endpoint:
        environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": SECRET, "TOOLWEAVE_MODEL": "m"}
        chosen, reached = check_model(load_settings(environ))
        assert endpoint.requests[0].path == "/v1/models"
        assert endpoint.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert chosen.text == f"m at {endpoint.base_url}, because OPENAI_BASE_URL is set."
    assert reached.level == level
    assert expected in reached.text
    assert SECRET not in repr((chosen, reached))


@pytest.mark.parametrize("key", [SECRET, "kéy", "line\nfeed"])
def test_an_endpoint_that_cannot_be_reached_fails_and_shows_neither_key_nor_password(key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://user:password@127.0.0.1:{unused.getsockname()[1]}/v1"
    environ = {"OPENAI_BASE_URL": url, "TOOLWEAVE_MODEL": "m", "OPENAI_API_KEY": key}
    chosen, reached = check_model(load_settings(environ))
    assert (reached.level, reached.fix is not None) == ("fail", True)
    assert "cannot be reached" in reached.text
    assert key not in repr((chosen, reached))
    assert "password" not in repr((chosen, reached))


@pytest.mark.requirement("D-3")
def test_the_offline_model_is_fine_when_meant_and_worth_a_warning_when_not() -> None:
    assert [finding.level for finding in check_model(Settings(model="offline"))] == ["ok"]
    (unmeant,) = check_model(Settings())
    assert unmeant.level == "warn"
    assert "OPENROUTER_API_KEY" in str(unmeant.fix)


@pytest.mark.parametrize(
    ("revision", "level", "expected"),
    [("9999", "fail", "newer version of Toolweave: it has schema '9999'"), (None, "fail", "cannot be read")],
)
def test_a_database_that_cannot_be_used_is_found_without_touching_it(
    revision: str | None, level: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "app.db"
    if revision is None:
        path.write_bytes(b"no database at all" * 100)
    else:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
            connection.execute("INSERT INTO alembic_version VALUES (?)", [revision])
    before = path.read_bytes()
    finding = list(catch_errors("database", check_schema(Settings(data_dir=tmp_path))))[-1]
    assert (finding.subject, finding.level) == ("database", level)
    assert expected in finding.text
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["app.db"]


def test_registered_tools_that_cannot_be_called_are_named_with_the_reason(elsewhere: Path) -> None:
    shown = {"type": "bearer", "value": "{env:TOOL_SHOP_KEY}"}
    absent = {"type": "bearer", "value": "{env:TOOL_ABSENT}"}
    forbidden = {"type": "bearer", "value": "{env:PATH}"}
    register(
        elsewhere / ".toolweave",
        tool("open"),
        tool("paid", auth=shown),
        *(tool(f"unset_{n}", auth=absent) for n in range(5)),
        tool("foreign", auth=forbidden),
        tool("inside", base_url="http://10.0.0.7:8080"),
    )
    ended = doctor(elsewhere, {}, TOOL_SHOP_KEY=SECRET)
    assert ended.code == 0, ended.stdout
    lines = [
        line.partition("registered tools: ")[2] for line in ended.stdout.splitlines() if "registered tools: " in line
    ]
    assert lines[0] == "9 in the tool registry."
    assert [line.partition(" cannot be called: ")[0] for line in lines[1:]] == [
        "foreign",
        "inside",
        "unset_0, unset_1, unset_2 and 2 more",
    ]
    for line, reason in zip(
        lines[1:], ("PATH", "10.0.0.7 is a private address", "TOOL_ABSENT is not set"), strict=True
    ):
        assert reason in line
    assert SECRET not in ended.stdout


def test_a_file_that_is_no_tool_registry_fails_and_no_registry_is_created(elsewhere: Path) -> None:
    folder = elsewhere / ".toolweave"
    folder.mkdir()
    (folder / "tools.db").write_bytes(b"no database at all" * 100)
    ended = doctor(elsewhere, {})
    assert ended.code == 1
    assert "fail registered tools: Cannot open the tool registry" in ended.stdout
    ended = doctor(elsewhere, {}, TOOLWEAVE_TOOLS_DATABASE_URL=f"sqlite:///{elsewhere}/other.db")
    assert "registered tools" not in ended.stdout
    assert not (elsewhere / "other.db").exists()


def register(folder: Path, *tools: ToolConfig) -> None:
    async def write() -> None:
        async with opened(folder) as registry:
            await registry.import_all(tools, on_conflict="error")

    asyncio.run(write())


def doctor(folder: Path, servers: Mapping[str, object], *args: str, **env: str) -> Ended:
    return toolweave("doctor", *args, cwd=folder, env={**write_mcp_file(folder, servers), "TOOLWEAVE_PORT": "0", **env})
