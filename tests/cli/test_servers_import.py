"""`toolweave servers import`: the servers that Claude, Cursor and VS Code have configured."""

import json
import sys
from pathlib import Path
from typing import Any

import json5
import pytest

from tests.cli.command import MCP_SERVER, Ended, terminal, toolweave

pytestmark = pytest.mark.requirement("U-02")
SECRET = "s3cr3t-9f8e7d"
OWN = Path(".toolweave") / "mcp.jsonc"
FAULTY = {"command": sys.executable, "args": [str(MCP_SERVER)]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write a home folder and a project with a file of each client."""
    folder = tmp_path / "project"
    state = {"numStartups": 1, "userID": "x", "tipsHistory": {}, "cachedChangelog": "x" * 300_000}
    mine: dict[str, Any] = {
        "notion": {"type": "http", "url": f"https://n.example/mcp?key={SECRET}", "headers": {"X-API-Key": SECRET}},
        "my db": {"type": "stdio", "command": "npx", "args": ["${DB_URL:-sqlite}", "A:${A}"], "env": {"A": "${TOKEN}"}},
    }
    local = {"tool": {"command": "./bin/tool", "args": []}}
    files = {
        "home/.claude.json": {**state, "mcpServers": mine, "projects": {str(folder): {"mcpServers": local}}},
        "home/.config/Claude/claude_desktop_config.json": {"mcpServers": {"memory": {"command": "npx"}}},
        "home/.cursor/mcp.json": {"mcpServers": {"web": {"url": "https://w.example/sse"}, "bad": {"url": "x"}}},
        "project/.cursor/mcp.json": {"mcpServers": {"web": {"command": "${workspaceFolder}/web", "envFile": "x"}}},
        "project/.vscode/mcp.json": {
            "servers": {"ask": {"command": "a", "env": {"K": "${input:api-key}", "HOME": "${env:H}"}}}
        },
        "home/.config/Code/User/mcp.json": None,
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content) if content else "{ broken", encoding="utf-8")
    return folder


def import_servers(folder: Path, *args: str) -> Ended:
    return toolweave("servers", "import", *args, cwd=folder, env={"HOME": str(folder.parent / "home")})


def entries(folder: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json5.loads((folder / OWN).read_text(encoding="utf-8"))["mcpServers"]
    return found


def test_the_servers_of_all_clients_are_shown_and_added_without_secrets(project: Path) -> None:
    shown = import_servers(project)
    assert shown.code == 1
    assert "use --yes" in shown.paragraph
    assert [line.split()[:2] for line in shown.stdout.splitlines()] == [
        ["notion", "new"],
        ["my-db", "new"],
        ["tool", "new"],
        ["memory", "new"],
        ["web", "new"],
        ["web", "exists,"],
        ["bad", "invalid"],
        ["ask", "new"],
        ["mcp.json", "invalid"],
    ]
    assert not (project / OWN).exists()
    ended = import_servers(project, "--yes", "--no-check")
    assert ended.code == 0, ended.stderr
    assert f"notion: the header X-API-Key is a literal value in {OWN}" in ended.stderr
    assert "It needs TOKEN: set that in .env or in the environment." in ended.stdout
    assert "It needs API_KEY, H: set that in .env or in the environment." in ended.stdout
    assert SECRET not in shown.stdout + ended.stdout + ended.stderr
    added = entries(project)
    assert added["my-db"]["args"] == ["{env:DB_URL:-sqlite}", "A:${A}"]
    assert added["my-db"]["env"] == {"A": "{env:TOKEN}"}
    assert added["tool"]["command"] == f"{project}/bin/tool"
    assert added["memory"] == {"command": "npx"}  # instead of the disabled ready-made one
    assert added["web"] == {"command": f"{project}/web"}
    assert added["ask"]["env"] == {"K": "{env:API_KEY}", "HOME": "{env:H}"}
    assert added["todo"]["prefix"] == ""
    again = import_servers(project, "cursor", "--yes")
    assert (again.code, again.stdout.splitlines()[-1]) == (0, "There is nothing to add.")
    assert entries(project) == added


def test_an_added_server_is_checked_and_gets_no_prefix_if_its_tools_begin_with_its_name(tmp_path: Path) -> None:
    huge = {**FAULTY, "tools": {"include": ["huge_*"]}}
    (tmp_path / "mine.json").write_text(
        json.dumps({"huge": huge, "any": FAULTY, "gone": {"command": "no-such-program"}}), encoding="utf-8"
    )
    with terminal("servers", "import", "mine.json", cwd=tmp_path) as asked:
        asked.read_until("[y/N]")
        output = asked.send("y", until="restarted")
    assert "  huge_id_last, huge_unknown\r\n" in output
    assert "any_echo" in output
    assert "no-such-program was not found" in output
    added = entries(tmp_path)
    assert [added[name].get("prefix") for name in ("huge", "any", "gone")] == ["", None, None]


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("cursr", None, "there is no client or file 'cursr'. Did you mean 'cursor'?"),
        ("mine.json", '{"mcpServers": {', "mine.json:1: not valid JSON5"),
        ("mine.json", '{"other": 1}', "No servers were found for mine.json.\nThere is nothing to add.\n"),
        ("mine.json", '{"mcpServers": [1], "projects": 5}', "No servers were found for mine.json."),
        ("vscode", None, "No servers were found for vscode."),
    ],
)
def test_a_source_without_servers_changes_nothing(
    source: str, text: str | None, expected: str, elsewhere: Path
) -> None:
    if text is not None:
        (elsewhere / "mine.json").write_text(text, encoding="utf-8")
    ended = import_servers(elsewhere, source, "--yes")
    assert expected in ended.stdout + ended.stderr
    assert not (elsewhere / OWN).exists()
