"""Measure, at the plane's own pace, how long faults cost a caller and how soon a server is used again (D-5, T-06)."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from tests.servers.connections.faulty import TRANSPORTS, Faulty, faulty
from tests.servers.connections.peers import call, failure_kind, misbehaving_http, open_files, pid_of, until
from toolweave.config.mcp_entry import Transport
from toolweave.servers.connections.plane import open_tool_plane
from toolweave.servers.connections.status import DEFAULT_TIMING

pytestmark = [pytest.mark.slow]

DEADLINE_S = 5.0
IDLE_CONNECTIONS_S = 10.0
"""Connections that carried cancellations stay open for three seconds, and are checked with the next ping."""


@dataclass(frozen=True)
class Figure:
    """How long something took, and how long it may, in seconds."""

    event: str
    bound_s: float
    took_s: float
    least_s: float = 0.0

    def is_within_bounds(self) -> bool:
        return self.least_s <= self.took_s <= self.bound_s


async def took(work: Awaitable[object]) -> float:
    begun = time.perf_counter()
    await work
    return time.perf_counter() - begun


@asynccontextmanager
async def at_its_pace(transport: Transport, *behave: str, timeout_s: float = DEADLINE_S) -> AsyncIterator[Faulty]:
    # First connections wait for a loaded machine; every other interval is the real one.
    timing = replace(DEFAULT_TIMING, connect_wait_s=20.0)
    async with faulty(transport, *behave, timeout_s=timeout_s, timing=timing) as peer:
        await peer.call("echo")
        await asyncio.sleep(DEFAULT_TIMING.stable_s)
        yield peer


async def dies_in_a_call(transport: Transport) -> list[Figure]:
    async with at_its_pace(transport, timeout_s=600) as peer:
        waiting = [asyncio.create_task(peer.call("wait")) for _ in range(20)]
        await peer.call("entered", calls=20)
        pid = await pid_of(peer.plane)
        begun = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        results = await asyncio.gather(*waiting)
        answered = time.perf_counter() - begun
        assert {failure_kind(result) for result in results} == {"transport"}
        figures = [Figure("dies in 20 open calls: all are answered", 0.1, answered)]
        if peer.remote is not None:
            await peer.remote.kill()
            await until(peer.plane, "down")
            await asyncio.sleep(DEFAULT_TIMING.reconnect_delays_s[-1])
            figures.append(Figure("known to be down: a call is refused", 1.0, await took(peer.call("echo"))))
            await peer.remote.start()
            begun = time.perf_counter()
        await peer.recovered()
        return [*figures, Figure("is back: calls are served again", 3.0, time.perf_counter() - begun)]


async def dies_while_idle(transport: Transport) -> list[Figure]:
    async with at_its_pace(transport) as peer:
        pid = await pid_of(peer.plane)
        begun = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        await until(peer.plane, "down")
        bound_s = 1.0 if transport == "stdio" else 3.0
        figures = [Figure("dies while nobody calls: shows as down", bound_s, time.perf_counter() - begun)]
        if peer.remote is not None:
            await peer.remote.kill()
            await peer.remote.start()
            begun = time.perf_counter()
        await peer.recovered()
        return [*figures, Figure("is back after that: calls are served again", 3.0, time.perf_counter() - begun)]


async def dies_without_a_sign(transport: Transport) -> list[Figure]:
    """Over HTTP without a stream of the server's own messages, only the ping detects the end."""
    if transport != "http":
        return []
    async with misbehaving_http() as server, open_tool_plane([server.config]) as plane:
        await plane.wait_for_servers(timeout_s=20)
        await call(plane, "echo")
        begun = time.perf_counter()
        os.kill(server.pid, signal.SIGKILL)
        await until(plane, "down")
        return [Figure("dies while nobody calls or listens: shows as down", 3.0, time.perf_counter() - begun)]


async def is_slow(transport: Transport) -> list[Figure]:
    async with at_its_pace(transport) as peer:
        slow = Figure("a slow tool is cut", 5.5, await took(peer.call("sleep", seconds=600)), DEADLINE_S - 0.05)
        lost = Figure("an answer nobody can match is given up", 5.5, await took(peer.call("wrong_id")))
        pid = await pid_of(peer.plane)
        os.kill(pid, signal.SIGSTOP)
        frozen = Figure("a frozen server's call is cut", 5.5, await took(peer.call("echo")))
        os.kill(pid, signal.SIGCONT)
        begun = time.perf_counter()
        await peer.recovered()
        return [slow, lost, frozen, Figure("is no longer frozen: calls are served", 3.0, time.perf_counter() - begun)]


async def exhausts_retries(transport: Transport) -> list[Figure]:
    async with at_its_pace(transport) as peer:
        failing = peer.call("crash_read") if transport == "stdio" else peer.call("busy", code=429, times=1_000)
        return [Figure("four attempts fail: the call is given up", 8.5, await took(failing), 7.0)]


async def refuses(transport: Transport) -> list[Figure]:
    async with at_its_pace(transport) as peer:
        figures = [
            Figure(f"a request ends in {tool}", 0.1, await took(peer.call(tool, code=503)))
            for tool in ("status", "html_error", "hang_up")
        ]
        await peer.recovered()
        await peer.call("refuse", code=503, times=5)
        return [
            *figures,
            Figure("everything ends in 503 five times: calls are served again", 3.0, await took(peer.recovered())),
        ]


async def calls_are_cut_for_long(transport: Transport) -> list[Figure]:
    async with at_its_pace(transport, timeout_s=0.2) as peer:
        await peer.recovered()
        files = open_files()
        begun = time.perf_counter()
        for _ in range(5):
            await asyncio.gather(*(peer.call("sleep", seconds=600) for _ in range(50)))
        await peer.recovered()
        spent = time.perf_counter() - begun
        async with asyncio.timeout(IDLE_CONNECTIONS_S):
            while open_files() > files + 5:  # noqa: ASYNC110  there is no event for a closed connection
                await asyncio.sleep(0.1)
        return [Figure("250 calls are cut, 50 at once", 15.0, spent)]


EVENTS: dict[str, Callable[[Transport], Awaitable[list[Figure]]]] = {
    "dies in a call": dies_in_a_call,
    "dies while idle": dies_while_idle,
    "dies without a sign": dies_without_a_sign,
    "is slow": is_slow,
    "exhausts retries": exhausts_retries,
    "refuses": refuses,
    "is cut for long": calls_are_cut_for_long,
}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_each_fault_costs_no_more_than_its_bound(
    transport: Transport, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = []
    for name, event in EVENTS.items():
        if name != "refuses" or transport != "stdio":
            figures += await event(transport)
    with capsys.disabled():
        sys.stdout.write(f"\n{'event':<60} {'transport':<10} {'bound s':>8} {'took s':>8}\n")
        for figure in figures:
            sys.stdout.write(f"{figure.event:<60} {transport:<10} {figure.bound_s:>8.2f} {figure.took_s:>8.3f}\n")
    assert [figure for figure in figures if not figure.is_within_bounds()] == []
