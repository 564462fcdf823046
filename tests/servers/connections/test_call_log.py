"""Every call writes one line to logs/mcp.jsonl, whatever its outcome, and no line contains a secret (T-03)."""

import asyncio
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from tests.servers.connections.peers import (
    BOUND_S,
    LIMIT_S,
    call_record,
    log_records,
    misbehaving,
    overdue,
    plane_of,
    until,
)
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import McpServerConfig
from toolweave.config.settings import Settings
from toolweave.servers.connections import observability
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.observability import MAX_CONTENT_BYTES, LogMode, open_call_log
from toolweave.servers.connections.plane import ToolPlane

IDS: dict[str, Any] = {
    "thread_id": "thread-1",
    "run_id": "run-1",
    "user_id": "user-1",
    "tool_call_id": "call-1",
    "correlation_id": "correlation-1",
}
CONTEXT = CallContext(**IDS)


@asynccontextmanager
async def logged(folder: Path, *servers: McpServerConfig, mode: LogMode = "full") -> AsyncIterator[ToolPlane]:
    """Open a plane that writes its log below `folder`; its servers are ready."""
    async with (
        open_call_log(folder, mode) as observers,
        plane_of(*(servers or [misbehaving()]), observers=observers) as plane,
    ):
        yield plane


async def called(plane: ToolPlane, tool: str, context: CallContext = CONTEXT, **arguments: Any) -> None:
    async with asyncio.timeout(BOUND_S):
        await plane.call("peer", tool, arguments, context)


