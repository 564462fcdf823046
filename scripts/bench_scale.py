"""Print what API and worker processes on PostgreSQL cost, beside floors measured in the same run (docs/scaling.md).

The server writes to disk at each commit, as a real one does. Trust ratios before single figures, and use an idle
machine. `scripts/bench_scale_data.py` measures what the amount of data costs.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import bench_scale_log
import httpx
import orjson
import uvloop
from bench import Served, compare_runs, open_floor, show, show_ratio
from langgraph_sdk import get_client

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fixtures.app_server import INHERITED_VARIABLES
from tests.fixtures.mcp_server import free_port
from tests.fixtures.postgres import postgres_server

GRAPHS = Path(__file__).parent / "bench_scale_graphs.py"
NAMES = {"agent": "agent", "work": "work_graph", "stream": "stream_graph"}
DURABLE = "-c max_connections=100 -c shared_buffers=128MB"
LOST_AT_A_POWER_CUT = f"{DURABLE} -c fsync=off -c full_page_writes=off"
STREAMS, TOKENS_PER_STREAM, TOKENS_PER_SECOND = 20, 1000, 200
MODEL_S, SLOTS, MODEL_RUNS = 0.2, 5, 150
BOUND_S = 60.0


class Reports(asyncio.DatagramProtocol):
    """The moments that nodes report, by the key of their order."""

    def __init__(self) -> None:
        self._moments: dict[tuple[str, str], asyncio.Future[float]] = {}

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002 - asyncio's signature
        key, moment, at = data.decode().split()
        self._of(key, moment).set_result(float(at))

    async def wait(self, key: str, moment: str) -> float:
        """Return when a node was there."""
        return await asyncio.wait_for(self._of(key, moment), BOUND_S)

    def _of(self, key: str, moment: str) -> asyncio.Future[float]:
        return self._moments.setdefault((key, moment), asyncio.get_running_loop().create_future())


@dataclass(frozen=True, slots=True)
class Bench:
    """Where processes start, and what they find there."""

    folder: Path
    url: str
    reports: Reports
    environment: Mapping[str, str]
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1_000)))

    @contextmanager
    def process(self, ready: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run `toolweave …` until the block ends."""
        name = f"{arguments[0]}-{next(self.numbers)}"
        common = ("--config", str(self.folder / "langgraph.json"), "--data-dir", str(self.folder / "data"))
        with (self.folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                (sys.executable, "-m", "toolweave", *arguments, *common),
                env=dict(self.environment),
                text=True,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        try:
            assert process.stdout is not None
            assert any(ready in line for line in process.stdout), (self.folder / f"{name}.log").read_text()
            yield process
        finally:
            process.terminate()
            process.wait(BOUND_S)

    @contextmanager
    def replica(self) -> Iterator[tuple[str, int]]:
        """Run an API process, which executes nothing; give its URL and its process id."""
        port = free_port()
        with self.process("Toolweave is ready", "serve", "--no-worker", "--port", str(port)) as process:
            yield f"http://127.0.0.1:{port}", process.pid

    @contextmanager
    def worker(self, slots: int) -> Iterator[int]:
        """Run a worker process; give its process id."""
        with self.process("worker is ready", "worker", "--concurrency", str(slots)) as process:
            yield process.pid


def order(key: str, seconds: float) -> dict[str, Any]:
    return {"assistant_id": "work", "input": {"key": key, "seconds": seconds}}


async def start_and_cancel(http: httpx.AsyncClient, reports: Reports, rounds: int) -> None:
    """Show how long a run waits for its node, and a cancelled run for its end."""
    starts, stops, ends = [], [], []
    for number in range(rounds + 5):
        key = uuid4().hex
        thread = f"/threads/{uuid4()}"
        created = await http.post(f"{thread}/runs", json={**order(key, 60), "if_not_exists": "create"})
        answered = time.time()
        run = created.raise_for_status().json()
        started = await reports.wait(key, "started")
        requested = time.time()
        cancelled = await http.post(f"{thread}/runs/{run['run_id']}/cancel", params={"wait": True})
        cancelled.raise_for_status()
        ended = time.time()
        if number >= 5:
            starts.append(max(0.0, started - answered) * 1000)
            stops.append((await reports.wait(key, "ended") - requested) * 1000)
            ends.append((ended - requested) * 1000)
    show("from the answer to a created run to its first node", starts, "goal 10")
    show("from the request to cancel to the node's stop", stops, "goal 20")
    show("from the request to cancel to the run's stored end", ends)


async def deliveries(http: httpx.AsyncClient, tokens: int) -> list[float]:
    """Return the milliseconds from publishing to arrival of each token of all streams."""
    body = {"assistant_id": "stream", "input": {"tokens": tokens, "rate": TOKENS_PER_SECOND}, "stream_mode": ["custom"]}

    async def read() -> list[float]:
        delays: list[float] = []
        path = f"/threads/{uuid4()}/runs/stream"
        async with http.stream("POST", path, json={**body, "if_not_exists": "create"}) as answer:
            async for line in answer.aiter_lines():
                if line.startswith('data: {"n":'):
                    data = orjson.loads(line[6:])
                    assert data["n"] == len(delays), "a token is missing"
                    delays.append((time.time() - data["at"]) * 1000)
        assert len(delays) == tokens, f"{len(delays)} of {tokens} tokens arrived"
        return delays

    return [delay for delays in await asyncio.gather(*(read() for _ in range(STREAMS))) for delay in delays]


async def compare_deliveries(http: httpx.AsyncClient, url: str, rounds: int, tokens: int) -> None:
    """Show the delivery of tokens beside the bare log, in turn."""
    bare: list[list[float]] = []
    served: list[list[float]] = []
    for _ in range(rounds):
        bare.append(await bench_scale_log.measure(url, STREAMS, tokens, TOKENS_PER_SECOND))
        served.append(await deliveries(http, tokens))
    for part, label in ((50, "p50"), (99, "p99")):
        floors, figures = ([percentile(delays, part) for delays in each] for each in (bare, served))
        show(f"token delivery {label}: the bare event log", floors)
        show(f"token delivery {label}: worker to a client of the API", figures)
        show_ratio("  to the bare event log", statistics.median(figures) / statistics.median(floors), "goal <= 2.5")


def percentile(figures: Sequence[float], part: int) -> float:
    return statistics.quantiles(figures, n=100)[part - 1]


async def model_rate(http: httpx.AsyncClient) -> float:
    """Return the runs per second on a graph that waits for a model."""
    places = asyncio.Semaphore(4 * SLOTS)

    async def one() -> None:
        async with places:
            (await http.post("/runs/wait", json=order(uuid4().hex, MODEL_S))).raise_for_status()

    await asyncio.gather(*(one() for _ in range(4 * SLOTS)))
    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(MODEL_RUNS)))
    return MODEL_RUNS / (time.perf_counter() - started)


