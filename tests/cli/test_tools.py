"""`toolweave tools`: what the configured MCP servers offer, and why one does not."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.command import MCP_SERVER, Ended, toolweave, write_mcp_file
from toolweave.config.mcp_editing import ready_made_servers

SERVERS = {
    "good": {"command": sys.executable, "args": [str(MCP_SERVER)], "tools": {"include": ["echo", "pid"]}},
    "off": {"command": "never-run", "enabled": False},
    "unset": {"command": "{env:ABSENT_VARIABLE}", "env": {"KEY": "very-secret"}},
    "missing": {"command": "no-such-command-anywhere"},
}
TODO = {
    "todo": {**ready_made_servers()["todo"].raw, "approve": ["update_*"]},
    "missing": {"command": "no-such-command-anywhere"},
}


def test_every_enabled_server_is_listed_with_its_tools_or_its_error(tmp_path: Path) -> None:
    write_mcp_file(tmp_path, SERVERS)
    ended = toolweave("tools", "--config", "mcp.jsonc", cwd=tmp_path)
    assert ended.code == 1
    places = [
        ended.stdout.index(text) for text in ("good ready 2 tools in ", "good_pid()", "unset misc", "missing down")
    ]
    assert places == sorted(places)
    assert "ABSENT_VARIABLE" in ended.stdout
    assert "no-such-command-anywhere" in ended.stdout
    assert "very-secret" not in ended.stdout + ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mcp.jsonc"]


@pytest.mark.requirement("U-02")
def test_a_call_converts_arguments_by_the_schema_and_prints_the_result(tmp_path: Path) -> None:
    created = call(tmp_path, "todo.create_todo", "title=7", 'tags=["a"]')
    assert (created.code, created.stderr) == (0, "")
    assert (json.loads(created.stdout)["data"]["title"], json.loads(created.stdout)["data"]["tags"]) == ("7", ["a"])
    listed = call(tmp_path, "todo.list_todos", "status=active", "--json", '{"limit": 1}')
    assert [todo["title"] for todo in json.loads(listed.stdout)["data"]] == ["7"]


@pytest.mark.requirement("U-02")
@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("tood.list_todos",), "there is no server 'tood'. Did you mean 'todo'?"),
        (("todo.lst_todos",), "todo has no tool 'lst_todos'. Did you mean 'list_todos'?"),
        (("todo",), "todo has no tool ''. Known: create_todo, "),
        (("todo.list_todos", "limt=1"), "list_todos has no argument 'limt'. Did you mean 'limit'?"),
        (("todo.list_todos", "limit"), "'limit' is not an argument: write KEY=VALUE."),
        (("todo.list_todos", "limit=many"), "The call failed: The call of 'list_todos' was not sent, "),
        (("todo.list_todos", "--json", "[1]"), "--json takes a JSON object, such as '{\"key\": 1}'"),
        (("todo.delete_todo", "id=9"), "The call failed: "),
        # It requires approval in a graph; here the user's own command is the approval.
        (("todo.update_todo", "id=1"), "The call failed: "),
        (("missing.x",), "missing is down: "),
    ],
)
def test_a_call_that_cannot_be_made_ends_with_one_line_and_code_one(
    args: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    ended = call(tmp_path, *args)
    assert (ended.code, ended.stdout) == (1, "")
    assert expected in ended.paragraph


def call(folder: Path, *args: str) -> Ended:
    return toolweave("call", *args, cwd=folder, env=write_mcp_file(folder, TODO))
