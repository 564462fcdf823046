"""Measure how long one caller can stall all others (R-03): `/ok` is polled by another process during each attack.

`python scripts/bench_stalls.py [NAME …]` runs the attacks whose name contains one of the words, all without any.
"""

import asyncio
import json
import math
import multiprocessing
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fixtures.app_server import AppProcess
from tests.fixtures.openai_wire import WireCall, WireTurn, openai_wire

ROOT = Path(__file__).resolve().parent.parent
GRAPHS = ROOT / "scripts" / "bench_stalls_graphs.py"
MIB = 1 << 20
POLL_S = 0.005
GOAL_MS = 100.0

Work = Callable[[], Awaitable[str]]
Attack = Callable[["World"], Awaitable[Work]]


class World:
    """The server that is attacked, and what the attacks prepare on it."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def send(self, method: str, path: str, content: bytes) -> str:
        try:
            answer = await self.http.request(method, path, content=content)
        except httpx.HTTPError as error:
            return type(error).__name__
        return f"{answer.status_code}, {len(answer.content) / MIB:.1f} MiB"

    async def thread(self, data: Any = None) -> str:
        """Make a thread of the graph `keep`, with a state if there are data."""
        thread = (await self.http.post("/threads", json={"metadata": {"graph_id": "keep"}})).json()["thread_id"]
        if data is not None:
            body = {"values": {"data": data}, "as_node": "pass_on"}
            (await self.http.post(f"/threads/{thread}/state", json=body)).raise_for_status()
        return str(thread)


def run_of(data: bytes) -> bytes:
    return b'{"assistant_id":"keep","input":{"data":' + data + b"}}"


def text(mib: int) -> bytes:
    return b'"' + b"a" * (mib * MIB) + b'"'


def values(count: int, one: bytes = b"[]") -> bytes:
    return b"[" + b",".join([one] * count) + b"]"


def named(count: int) -> bytes:
    return b"{" + b",".join(b'"name %d":1' % number for number in range(count)) + b"}"


def records(count: int) -> list[dict[str, Any]]:
    return [
        {"id": number, "name": f"name {number}", "tags": ["a", "b"], "price": number / 7} for number in range(count)
    ]


def posting(path: str, content: bytes) -> Attack:
    async def prepared(world: World) -> Work:
        return lambda: world.send("POST", path, content)

    return prepared


def reading(how: str, data: Any, times: int = 1) -> Attack:
    async def prepared(world: World) -> Work:
        thread = await world.thread(data)
        for _ in range(times - 1):
            await world.http.post(f"/threads/{thread}/state", json={"values": {"data": data}, "as_node": "pass_on"})
        return lambda: world.send("GET", f"/threads/{thread}/{how}", b"")

    return prepared


def searching(data: Any) -> Attack:
    async def prepared(world: World) -> Work:
        for _ in range(1000):
            await world.thread(data)
        return lambda: world.send("POST", "/threads/search", b'{"limit":1000}')

    return prepared


async def searching_store(world: World) -> Work:
    for number in range(1000):
        body = {"namespace": ["bench"], "key": str(number), "value": {"text": "c" * 32 * 1024}}
        (await world.http.put("/store/items", json=body)).raise_for_status()
    return lambda: world.send("POST", "/store/items/search", b'{"namespace_prefix":["bench"],"limit":1000}')


WRITE = b'{"assistant_id":"writer","input":{"messages":[{"role":"user","content":"write"}]},"stream_mode":["messages"]}'


ATTACKS: dict[str, Attack] = {
    "run: one text of 28 MiB": posting("/runs/wait", run_of(text(28))),
    "run: one text of 15 MiB": posting("/runs/wait", run_of(text(15))),
    "run: 27 MB of []": posting("/runs/wait", run_of(values(9_000_000))),
    "run: 2.8 MB of objects": posting("/runs/wait", run_of(values(350_000, b'{"a":1}'))),
    "run: 90 000 values": posting("/runs/wait", run_of(values(45_000, b"[]"))),
    "run: 50 000 numbers": posting("/runs/wait", run_of(values(50_000, b"1.5"))),
    "run: 5 MB of text with commas": posting("/runs/wait", run_of(json.dumps("a, b, c, " * 555_000).encode())),
    "threads: metadata of 15 MiB": posting("/threads", b'{"metadata":{"a":' + text(15) + b"}}"),
    "mcp: 27 MB of []": posting("/mcp", b'{"jsonrpc":"2.0","id":1,"params":' + values(9_000_000) + b"}"),
    "core: 27 MB of []": posting("/ai/mcp", b'{"jsonrpc":"2.0","id":1,"params":' + values(9_000_000) + b"}"),
    "tools: 15 MB of []": posting("/tools/import", b'{"tools":' + values(5_000_000) + b"}"),
    "workflow: 900 kB of []": posting("/workflow", b'{"tool_ids":' + values(300_000) + b"}"),
    "state of 20 000 records": reading("state", records(10_000)),
    "state of 15 MiB": reading("state", "d" * (15 * MIB)),
    "history of 20 states of 1 MiB": reading("history?limit=100", "e" * MIB, 20),
    "history of 20 states of 5 000 records": reading("history?limit=100", records(5_000), 20),
    "threads/search: 1000 of 64 kB": searching("b" * 64 * 1024),
    "threads/search: 1000 of 500 records": searching(records(500)),
    "store search: 1000 of 32 kB": searching_store,
    "run: 199 000 values": posting("/runs/wait", run_of(values(99_000))),
    "run: 99 000 names": posting("/runs/wait", run_of(named(99_000))),
    "core: 4 MB of []": posting("/ai/mcp", b'{"jsonrpc":"2.0","id":1,"params":' + values(1_300_000) + b"}"),
    "core: 190 000 values": posting("/ai/mcp", b'{"jsonrpc":"2.0","id":1,"params":{"a":' + values(95_000) + b"}}"),
    "a2a: 190 000 values": posting(
        "/mcp", b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":' + values(95_000) + b"}}"
    ),
    "model: 300 kB in two deltas": posting("/runs/stream", WRITE),
}


def probe(url: str, orders: Connection) -> None:
    """Poll `/ok` until told to stop; the answer is how long each poll took, in milliseconds."""
    taken: list[float] = []
    with httpx.Client(base_url=url, timeout=600) as http:
        http.get("/ok")
        orders.send([])
        while not orders.poll():
            started = time.perf_counter()
            try:
                http.get("/ok")
            except httpx.HTTPError:
                break
            taken.append((time.perf_counter() - started) * 1000)
            time.sleep(POLL_S)
    orders.send(taken)


async def probed(url: str, work: Work) -> tuple[str, list[float]]:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    prober = multiprocessing.get_context("spawn").Process(target=probe, args=(url, theirs))
    prober.start()
    await asyncio.to_thread(ours.recv)
    try:
        result = await work()
    finally:
        ours.send(None)
        taken = await asyncio.to_thread(ours.recv)
        prober.join()
    return result, taken


@asynccontextmanager
async def serving(model_url: str) -> AsyncIterator[tuple[AppProcess, httpx.AsyncClient]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graphs = {graph: f"{GRAPHS}:{graph}" for graph in ("keep", "writer", "sleepy")}
        config = {"graphs": graphs, "http": {"app": "toolweave.api.app:app"}}
        (folder / "langgraph.json").write_text(json.dumps(config), encoding="utf-8")
        env = {"OPENAI_BASE_URL": model_url, "TOOLWEAVE_MODEL": "scripted"}
        process = AppProcess(folder / "langgraph.json", folder / "data", env)
        process.start()
        try:
            headers = {"accept": "application/json, text/event-stream"}
            async with httpx.AsyncClient(base_url=process.url, timeout=600, headers=headers) as http:
                yield process, http
        finally:
            process.close()


def show(name: str, result: str, taken: list[float]) -> None:
    ordered = sorted(taken)
    p99 = ordered[math.ceil(len(ordered) * 0.99) - 1]
    verdict = "" if p99 < GOAL_MS else "  OVER"
    print(
        f"{name:<42} max {ordered[-1]:8.1f} ms   p99 {p99:8.1f} ms   ({len(taken)} polls; {result}){verdict}",
        flush=True,
    )


async def stop_during_the_model(model_url: str) -> None:
    """Show how long SIGTERM takes while the model's large deltas come."""
    async with serving(model_url) as (process, http):
        writing = asyncio.create_task(World(http).send("POST", "/runs/stream", WRITE))
        await asyncio.sleep(1)
        started = time.perf_counter()
        try:
            code: object = await asyncio.to_thread(process.stop)
        except Exception as error:  # noqa: BLE001 - it did not stop
            code = type(error).__name__
        print(
            f"{'SIGTERM during the model':<42} {(time.perf_counter() - started) * 1000:8.0f} ms   ({code})", flush=True
        )
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def main(words: list[str]) -> None:
    arguments = json.dumps({"text": "line\n" * 60_000})
    turns = [WireTurn(calls=(WireCall("write_file", arguments),), piece=150_000), WireTurn(text="done")]
    chosen = [name for name in ATTACKS if not words or any(word in name for word in words)]
    with openai_wire(turns * 50) as model:
        async with serving(model.base_url) as (process, http):
            world = World(http)
            for name in chosen:
                work = await ATTACKS[name](world)
                before = len(process.logs())
                show(name, *await probed(process.url, work))
                for place in re.findall(r"blocked for more than .* ms by (.*?)\. The server", process.logs()[before:]):
                    print(f"    blocked by {place}", flush=True)
        if not words or "SIGTERM" in words:
            await stop_during_the_model(model.base_url)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1:]))
