"""`toolweave servers check` and `tools`: servers are started for a moment; `list` shows what each lacks."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.cli.command import MCP_SERVER, Ended, toolweave, write_mcp_file
from tests.fixtures.mcp_server import free_port
from tests.outbound.peers import always, certificates, serving, text
from toolweave.cli.servers.state import tool_signature
from toolweave.config.mcp_editing import ready_made_servers

GOOD = {"command": sys.executable, "args": [str(MCP_SERVER)], "tools": {"include": ["echo", "pid"]}}
SERVERS = {
    "good": GOOD,
    "off": {**GOOD, "enabled": False},
    "unset": {"command": "{env:ABSENT_VARIABLE}"},
    "missing": {"command": "no-such-command-anywhere"},
    "files": {"command": "{env:TOOLWEAVE_DATA_DIR}/servers/node_modules/.bin/mcp-server-filesystem"},
}


def servers(folder: Path, *args: str) -> Ended:
    write_mcp_file(folder, SERVERS)
    return toolweave("servers", *args, "--config", "mcp.jsonc", cwd=folder)


@pytest.mark.requirement("C-09")
def test_enabled_servers_are_started_and_one_that_does_not_come_up_says_what_to_do(tmp_path: Path) -> None:
    ended = servers(tmp_path, "check")
    assert ended.code == 1
    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("good ready 2 tools in ")
    assert lines[0].endswith(" ms")
    assert lines[1] == "  good_echo, good_pid"
    assert lines[2].startswith("unset misconfigured ")
    assert lines[3] == "  → Set ABSENT_VARIABLE in .env or in the environment."
    assert lines[4].startswith("missing down ")
    assert lines[6].startswith("files down ")
    assert lines[7] == "  → Install it: toolweave servers add filesystem"
    assert [path.name for path in tmp_path.iterdir()] == ["mcp.jsonc"]


def test_a_variable_with_a_value_that_a_server_cannot_use_is_named_with_its_error_output(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    lines = "import sys; sys.exit('there is no folder ' + sys.argv[1])"
    entry = {"command": "{env:TOOLWEAVE_PYTHON}", "args": ["-c", lines, "{env:WORK_FOLDER}"]}
    env = {**write_mcp_file(tmp_path, {"work": entry}), "WORK_FOLDER": str(absent)}
    ended = toolweave("servers", "check", "--config", "mcp.jsonc", cwd=tmp_path, env=env)
    state, fix = ended.stdout.splitlines()
    assert state.startswith("work down ")
    assert state.endswith(f"there is no folder {absent}")
    assert fix.startswith("  → Correct the value of WORK_FOLDER, its command or URL in mcp.jsonc, or disable it ")


async def test_a_server_that_is_down_has_a_hint_that_fits_the_cause(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        refusing = await stack.enter_async_context(serving(always(text("401 Unauthorized"))))
        without_path = await stack.enter_async_context(serving(always(text("404 Not Found"))))
        untrusted = await stack.enter_async_context(serving(always(text()), certificates(tmp_path, "127.0.0.1")[0]))
        causes = {
            "absent-program": ({"command": "no-such-command-anywhere"}, "Install this program, or correct `command`."),
            "absent-folder": ({**GOOD, "cwd": "/no/such/folder"}, "Correct its `cwd`."),
            "no-file": ({"command": str(tmp_path / "mcp.jsonc")}, "Make this file executable, or correct `command`."),
            "refusing": (
                {"url": f"http://127.0.0.1:{refusing.port}"},
                'Correct its `headers`, or write "auth": "oauth" and use `toolweave servers login`.',
            ),
            "without-path": ({"url": f"http://127.0.0.1:{without_path.port}"}, "Correct the path of its `url`."),
            "untrusted": ({"url": f"https://127.0.0.1:{untrusted.port}"}, "Set SSL_CERT_FILE (for Node.js "),
            "own-text": (
                {"command": sys.executable, "args": ["-c", "exit('config was not found; HTTP 404; no certificate')"]},
                "Correct its command or URL in ",
            ),
            "nobody": ({"url": f"http://127.0.0.1:{free_port()}"}, "Start this server, or correct the host and port "),
        }
        env = write_mcp_file(tmp_path, {name: entry for name, (entry, _) in causes.items()})
        ended = await asyncio.to_thread(toolweave, "servers", "check", "--json", cwd=tmp_path, env=env)
    fixes = {each["name"]: each["fix"] for each in json.loads(ended.stdout)}
    assert [name for name, (_, hint) in causes.items() if not fixes[name].startswith(hint)] == [], fixes
    assert fixes["nobody"].endswith(f" Its entry is in {tmp_path / 'mcp.jsonc'}.")


def test_servers_that_are_named_are_started_even_if_they_are_disabled(tmp_path: Path) -> None:
    ended = servers(tmp_path, "check", "off", "unset", "--json")
    assert ended.code == 1
    off, unset = json.loads(ended.stdout)
    assert (off["name"], off["state"], off["fix"], len(off["tools"])) == ("off", "ready", None, 2)
    assert off["ready_ms"] > 0
    assert (unset["name"], unset["state"], unset["missing"]) == ("unset", "misconfigured", ["ABSENT_VARIABLE"])
    assert servers(tmp_path, "check", "off").code == 0


def test_tools_are_listed_with_their_parameters_or_their_schemas(tmp_path: Path) -> None:
    ended = toolweave("servers", "tools", "todo", cwd=tmp_path)
    assert ended.code == 0, ended.stderr
    assert ended.stdout.startswith("todo ready 5 tools in ")
    assert "  delete_todo(id: integer)" in ended.stdout.splitlines()
    (good,) = json.loads(servers(tmp_path, "tools", "good", "--json").stdout)
    assert [tool["name"] for tool in good["tools"]] == ["good_echo", "good_pid"]
    assert good["tools"][0]["input_schema"]["type"] == "object"


def test_the_list_says_what_each_server_lacks_and_which_ones_can_be_added(tmp_path: Path) -> None:
    lines = servers(tmp_path, "list").stdout.splitlines()
    assert lines[1].split()[:3] == ["off", "disabled", "stdio"]
    assert lines[2].split()[1] == "misconfigured"
    assert "(environment variable ABSENT_VARIABLE is not set" in lines[2]
    assert lines[4].endswith("not installed: toolweave servers add files)")
    listed = json.loads(servers(tmp_path, "list", "--json").stdout)
    assert [each["name"] for each in listed if each["configured"]] == list(SERVERS)
    added = {each["name"]: each for each in listed if not each["configured"]}
    assert list(added) == list(ready_made_servers())
    assert (added["brave"]["missing"], added["brave"]["installed"]) == (["BRAVE_API_KEY"], False)
    (brave,) = (line for line in lines if line.startswith("brave "))
    assert brave.split()[1:4] == ["can", "be", "added"]
    assert "(needs BRAVE_API_KEY" in brave
    assert lines[-1] == "Add one: toolweave servers add NAME"


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({}, "f()"),
        (
            {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]},
            "f(a: string, b?: integer)",
        ),
        ({"properties": {"a": {"type": ["string", "null"]}, "b": True, "c": {}}, "required": "a"}, "f(a?, b?, c?)"),
        ({"properties": [1], "required": 3}, "f()"),
    ],
)
def test_a_tools_parameters_are_written_on_a_line_whatever_its_schema_holds(
    schema: dict[str, object], written: str
) -> None:
    assert tool_signature("f", schema) == written
