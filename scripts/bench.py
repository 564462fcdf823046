"""Print the figures of docs/performance.md: tool discovery, a todo request end to end, runs beside the bare graph.

The last ones are ratios of two things measured in turn: trust them before single figures, and on an idle machine only.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import uvloop
from bench_graphs import agent, tokens
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fixtures.app_server import AppProcess
from toolweave.config.mcp import served_mcp_config
from toolweave.config.settings import load_settings
from toolweave.servers.connections.plane import open_tool_plane

ROOT = Path(__file__).resolve().parent.parent
# What the server loads, and what is measured here without one.
BENCH_JSON = '{{"graphs": {{"agent": "{file}:agent", "tokens": "{file}:tokens"}}}}'
HELLO = {"messages": [{"role": "user", "content": "hello"}]}
ROUNDS, AT_ONCE, BURST, BURSTS = 25, 25, 300, 3
# A process that used less CPU time per run had no part in it.
IDLE_MS = 0.5

Work = Callable[[], Awaitable[object]]


async def milliseconds(work: Work, rounds: int) -> list[float]:
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - started) * 1000)
    return taken


async def discovery(folder: Path) -> list[float]:
    """T-01: from opening the tool plane to five registered tools, spawning the todo server included."""
    settings = load_settings(data_dir=folder)

    async def discover() -> None:
        async with open_tool_plane(served_mcp_config(settings).servers) as plane:
            assert len(await plane.tools()) == 5
            found.append((time.perf_counter() - started) * 1000)

    found: list[float] = []
    for _ in range(6):
        started = time.perf_counter()
        await discover()
    return found[1:]


async def todo_requests(sdk: LangGraphClient, rounds: int) -> list[float]:
    """T-02: one request through the SDK, model turn, tool call, model turn, answer."""
    number = iter(range(rounds + 3))

    async def ask() -> None:
        content = f"Add a task to buy milk number {next(number)}"
        turn = {"messages": [{"role": "user", "content": content}]}
        values = await sdk.runs.wait(None, "todo_agent", input=turn)
        assert values["messages"][-2]["type"] == "tool"

    await milliseconds(ask, 3)
    return await milliseconds(ask, rounds)


async def compare_chat(sdk: LangGraphClient) -> None:
    """Show a chat completion beside the same run through `runs/wait`."""

    async def run() -> None:
        await sdk.runs.wait(None, "agent_loop", input=HELLO)

    async def complete() -> None:
        body = {"model": "agent_loop", **HELLO}
        (await sdk.http.client.post("/v1/chat/completions", json=body)).raise_for_status()

    sides: dict[str, Work] = {"runs/wait": run, "/v1/chat/completions": complete}
    times: dict[str, list[float]] = {side: [] for side in sides}
    for work in sides.values():
        await milliseconds(work, 3)
    for _ in range(ROUNDS):
        for side, work in sides.items():
            times[side] += await milliseconds(work, 1)
    _show_beside_first("offline model", times, "ms", "")


@dataclass
class Streamed:
    """What streaming the same 500 tokens again and again took."""

    first_token_ms: list[float] = field(default_factory=list)
    tokens_per_second: list[float] = field(default_factory=list)

    async def measure(self, stream: AsyncIterator[bool]) -> None:
        """Read a stream that says of each item whether it is a token."""
        started = time.perf_counter()
        count = 0
        async for is_token in stream:
            count += is_token
            if count == 1 and is_token:
                self.first_token_ms.append((time.perf_counter() - started) * 1000)
        self.tokens_per_second.append(count / (time.perf_counter() - started))


class Floor:
    """The graphs invoked in process with a durable checkpointer: what any server adds to."""

    def __init__(self, saver: AsyncSqliteSaver) -> None:
        self._agent = agent.copy(update={"checkpointer": saver})
        self._tokens = tokens.copy(update={"checkpointer": saver})

    async def run(self) -> None:
        await self._agent.ainvoke(HELLO, _on_new_thread())

    async def stream(self) -> AsyncIterator[bool]:
        async for _ in self._tokens.astream(HELLO, _on_new_thread(), stream_mode="messages"):
            yield True


class Served:
    """The same graphs over HTTP, everything on."""

    def __init__(self, sdk: LangGraphClient) -> None:
        self._sdk = sdk

    async def run(self) -> None:
        await self._sdk.runs.wait(str(uuid4()), "agent", input=HELLO, if_not_exists="create")

    async def stream(self, mode: str, *, resumable: bool) -> AsyncIterator[bool]:
        body = {"assistant_id": "tokens", "input": HELLO, "stream_mode": [mode], "stream_resumable": resumable}
        async with self._sdk.http.client.stream("POST", "/runs/stream", json=body) as answer:
            async for piece in answer.aiter_raw():
                for _ in range(piece.count(b"event: messages")):
                    yield True


def _on_new_thread() -> RunnableConfig:
    return {"configurable": {"thread_id": str(uuid4())}}


def write_bench_json(folder: Path) -> Path:
    """Write a langgraph.json that serves the graphs of bench_graphs.py."""
    path = folder / "langgraph.json"
    path.write_text(BENCH_JSON.format(file=ROOT / "scripts" / "bench_graphs.py"), encoding="utf-8")
    return path


@asynccontextmanager
async def open_floor(folder: Path) -> AsyncIterator[Floor]:
    async with AsyncSqliteSaver.from_conn_string(str(folder / "floor.db")) as saver:
        await saver.conn.execute("PRAGMA journal_mode=WAL")
        await saver.conn.execute("PRAGMA synchronous=NORMAL")
        yield Floor(saver)


async def runs_per_second(work: Work) -> float:
    """Keep 25 under way at a time."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with places:
            await work()

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(BURST)))
    return BURST / (time.perf_counter() - started)


