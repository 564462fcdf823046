"""Errors in the terminal: one line each, named after what is wrong."""

import pytest

from toolweave.cli.main import error_message
from toolweave.errors import ConfigError, Conflict, FetchFailed, NewerSchema, ServerUnavailable, ToolweaveError


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            ConfigError("is missing.", source="mcp.jsonc", fix="Create it."),
            "Configuration error: mcp.jsonc: is missing. Create it.",
        ),
        (NewerSchema("app.db is newer.\nUpgrade."), "Database too new: app.db is newer. Upgrade."),
        (Conflict("busy"), "Request refused: busy"),
        (ServerUnavailable("todo is down.", server="todo"), "MCP server error: todo is down."),
        (FetchFailed("It said: \x1b[2J\u202eno\x9b1m 蜂."), "Fetch failed: It said: �[2J�no�1m 蜂."),
    ],
)
def test_an_error_of_ours_is_one_line_under_the_nearest_headline(error: ToolweaveError, line: str) -> None:
    assert error_message(error) == line
