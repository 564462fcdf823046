"""A script job outlives its server: what was fetched and read is not asked for again; a cancelled one leaves nothing.

One server is killed again and again, on one data folder (S-05, A-05).
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.schema import Run

from tests.fixtures.app_server import OURS, AppProcess
from tests.fixtures.openai_wire import WireServer, WireTurn
from tests.fixtures.web_pages import Answer, WebPages, web_pages
from tests.nodes.script.writing import SENTENCE, calling, noting, script

BOUND_S = 30.0
PARTS = 4
# About two parts of the article may be read at once.
SETTINGS = {"article_tokens": 500, "target_length_s": 60}
HANGING = WireTurn(text="It begins", silent_after=1)
WRITES = calling(script())


@pytest.fixture(scope="module")
def running_site() -> Iterator[WebPages]:
    with web_pages() as site:
        yield site


@pytest.fixture
def site(running_site: WebPages) -> WebPages:
    running_site.forget()
    return running_site


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
    process = AppProcess(OURS, folder / "data", env)
    process.start()
    yield process
    process.close()


@pytest.fixture(autouse=True)
def fresh_wire(wire: WireServer) -> None:
    for kept in (wire.requests, wire.asked, wire.left):
        kept.clear()


@asynccontextmanager
async def connected(process: AppProcess) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=process.url, api_key=None) as client:
        yield client


async def begun(client: LangGraphClient, url: str) -> tuple[str, str]:
    """Begin a job in the background, whose model is streamed."""
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "script_writer", input={"url": url}, stream_mode=["messages-tuple"])
    return thread_id, run["run_id"]


async def restarted(process: AppProcess) -> None:
    await asyncio.to_thread(process.kill)
    await asyncio.to_thread(process.start)


async def percent(client: LangGraphClient, thread_id: str, run_id: str) -> float:
    """Look the job up, as its user does who has its ids and nothing else."""
    [listed] = await client.runs.list(thread_id)
    run = await client.runs.get(thread_id, run_id)
    assert told(listed) <= told(run)
    return told(run)


def told(run: Run) -> float:
    return float((run["metadata"] or {}).get("progress", {}).get("percent", 0))


async def job_ended(client: LangGraphClient, thread_id: str, run_id: str) -> tuple[Any, Any]:
    """Wait for the end; give the thread's values and the run."""
    async with asyncio.timeout(BOUND_S):
        values = await client.runs.join(thread_id, run_id)
    run: Any = await client.runs.get(thread_id, run_id)
    return values, run


def article(sections: int) -> Answer:
    """Make a page whose sections are one part each when it is longer than may be read at once."""
    told = "".join(
        f"<h2>Heading {number}</h2><p>Number {number}. {SENTENCE * 19}</p>" for number in range(1, sections + 1)
    )
    html = f"<!doctype html><html lang=en><head><title>Bees</title></head><body><article><h1>Bees</h1>{told}</article>"
    return Answer(html.encode(), {"content-type": "text/html; charset=utf-8"})


def is_about(wire: WireServer, number: int) -> int:
    """Count the prompts for notes that hold a section."""
    return sum(
        f"Number {number}." in str(request.messages)
        for request in wire.requests
        if request.tool_names == ["take_notes"]
    )


async def test_a_job_killed_while_its_page_is_fetched_fetches_it_again(
    process: AppProcess, site: WebPages, wire: WireServer
) -> None:
    async with connected(process) as client:
        thread_id, run_id = await begun(client, f"{site.url}/slow")
        assert await asyncio.to_thread(site.slow_asked.wait, BOUND_S)
    site.answers["/slow"] = article(1)
    wire.turns[:] = [WRITES]
    await restarted(process)
    async with connected(process) as client:
        values, run = await job_ended(client, thread_id, run_id)
    assert run["status"] == "success", values
    assert values["script"]["title"] == "Bees"
    assert site.requests.count("/slow") == 2
    assert run["metadata"]["progress"]["percent"] == 100


async def test_a_job_killed_while_it_writes_keeps_its_page_and_what_it_has_read_of_it(
    process: AppProcess, site: WebPages, wire: WireServer
) -> None:
    site.answers["/bees"] = article(PARTS)
    wire.turns[:] = [*(noting((f"Heading {number}", "Bees fly far.")) for number in range(1, PARTS + 1)), HANGING]
    async with connected(process) as client:
        thread_id, run_id = await begun(client, f"{site.url}/bees")
        async with asyncio.timeout(BOUND_S):
            while await percent(client, thread_id, run_id) < 75 or len(wire.requests) <= PARTS:
                pass
        running: Any = await client.runs.get(thread_id, run_id)
    assert (running["status"], running["metadata"]["progress"]["message"]) == ("running", "Writing the script")

    wire.turns[:] = [WRITES]
    await restarted(process)
    async with connected(process) as client:
        values, run = await job_ended(client, thread_id, run_id)
    assert run["status"] == "success", values
    assert site.requests.count("/bees") == 1
    assert [is_about(wire, number) for number in range(1, PARTS + 1)] == [1] * PARTS
    assert len(wire.requests) == PARTS + 2, "the model is asked for the script again"
    assert run["metadata"]["progress"]["percent"] == 100
    usage: Any = (await client_state(process, thread_id))["metadata"]["usage"]
    assert usage["calls"] == {"notes": PARTS, "write": 1}


def children(process: AppProcess) -> set[str]:
    """Give the children of a server (needs /proc)."""
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    return {child for task in tasks for child in task.read_text(encoding="ascii").split()}


async def client_state(process: AppProcess, thread_id: str) -> Any:
    async with connected(process) as client:
        return (await client.threads.get_state(thread_id))["values"]


@pytest.mark.parametrize("while_it", ["fetches", "writes"])
async def test_a_cancelled_job_ends_at_once_and_leaves_nobody_waiting(
    process: AppProcess, site: WebPages, wire: WireServer, while_it: str
) -> None:
    site.answers["/bees"] = article(1)
    wire.turns[:] = [HANGING]
    before = children(process)
    async with connected(process) as client:
        thread_id, run_id = await begun(client, f"{site.url}/{'slow' if while_it == 'fetches' else 'bees'}")
        assert await asyncio.to_thread((site.slow_asked if while_it == "fetches" else wire.asked).wait, BOUND_S)
        async with asyncio.timeout(5):
            await client.runs.cancel(thread_id, run_id, wait=True)
        run = await client.runs.get(thread_id, run_id)
        thread = await client.threads.get(thread_id)
    assert run["status"] == "interrupted"
    assert "error" not in (run["metadata"] or {})
    assert (run["metadata"] or {})["progress"]["percent"] < 90
    assert thread["status"] == "interrupted"
    if while_it == "writes":
        assert await asyncio.to_thread(wire.left.wait, BOUND_S), "the model's endpoint is still being read"
    assert children(process) == before
