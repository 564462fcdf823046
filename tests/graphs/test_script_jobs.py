"""Script jobs of a real server: how a page is fetched, by which settings, and how a job with wrong files fails.

In embedded mode the serving process is the worker; two of them run here, with MCP_CONFIG_PATH and without it (A-05).
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from tests.fixtures.app_server import OURS, AppProcess
from tests.fixtures.openai_wire import WireServer, WireTurn, openai_wire
from tests.fixtures.web_pages import WebPages, truth_of
from tests.graphs.script_agent import BEES, DONE, FETCHING, asks
from tests.nodes.model_at import calling
from tests.nodes.script.writing import script

BOUND_S = 60.0
SECRET = "k3y-of-the-job"
PERSONAS = [{"id": "host", "name": "Mika", "character": "Curious"}, {"id": "guest", "name": "Ada"}]


@dataclass(frozen=True)
class Files:
    """The files of the jobs, and the calls that their MCP servers record."""

    folder: Path

    @property
    def settings(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def mcp(self) -> Path:
        return self.folder / "mcp.jsonc"

    def write_servers(self, file: Path, *names: str) -> None:
        """Write an MCP file; each server gets a key of the environment and records its calls."""
        servers = {
            name: {
                "command": sys.executable,
                "args": [FETCHING, "--only", "read", "--record", str(self.folder / name)],
                "env": {"READING_KEY": "{env:JOB_KEY}"},
            }
            for name in names
        }
        file.write_text(f"// of script jobs\n{json.dumps({'mcpServers': servers})}", encoding="utf-8")

    def calls(self, name: str) -> list[str]:
        record = self.folder / name
        return record.read_text(encoding="utf-8").splitlines() if record.exists() else []


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Return a folder in which only the served plane's file exists at first."""
    files = Files(tmp_path_factory.mktemp("jobs"))
    files.write_servers(files.folder / "served.jsonc", "served")
    return files


@contextmanager
def worker(files: Files, wire: WireServer, folder: Path, **environ: str) -> Iterator[AppProcess]:
    """Serve until the block ends; it begins when the served plane's server is there."""
    env = {
        "OPENAI_BASE_URL": wire.base_url,
        "TOOLWEAVE_MODEL": "model-of-the-process",
        "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1",
        "TOOLWEAVE_MCP_CONFIG": str(files.folder / "served.jsonc"),
        "CONFIG_PATH": str(files.settings),
        "JOB_KEY": SECRET,
        **environ,
    }
    with AppProcess(OURS, folder, env) as process:
        process.wait_for_log("MCP server served is ready")
        yield process


@pytest.fixture(scope="module")
def agent_worker(files: Files, wire: WireServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppProcess]:
    """Serve with both variables set; neither file is there when it starts."""
    with worker(files, wire, tmp_path_factory.mktemp("data"), MCP_CONFIG_PATH=str(files.mcp)) as process:
        yield process


@pytest.fixture(scope="module")
def plain_worker(files: Files, wire: WireServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppProcess]:
    """Serve with CONFIG_PATH alone."""
    with worker(files, wire, tmp_path_factory.mktemp("data")) as process:
        yield process


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent_jobs(agent_worker: AppProcess) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=agent_worker.url, api_key=None) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain_jobs(plain_worker: AppProcess) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=plain_worker.url, api_key=None) as client:
        yield client


async def failure_of(client: LangGraphClient, url: str) -> str:
    """Run a job that fails; return the error of its thread and of its run's metadata."""
    thread = await client.threads.create()
    await client.runs.wait(thread["thread_id"], "script_writer", input={"url": url}, raise_error=False)
    now: Any = await client.threads.get(thread["thread_id"])
    runs: Any = await client.runs.list(thread["thread_id"])
    state: Any = await client.threads.get_state(thread["thread_id"])
    assert (now["status"], [run["status"] for run in runs]) == ("error", ["error"])
    assert not (state["values"] or {}).get("script")
    assert runs[0]["metadata"]["error"] == now["error"]["message"]
    return str(now["error"]["message"])


@pytest.mark.requirement("A-05")
async def test_a_worker_starts_without_its_files_and_a_job_with_a_wrong_file_fails_before_any_request(
    agent_jobs: LangGraphClient, agent_worker: AppProcess, files: Files, site: WebPages, wire: WireServer
) -> None:
    wire.requests.clear()
    async with httpx.AsyncClient(base_url=agent_worker.url, timeout=60) as http:
        assert (await http.get("/ok")).json()["ok"] is True

    error = await failure_of(agent_jobs, site.page("news.html"))
    assert f"CONFIG_PATH ({files.settings}): the file does not exist." in error
    files.settings.write_text("language: de\nsections: {min: 9, max: 2}", encoding="utf-8")
    error = await failure_of(agent_jobs, site.page("news.html"))
    assert f"CONFIG_PATH ({files.settings}:2): sections must not have a min above its max" in error
    files.settings.write_text("language: auto", encoding="utf-8")
    error = await failure_of(agent_jobs, site.page("news.html"))
    assert f"MCP_CONFIG_PATH ({files.mcp}): the file does not exist." in error
    for text, reason in (
        ("{\n mcpServers: oops", f"MCP_CONFIG_PATH ({files.mcp}:2): not valid JSON5"),
        ('{"mcpServers": {"job": {"command": "{env:NO_SUCH_KEY}"}}}', "environment variable NO_SUCH_KEY is not set"),
    ):
        files.mcp.write_text(text, encoding="utf-8")
        assert reason in await failure_of(agent_jobs, site.page("news.html"))

    assert site.requests == []
    assert wire.requests == []