async def compare_runs(
    sides: Mapping[str, Work], rounds: int, goals: Sequence[str] = ("", ""), programs: Mapping[str, int] | None = None
) -> None:
    """Show a run by each side, and 25 at a time, beside the first side; in turn, so that all see the same machine.

    `programs` are the ids of processes whose CPU time is shown.
    """
    programs = programs or {}
    times: dict[str, list[float]] = {side: [] for side in sides}
    rates: dict[str, list[float]] = {side: [] for side in sides}
    used = {(side, name): 0.0 for side in sides for name in programs}
    for work in sides.values():
        await milliseconds(work, 30)
    for _ in range(rounds):
        for side, work in sides.items():
            times[side] += await milliseconds(work, 12)
    for _ in range(BURSTS):
        for side, work in sides.items():
            before = {name: cpu_seconds(pid) for name, pid in programs.items()}
            rates[side].append(await runs_per_second(work))
            for name, pid in programs.items():
                used[side, name] += cpu_seconds(pid) - before[name]
    _show_beside_first("one run", times, "ms", goals[0])
    _show_beside_first("25 at a time", rates, "/s", goals[1])
    for (side, name), seconds in used.items():
        if (of_a_run := seconds / (BURSTS * BURST) * 1000) > IDLE_MS:
            show(f"CPU time of a run: {side}: {name}", [of_a_run])


def _show_beside_first(label: str, figures: Mapping[str, list[float]], unit: str, goal: str) -> None:
    first, *_ = figures
    for side, each in figures.items():
        show(f"{label}: {side}", each, unit=unit)
        if side != first:
            show_ratio(f"  to {first}", statistics.median(each) / statistics.median(figures[first]), goal)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process, its living children and its ended ones have used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(cpu_seconds(int(child)) for child in children)


async def compare_streams(floor: Floor, served: Served) -> None:
    """Show streams of 500 tokens beside the floor."""
    kinds: dict[str, Callable[[], AsyncIterator[bool]]] = {
        "the floor": floor.stream,
        "messages-tuple": lambda: served.stream("messages-tuple", resumable=False),
        "messages-tuple, resumable": lambda: served.stream("messages-tuple", resumable=True),
        "messages": lambda: served.stream("messages", resumable=False),
    }
    for make in kinds.values():
        await Streamed().measure(make())
    measured = {name: Streamed() for name in kinds}
    for _ in range(ROUNDS):
        for name, make in kinds.items():
            await measured[name].measure(make())
    base = measured["the floor"]
    for name, streamed in measured.items():
        show(f"first token: {name}", streamed.first_token_ms)
        show(f"tokens per second: {name}", streamed.tokens_per_second, unit="/s")
        if streamed is not base:
            show_ratio("  first token to the floor", _ratio(streamed.first_token_ms, base.first_token_ms), "goal <= 3")
            pace = _ratio(streamed.tokens_per_second, base.tokens_per_second)
            show_ratio("  tokens per second to the floor", pace, "goal >= 0.6")


def _ratio(figures: list[float], floors: list[float]) -> float:
    """Compare round by round: the machine's pace changes from one to the next."""
    return statistics.median(figure / floor for figure, floor in zip(figures, floors, strict=True))


def show(label: str, figures: list[float], goal: str = "", unit: str = "ms") -> None:
    low, middle, high = min(figures), statistics.median(figures), max(figures)
    print(f"{label:<52} {middle:8.1f} {unit}   ({low:.1f} … {high:.1f}, {len(figures)} rounds) {goal}")


def show_ratio(label: str, ratio: float, goal: str) -> None:
    print(f"{label:<52} {ratio:8.2f} x    {goal}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        show("tools of the todo server registered, spawn included", await discovery(folder / "plane"), "goal 2000")
        ours = AppProcess(ROOT / "langgraph.json", folder / "ours", {"TOOLWEAVE_MODEL": "offline"})
        ours.start()
        try:
            async with get_client(url=ours.url, api_key=None) as sdk:
                show("a todo request end to end, offline model", await todo_requests(sdk, 50), "goal 300")
                await compare_chat(sdk)
        finally:
            ours.stop()
        process = AppProcess(write_bench_json(folder), folder / "served", {})
        process.start()
        try:
            async with get_client(url=process.url, api_key=None) as sdk, open_floor(folder) as floor:
                sides = {"in process (the floor)": floor.run, "over HTTP": Served(sdk).run}
                await compare_runs(sides, ROUNDS, ("goal <= 3.5", "goal >= 0.3"))
                await compare_streams(floor, Served(sdk))
        finally:
            process.stop()


if __name__ == "__main__":
    uvloop.run(main())
