from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.redaction import LONGEST_TEXT, Redaction

SERVER = McpServerConfig(
    name="s",
    transport="http",
    url="https://user:pass-word@host/mcp?token=query-secret",
    headers={"Authorization": "Bearer header-secret"},
    env={"KEY": "env-secret", "FLAG": "1"},
)


def test_configured_values_do_not_appear() -> None:
    text = Redaction(SERVER).clean("env-secret header-secret pass-word ?token=query-secret flag 1")
    assert text == "*** *** *** ?*** flag 1"


def test_a_text_becomes_one_line_without_control_characters_and_not_too_long() -> None:
    assert Redaction(SERVER).clean("a\n\x1b[1m\tb\x00") == "a [1m b"
    assert len(Redaction(SERVER).clean("x" * 5_000)) == LONGEST_TEXT + 1