@pytest.mark.requirement("A-05")
async def test_with_mcp_servers_an_agent_fetches_the_page_with_their_tools_and_no_key_is_stored(
    agent_jobs: LangGraphClient, agent_worker: AppProcess, files: Files, site: WebPages, wire: WireServer
) -> None:
    files.settings.write_text("language: French", encoding="utf-8")
    files.write_servers(files.mcp, "first", "second")
    url = "https://site.example/notes.md"
    wire.requests.clear()
    wire.turns[:] = [asks(("second_read", {"url": url})), DONE, calling(script())]

    thread_id = (await agent_jobs.threads.create())["thread_id"]
    answer: Any = await agent_jobs.runs.wait(thread_id, "script_writer", input={"url": url})
    history = await agent_jobs.threads.get_history(thread_id, limit=100)
    runs = await agent_jobs.runs.list(thread_id)

    assert (answer["script"]["title"], len(answer["script"]["sections"])) == (script()["title"], 3)
    assert wire.requests[0].tool_names == ["first_read", "second_read"]
    assert "winding paths" in str(wire.requests[-1].messages)
    assert "French" in str(wire.requests[-1].messages)
    assert [len(files.calls(name)) for name in ("first", "second", "served")] == [0, 1, 0]
    assert json.loads(files.calls("second")[0])["has_key"]
    assert site.requests == []
    assert len(history) > 4
    for place in (history, runs, wire.requests, agent_worker.logs()):
        assert SECRET not in repr(place)


@pytest.mark.requirement("A-05")
async def test_without_mcp_servers_the_page_is_fetched_by_http(
    plain_jobs: LangGraphClient, files: Files, site: WebPages, wire: WireServer
) -> None:
    files.settings.write_text("language: auto", encoding="utf-8")
    files.write_servers(files.mcp, "job")
    wire.requests.clear()
    wire.turns[:] = [calling(script())]

    answer: Any = await plain_jobs.runs.wait(None, "script_writer", input={"url": site.page("news.html")})

    assert answer["source"]["title"] == truth_of("news.html")["title"]
    assert [section["title"] for section in answer["script"]["sections"]] == ["Part 1", "Part 2", "Part 3"]
    assert site.requests == ["/robots.txt", "/pages/news.html"]
    assert [request.tool_names for request in wire.requests] == [["write_script"]]
    assert files.calls("job") == []


@pytest.mark.requirement("A-05")
async def test_a_job_is_written_by_the_settings_as_they_are_when_it_begins(
    plain_jobs: LangGraphClient, files: Files, site: WebPages, wire: WireServer
) -> None:
    style = {"personas": PERSONAS, "narration": {"character": "A sailor", "style": "Rhymes"}, "target_length_s": 60}
    spoken = [{"text": "One two three.", "persona_id": "host"}, {"text": "Four five six.", "persona_id": "guest"}]
    written = script(sections=4)
    for section in written["sections"]:
        section["narrations"] = spoken * 5
    wire.requests.clear()
    wire.turns[:] = [calling(script())]
    with openai_wire([calling(written)]) as other:
        named = {"model": "model-of-the-file", "base_url": other.base_url, "language": "Portuguese"}
        files.settings.write_text(json.dumps(named | style | {"sections": {"min": 4, "max": 4}}), encoding="utf-8")
        first: Any = await plain_jobs.runs.wait(None, "script_writer", input={"url": site.page("blog.html")})
        files.settings.write_text("language: German", encoding="utf-8")
        second: Any = await plain_jobs.runs.wait(None, "script_writer", input={"url": site.page("blog.html")})

    [request], [later_request] = other.requests, wire.requests
    assert (request.body["model"], later_request.body["model"]) == ("model-of-the-file", "model-of-the-process")
    prompt, later_prompt = request.messages[0]["content"], later_request.messages[0]["content"]
    for part in ("Portuguese", "host: Mika. Curious", "guest: Ada", "A sailor", "Rhymes", "4 sections", "60 seconds"):
        assert part in prompt
        assert part not in later_prompt
    assert "German" in later_prompt
    assert {narration["persona_id"] for narration in first["script"]["sections"][0]["narrations"]} == {"host", "guest"}
    assert len(second["script"]["sections"]) == 3


@pytest.mark.slow
@pytest.mark.requirement("S-05")
async def test_a_killed_server_repeats_no_tool_call_that_has_a_result(
    agent_worker: AppProcess, files: Files, wire: WireServer
) -> None:
    files.settings.write_text("language: auto", encoding="utf-8")
    files.write_servers(files.mcp, "web")
    wire.turns[:] = [asks(("web_read", {"url": BEES})), WireTurn(text="It is", silent_after=1)]
    async with get_client(url=agent_worker.url, api_key=None) as client, asyncio.timeout(BOUND_S):
        thread_id = (await client.threads.create())["thread_id"]
        run_id = (await client.runs.create(thread_id, "script_writer", input={"url": BEES}))["run_id"]
        while "'type': 'tool'" not in str(await client.threads.get_state(thread_id, subgraphs=True)):
            pass
    wire.turns[:] = [DONE, calling(script())]
    await asyncio.to_thread(agent_worker.kill)
    await asyncio.to_thread(agent_worker.start)
    async with get_client(url=agent_worker.url, api_key=None) as client, asyncio.timeout(BOUND_S):
        values: Any = await client.runs.join(thread_id, run_id)

    assert values["script"]["title"] == "Bees"
    assert len(files.calls("web")) == 1
