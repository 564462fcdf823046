"""Script jobs of a real server: which way a page is fetched, by which settings, and how a job ends that has bad ones.

In embedded mode the serving process is the worker; two of them run here, with MCP_CONFIG_PATH and without it (A-05).
"""

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
from tests.fixtures.openai_wire import WireCall, WireServer, WireTurn, openai_wire
from tests.fixtures.web_pages import PAGES, WebPages, truth_of
from tests.nodes.model_at import calling
from tests.nodes.script.writing import script

FETCHER = Path(__file__).parent / "recording_fetcher.py"
SECRET = "k3y-of-the-job"
PERSONAS = [{"id": "host", "name": "Mika", "character": "Curious"}, {"id": "guest", "name": "Ada"}]


@dataclass(frozen=True)
class Files:
    """The files of the jobs, and what the MCP servers write down."""

    folder: Path

    @property
    def settings(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def mcp(self) -> Path:
        return self.folder / "mcp.jsonc"

    def server(self, name: str) -> dict[str, Any]:
        """Describe a server that brings the notes on winding paths, whatever it is asked for."""
        return {"command": sys.executable, "args": [str(FETCHER), name, str(self.record), str(PAGES / "notes.md")]}

    def keyed_server(self, name: str) -> dict[str, Any]:
        """Describe one that gets a key of the environment, by a variable."""
        return {**self.server(name), "env": {"READING_KEY": "{env:JOB_KEY}"}}

    def write_servers(self, *names: str) -> None:
        text = json.dumps({"mcpServers": {name: self.keyed_server(name) for name in names}})
        self.mcp.write_text(f"// of script jobs\n{text}", encoding="utf-8")

    @property
    def record(self) -> Path:
        return self.folder / "record.txt"

    def noted(self) -> list[str]:
        return self.record.read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Give a folder in which only the served plane's file is there at first."""
    files = Files(tmp_path_factory.mktemp("jobs"))
    served = json.dumps({"mcpServers": {"served": files.server("served")}})
    (files.folder / "served.jsonc").write_text(served, encoding="utf-8")
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
    """Let a job fail; give the error that its thread, and the metadata of its run, have then."""
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
async def test_a_worker_starts_whose_files_are_not_there_and_its_jobs_say_which(
    agent_jobs: LangGraphClient, agent_worker: AppProcess, files: Files, site: WebPages, wire: WireServer
) -> None:
    wire.requests.clear()
    async with httpx.AsyncClient(base_url=agent_worker.url, timeout=60) as http:
        assert (await http.get("/ok")).json()["ok"] is True

    first = await failure_of(agent_jobs, site.page("news.html"))
    files.settings.write_text("language: auto", encoding="utf-8")
    second = await failure_of(agent_jobs, site.page("news.html"))

    assert f"CONFIG_PATH ({files.settings}): the file does not exist." in first
    assert f"MCP_CONFIG_PATH ({files.mcp}): the file does not exist." in second
    assert site.requests == []
    assert wire.requests == []


@pytest.mark.requirement("A-05")
async def test_mcp_files_that_are_wrong_fail_their_jobs_and_the_page_is_not_fetched_another_way(
    agent_jobs: LangGraphClient, files: Files, site: WebPages, wire: WireServer
) -> None:
    wire.requests.clear()
    files.settings.write_text("language: auto", encoding="utf-8")
    for text, reason in (
        ("{\n mcpServers: oops", ":2): not valid JSON5"),
        ('{"mcpServers": {"job": {"command": "{env:NO_SUCH_KEY}"}}}', "environment variable NO_SUCH_KEY is not set"),
    ):
        files.mcp.write_text(text, encoding="utf-8")
        error = await failure_of(agent_jobs, site.page("news.html"))
        assert f"MCP_CONFIG_PATH ({files.mcp}" in error
        assert reason in error

    assert site.requests == []
    assert wire.requests == []


@pytest.mark.requirement("A-05")
async def test_a_job_whose_input_is_no_address_says_so_in_its_metadata_too(plain_jobs: LangGraphClient) -> None:
    assert "must be the URL of a page" in await failure_of(plain_jobs, "no address")


@pytest.mark.requirement("A-05")
async def test_with_mcp_servers_an_agent_fetches_the_page_with_their_tools_and_no_key_is_kept(
    agent_jobs: LangGraphClient, agent_worker: AppProcess, files: Files, site: WebPages, wire: WireServer
) -> None:
    files.settings.write_text("language: French", encoding="utf-8")
    files.write_servers("first", "second")
    url = "https://site.example/paths"
    fetch = WireCall("second_second_read", json.dumps({"url": url}))
    wire.requests.clear()
    wire.turns[:] = [WireTurn(calls=(fetch,)), WireTurn(text="The page was read."), calling(script())]

    thread_id = (await agent_jobs.threads.create())["thread_id"]
    answer: Any = await agent_jobs.runs.wait(thread_id, "script_writer", input={"url": url})
    history = await agent_jobs.threads.get_history(thread_id, limit=100)
    runs = await agent_jobs.runs.list(thread_id)

    assert (answer["script"]["title"], len(answer["script"]["sections"])) == (script()["title"], 3)
    assert wire.requests[0].tool_names == ["first_first_read", "second_second_read"]
    assert "winding paths" in str(wire.requests[-1].messages)
    assert "French" in str(wire.requests[-1].messages)
    assert {"first started with its key", "second started with its key", f"second tools/call {url}"} <= set(
        files.noted()
    )
    assert {"first ended", "second ended"} <= set(files.noted())
    assert "served tools/call" not in "\n".join(files.noted())
    assert site.requests == []
    assert len(history) > 4
    for kept in (history, runs, wire.requests, agent_worker.logs()):
        assert SECRET not in repr(kept)


@pytest.mark.requirement("A-05")
async def test_without_mcp_servers_the_page_is_fetched_by_http_and_no_session_is_opened(
    plain_jobs: LangGraphClient, files: Files, site: WebPages, wire: WireServer
) -> None:
    files.settings.write_text("language: auto", encoding="utf-8")
    files.write_servers("job")
    wire.requests.clear()
    wire.turns[:] = [calling(script())]
    before = files.noted()

    answer: Any = await plain_jobs.runs.wait(None, "script_writer", input={"url": site.page("news.html")})

    assert answer["source"]["title"] == truth_of("news.html")["title"]
    assert [section["title"] for section in answer["script"]["sections"]] == ["Part 1", "Part 2", "Part 3"]
    assert site.requests == ["/robots.txt", "/pages/news.html"]
    assert [request.tool_names for request in wire.requests] == [["write_script"]]
    assert "served started" in before, "the served plane is there"
    assert files.noted() == before


@pytest.mark.requirement("A-05")
async def test_a_job_is_written_by_the_settings_as_they_are_when_it_begins(
    plain_jobs: LangGraphClient, files: Files, site: WebPages, wire: WireServer
) -> None:
    told = {"personas": PERSONAS, "narration": {"character": "A sailor", "style": "Rhymes"}, "target_length_s": 60}
    spoken = [{"text": "One two three.", "persona_id": "host"}, {"text": "Four five six.", "persona_id": "guest"}]
    written = script(sections=4)
    for section in written["sections"]:
        section["narrations"] = spoken * 5
    wire.requests.clear()
    wire.turns[:] = [calling(script())]
    with openai_wire([calling(written)]) as other:
        named = {"model": "model-of-the-file", "base_url": other.base_url, "language": "Portuguese"}
        files.settings.write_text(json.dumps(named | told | {"sections": {"min": 4, "max": 4}}), encoding="utf-8")
        first: Any = await plain_jobs.runs.wait(None, "script_writer", input={"url": site.page("blog.html")})
        files.settings.write_text("language: German", encoding="utf-8")
        second: Any = await plain_jobs.runs.wait(None, "script_writer", input={"url": site.page("blog.html")})

    [asked], [asked_then] = other.requests, wire.requests
    assert (asked.body["model"], asked_then.body["model"]) == ("model-of-the-file", "model-of-the-process")
    prompt, prompt_then = asked.messages[0]["content"], asked_then.messages[0]["content"]
    for part in ("Portuguese", "host: Mika. Curious", "guest: Ada", "A sailor", "Rhymes", "4 sections", "60 seconds"):
        assert part in prompt
        assert part not in prompt_then
    assert "German" in prompt_then
    assert {narration["persona_id"] for narration in first["script"]["sections"][0]["narrations"]} == {"host", "guest"}
    assert len(second["script"]["sections"]) == 3


@pytest.mark.requirement("A-05")
async def test_wrong_script_settings_fail_their_job_and_its_thread_takes_the_next_job_with_the_corrected_file(
    plain_jobs: LangGraphClient, files: Files, site: WebPages, wire: WireServer
) -> None:
    thread_id = (await plain_jobs.threads.create())["thread_id"]
    request: Any = {"input": {"url": site.page("letter.txt")}}
    files.settings.write_text("language: de\nsections: {min: 9, max: 2}", encoding="utf-8")
    wire.requests.clear()
    wire.turns[:] = [calling(script())]

    await plain_jobs.runs.wait(thread_id, "script_writer", **request, raise_error=False)
    failed: Any = await plain_jobs.threads.get(thread_id)
    requests_of_failed = [*site.requests, *wire.requests]
    files.settings.write_text("sections: {min: 2, max: 9}", encoding="utf-8")
    answer: Any = await plain_jobs.runs.wait(thread_id, "script_writer", **request)
    corrected: Any = await plain_jobs.threads.get(thread_id)

    assert (failed["status"], corrected["status"], corrected["error"]) == ("error", "idle", None)
    assert requests_of_failed == []
    assert f"CONFIG_PATH ({files.settings}:2): sections must not have a min above its max" in failed["error"]["message"]
    assert len(answer["script"]["sections"]) == 3
