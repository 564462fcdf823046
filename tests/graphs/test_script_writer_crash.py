"""A script job outlives its server: what was fetched and read is not requested again; a cancelled one leaves nothing.

One server is killed again and again, on one data folder (S-05, A-05).
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.schema import Run

from tests.fixtures.app_server import OURS, AppProcess
from tests.fixtures.mcp_server import child_pids
from tests.fixtures.openai_wire import MAX_WAIT_S, WireServer, WireTurn
from tests.fixtures.web_pages import Answer, WebPages
from tests.graphs.script_agent import BEES, FETCHING, Agent, fetching
from tests.nodes.model_at import calling
from tests.nodes.script.writing import SENTENCE, noting, script

BOUND_S = 60.0
# Less than what the slow page and the silent model would take.
CANCEL_BOUND_S = 15.0
PARTS = 4
WRITING = "Writing the script"
# About two parts of the article may be read at once.
SETTINGS = {"article_tokens": 500, "target_length_s": 60}
HANGING = WireTurn(text="It begins", silent_after=1)
WRITES = calling(script())


@pytest.fixture(scope="module")
def process(wire: WireServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppProcess]:
    folder = tmp_path_factory.mktemp("job")
    (folder / "served.jsonc").write_text('{"mcpServers": {}}', encoding="utf-8")
    (folder / "config.yaml").write_text(json.dumps(SETTINGS), encoding="utf-8")
    env = {
        "OPENAI_BASE_URL": wire.base_url,
        "TOOLWEAVE_MODEL": "m",
        "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1",
        "TOOLWEAVE_MCP_CONFIG": str(folder / "served.jsonc"),
        "CONFIG_PATH": str(folder / "config.yaml"),
    }
    with AppProcess(OURS, folder / "data", env) as process:
        yield process


@pytest.fixture(autouse=True)
def fresh_wire(wire: WireServer) -> None:
    for record in (wire.requests, wire.requested, wire.left):
        record.clear()


@asynccontextmanager
async def connected(process: AppProcess) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=process.url, api_key=None) as client:
        yield client


async def start_job(client: LangGraphClient, url: str) -> tuple[str, str]:
    """Start a job in the background, whose model is streamed."""
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "script_writer", input={"url": url}, stream_mode=["messages-tuple"])
    return thread_id, run["run_id"]


def progress_of(run: Run) -> dict[str, Any]:
    progress: dict[str, Any] = (run["metadata"] or {}).get("progress", {})
    return progress


async def job_ended(client: LangGraphClient, thread_id: str, run_id: str) -> tuple[Any, Any]:
    """Wait for the end; return the thread's values and the run."""
    async with asyncio.timeout(BOUND_S):
        values = await client.runs.join(thread_id, run_id)
    run: Any = await client.runs.get(thread_id, run_id)
    return values, run


def article(sections: int) -> Answer:
    """Make a page whose sections are one part each when it is longer than may be read at once."""
    parts = "".join(
        f"<h2>Heading {number}</h2><p>Number {number}. {SENTENCE * 19}</p>" for number in range(1, sections + 1)
    )
    html = f"<!doctype html><html lang=en><head><title>Bees</title></head><body><article><h1>Bees</h1>{parts}</article>"
    return Answer(html.encode(), {"content-type": "text/html; charset=utf-8"})


def prompts_about(wire: WireServer, number: int) -> int:
    """Count the prompts for notes that hold a section."""
    return sum(
        f"Number {number}." in str(request.messages)
        for request in wire.requests
        if request.tool_names == ["take_notes"]
    )


async def until_writing(client: LangGraphClient, thread_id: str, run_id: str, wire: WireServer) -> Run:
    """Poll a job, as a user who has its ids and nothing else, until its progress says that the script is written."""
    async with asyncio.timeout(BOUND_S):
        while (
            progress_of(await client.runs.get(thread_id, run_id)).get("message") != WRITING
            or len(wire.requests) <= PARTS
        ):
            pass
    [run] = await client.runs.list(thread_id)
    return run