async def compare_workers(bench: Bench, http: httpx.AsyncClient) -> None:
    """Show what a second worker adds to one."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(2):
        with ExitStack() as stack:
            for figures in rates.values():
                stack.enter_context(bench.worker(SLOTS))
                figures.append(await model_rate(http))
    for number, figures in rates.items():
        show(f"runs per second with {number} x {SLOTS} slots, 200 ms each", figures, unit="/s")
    show_ratio("  two workers to one", statistics.median(rates[2]) / statistics.median(rates[1]), "goal >= 1.6")


def write_config(folder: Path) -> None:
    graphs = {name: f"{GRAPHS}:{attribute}" for name, attribute in NAMES.items()}
    (folder / "langgraph.json").write_bytes(orjson.dumps({"graphs": graphs}))


Part = Callable[[], Awaitable[None]]


async def main(given: argparse.Namespace) -> None:
    settings = DURABLE if given.fsync else LOST_AT_A_POWER_CUT
    print(f"PostgreSQL with fsync {'on' if given.fsync else 'off'}")
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_config(folder)
        server = stack.enter_context(postgres_server(settings))
        url = server.url().replace("+psycopg", "")
        transport, reports = await asyncio.get_running_loop().create_datagram_endpoint(
            Reports, local_addr=("127.0.0.1", 0)
        )
        stack.callback(transport.close)
        environment = {
            "PYTHONPATH": str(GRAPHS.parent),
            "TOOLWEAVE_DATABASE_URL": url,
            "TOOLWEAVE_LOG_FORMAT": "human",
            "BENCH_REPORTS": str(transport.get_extra_info("sockname")[1]),
            **inherited(),
        }
        bench = Bench(folder, url, reports, environment)
        api, api_pid = stack.enter_context(bench.replica())
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=api, timeout=BOUND_S, limits=httpx.Limits()))
        sdk = await stack.enter_async_context(get_client(url=api, api_key=None))
        floor = await stack.enter_async_context(open_floor(folder))
        with bench.worker(100) as worker_pid:
            programs = {"API": api_pid, "worker": worker_pid, "PostgreSQL": server.pid}
            parts: dict[str, Part] = {
                "start": lambda: start_and_cancel(http, reports, given.rounds * 8),
                "runs": lambda: compare_runs(
                    {"in process (the floor)": floor.run, "API and worker": Served(sdk).run},
                    given.rounds,
                    ("goal <= 8.7 … 19", ""),
                    programs,
                ),
                "streams": lambda: compare_deliveries(http, url, max(1, given.rounds // 8), TOKENS_PER_STREAM),
            }
            for name, measure in parts.items():
                if not given.parts or name in given.parts:
                    await measure()
        if not given.parts or "workers" in given.parts:
            await compare_workers(bench, http)


def inherited() -> dict[str, str]:
    passed_on = os.environ.items()  # noqa: TID251 - for the processes
    return {name: value for name, value in passed_on if name in INHERITED_VARIABLES}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="start, runs, streams, workers; default: all")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--no-fsync", dest="fsync", action="store_false", help="as in tests: faster, less durable")
    uvloop.run(main(parser.parse_args()))
