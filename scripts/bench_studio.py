"""Print what the studio costs: its first load, its updates per second, and what it adds to the server's start.

The page runs in headless Chromium on this machine, in a new browser context for each round; this needs Node and
Chromium. The start is compared with an older commit, in turn; both sides run with the packages of this environment:

    .venv/bin/python scripts/bench_studio.py --commit a50ba7a1~1

This commit is the last one without the studio, the endpoints for OpenAI and AG-UI clients, and traces.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import orjson
from bench import ROOT, cpu_seconds, show, show_ratio, write_bench_json
from bench_compare import checkout
from check_studio import DIST, FIRST_LOAD_BYTES, TOTAL_BYTES

from tests.fixtures.app_server import AppProcess
from tests.fixtures.node_packages import node_with_packages

SCRIPTS = ROOT / "tests" / "clients" / "js"
STUDIO_CHAT_JSON = ROOT / "tests" / "clients" / "app" / "studio_chat.json"
ROUNDS = 12
GROWTH_GOAL = "goal <= 1.03"


def measure_page(folder: Path, rounds: int) -> None:
    """Show the first load of the chat page, and the updates of a long answer."""
    environment = {"PYTHONPATH": str(ROOT)}
    with AppProcess(STUDIO_CHAT_JSON, folder, environment) as server:
        command = (node_with_packages(SCRIPTS), "studio_bench.mjs", server.url, str(rounds))
        done = subprocess.run(command, cwd=SCRIPTS, check=True, stdout=subprocess.PIPE)
        figures: dict[str, list[float]] = orjson.loads(done.stdout)
        show("first contentful paint of the chat page", figures["paint_ms"], "goal <= 1500")
        show("until its composer takes text", figures["composer_ms"], "goal <= 1500")
        show_kilobytes("files of the first load", figures["bytes"], FIRST_LOAD_BYTES)
        show_kilobytes("all files of studio/dist", [sum(map(len, served_files(server.url)))], TOTAL_BYTES)
        show("updates of an answer of 2 000 tokens", figures["updates"], "goal >= 30", unit="/s")


def served_files(url: str) -> list[bytes]:
    """Return the files of studio/dist as a browser receives them, compressed."""
    bodies = []
    with httpx.Client(base_url=url, headers={"accept-encoding": "gzip"}) as http:
        for path in DIST.rglob("*"):
            if path.is_file():
                with http.stream("GET", f"/studio/{path.relative_to(DIST).as_posix()}") as answer:
                    bodies.append(b"".join(answer.raise_for_status().iter_raw()))
    return bodies


def show_kilobytes(label: str, sizes: list[float], limit: int) -> None:
    show(label, [size / 1000 for size in sizes], f"goal <= {limit // 1000}", unit="kB")


@dataclass
class Starts:
    """What the starts of one side took."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    def measure(self, server: AppProcess) -> None:
        """Start the server, wait for /ok, read its CPU time and memory, and end it."""
        started = time.perf_counter()
        with server:
            httpx.get(f"{server.url}/ok").raise_for_status()
            self.seconds.append(time.perf_counter() - started)
            self.cpu_seconds.append(cpu_seconds(server.pid))
            self.megabytes.append(resident_megabytes(server.pid))


def resident_megabytes(pid: int) -> float:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def compare_starts(commit: str, folder: Path, rounds: int) -> None:
    """Show start and memory of this code beside an older commit's, for a small application and for ours."""
    with ExitStack() as stack:
        trees = {commit: stack.enter_context(checkout(commit, folder / "tree")), "this code": ROOT}
        bench_json = write_bench_json(folder)
        for application in ("an application of one's own", "ours"):
            sides = {side: Starts() for side in trees}
            for number in range(rounds + 1):
                for side, tree in trees.items():
                    config = bench_json if application != "ours" else tree / "langgraph.json"
                    data = folder / f"{application}-{number}-{side}"
                    server = AppProcess(config, data, {"PYTHONPATH": f"{tree / 'src'}", "TOOLWEAVE_MODEL": "offline"})
                    # The first start compiles the modules.
                    (sides[side] if number else Starts()).measure(server)
            show_growth(application, sides)


def show_growth(application: str, sides: dict[str, Starts]) -> None:
    print(application)
    for name, unit in (("seconds", "s"), ("cpu_seconds", "s of CPU"), ("megabytes", "MB")):
        before, now = (getattr(starts, name) for starts in sides.values())
        for side, figures in zip(sides, (before, now), strict=True):
            show(f"  {side}", figures, unit=unit)
        # Paired, because the pace of the machine changes.
        show_ratio("  growth", statistics.median(b / a for a, b in zip(before, now, strict=True)), GROWTH_GOAL)


def main(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure_page(folder / "page", given.rounds)
        if given.commit:
            compare_starts(given.commit, folder, given.rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", help="compare the start with this commit")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    main(parser.parse_args())
