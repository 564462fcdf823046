"""Keep a tool plane busy while its servers are killed in turn, and report what its callers and the process felt.

Three servers, two over stdio and one over HTTP; 50 calls a second, sent whether or not earlier ones have ended; every
ten seconds one server is killed. Each call must end within the bound that D-5 gives it, the plane must be whole again
before the next kill, and tasks, files and processes must be as many at the end as at the beginning.

    python scripts/soak.py [--minutes 10] [--report docs/soak.md]
"""

import argparse
import asyncio
import itertools
import os
import platform
import resource
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import uvloop
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fixtures.mcp_server import HttpMcpServer, http_mcp_server
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import McpServerConfig
from toolweave.config.settings import Settings
from toolweave.servers.connections.observability import open_call_log
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane

SERVER = str(Path(__file__).parent / "bench_tools_server.py")
CALLS_PER_S, KILL_EVERY_S, QUIET_S = 50, 10.0, 3.0
# Four attempts of at most five seconds each and the waits between them: beyond this, a call hangs.
HANG_S = 27.0
ARGUMENTS = {"echo": {"text": "hello"}, "wait": {"seconds": 0.3}, "page": {"characters": 20_000}}


@dataclass
class Felt:
    """What the callers and the operator saw."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    failed_seconds: list[float] = field(default_factory=list)
    hangs: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    recoveries: list[float] = field(default_factory=list)
    not_recovered: int = 0


@dataclass(frozen=True)
class Held:
    """What the process holds at one moment."""

    tasks: int
    files: int
    children: int
    rss_mb: int

    @classmethod
    def now(cls) -> "Held":
        return cls(
            tasks=len(asyncio.all_tasks()),
            files=len(list(Path("/proc/self/fd").iterdir())),
            children=len(children()),
            rss_mb=int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize() >> 20,
        )


def children() -> list[int]:
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    return [int(pid) for pid in listed.split()]


async def call(tool: BaseTool, arguments: dict[str, object], felt: Felt) -> None:
    started = time.perf_counter()
    request = {"type": "tool_call", "name": tool.name, "args": arguments, "id": uuid4().hex}
    try:
        async with asyncio.timeout(HANG_S):
            message: ToolMessage = await tool.ainvoke(request)
    except TimeoutError:
        felt.hangs += 1
        return
    taken = time.perf_counter() - started
    felt.outcomes["ok" if message.status == "success" else str(message.content).split(". ")[0][:140]] += 1
    (felt.seconds if message.status == "success" else felt.failed_seconds).append(taken)


async def keep_calling(tools: list[BaseTool], until: float, felt: Felt) -> None:
    """Send calls at their times, never waiting for earlier ones."""
    loop, begun = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        for number, tool in enumerate(itertools.cycle(tools)):
            await asyncio.sleep(begun + number / CALLS_PER_S - loop.time())
            if loop.time() > until:
                return
            group.create_task(call(tool, ARGUMENTS[tool.name.partition("_")[2]], felt))


async def keep_killing(plane: ToolPlane, remote: HttpMcpServer, until: float, felt: Felt) -> None:
    """Kill one server after the other and time how long the plane takes to offer its tools again."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for number, name in enumerate(itertools.cycle(("one", "two", "remote")), start=1):
        await asyncio.sleep(begun + number * KILL_EVERY_S - loop.time())
        if loop.time() > until:
            return
        felt.kills[name] += 1
        before = plane.health()[name]["since"]
        if name == "remote":
            await remote.kill()
            await remote.start()
        else:
            os.kill(pid_of(plane, name), signal.SIGKILL)
        back = time.perf_counter()
        try:
            async with asyncio.timeout(KILL_EVERY_S / 2):
                await until_back(plane, name, before)
            felt.recoveries.append(time.perf_counter() - back)
        except TimeoutError:
            felt.not_recovered += 1


