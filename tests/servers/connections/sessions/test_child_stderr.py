"""The standard error of a server is read and logged in bounded memory, without secrets and without stalls."""

import asyncio
import json
import resource

import pytest

from tests.servers.connections.faulty import NEVER_S
from tests.servers.connections.peers import BOUND_S, QUICK, call, log_records, misbehaving, text_of
from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.plane import open_tool_plane
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.sessions.monitor import SessionMonitor
from toolweave.servers.connections.sessions.stdio import MAX_STDERR_LINE_BYTES, ChildStderr, LogRateLimit

SECRET = "hunter2hunter2"


def reader(budget: LogRateLimit | None = None) -> ChildStderr:
    config = McpServerConfig(name="peer", transport="stdio", env={"KEY": SECRET})
    return ChildStderr(SessionMonitor("peer", Redaction(config)), budget or LogRateLimit())


def messages(records: list[dict[str, object]]) -> list[str]:
    return [str(record["message"]) for record in records]


@pytest.mark.parametrize("kind", ["lines", "line", "bytes"])
async def test_a_flood_on_stderr_delays_no_call_and_fills_neither_memory_nor_log(kind: str) -> None:
    with log_records() as records:
        async with open_tool_plane([misbehaving(timeout_s=NEVER_S)], timing=QUICK) as plane:
            await call(plane, "echo")
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            shouting = asyncio.create_task(call(plane, "shout", kind=kind, megabytes=30, end="the last words"))
            while not shouting.done():
                assert text_of(await call(plane, "echo", number=1)) == json.dumps({"number": 1})
            assert not (await shouting).isError
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
    lines = [line for line in messages(records) if line.startswith("peer: ")]
    assert len(lines) < 2_000
    if kind == "lines":
        assert "earlier lines were skipped)" in str(lines)


@pytest.mark.parametrize("cut", range(len(SECRET) + 5))
async def test_a_secret_that_comes_in_two_reads_is_hidden(cut: int) -> None:
    text = f"key {SECRET} end\n".encode()
    with log_records() as records:
        stderr = reader()
        stderr.data_received(text[:cut])
        stderr.data_received(text[cut:])
        stderr.connection_lost(None)
    assert messages(records) == ["peer: key *** end"]


@pytest.mark.parametrize("overhang", range(0, len(SECRET) + 2, 3))
async def test_a_secret_at_the_cut_of_a_long_line_is_hidden(overhang: int) -> None:
    with log_records() as records:
        stderr = reader()
        stderr.data_received(b" " * (MAX_STDERR_LINE_BYTES - len(SECRET) + overhang) + SECRET.encode())
        stderr.data_received(SECRET.encode() * 5_000)
        stderr.data_received(b"\nnext\n")
        stderr.connection_lost(None)
    assert not [line for line in messages(records) if "unter" in line or "2h" in line]
    assert messages(records)[-1] == "peer: next"
    assert "unter" not in stderr.tail


async def test_a_secret_of_several_lines_is_hidden_line_by_line() -> None:
    secret = "-----BEGIN THING-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END THING-----"
    config = McpServerConfig(name="peer", transport="stdio", env={"KEY": secret})
    with log_records() as records:
        stderr = ChildStderr(SessionMonitor("peer", Redaction(config)), LogRateLimit())
        stderr.data_received(f"bad key: {secret}\n".encode())
        stderr.connection_lost(None)
    assert not [line for line in messages(records) if "MIIE" in line or "hkiG" in line]


async def test_the_last_lines_are_stored_although_they_exceed_the_log_limit() -> None:
    stderr = reader(LogRateLimit(burst=1, per_s=0))
    with log_records() as records:
        stderr.data_received(b"".join(b"line %d\n" % number for number in range(10)) + b"no end")
        stderr.connection_lost(None)
    assert messages(records) == ["peer: line 0"]
    assert stderr.tail == "line 6 | line 7 | line 8 | line 9 | no end"


def test_a_budget_admits_a_burst_and_then_so_many_a_second() -> None:
    now = [0.0]
    budget = LogRateLimit(burst=3, per_s=2, clock=lambda: now[0])
    assert [budget.admit() for _ in range(5)] == ["", "", "", None, None]
    now[0] = 1.0
    assert [budget.admit() for _ in range(3)] == [" (2 earlier lines were skipped)", "", None]
    now[0] = 1_000.0
    assert [budget.admit() for _ in range(4)] == [" (1 earlier lines were skipped)", "", "", None]


async def test_a_line_of_several_pieces_is_logged_as_one() -> None:
    with log_records() as records:
        async with open_tool_plane([misbehaving(env={"KEY": SECRET})], timing=QUICK) as plane:
            async with asyncio.timeout(BOUND_S):
                await call(plane, "whisper", pieces=["the key ", SECRET[:5], SECRET[5:], " is bad\n"])
    assert "peer: the key *** is bad" in messages(records)
