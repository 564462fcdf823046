"""What a server logs over MCP is in our log: with its name, in our levels, without secrets, and not without end."""

from typing import Any

import pytest

from tests.servers.connections.peers import QUICK, call, log_records, talkative, text_of
from toolweave.servers.connections.plane import open_tool_plane

Lines = list[dict[str, Any]]


async def logged(*messages: dict[str, Any], **config: Any) -> Lines:
    """Let a server log messages; return the lines for them."""
    with log_records() as records:
        async with open_tool_plane([talkative(**config)], timing=QUICK) as plane:
            assert text_of(await call(plane, "log", server="talk", messages=list(messages))) == "logged"
    return [record for record in records if "mcp_level" in record["extra"]]


@pytest.mark.parametrize(
    ("level", "ours"),
    [
        ("debug", "DEBUG"),
        ("info", "INFO"),
        ("notice", "INFO"),
        ("warning", "WARNING"),
        ("error", "ERROR"),
        ("critical", "ERROR"),
        ("alert", "ERROR"),
        ("emergency", "ERROR"),
    ],
)
async def test_a_message_is_a_line_with_the_servers_name_in_our_level(level: str, ours: str) -> None:
    [line] = await logged({"level": level, "logger": "db", "data": "the disk is nearly full"})
    assert line["level"]["name"] == ours
    assert line["message"] == "MCP server talk db: the disk is nearly full"
    assert (line["extra"]["server"], line["extra"]["mcp_level"]) == ("talk", level)


async def test_each_message_is_one_short_line_without_secrets() -> None:
    lines = await logged(
        {"level": "info", "data": {"rows": [1, 2], "key": "hunter2-secret"}},
        {"level": "info", "data": "x" * 1_000_000},
        {"level": "info", "logger": "\x1b[31m" + "l" * 10_000, "data": "two\nlines\x1b[2J"},
        {"level": "info", "data": None},
        env={"KEY": "hunter2-secret"},
    )
    texts = [line["message"] for line in lines]
    assert texts[0].startswith('MCP server talk: {"rows": [1, 2], "key": "')
    assert "hunter2" not in texts[0]
    assert max(map(len, texts)) < 800
    assert texts[2].endswith("l: two lines")
    assert texts[3] == "MCP server talk: null"
    assert not any("\x1b" in text for text in texts)


async def test_a_flood_is_limited_and_messages_of_an_unknown_level_are_dropped() -> None:
    lines = await logged(*[{"level": "info", "data": f"line {number}"} for number in range(5_000)])
    assert 50 <= len(lines) < 500
    assert await logged({"level": "loud", "data": "?"}, {"data": "no level"}) == []


async def test_our_log_level_is_requested_from_a_server_that_logs() -> None:
    async with open_tool_plane([talkative()], timing=QUICK) as plane:
        while (level := text_of(await call(plane, "requested_level", server="talk"))) == "None":
            pass
    assert level == "info"


async def test_no_log_level_is_requested_from_a_server_without_logging() -> None:
    async with open_tool_plane([talkative("--no-logging")], timing=QUICK) as plane:
        assert text_of(await call(plane, "requested_level", server="talk")) == "None"


async def test_no_part_of_a_secret_is_logged_at_any_position_of_a_message() -> None:
    secret = "hunter2-and-a-long-tail-of-letters"
    lines = await logged(
        {"level": "info", "logger": f"db {secret}", "data": "named"},
        *({"level": "info", "data": "x" * length + " " + secret} for length in range(460, 620, 10)),
        env={"KEY": secret},
    )
    assert len(lines) == 17
    assert lines[0]["message"] == "MCP server talk db ***: named"
    assert "hunt" not in "".join(line["message"] for line in lines)
