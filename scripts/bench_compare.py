"""Compare runs with Aegra on PostgreSQL (docs/scaling.md), and with an older commit on SQLite (docs/performance.md).

Both sides serve the same graph, in processes of their own, and are measured in turn. For Aegra make an environment
that has it, and give its interpreter:

    uv venv --python 3.12 AEGRA_VENV
    uv pip install --python AEGRA_VENV aegra-api==0.11.0
    .venv/bin/python scripts/bench_compare.py --aegra AEGRA_VENV/bin/python
    .venv/bin/python scripts/bench_compare.py --commit 5911acdb~1

Aegra executes runs with its local executor, which needs no Redis; Toolweave with an API process and a worker process.
The older commit runs with the packages of this environment.
"""

import argparse
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import orjson
import uvloop
from bench import HELLO, ROOT, ROUNDS, Work, compare_runs, open_floor, write_bench_json
from bench_scale import BOUND_S, DURABLE, inherited
from langgraph_sdk import get_client

from tests.fixtures.app_server import AppProcess
from tests.fixtures.mcp_server import free_port
from tests.fixtures.postgres import postgres_server

AEGRA = ("-m", "uvicorn", "aegra_api.main:app", "--host", "127.0.0.1", "--no-access-log", "--port")
SLOTS = "100"


@asynccontextmanager
async def open_runs(url: str) -> AsyncIterator[Work]:
    """Give a function that waits for a run on a new thread of the server, and checks its answer."""
    async with get_client(url=url, api_key=None) as sdk:

        async def run() -> None:
            values = await sdk.runs.wait(str(uuid4()), "agent", input=HELLO, if_not_exists="create")
            assert "echo: hello" in str(values), values

        yield run


@contextmanager
def serve_aegra(python: str, folder: Path, database: str) -> Iterator[tuple[str, int]]:
    """Run Aegra until the block ends; give its URL and its process id."""
    config, log = folder / "aegra.json", folder / "aegra.log"
    config.write_bytes(orjson.dumps({"graphs": {"agent": f"{ROOT / 'scripts' / 'bench_graphs.py'}:agent"}}))
    port = str(free_port())
    settings = {"AEGRA_CONFIG": str(config), "DATABASE_URL": database, "PORT": port}
    environment = {**inherited(), **settings, "LOG_LEVEL": "WARNING", "ENV_MODE": "PRODUCTION"}
    with log.open("w") as output:
        process = subprocess.Popen(
            (python, *AEGRA, port), env=environment, cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + BOUND_S
        while not is_healthy(f"{url}/health"):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(BOUND_S)


def is_healthy(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


async def compare_with_aegra(python: str, rounds: int) -> None:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(postgres_server(DURABLE))
        ours, theirs = (
            stack.enter_context(server.fresh_database()).replace("+psycopg", "").replace("postgres://", "postgresql://")
            for _ in range(2)
        )
        environment = {"TOOLWEAVE_DATABASE_URL": ours}
        config = write_bench_json(folder)
        api, worker = (
            stack.enter_context(AppProcess(config, folder / command[0], environment, command=command))
            for command in (("serve", "--no-worker"), ("worker", "--concurrency", SLOTS))
        )
        aegra, aegra_pid = stack.enter_context(serve_aegra(python, folder, theirs))
        sides = {
            "in process (the floor)": (await stack.enter_async_context(open_floor(folder))).run,
            "Toolweave": await stack.enter_async_context(open_runs(api.url)),
            "Aegra": await stack.enter_async_context(open_runs(aegra)),
        }
        programs = {"API": api.pid, "worker": worker.pid, "Aegra": aegra_pid, "PostgreSQL": server.pid}
        await compare_runs(sides, rounds, programs=programs)


@contextmanager
def checkout(commit: str, folder: Path) -> Iterator[Path]:
    """Check a commit out beside this one until the block ends."""
    git = ("git", "-C", str(ROOT), "worktree")
    subprocess.run((*git, "add", "--detach", str(folder), commit), check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run((*git, "remove", "--force", str(folder)), check=True)


async def compare_with_commit(commit: str, rounds: int) -> None:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trees = {commit: stack.enter_context(checkout(commit, folder / "tree")), "this code": ROOT}
        config = write_bench_json(folder)
        sides, programs = {}, {}
        for number, (name, tree) in enumerate(trees.items()):
            environment = {"PYTHONPATH": str(tree / "src")}
            server = stack.enter_context(AppProcess(config, folder / str(number), environment))
            sides[name], programs[name] = await stack.enter_async_context(open_runs(server.url)), server.pid
        await compare_runs(sides, rounds, programs=programs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    side = parser.add_mutually_exclusive_group(required=True)
    side.add_argument("--aegra", metavar="PYTHON", help="an interpreter whose environment has aegra-api")
    side.add_argument("--commit", help="the commit to compare this code with")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    if given.aegra:
        uvloop.run(compare_with_aegra(given.aegra, given.rounds))
    else:
        uvloop.run(compare_with_commit(given.commit, given.rounds))
