"""The plane counts its calls and their outcomes exactly, in bounded memory, readable from any thread."""

import asyncio
import threading

from tests.fixtures.loop_clock import pass_time
from tests.servers.connections.peers import (
    BOUND_S,
    LIMIT_S,
    QUICK,
    call,
    call_record,
    compile_checks,
    misbehaving,
    text_of,
)
from toolweave.servers.connections.observability import (
    LATENCY_BUCKETS_S,
    MAX_ERRORS,
    MAX_LATENCIES,
    MAX_TOOL_NAME_CHARS,
    MAX_TOOL_NAMES,
    OTHER_TOOLS,
    CallMetrics,
    CallRecord,
    LatencyMs,
)
from toolweave.servers.connections.plane import open_tool_plane


def counted(*records: CallRecord) -> CallMetrics:
    metrics = CallMetrics(["peer", "other"])
    for each in records:
        metrics(each)
    return metrics


async def test_calls_are_counted_by_tool_and_outcome_while_and_after_they_run() -> None:
    async with open_tool_plane([misbehaving(timeout_s=LIMIT_S), misbehaving(name="other")], timing=QUICK) as plane:
        await compile_checks(plane)
        slow = asyncio.create_task(call(plane, "sleep", seconds=BOUND_S))
        await asyncio.sleep(0)
        assert plane.metrics.for_server("peer").in_flight == 1
        for tool in ("echo", "echo", "fail", "wrong_shape"):
            await call(plane, tool)
        pass_time(LIMIT_S)
        assert "took longer" in text_of(await slow)
        peer, other = plane.metrics.all_servers().values()
    assert {name: (tool.calls, tool.failures, dict(tool.outcomes)) for name, tool in peer.tools.items()} == {
        "echo": (2, 0, {"ok": 2}),
        "fail": (1, 1, {"tool_error": 1}),
        "wrong_shape": (1, 1, {"protocol": 1}),
        "sleep": (1, 1, {"timeout": 1}),
    }
    assert (peer.in_flight, other.tools) == (0, {})
    assert [(error["tool"], error["outcome"]) for error in peer.errors] == [
        ("fail", "tool_error"),
        ("wrong_shape", "protocol"),
        ("sleep", "timeout"),
    ]


def test_a_cancelled_call_is_no_failure_and_only_attempts_after_the_first_are_retries() -> None:
    peer = counted(call_record(outcome="cancelled", attempts=0)).for_server("peer")
    assert (peer.tools["echo"].calls, peer.tools["echo"].failures, len(peer.errors)) == (1, 0, 0)
    calls = [
        call_record(attempts=2),
        call_record(outcome="transport", attempts=4),
        call_record(outcome="refused", attempts=0),
    ]
    assert counted(*calls).for_server("peer").tools["echo"].retries == 4


def test_the_latency_is_that_of_the_newest_successful_calls() -> None:
    assert counted(call_record(outcome="tool_error")).latency("peer") is None
    metrics = counted(*(call_record(duration_ms=9_999.0) for _ in range(MAX_LATENCIES)))
    assert metrics.latency("peer") == LatencyMs(p50=9_999.0, p99=9_999.0)
    for number in range(MAX_LATENCIES):
        metrics(call_record(duration_ms=float(number)))
        metrics(call_record(duration_ms=70_000.0, outcome="timeout"))
    assert metrics.latency("peer") == LatencyMs(p50=255.0, p99=506.0)
    assert metrics.latency("other") is None


def test_answered_calls_fall_into_the_bucket_of_their_time() -> None:
    times = {0.5: 0, 1.0: 0, 1.1: 1, 60_000.0: len(LATENCY_BUCKETS_S) - 1, 60_001.0: len(LATENCY_BUCKETS_S)}
    for duration_ms, bucket in times.items():
        metrics = counted(call_record(duration_ms=duration_ms), call_record(duration_ms=1.0, outcome="timeout"))
        tool = metrics.for_server("peer").tools["echo"]
        assert (tool.buckets.index(1), sum(tool.buckets), tool.seconds) == (bucket, 1, duration_ms / 1000)


def test_the_numbers_of_tools_and_errors_and_the_length_of_names_are_limited() -> None:
    names = [*(f"tool-{number}" for number in range(MAX_TOOL_NAMES + 5)), "x" * 1_000_000]
    tools = counted(*map(call_record, names)).for_server("peer").tools
    assert len(tools) == MAX_TOOL_NAMES + 1
    assert tools[OTHER_TOOLS].calls == 6
    [name] = counted(call_record("x" * 1_000_000)).for_server("peer").tools
    assert len(name) == MAX_TOOL_NAME_CHARS
    metrics = counted(*(call_record(outcome="timeout", reason=str(n)) for n in range(MAX_ERRORS + 3)))
    errors = metrics.for_server("peer").errors
    assert [error["reason"] for error in errors] == [str(n) for n in range(3, MAX_ERRORS + 3)]


def test_figures_are_read_from_another_thread_while_calls_are_counted() -> None:
    metrics = CallMetrics(["peer"])
    done = threading.Event()
    read: list[int] = []

    def watch() -> None:
        while not done.is_set():
            peer = metrics.for_server("peer")
            read.append(sum(tool.calls for tool in peer.tools.values()))
            peer.latency()

    watcher = threading.Thread(target=watch)
    watcher.start()
    for number in range(5_000):
        metrics(call_record(f"tool-{number % 300}", duration_ms=float(number)))
    done.set()
    watcher.join()
    assert read == sorted(read)
    assert sum(tool.calls for tool in metrics.for_server("peer").tools.values()) == 5_000
