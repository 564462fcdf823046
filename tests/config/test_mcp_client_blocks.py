"""Configuration blocks of Claude Desktop, Cursor and VS Code work as they are pasted."""

from pathlib import Path

import pytest

from toolweave.config.mcp import McpServerConfig, load_mcp_config
from toolweave.config.mcp_editing import with_enabled
from toolweave.errors import ConfigError

CLAUDE_DESKTOP = """
{
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/me/Desktop"]
    },
    "brave-search": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-brave-search"],
      "env": { "BRAVE_API_KEY": "abc" }
    }
  }
}
"""

CURSOR = """
{
  // .cursor/mcp.json
  "mcpServers": {
    "local": { "type": "stdio", "command": "python", "args": ["${env:SERVER_FILE}"], "env": { "KEY": "${env:KEY}" } },
    "remote": { "url": "https://api.example.com/mcp", "headers": { "Authorization": "Bearer ${env:KEY}" } },
    "old": { "url": "http://localhost:3000/sse" },
  },
}
"""

VS_CODE = """
{
  "inputs": [ { "type": "promptString", "id": "api-key", "description": "API key", "password": true } ],
  "servers": {
    "github": { "type": "http", "url": "https://api.githubcopilot.com/mcp/" },
    "perplexity": {
      "type": "stdio",
      "command": "docker",
      "args": ["run", "-i", "--rm", "mcp/perplexity"],
      "env": { "API_KEY": "${input:api-key}" }
    },
    "playwright": { "command": "npx", "args": ["-y", "@playwright/mcp@latest"] }
  }
}
"""

CLAUDE_CODE = """
{
  "numStartups": 7, "userID": "u", "tipsHistory": {}, "projects": {},
  "mcpServers": {
    "api": { "type": "http", "url": "${BASE_URL:-https://api.example.com}/mcp", "headers": { "X": "Bearer ${KEY}" } },
    "db": { "type": "stdio", "command": "npx", "args": ["--header", "A:${A}"], "env": { "A": "${KEY}" } }
  }
}
"""

pytestmark = pytest.mark.requirement("A-06")


def pasted(folder: Path, text: str, **environ: str) -> dict[str, McpServerConfig]:
    file = folder / "mcp.jsonc"
    file.write_text(text, encoding="utf-8")
    config = load_mcp_config(file, environ)
    assert [warning for warning in config.warnings if "keys of another program" not in warning] == []
    return {server.name: server for server in config.servers}


def test_a_block_of_claude_desktop_is_read(tmp_path: Path) -> None:
    servers = pasted(tmp_path, CLAUDE_DESKTOP)
    assert {server.transport for server in servers.values()} == {"stdio"}
    assert servers["filesystem"].args[-1] == "/Users/me/Desktop"
    assert servers["brave-search"].env == {"BRAVE_API_KEY": "abc"}


def test_a_block_of_cursor_is_read_and_its_variables_filled_in(tmp_path: Path) -> None:
    servers = pasted(tmp_path, CURSOR, SERVER_FILE="server.py", KEY="k")
    assert servers["local"].args == ("server.py",)
    assert servers["local"].env == {"KEY": "k"}
    assert servers["remote"].transport == "http"
    assert servers["remote"].headers == {"Authorization": "Bearer k"}
    assert servers["old"].transport == "sse"


def test_a_block_of_vs_code_is_read_and_only_the_server_with_an_input_is_misconfigured(tmp_path: Path) -> None:
    servers = pasted(tmp_path, VS_CODE)
    assert servers["github"].transport == "http"
    assert servers["playwright"].transport == "stdio"
    reason = servers["perplexity"].misconfigured
    assert reason is not None
    assert "${input:api-key}" in reason
    assert [name for name, server in servers.items() if server.misconfigured] == ["perplexity"]


@pytest.mark.requirement("U-02")
def test_a_file_of_claude_code_is_read_and_its_variables_filled_in_but_for_arguments(tmp_path: Path) -> None:
    servers = pasted(tmp_path, CLAUDE_CODE, KEY="k")
    assert (servers["api"].url, servers["api"].headers) == ("https://api.example.com/mcp", {"X": "Bearer k"})
    assert (servers["db"].args, servers["db"].env) == (("--header", "A:${A}"), {"A": "k"})
    [warning] = load_mcp_config(tmp_path / "mcp.jsonc", {}).warnings
    assert warning.endswith("mcp.jsonc: 4 keys of another program are ignored")


@pytest.mark.requirement("U-02")
def test_a_block_without_an_outer_key_is_read_but_not_edited(tmp_path: Path) -> None:
    text = '{"db": {"command": "npx"}, "web": {"url": "https://h.example/mcp"}}'
    assert list(pasted(tmp_path, text)) == ["db", "web"]
    with pytest.raises(ConfigError, match=r'Write {"mcpServers": {…}} around its servers'):
        with_enabled(text, "db", enabled=False)
