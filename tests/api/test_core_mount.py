"""The core tools are served at /ai/mcp beside everything else: to MCP clients that may use them."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastmcp import Client
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from tests.fixtures.app_server import AppServer
from tests.servers.core.test_auth import ACCEPT, HELLO, TOKEN
from tests.servers.core.tokens import AUDIENCE, ISSUER, public_pem, rsa_key
from toolweave.api.app import MOUNT_PATH, CoreServerMount
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError
from toolweave.runtime.caller import Caller, current_caller, use_caller
from toolweave.servers.core import loading

HERE = Path(__file__)
LINES = HERE.read_text(encoding="utf-8").splitlines()
SERVER_ENV = {
    "TOOLWEAVE_MODEL": "offline",
    "TOOLWEAVE_FILE_ROOTS": str(HERE.parent),
    "TOOLWEAVE_CORS_ORIGINS": "https://ui.example.org",
}
CORE_TOOLS = ["check_job_status", "execute_job", "query_database", "read_file", "search_files"]
OUR_GRAPHS = {"agent_loop", "todo_agent", "workflow", "script_writer"}
LOOPBACK = ("127.0.0.1", 50_000)
CLIENTS = 50


@asynccontextmanager
async def mounted(
    *, client: tuple[str, int] | None = LOOPBACK, url: str = "http://127.0.0.1", **settings: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """Mount the core server in another application, without our server around it."""
    core, app = CoreServerMount(), FastAPI()

    @app.get(f"{MOUNT_PATH}/ours")
    def ours() -> str:
        return "ours"

    app.mount(MOUNT_PATH, core)
    app.state.settings = Settings(**settings)
    transport = httpx.ASGITransport(app, client=client)  # type: ignore[arg-type] # None: a socket that is a file
    async with core.serve(app.state.settings), httpx.AsyncClient(transport=transport, base_url=url) as http:
        yield http


async def hello(http: httpx.AsyncClient, path: str = "/ai/mcp", **headers: str) -> httpx.Response:
    return await http.post(path, json=HELLO, headers={**ACCEPT, **headers})


@asynccontextmanager
async def official_client(url: str) -> AsyncIterator[ClientSession]:
    async with streamable_http_client(url) as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()
        yield session


@pytest.mark.requirement("D-8")
@pytest.mark.requirement("C-01")
async def test_core_tools_and_graphs_are_served_side_by_side_to_any_client(app_server: AppServer) -> None:
    async with official_client(f"{app_server.url}/ai/mcp") as core, official_client(f"{app_server.url}/mcp") as graphs:
        assert sorted(tool.name for tool in (await core.list_tools()).tools) == CORE_TOOLS
        assert {tool.name for tool in (await graphs.list_tools()).tools} >= OUR_GRAPHS
        read = await core.call_tool("read_file", {"path": str(HERE)})
        answered = await graphs.call_tool("agent_loop", {"messages": [{"role": "user", "content": "Hello!"}]})
    assert read.structuredContent is not None
    assert read.structuredContent["status"] == "success"
    assert not answered.isError
    async with Client(f"{app_server.url}/ai/mcp") as core, Client(f"{app_server.url}/mcp") as graphs:
        assert sorted(tool.name for tool in await core.list_tools()) == CORE_TOOLS
        assert {tool.name for tool in await graphs.list_tools()} >= OUR_GRAPHS


@pytest.mark.parametrize("calls", [100, pytest.param(1_000, marks=[pytest.mark.slow])])
async def test_many_clients_call_at_once_and_each_gets_its_own_results(app_server: AppServer, calls: int) -> None:
    async def work(number: int) -> int:
        async with Client(f"{app_server.url}/ai/mcp") as client:
            right = 0
            for turn in range(calls // CLIENTS):
                start = 1 + (number + turn) % 20
                arguments = {"path": str(HERE), "start_line": start, "max_lines": 1}
                answer = (await client.call_tool("read_file", arguments)).structured_content
                assert answer is not None
                right += answer["data"]["content"].rstrip("\n") == LINES[start - 1]
            return right

    assert sum(await asyncio.gather(*(work(number) for number in range(CLIENTS)))) == calls


async def test_the_path_is_answered_with_and_without_a_slash_and_never_redirected(http: httpx.AsyncClient) -> None:
    assert [(await hello(http, path)).status_code for path in ("/ai/mcp", "/ai/mcp/")] == [200, 200]
    for path in ("/ai/other", "/ai/mcp/more", "/ai/mcpx"):
        answer = await hello(http, path)
        assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})


async def test_malformed_requests_are_refused(http: httpx.AsyncClient) -> None:
    huge = b"[" + b" " * (5 * 1024 * 1024) + b"]"
    sent = {**ACCEPT, "content-type": "application/json"}
    assert (await http.post("/ai/mcp", content=huge, headers=sent)).status_code == 413
    assert (await http.post("/ai/mcp", content=b"{", headers=sent)).status_code == 400
    assert (await http.post("/ai/mcp", content=b"{}", headers={**ACCEPT, "content-type": "text/plain"})).is_client_error
    assert (await hello(http, accept="text/html")).status_code == 406


async def test_foreign_pages_and_names_are_refused_and_allowed_pages_may_read_the_session(
    http: httpx.AsyncClient,
) -> None:
    assert (await hello(http, host="evil.example.org")).status_code == 421
    assert (await hello(http, origin="https://evil.example.org")).status_code == 403
    answer = await hello(http, origin="https://ui.example.org")
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "https://ui.example.org")
    assert "mcp-session-id" in answer.headers["access-control-expose-headers"]


async def test_requests_are_counted_under_their_path(http: httpx.AsyncClient) -> None:
    await hello(http)
    await hello(http, "/ai/unknown-path")
    figures = (await http.get("/metrics")).text
    assert 'lg_api_http_requests_total{method="POST",path="/ai/mcp",status="200"}' in figures
    assert "unknown-path" not in figures


async def test_the_access_checks_apply_without_our_server_around_it() -> None:
    async with mounted(cors_origins=("https://ui.example.org",)) as http:
        assert (await hello(http)).status_code == 200
        assert (await hello(http, host="evil.example.org")).status_code == 421
        assert (await hello(http, origin="https://evil.example.org")).status_code == 403
        assert (await hello(http, origin="https://ui.example.org")).status_code == 200
        assert (await http.get("/ai/ours")).json() == "ours"


async def test_pages_of_other_origins_need_a_token_even_if_every_origin_may_use_the_api() -> None:
    anywhere: dict[str, Any] = {"cors_origins": ("*", "https://ui.example.org")}
    async with mounted(**anywhere) as http:
        for origin in ("https://evil.example.org", "null"):
            refused = await hello(http, origin=origin)
            assert (refused.status_code, "TOOLWEAVE_CORS_ORIGINS" in refused.text) == (403, True)
        for origin in ("https://ui.example.org", "http://localhost:5173"):
            assert (await hello(http, origin=origin)).status_code == 200
    async with mounted(**anywhere, core_token=TOKEN) as http:
        evil = {"origin": "https://evil.example.org"}
        assert (await hello(http, **evil, authorization=f"Bearer {TOKEN}")).status_code == 200
        assert (await hello(http, **evil)).status_code == 401


@pytest.mark.parametrize(
    "reachable",
    [
        {"host": "0.0.0.0"},  # noqa: S104
        {"host": "192.0.2.7", "allow_insecure_bind": True},
        {"url": "http://192.0.2.7"},
        {"client": ("192.0.2.8", 50_000)},
    ],
    ids=["all addresses", "insecure bind", "the connection's own address", "a proxy's caller"],
)
async def test_where_other_machines_reach_it_callers_must_send_a_token(reachable: dict[str, Any]) -> None:
    async with mounted(**reachable) as http:
        refused = await hello(http)
        assert refused.status_code == 403
        assert "TOOLWEAVE_CORE_TOKEN" in refused.json()["error"]["message"]
    async with mounted(**reachable, core_token=TOKEN) as http:
        assert (await hello(http)).status_code == 401
        assert (await hello(http, authorization=f"Bearer {TOKEN}")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"x-forwarded-for": "192.0.2.8"},
        {"x-original-forwarded-for": "192.0.2.8"},
        {"fly-client-ip": "192.0.2.8"},
        {"x-forwarded-for": "127.0.0.1, 192.0.2.8"},
        {"x-real-ip": "192.0.2.8"},
        {"x-real-ip": "unknown"},
        {"cf-connecting-ip": "2001:db8::1"},
        {"forwarded": 'For="[2001:db8::1]:4711"; proto=https'},
        {"forwarded": "for=127.0.0.1, for=192.0.2.8"},
        {"forwarded": "for=127.0.0.1; for=192.0.2.8"},
        {"forwarded": "for=unknown"},
        {"forwarded": "proto=https"},
        {"forwarded": 'for="[::1].evil.example"'},
    ],
)
async def test_a_proxys_caller_must_send_a_token(headers: dict[str, str]) -> None:
    async with mounted() as http:
        refused = await hello(http, **headers)
        assert (refused.status_code, "TOOLWEAVE_CORE_TOKEN" in refused.text) == (403, True)
    async with mounted(core_token=TOKEN) as http:
        assert (await hello(http, **headers, authorization=f"Bearer {TOKEN}")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"x-forwarded-for": "127.0.0.1:50000, ::1"},
        {"x-real-ip": "::ffff:127.0.0.1"},
        {"forwarded": 'for=127.0.0.1;proto=http, for="[::1]:4711"'},
    ],
)
async def test_a_proxys_caller_on_this_machine_needs_none(headers: dict[str, str]) -> None:
    async with mounted() as http:
        assert (await hello(http, **headers)).status_code == 200


async def test_a_served_process_refuses_a_proxys_callers_too(http: httpx.AsyncClient) -> None:
    for name, value in (("forwarded", "for=192.0.2.8"), ("x-real-ip", "192.0.2.8"), ("x-forwarded-for", "192.0.2.8")):
        assert (await hello(http, **{name: value})).status_code == 403


async def test_with_a_token_set_callers_on_this_machine_need_it_too_and_it_is_checked_before_the_body() -> None:
    huge = b"[" + b" " * (5 * 1024 * 1024) + b"]"
    async with mounted(core_token=TOKEN) as http:
        assert (await hello(http, authorization="Bearer x")).status_code == 401
        for body in (json.dumps(HELLO).encode(), huge, b"{"):
            headers = {**ACCEPT, "content-type": "application/json"}
            assert (await http.post("/ai/mcp", content=body, headers=headers)).status_code == 401


async def test_a_wrong_setting_is_an_error_at_the_start() -> None:
    with pytest.raises(ConfigError, match="TOOLWEAVE_CORE_TOKEN"):
        async with mounted(core_token="short"):
            pass


async def test_while_it_cannot_be_opened_the_rest_works_and_later_it_opens(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text(public_pem(rsa_key()), encoding="ascii")
    settings: dict[str, Any] = {"core_jwt_public_key": key, "core_jwt_issuer": ISSUER, "core_jwt_audience": AUDIENCE}
    async with mounted(**settings, core_token=TOKEN) as http:
        moved = key.rename(tmp_path / "elsewhere.pem")
        shown = {"authorization": f"Bearer {TOKEN}"}
        refused = await hello(http, **shown)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "TOOLWEAVE_CORE_JWT_PUBLIC_KEY" in refused.json()["error"]["message"]
        assert (await http.get("/ai/ours")).json() == "ours"
        moved.rename(key)
        async with asyncio.timeout(60):
            while (await hello(http, **shown)).status_code == 503:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await hello(http, **shown)).status_code == 200


async def test_the_caller_of_the_first_request_is_not_the_caller_of_the_server_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    callers: list[Caller] = []
    load = loading.import_core_server

    def loaded() -> None:
        callers.append(current_caller())
        load()

    monkeypatch.setattr(loading, "import_core_server", loaded)
    async with mounted() as http:
        with use_caller(Caller(None, {"x-of": "the first"})):
            assert (await hello(http)).status_code == 200
    assert callers == [Caller()]


async def test_before_the_application_is_started_it_answers_503() -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(CoreServerMount()), base_url="http://127.0.0.1") as http:
        answer = await hello(http, "/mcp")
    assert (answer.status_code, "has not been started" in answer.text) == (503, True)


def test_neither_importing_nor_starting_the_application_waits_for_its_library(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from toolweave.api.app import create_app\n"
        "from toolweave.config.settings import Settings\n"
        "async def main():\n"
        f"    app = create_app(Settings(data_dir={str(tmp_path)!r}, mcp_config={str(tmp_path / 'mcp.jsonc')!r}))\n"
        "    async with app.router.lifespan_context(app):\n"
        "        print(sorted(name for name in sys.modules if name.split('.')[0] == 'fastmcp'))\n"
        "asyncio.run(main())\n"
    )
    (tmp_path / "mcp.jsonc").write_text('{"mcpServers": {}}', encoding="utf-8")
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True)
    assert ended.stdout.splitlines()[-1] == "[]"