async def until_back(plane: ToolPlane, name: str, since: str) -> None:
    """Return once a server is ready again; asked often, as an operator's monitor would."""
    while (health := plane.health()[name])["since"] == since or health["state"] != "ready":  # noqa: ASYNC110
        await asyncio.sleep(0.02)


def pid_of(plane: ToolPlane, name: str) -> int:
    """Find a stdio server's process by its argument."""
    for pid in children():
        if f"--name={name}" in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace").split("\0"):
            return pid
    raise RuntimeError(f"{name} has no process: {plane.health()[name]}")


async def soak(minutes: float, folder: Path, felt: Felt) -> tuple[Held, Held]:
    local = [
        McpServerConfig(name=name, transport="stdio", command=sys.executable, args=(SERVER, f"--name={name}"))
        for name in ("one", "two")
    ]
    async with (
        http_mcp_server(SERVER, "{port}", name="remote") as remote,
        open_call_log(folder, "full") as observers,
        open_tool_plane([*local, remote.config], observers=observers) as plane,
    ):
        await plane.wait_for_servers(timeout_s=20)
        tools = await plane.tools()
        for tool in tools:
            await call(tool, ARGUMENTS[tool.name.partition("_")[2]], Felt())
        before = Held.now()
        until = asyncio.get_running_loop().time() + minutes * 60
        await asyncio.gather(keep_calling(tools, until, felt), keep_killing(plane, remote, until, felt))
        await asyncio.sleep(QUIET_S)
        return before, Held.now()


def percentile(figures: Iterable[float], share: float) -> float:
    ordered = sorted(figures)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def report(minutes: float, felt: Felt, before: Held, after: Held) -> str:
    good, bad = felt.seconds, felt.failed_seconds
    rows = {
        "calls": f"{sum(felt.outcomes.values()) + felt.hangs}",
        f"calls that hung (more than {HANG_S:g} s)": f"{felt.hangs}",
        "servers killed": ", ".join(f"{name} {count} ×" for name, count in felt.kills.items()),
        "successful calls, p50 / p99 / longest": (
            f"{percentile(good, 0.5) * 1000:.1f} ms / {percentile(good, 0.99):.2f} s / {max(good):.2f} s"
        ),
        "failed calls, p50 / longest": f"{percentile(bad, 0.5):.2f} s / {max(bad, default=0):.2f} s",
        "tools offered again after a kill, median / longest": (
            f"{statistics.median(felt.recoveries):.2f} s / {max(felt.recoveries):.2f} s"
        ),
        "kills without recovery before the next one": f"{felt.not_recovered}",
        "tasks": f"{before.tasks} → {after.tasks}",
        "open files": f"{before.files} → {after.files}",
        "child processes": f"{before.children} → {after.children}",
        "resident memory": f"{before.rss_mb} → {after.rss_mb} MB",
    }
    how = (
        f"`make soak` on {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}:\n"
        f"{minutes:g} minutes, {CALLS_PER_S} calls a second through LangChain tools, two servers over stdio, one over\n"
        f"HTTP, one of them killed with SIGKILL every {KILL_EVERY_S:g} seconds."
    )
    lines = ["# Soak", "", how, "", "| what | figure |", "|---|---|"]
    lines += [f"| {what} | {figure} |" for what, figure in rows.items()]
    lines += ["", "How the calls ended:", "", "| answer | calls |", "|---|---|"]
    lines += [f"| {text} | {count} |" for text, count in felt.outcomes.most_common()]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    felt = Felt()
    with tempfile.TemporaryDirectory() as folder, Path(folder, "log").open("w", encoding="utf-8") as log:
        configure_logging(Settings(data_dir=Path(folder)), stream=log)
        before, after = uvloop.run(soak(options.minutes, Path(folder), felt))
    text = report(options.minutes, felt, before, after)
    print(text)
    if options.report:
        options.report.write_text(text, encoding="utf-8")
    leaked = after.tasks > before.tasks or after.files > before.files or after.children > before.children
    return int(bool(felt.hangs or felt.not_recovered or leaked))


if __name__ == "__main__":
    sys.exit(main())
