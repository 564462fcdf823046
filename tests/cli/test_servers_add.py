"""`toolweave servers add` and `remove`: ready-made servers by name, others by URL or command."""

import json
import sys
from pathlib import Path

import json5
import pytest

from tests.cli.command import MCP_SERVER, Ended, toolweave
from toolweave.config.mcp import SHIPPED_MCP_CONFIG
from toolweave.config.mcp_editing import ready_made_servers, shipped_config_text

SECRET = "s3cr3t-9f8e7d"
OWN = Path(".toolweave") / "mcp.jsonc"
MINE = """// mine
{
  "mcpServers": {
    // the first one
    "first": {"command": "run", "enabled": false}, // off
  },
}
"""


def servers(folder: Path, *args: str, **env: str) -> Ended:
    return toolweave("servers", *args, cwd=folder, env={"TOOLWEAVE_PORT": "0", "TOOLWEAVE_TOKEN_STORE": "file", **env})


def entries(file: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json5.loads(file.read_text(encoding="utf-8"))["mcpServers"]
    return found


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Write a file of one's own into the data folder."""
    file = tmp_path / OWN
    file.parent.mkdir()
    file.write_text(MINE, encoding="utf-8")
    return file


@pytest.mark.requirement("C-09")
def test_a_name_adds_a_ready_made_server_and_the_output_names_missing_variables(tmp_path: Path) -> None:
    ended = servers(tmp_path, "add", "brave", "--no-install")
    assert ended.code == 0, ended.stderr
    assert ended.stdout.splitlines()[:-1] == [
        f"brave is enabled in {OWN}.",
        "It needs BRAVE_API_KEY: set that in .env or in the environment.",
        "Its program is not installed yet: toolweave servers add brave",
    ]
    assert f"Created {OWN}" in ended.stderr
    text = (tmp_path / OWN).read_text(encoding="utf-8")
    before = shipped_config_text()
    assert text.count("\n") == before.count("\n")
    assert {name for name, entry in entries(tmp_path / OWN).items() if entry.get("enabled", True)} == {"todo", "brave"}
    result = json.loads(servers(tmp_path, "add", "brave", "--no-install", "--json", BRAVE_API_KEY=SECRET).stdout)
    assert (result["changed"], result["missing"], result["installed"], result["check"]) == (False, [], False, None)
    assert (tmp_path / OWN).read_text(encoding="utf-8") == text
    assert SHIPPED_MCP_CONFIG.read_text(encoding="utf-8") == before


def test_a_ready_made_server_comes_into_a_file_of_ones_own_and_goes_again_without_a_trace(mine: Path) -> None:
    folder = mine.parents[1]
    assert servers(folder, "add", "time", "--no-install").code == 0
    assert mine.read_text(encoding="utf-8").startswith(MINE.removesuffix("  },\n}\n"))
    assert entries(mine)["time"] == {**ready_made_servers()["time"].raw, "enabled": True}
    assert servers(folder, "remove", "time", "--keep-entry").stdout.startswith(f"time is disabled in {OWN}.\n")
    assert entries(mine)["time"]["enabled"] is False
    assert servers(folder, "remove", "time").stdout.startswith(f"time is removed from {OWN}.\n")
    assert mine.read_text(encoding="utf-8") == MINE
    assert servers(folder, "add", "first", "--no-check").code == 0
    assert mine.read_text(encoding="utf-8") == MINE.replace("false", "true")


def test_without_a_name_the_ready_made_servers_are_listed_with_what_they_need(tmp_path: Path) -> None:
    lines = servers(tmp_path, "add").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(ready_made_servers())
    assert ready_made_servers()["todo"].description in lines[0]
    (brave,) = (line for line in lines if line.startswith("brave "))
    assert ready_made_servers()["brave"].description in brave
    assert "needs BRAVE_API_KEY" in brave
    rows = {row["name"]: row for row in json.loads(servers(tmp_path, "add", "--json", BRAVE_API_KEY="x").stdout)}
    assert rows["brave"]["missing"] == []
    assert not (tmp_path / ".toolweave").exists()


def test_any_program_is_added_and_started_at_once(mine: Path) -> None:
    command = (sys.executable, str(MCP_SERVER))
    ended = servers(mine.parents[1], "add", "any", "--env", "NAME={env:HOME}", "--", *command)
    assert ended.code == 0, ended.stderr
    first, second, third, _ = ended.stdout.splitlines()
    assert first == f"any is enabled in {OWN}."
    assert second.startswith("any ready ")
    assert "any_echo" in third
    assert entries(mine)["any"] == {"command": command[0], "args": [command[1]], "env": {"NAME": "{env:HOME}"}}


def test_a_server_that_does_not_start_is_added_and_shown_as_down(mine: Path) -> None:
    ended = servers(mine.parents[1], "add", "gone", "--json", "--", "./no-such-program", "-x")
    assert ended.code == 1
    result = json.loads(ended.stdout)
    assert (result["name"], result["changed"], result["check"]["state"]) == ("gone", True, "down")
    assert "no-such-program was not found" in result["check"]["reason"]
    assert result["check"]["fix"]
    # The file is in another folder than the person is.
    assert entries(mine)["gone"] == {"command": f"{mine.parents[1]}/no-such-program", "args": ["-x"]}


def test_a_remote_server_is_added_with_references_and_a_literal_secret_is_warned_of_without_showing_it(
    mine: Path,
) -> None:
    folder = mine.parents[1]
    header = ("--header", "Authorization: Bearer {env:TOKEN}", "--header", "X-Team=a=b")
    ended = servers(folder, "add", "remote", "--url", "https://mcp.example/sse", *header)
    assert ended.code == 0, ended.stderr
    assert ended.stdout.splitlines()[1:-1] == ["It needs TOKEN: set that in .env or in the environment."]
    assert ended.stderr == ""
    assert entries(mine)["remote"] == {
        "url": "https://mcp.example/sse",
        "headers": {"Authorization": "Bearer {env:TOKEN}", "X-Team": "a=b"},
    }
    literal = ("--header", f"X-API-Key={SECRET}", "--transport", "http", "--replace", "--no-check")
    ended = servers(folder, "add", "remote", "--url", f"https://u:{SECRET}@mcp.example/mcp", *literal)
    assert ended.code == 0, ended.stderr
    assert [line.partition(" is a literal value")[0] for line in ended.stderr.splitlines()] == [
        "remote: the header X-API-Key",
        "remote: the password in the URL",
    ]
    assert SECRET not in ended.stdout + ended.stderr
    assert list(entries(mine)) == ["first", "remote"]
    ended = servers(folder, "add", "signed", "--url", "https://mcp.example/mcp", "--oauth")
    assert ended.stdout.splitlines()[1:-1] == ["Sign in to it: toolweave servers login signed"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("add", "brvae"), "there is no server 'brvae'. Did you mean 'brave'?"),
        (("add", "first", "--", "x"), "a server 'first' exists already. Choose another name, or use --replace."),
        (("add", "first", "--replace"), "'first' is not a ready-made server. Use --url or a command."),
        (("add", "a b", "--", "x"), "'a b' is not a name for a server."),
        (("add", "metrics", "--", "x"), "'metrics' is not a name for a server"),
        (("add", "x", "--url", "ftp://h/"), "server 'x': url must be an http:// or https:// URL"),
        (("add", "x", "--url", "https://h/", "--transport", "stdio"), "which needs a command"),
        (("add", "x", "--url", "https://h/", "--", "run"), "--url and a command exclude each other."),
        (("add", "x", "--url", "https://h/", "--env", "A=b"), "--env goes with a command"),
        (("add", "x", "--header", "A=b", "--", "run"), "--header and --oauth go with --url"),
        (("add", "x", "--env", "A", "--", "run"), "--env takes NAME=VALUE."),
        (("add", "time", "--header", "A=b"), "--header, --env, --transport and --oauth go with --url"),
        (("remove", "frist"), "there is no server 'frist'. Did you mean 'first'?"),
        (("remove", "time"), "there is no server 'time'. Add it: toolweave servers add time."),
        (("check", "frist"), "there is no server 'frist'. Did you mean 'first'?"),
        (("tools", "zzz"), "there is no server 'zzz'. Known: first."),
    ],
)
def test_an_invalid_command_is_refused_in_one_line_without_a_change_of_the_file(
    args: tuple[str, ...], expected: str, mine: Path
) -> None:
    ended = servers(mine.parents[1], *args)
    assert ended.code == 1
    assert expected in ended.paragraph
    assert mine.read_text(encoding="utf-8") == MINE
    assert [path.name for path in mine.parent.iterdir()] == ["mcp.jsonc"]


def test_a_file_that_is_wrong_already_is_not_edited(mine: Path) -> None:
    broken = MINE.replace('"run"', '"run" "twice"')
    mine.write_text(broken, encoding="utf-8")
    ended = servers(mine.parents[1], "add", "time", "--no-install")
    assert ended.code == 1
    assert f"{OWN}:5: not valid JSON5" in ended.paragraph
    assert mine.read_text(encoding="utf-8") == broken


def test_the_output_says_that_a_running_server_needs_a_restart(tmp_path: Path) -> None:
    (tmp_path / "named.jsonc").write_text("{mcpServers: {}}", encoding="utf-8")
    named = ("--config", "named.jsonc")
    added = servers(tmp_path, "add", "any", "--no-check", *named, "--", "run")
    removed = json.loads(servers(tmp_path, "remove", "any", "--json", *named).stdout)
    assert "restarted" in added.stdout.splitlines()[-1]
    assert "restarted" in removed["restart"]
