"""Compare runs with LangGraph's server, with Aegra and with an older commit (docs/comparison.md, docs/performance.md).

Both sides serve the same graph, in processes of their own, and are measured in turn beside the bare graph. `make
official` installs LangGraph's server; for Aegra make an environment that has it, and give its interpreter:

    uv venv --python 3.12 AEGRA_VENV
    uv pip install --python AEGRA_VENV aegra-api==0.11.0
    .venv/bin/python scripts/bench_compare.py --aegra AEGRA_VENV/bin/python
    .venv/bin/python scripts/bench_compare.py --official .venv-langgraph/bin/langgraph
    .venv/bin/python scripts/bench_compare.py --commit 5911acdb~1

LangGraph's server is `langgraph dev`, which has its data in memory; Toolweave stores it in SQLite. Aegra executes runs
with its local executor, which needs no Redis; Toolweave has an API process and a worker process on PostgreSQL. The
older commit runs with the packages of this environment.
"""

import argparse
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
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
OFFICIAL = ("dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--n-jobs-per-worker", SLOTS)
OFFICIAL_ENVIRONMENT = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1", "LOG_LEVEL": "WARNING"}
GRAPHS = ROOT / "scripts" / "bench_graphs.py"


@asynccontextmanager
async def open_runs(url: str) -> AsyncIterator[Work]:
    """Give a function that waits for a run on a new thread of the server, and checks its answer."""
    async with get_client(url=url, api_key=None) as sdk:

        async def run() -> None:
            values = await sdk.runs.wait(str(uuid4()), "agent", input=HELLO, if_not_exists="create")
            assert "echo: hello" in str(values), values

        yield run


@contextmanager
def serve_other(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Run another server until the block ends; give its URL and its process id. `command` lacks the port only."""
    log, port = folder / "other.log", str(free_port())
    environment = {**inherited(), **variables, "PORT": port}
    with log.open("w") as output:
        process = subprocess.Popen(
            (*command, port), env=environment, cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + BOUND_S
        while not is_up(url):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(BOUND_S)


def write_config(folder: Path, name: str) -> Path:
    """Write a configuration of another server that serves the graph."""
    path = folder / name
    path.write_bytes(orjson.dumps({"graphs": {"agent": f"{GRAPHS}:agent"}, "dependencies": ["."]}))
    return path


def is_up(url: str) -> bool:
    """Return whether a server answers; Aegra has no /ok, and LangGraph's server no /health."""
    try:
        return any(httpx.get(f"{url}{page}").is_success for page in ("/ok", "/health"))
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
        settings = {"AEGRA_CONFIG": str(write_config(folder, "aegra.json")), "DATABASE_URL": theirs}
        settings |= {"LOG_LEVEL": "WARNING", "ENV_MODE": "PRODUCTION"}
        aegra, aegra_pid = stack.enter_context(serve_other((python, *AEGRA), folder, settings))
        sides = {
            "in process (the floor)": (await stack.enter_async_context(open_floor(folder))).run,
            "Toolweave": await stack.enter_async_context(open_runs(api.url)),
            "Aegra": await stack.enter_async_context(open_runs(aegra)),
        }
        programs = {"API": api.pid, "worker": worker.pid, "Aegra": aegra_pid, "PostgreSQL": server.pid}
        await compare_runs(sides, rounds, programs=programs)


async def compare_with_official(program: str, rounds: int) -> None:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(AppProcess(write_bench_json(folder), folder / "ours", {}))
        command = (program, *OFFICIAL, "--config", str(write_config(folder, "official.json")), "--port")
        official, official_pid = stack.enter_context(serve_other(command, folder, OFFICIAL_ENVIRONMENT))
        sides = {
            "in process (the floor)": (await stack.enter_async_context(open_floor(folder))).run,
            "Toolweave": await stack.enter_async_context(open_runs(ours.url)),
            "langgraph dev": await stack.enter_async_context(open_runs(official)),
        }
        await compare_runs(sides, rounds, programs={"Toolweave": ours.pid, "langgraph dev": official_pid})


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
    side.add_argument("--official", metavar="PROGRAM", help="the langgraph command of `make official`")
    side.add_argument("--commit", help="the commit to compare this code with")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    if given.aegra:
        uvloop.run(compare_with_aegra(given.aegra, given.rounds))
    elif given.official:
        uvloop.run(compare_with_official(given.official, given.rounds))
    else:
        uvloop.run(compare_with_commit(given.commit, given.rounds))