def log_file(folder: Path) -> Path:
    return folder / "logs" / "mcp.jsonl"


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return the fields of each line."""
    return [json.loads(line)["record"]["extra"] for line in log_file(folder).read_text(encoding="utf-8").splitlines()]


async def calls_until_logged(folder: Path, plane: ToolPlane) -> None:
    """Call until a line is in the file, bounded: the plane checks from time to time whether it can write."""
    async with asyncio.timeout(BOUND_S):
        while not log_file(folder).is_file() or not lines(folder):
            await called(plane, "echo")


@pytest.mark.parametrize(
    ("tool", "arguments", "outcome", "response"),
    [
        ("echo", {"title": "Buy milk"}, "ok", '{"title": "Buy milk"}'),
        ("fail", {}, "tool_error", "the disk is full"),
        ("sleep", {"seconds": 30}, "timeout", "took longer than"),
        ("garbage", {}, "timeout", "took longer than"),
        ("wrong_shape", {}, "protocol", "could not be understood"),
        ("crash", {}, "transport", "broke before it answered"),
        ("image", {}, "ok", "[image]\nand text"),
        ("structured", {}, "ok", '{"total": 3}'),
    ],
)
@pytest.mark.requirement("T-03")
async def test_the_line_of_a_call_is_complete_for_each_outcome(
    tmp_path: Path, tool: str, arguments: dict[str, Any], outcome: str, response: str
) -> None:
    async with logged(tmp_path, misbehaving(timeout_s=LIMIT_S)) as plane:
        calling = called(plane, tool, **arguments)
        await (overdue(plane, calling) if outcome == "timeout" else calling)
    (line,) = lines(tmp_path)
    assert line.items() >= IDS.items()
    assert (line["server"], line["tool"], line["outcome"], line["attempts"]) == ("peer", tool, outcome, 1)
    assert json.loads(line["arguments"]) == arguments
    assert response in line["response"]
    assert (line["reason"] == "") == (outcome in ("ok", "tool_error"))
    assert line["duration_ms"] > 0
    assert datetime.fromisoformat(line["timestamp"]).tzinfo is not None


async def test_a_cancelled_call_and_a_refused_one_without_a_run_have_lines_with_the_same_fields(tmp_path: Path) -> None:
    async with logged(tmp_path) as plane:
        call = asyncio.create_task(called(plane, "sleep", seconds=30))
        await asyncio.sleep(0)
        assert plane.metrics.for_server("peer").in_flight == 1
        call.cancel()
        await asyncio.wait([call])
    async with logged(tmp_path, McpServerConfig(name="peer", transport="stdio", command="/no/such/command")) as plane:
        await until(plane, "down")
        await called(plane, "echo", CallContext())
    cancelled, refused = lines(tmp_path)
    assert list(cancelled) == list(refused)
    assert [refused[name] for name in IDS if name != "correlation_id"] == [None] * 4
    assert (cancelled["outcome"], cancelled["response"], cancelled["arguments"]) == (
        "cancelled",
        None,
        '{"seconds": 30}',
    )
    assert (refused["outcome"], refused["attempts"]) == ("refused", 0)
    assert cancelled["plane"] != refused["plane"]


async def test_no_secret_of_any_source_is_in_the_log(tmp_path: Path) -> None:
    server = misbehaving(env={"PEER_KEY": "env-secret-1"}, secret_values=("filled-secret-1",))
    secrets = {
        "password": "secret-by-its-name",
        "nested": [{"X-Api-Key": "secret-in-a-list"}],
        "note": "with env-secret-1, filled-secret-1 and Bearer by-its-form-123",
        "url": "https://ann:in-the-url@host/?token=in-the-query",
    }
    stream = StringIO()
    configure_logging(Settings(log_level="TRACE"), stream=stream)
    context = CallContext(configurable={"token": "of-the-configurable"})
    async with logged(tmp_path, server) as plane:
        await called(plane, "echo", context, **secrets)
        await called(plane, "env", context)
    written = log_file(tmp_path).read_text(encoding="utf-8")
    assert json.loads(lines(tmp_path)[0]["arguments"])["password"] == "***"
    assert "PEER_KEY" in written
    for secret in (
        *("env-secret-1", "filled-secret-1", "secret-by-its-name", "secret-in-a-list", "by-its-form-123"),
        *("in-the-url", "in-the-query", "of-the-configurable"),
    ):
        assert (secret in written, secret in stream.getvalue()) == (False, False), secret


async def test_a_response_of_twenty_megabytes_does_not_delay_the_log(tmp_path: Path) -> None:
    block = [{"type": "text", "text": "password: hunter2 " * 1_200_000}]
    record = call_record(content=block)
    async with open_call_log(tmp_path, "full") as (observe,):
        for _ in range(100):
            observe(record)
    written = lines(tmp_path)
    assert len(written) == 100
    assert "hunter2" not in str(written)


async def test_long_and_invalid_text_is_cut_and_written_as_readable_lines(tmp_path: Path) -> None:
    long, invalid = "ä" * 5_000, "a\ud800b\n\x00\x1b[1m\u2028{}"
    async with open_call_log(tmp_path, "full") as (observe,):
        observe(call_record(content=[{"type": "text", "text": long}], arguments={"text": long}))
        observe(call_record(content=[{"type": "text", "text": invalid}], arguments={"note": "\udfff"}))
        observe(call_record())
    cut, *others = lines(tmp_path)
    assert len(others) == 2
    for part in (cut["arguments"], cut["response"]):
        assert MAX_CONTENT_BYTES - 3 <= len(part.encode()) <= MAX_CONTENT_BYTES
        assert part.endswith("…")


async def test_the_mode_ids_leaves_contents_out_and_the_mode_off_everything(tmp_path: Path) -> None:
    async with logged(tmp_path / "ids", mode="ids") as plane:
        await called(plane, "echo", title="Buy milk")
    async with logged(tmp_path / "off", mode="off") as plane:
        await called(plane, "echo", title="Buy milk")
    (line,) = lines(tmp_path / "ids")
    assert line.items() >= IDS.items()
    assert "Buy milk" not in log_file(tmp_path / "ids").read_text(encoding="utf-8")
    assert not (tmp_path / "off").exists()


async def test_no_other_sink_has_the_lines_and_a_new_configuration_of_the_log_loses_none(tmp_path: Path) -> None:
    stream = StringIO()
    with log_records() as others:
        async with logged(tmp_path) as plane:
            configure_logging(Settings(log_level="TRACE"), stream=stream)
            await called(plane, "echo", title="Buy milk")
    assert len(lines(tmp_path)) == 1
    assert "Buy milk" not in stream.getvalue() + str(others)
    assert [record["message"] for record in others if record["message"].startswith("MCP call")] != []


async def test_two_planes_write_their_own_calls_into_one_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    folder = tmp_path / "{data}"
    async with logged(folder) as first, logged(folder) as second:
        await called(first, "echo")
        await called(second, "echo")
    [one, other] = lines(folder)
    assert one["plane"] != other["plane"]
    path = log_file(folder)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize(
    ("obstacle", "reason"),
    [
        pytest.param("file", "Not a directory", id="the-folder-cannot-be-made"),
        pytest.param("full-disk", "No space left", id="the-disk-is-full"),
    ],
)
async def test_a_log_that_cannot_be_written_causes_one_warning_and_calls_continue(
    tmp_path: Path, obstacle: str, reason: str
) -> None:
    blocked = tmp_path / "logs" if obstacle == "file" else log_file(tmp_path)
    if obstacle == "file":
        blocked.write_text("a file is in the way", encoding="utf-8")
    else:
        blocked.parent.mkdir()
        blocked.symlink_to("/dev/full")
    with log_records() as records:
        async with logged(tmp_path) as plane:
            await called(plane, "echo")
            await called(plane, "echo")
            assert plane.metrics.for_server("peer").tools["echo"].outcomes["ok"] == 2
            blocked.unlink()
            await calls_until_logged(tmp_path, plane)
    [warning] = [record["message"] for record in records if "cannot be written" in record["message"]]
    assert reason in warning
    assert len(lines(tmp_path)) == 1


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="pipes have one size here")
async def test_after_a_partial_line_the_next_line_is_complete(tmp_path: Path) -> None:
    # A pipe that is full takes half a line, as a full disk does.
    log_file(tmp_path).parent.mkdir()
    os.mkfifo(log_file(tmp_path))
    reader = os.open(log_file(tmp_path), os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    async with logged(tmp_path) as plane:
        await called(plane, "echo", title="x" * 5_000)
        half = os.read(reader, 100_000)
        await called(plane, "echo")
        following = os.read(reader, 100_000)
    os.close(reader)
    assert len(half) == 4096
    assert following.startswith(b"\n{")


async def test_a_log_file_that_was_moved_is_created_again(tmp_path: Path) -> None:
    async with logged(tmp_path) as plane:
        await called(plane, "echo", n=1)
        log_file(tmp_path).rename(tmp_path / "moved")
        await calls_until_logged(tmp_path, plane)
    assert lines(tmp_path)[0]["arguments"] == "{}"
    assert '{\\"n\\": 1}' in (tmp_path / "moved").read_text(encoding="utf-8")


async def test_an_application_that_removes_all_sinks_breaks_no_call(tmp_path: Path) -> None:
    async with logged(tmp_path) as plane:
        logger.remove()
        await called(plane, "echo")
    logger.add(sys.stderr)


async def test_the_file_is_rotated_and_only_the_newest_files_remain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observability, "ROTATION_BYTES", 5_000)
    monkeypatch.setattr(observability, "CHECK_INTERVAL_S", 0.0)
    files: list[Path] = []
    async with open_call_log(tmp_path, "full") as (observe,), asyncio.timeout(BOUND_S):
        while len(files) <= observability.MAX_ROTATED_FILES:
            for _ in range(6):
                observe(call_record(content=[{"type": "text", "text": "x" * 1_000}]))
            await asyncio.sleep(0)
            files = list(log_file(tmp_path).parent.iterdir())
        for _ in range(600):
            observe(call_record(content=[{"type": "text", "text": "x" * 1_000}]))
            await asyncio.sleep(0)
    names = {"mcp.jsonl", *(f"mcp.jsonl.{number}" for number in range(1, observability.MAX_ROTATED_FILES + 1))}
    assert {path.name for path in log_file(tmp_path).parent.iterdir()} == names


@pytest.mark.requirement("T-03")
def test_a_process_that_is_killed_has_written_every_call_that_ended(tmp_path: Path) -> None:
    script = """
import asyncio, os, signal, sys
from pathlib import Path
from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.observability import open_call_log
from toolweave.servers.connections.plane import open_tool_plane

async def main():
    config = McpServerConfig(name="peer", transport="stdio", command=sys.executable, args=(sys.argv[1],))
    async with open_call_log(Path(sys.argv[2]), "full") as observers:
        async with open_tool_plane([config], observers=observers) as plane:
            await plane.wait_for_servers(timeout_s=60)
            for number in range(20):
                await plane.call("peer", "echo", {"n": number}, CallContext())
            os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
    peer = misbehaving().args[0]
    ended = subprocess.run(
        [sys.executable, "-c", script, peer, str(tmp_path)], check=False, capture_output=True, timeout=60
    )
    assert ended.returncode == -9, ended.stderr
    assert [json.loads(line["arguments"])["n"] for line in lines(tmp_path)] == list(range(20))
