"""The core server as a program: over a pipe or HTTP, refused where strangers could use it, brief in errors."""

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from tests.fixtures.mcp_server import HttpMcpServer, held, http_mcp_server, stdio_mcp_server
from tests.servers.todo.in_memory import envelope
from toolweave.config.settings import Settings

BOUND_S = 60
PROGRAM = (sys.executable, "-m", "toolweave.servers.core")
TOKEN = "a-token-of-the-operators-own"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PAGE = Path(__file__).parents[3] / "docs" / "core-tools.md"
TOOLS = ["query_database", "execute_job", "check_job_status", "read_file", "search_files"]


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {"TOOLWEAVE_DATA_DIR": str(folder / "data"), "TOOLWEAVE_FILE_ROOTS": str(folder), **more}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HttpMcpServer]:
    """Run it with a token on every address of this machine."""
    folder = tmp_path_factory.mktemp("core")
    (folder / "note.txt").write_text("found", encoding="utf-8")
    line = ("-m", "toolweave.servers.core", "--transport", "http", "--host", "0.0.0.0", "--port", "{port}")  # noqa: S104
    env = environment(folder, TOOLWEAVE_CORE_TOKEN=TOKEN)
    async with http_mcp_server(*line, env=env, name="core") as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(guarded: HttpMcpServer) -> AsyncIterator[ClientSession]:
    async with (
        httpx.AsyncClient(headers=BEARER, timeout=BOUND_S) as http,
        held(_session(streamable_http_client(guarded.url, http_client=http))) as opened,
    ):
        yield opened


@pytest.mark.requirement("C-01")
async def test_with_a_token_it_may_listen_anywhere_and_serves_callers_with_the_token(session: ClientSession) -> None:
    assert [tool.name for tool in (await session.list_tools()).tools] == TOOLS
    answer = envelope(await session.call_tool("read_file", {"path": "note.txt"}))
    assert answer["data"]["content"] == "found"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer another-token-than-that"}, {"Authorization": TOKEN}])
async def test_a_caller_without_the_token_is_refused(guarded: HttpMcpServer, headers: dict[str, str]) -> None:
    async with httpx.AsyncClient(headers=headers, timeout=BOUND_S) as client:
        for method in ("GET", "POST"):
            answer = await client.request(method, guarded.url, json={} if method == "POST" else None)
            assert answer.status_code == 401
            assert TOKEN not in answer.text


@pytest.mark.parametrize("block", [1, 2])
async def test_a_block_to_paste_into_another_program_shows_the_token(guarded: HttpMcpServer, block: int) -> None:
    entry = to_paste()[block]
    assert (entry["type"], entry["url"]) == ("http", f"http://127.0.0.1:{Settings().port}/ai/mcp")
    headers = {
        name: re.sub("what .* says|[$]{input:core-token}", TOKEN, value) for name, value in entry["headers"].items()
    }
    async with (
        httpx.AsyncClient(headers=headers, timeout=BOUND_S) as http,
        _session(streamable_http_client(guarded.url, http_client=http)) as session,
    ):
        assert [tool.name for tool in (await session.list_tools()).tools] == TOOLS


@pytest.mark.requirement("C-01")
async def test_over_a_pipe_it_serves_the_process_that_started_it_with_the_block_to_paste(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("found", encoding="utf-8")
    entry = to_paste()[0]
    assert Path(entry["command"]).name == "python"
    values = environment(tmp_path, TOOLWEAVE_CORE_TOKEN=TOKEN)
    assert set(entry["env"]) <= set(values)
    env = {name: values[name] for name in (*entry["env"], "TOOLWEAVE_CORE_TOKEN")}
    async with stdio_mcp_server(*entry["args"], env=env) as server:
        assert [tool.name for tool in (await server.session.list_tools()).tools] == TOOLS
        answer = envelope(await server.session.call_tool("search_files", {"pattern": "found", "content": True}))
        assert [match["path"] for match in answer["data"]] == ["note.txt"]
        assert TOKEN not in server.stderr()


@pytest.mark.parametrize(
    ("arguments", "variables", "says"),
    [
        (("--transport", "http", "--host", "0.0.0.0"), {}, "TOOLWEAVE_CORE_TOKEN"),  # noqa: S104
        ((), {"TOOLWEAVE_FILE_MAX_BYTES": "0"}, "TOOLWEAVE_FILE_MAX_BYTES"),
    ],
)
def test_a_setting_that_it_cannot_use_ends_it_with_one_line(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], says: str
) -> None:
    ended = subprocess.run(
        (*PROGRAM, *arguments),
        # A library that is loaded asks for the locale's encoding.
        env={**os.environ, **environment(tmp_path, **variables), "PYTHONWARNDEFAULTENCODING": ""},
        input=b"",
        capture_output=True,
        timeout=BOUND_S,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stdout == b""
    (line,) = ended.stderr.decode().splitlines()
    assert line.startswith("toolweave.servers.core: ")
    assert says in line


def to_paste() -> list[dict[str, Any]]:
    """Give the server of each block of the operator's page."""
    blocks = re.findall(r"^```json\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    read = [json.loads(block) for block in blocks]
    return [(block.get("mcpServers") or block["servers"])["toolweave"] for block in read]


@asynccontextmanager
async def _session(streams: Any) -> AsyncIterator[ClientSession]:
    async with streams as opened, ClientSession(opened[0], opened[1]) as session:
        await session.initialize()
        yield session