@pytest.mark.requirement("S-05")
@pytest.mark.requirement("A-04")
async def test_jobs_of_a_killed_server_continue_where_they_stopped(
    process: AppProcess, site: WebPages, wire: WireServer
) -> None:
    site.answers["/bees"] = article(PARTS)
    wire.turns[:] = [*(noting((f"Heading {number}", "Bees fly far.")) for number in range(1, PARTS + 1)), HANGING]
    async with connected(process) as client:
        fetching = await start_job(client, f"{site.url}/slow")
        writing = await start_job(client, f"{site.url}/bees")
        assert await asyncio.to_thread(site.slow_requested.wait, BOUND_S)
        left: Any = await until_writing(client, *writing, wire)
    assert (left["status"], progress_of(left)["message"]) == ("running", WRITING)

    site.answers["/slow"] = article(1)
    wire.turns[:] = [WRITES, WRITES]
    await asyncio.to_thread(process.kill)
    await asyncio.to_thread(process.start)
    async with connected(process) as client:
        ends = [await job_ended(client, *job) for job in (fetching, writing)]
        usage: Any = (await client.threads.get_state(writing[0]))["values"]
    assert [values["script"]["title"] for values, _ in ends] == ["Bees"] * 2
    assert [(run["status"], progress_of(run)["percent"]) for _, run in ends] == [("success", 100.0)] * 2
    assert (site.requests.count("/slow"), site.requests.count("/bees")) == (2, 1)
    assert [prompts_about(wire, number) for number in range(1, PARTS + 1)] == [1] * PARTS
    assert len(wire.requests) == PARTS + 3, "both scripts are requested after the restart, one for the second time"
    assert usage["metadata"]["usage"]["calls"] == {"notes": PARTS, "write": 1}


def children(process: AppProcess) -> set[str]:
    """Return the ids of a server's child processes (needs /proc)."""
    return set(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split())


@pytest.mark.parametrize("while_it", ["fetches", "writes"])
async def test_a_cancelled_job_ends_at_once_and_leaves_no_request_and_no_process(
    process: AppProcess, site: WebPages, wire: WireServer, while_it: str
) -> None:
    site.answers["/bees"] = article(1)
    wire.turns[:] = [HANGING]
    before = children(process)
    async with connected(process) as client:
        thread_id, run_id = await start_job(client, f"{site.url}/{'slow' if while_it == 'fetches' else 'bees'}")
        assert await asyncio.to_thread((site.slow_requested if while_it == "fetches" else wire.requested).wait, BOUND_S)
        async with asyncio.timeout(CANCEL_BOUND_S):
            await client.runs.cancel(thread_id, run_id, wait=True)
        run = await client.runs.get(thread_id, run_id)
        thread = await client.threads.get(thread_id)
    assert run["status"] == "interrupted"
    assert "error" not in (run["metadata"] or {})
    assert progress_of(run)["percent"] < 90
    assert thread["status"] == "interrupted"
    if while_it == "writes":
        assert await asyncio.to_thread(wire.left.wait, MAX_WAIT_S), "the model's endpoint is still being read"
    assert children(process) == before


@contextmanager
def ended_event(pid: int) -> Iterator[asyncio.Event]:
    """Yield an event that is set when a process ends (needs Linux)."""
    ended, loop, descriptor = asyncio.Event(), asyncio.get_running_loop(), os.pidfd_open(pid)
    loop.add_reader(descriptor, ended.set)
    try:
        yield ended
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def test_a_job_cancelled_while_its_agent_works_leaves_no_server(wire: WireServer) -> None:
    wire.turns[:] = [HANGING]
    graph = Agent(wire).graph(fetching())

    async def read() -> None:
        async for _ in graph.astream({"url": BEES}, stream_mode="messages", subgraphs=True):
            pass

    job = asyncio.create_task(read())
    assert await asyncio.to_thread(wire.requested.wait, BOUND_S)
    [server] = child_pids(FETCHING)
    with ended_event(server) as ended:
        job.cancel()
        async with asyncio.timeout(CANCEL_BOUND_S):
            await asyncio.gather(job, return_exceptions=True)
            # LangGraph does not wait until the node has cleared up.
            await ended.wait()


async def test_the_run_of_a_failed_stateless_job_has_its_error_and_its_last_progress(
    process: AppProcess, site: WebPages
) -> None:
    created: list[Any] = []
    job: Any = {"input": {"url": f"{site.url}/status/404"}, "on_completion": "keep", "raise_error": False}
    async with connected(process) as client:
        await client.runs.wait(None, "script_writer", **job, on_run_created=created.append)
        [run] = await client.runs.list(created[0]["thread_id"])
        thread: Any = await client.threads.get(created[0]["thread_id"])
    metadata: Any = run["metadata"]
    assert run["status"] == "error"
    assert "404 Not Found" in metadata["error"]
    assert metadata["error"] == thread["error"]["message"]
    assert metadata["progress"]["message"].startswith("Fetching ")
