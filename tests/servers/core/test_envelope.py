"""However a call of a core tool ends, in this process or over a pipe, the answer is the envelope and leaks nothing."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from mcp import ClientSession

from tests.fixtures.core_world import SECRET, CoreWorld, core_client, core_world
from tests.fixtures.mcp_server import StdioMcpServer, held, stdio_mcp_server
from tests.servers.todo.in_memory import envelope

PASSWORD = "the-password-of-the-database"
COLUMNS = "id, customer_id, total, status, placed_on"

# tool, arguments, type, code, what the message names
FAILURES: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("read_file", {}, "validation", "missing_parameter", "'path' is required"),
    ("read_file", {"path": "README.md", "lines": 3}, "validation", "unknown_parameter", "'lines'"),
    ("read_file", {"path": "a\0b"}, "validation", "invalid_parameter", "'path' must be a path without NUL"),
    ("read_file", {"path": "absent.md"}, "not_found", "not_found", "no such file"),
    ("read_file", {"path": "../secret.txt"}, "access", "forbidden_path", "not within the folders"),
    ("read_file", {"path": "logo.png"}, "content", "not_text", "not text"),
    ("search_files", {"pattern": "*", "limit": 0}, "validation", "invalid_parameter", "'limit' must be at least 1"),
    ("query_database", {"table": 1}, "validation", "invalid_parameter", "'table' must be a string"),
    (
        "query_database",
        {"table": "orders", "filters": [{"column": "id", "op": "near", "value": 1}]},
        "validation",
        "invalid_parameter",
        "'filters[0].op' must be one of eq, ne,",
    ),
    ("query_database", {"table": "cards"}, "guardrail", "guardrail", "'table_allow_list'"),
    ("execute_job", {"endpoint": "https://example.com/"}, "access", "forbidden_endpoint", "not among those"),
    ("execute_job", {"endpoint": "{jobs}/count", "params": []}, "validation", "invalid_parameter", "'params'"),
    ("execute_job", {"endpoint": "{jobs}/count", "params": {}}, "upstream", "endpoint_error", "422"),
    ("execute_job", {"endpoint": "{closed}/x"}, "unavailable", "endpoint_unreachable", "{closed}/x"),
    ("execute_job", {"endpoint": "{silent}/x"}, "timeout", "endpoint_timeout", "3.5 s"),
    ("check_job_status", {"endpoint": "{jobs}/count", "job_id": "x"}, "not_found", "not_found", "404"),
    (
        "check_job_status",
        {"endpoint": "{jobs}/count", "job_id": "x", "wait_s": 99},
        "validation",
        "invalid_parameter",
        "'wait_s' must be at most 3",
    ),
    ("drop_table", {"table": "orders"}, "not_found", "unknown_tool", "'drop_table'"),
]


@pytest.fixture(scope="module")
def silent_port() -> Iterator[int]:
    """Give a port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CoreWorld]:
    async with held(core_world(tmp_path_factory.mktemp("world"))) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def places(world: CoreWorld, silent_port: int, closed_port: int) -> dict[str, str]:
    return {
        "jobs": world.jobs_url,
        "silent": f"http://127.0.0.1:{silent_port}",
        "closed": f"http://127.0.0.1:{closed_port}",
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sessions(world: CoreWorld, places: dict[str, str]) -> AsyncIterator[dict[str, ClientSession]]:
    """Hold a session with a core server in this process, and one with a core server over a pipe."""
    settings = world.settings(job_endpoints=tuple(places.values()), outbound_allow="127.0.0.0/8", job_timeout_s=3.5)
    env = {
        "TOOLWEAVE_DATA_DIR": str(settings.data_dir),
        "TOOLWEAVE_QUERY_DATABASE_URL": str(settings.query_database_url),
        "TOOLWEAVE_QUERY_TABLES": settings.query_tables,
        "TOOLWEAVE_JOB_ENDPOINTS": ",".join(places.values()),
        "TOOLWEAVE_JOB_TIMEOUT_S": "3.5",
        "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.0/8",
        "TOOLWEAVE_FILE_ROOTS": ",".join(settings.file_roots),
        "TOOLWEAVE_CORE_TOKEN": PASSWORD,
    }
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(held(core_client(settings)))
        piped: StdioMcpServer = await stack.enter_async_context(
            held(stdio_mcp_server("-m", "toolweave.servers.core", env=env))
        )
        yield {"memory": here.client.session, "stdio": piped.session}


@pytest.mark.requirement("C-06")
@pytest.mark.parametrize("transport", ["memory", "stdio"])
@pytest.mark.parametrize(("tool", "arguments", "kind", "code", "names"), FAILURES)
async def test_a_failure_has_its_code_its_reason_and_advice(
    sessions: dict[str, ClientSession],
    places: dict[str, str],
    world: CoreWorld,
    transport: str,
    tool: str,
    arguments: dict[str, Any],
    kind: str,
    code: str,
    names: str,
) -> None:
    arguments = {name: _filled(value, places) for name, value in arguments.items()}
    result = await sessions[transport].call_tool(tool, arguments)
    error = envelope(result)["error"]
    assert (error["type"], error["code"]) == (kind, code)
    assert _filled(names, places) in error["message"]
    text = result.model_dump_json()
    for secret in (SECRET, PASSWORD, str(world.folder), "Traceback", "sqlite3", "pydantic", "toolweave."):
        assert secret not in text


@pytest.mark.requirement("C-06")
@pytest.mark.parametrize("transport", ["memory", "stdio"])
async def test_a_success_is_the_same_in_process_and_over_a_pipe(
    sessions: dict[str, ClientSession], world: CoreWorld, transport: str
) -> None:
    session = sessions[transport]
    rows = envelope(await session.call_tool("query_database", {"table": "orders", "filters": {"status": "open"}}))
    assert [row["id"] for row in rows["data"]] == [2, 3, 5]
    text = envelope(await session.call_tool("read_file", {"path": "src/totals.py"}))
    assert text["data"]["content"].startswith("def total(prices):")
    found = envelope(await session.call_tool("search_files", {"pattern": "refund", "content": True}))
    assert [match["path"] for match in found["data"]] == ["docs/returns.md", "docs/shipping.md"]
    job = envelope(
        await session.call_tool("execute_job", {"endpoint": f"{world.jobs_url}/count", "params": {"text": "a"}})
    )
    assert job["data"]["status"] == "queued"


@pytest.mark.parametrize(
    ("tool", "arguments", "setting"),
    [
        ("execute_job", {"endpoint": "https://jobs.example.org/x"}, "TOOLWEAVE_JOB_ENDPOINTS"),
        ("check_job_status", {"endpoint": "https://jobs.example.org/x", "job_id": "1"}, "TOOLWEAVE_JOB_ENDPOINTS"),
        ("read_file", {"path": "x"}, "TOOLWEAVE_FILE_ROOTS"),
        ("search_files", {"pattern": "x"}, "TOOLWEAVE_FILE_ROOTS"),
    ],
)
async def test_a_tool_that_is_not_configured_names_its_setting(
    world: CoreWorld, tool: str, arguments: dict[str, Any], setting: str
) -> None:
    async with core_client(world.settings(job_endpoints=(), file_roots=())) as core:
        error = await core.error(tool, arguments)
    assert (error["type"], error["code"]) == ("unavailable", "not_configured")
    assert setting in error["message"]


@pytest.mark.requirement("C-06")
async def test_a_database_that_is_not_there_is_unavailable_without_its_url(world: CoreWorld) -> None:
    url = f"sqlite:///{world.folder / 'absent' / PASSWORD}.db"
    async with core_client(world.settings(query_database_url=url)) as core:
        error = await core.error("query_database", {"table": "orders"})
    assert (error["type"], error["code"]) == ("unavailable", "unavailable")
    assert PASSWORD not in str(error)
    assert "TOOLWEAVE_QUERY_DATABASE_URL" in error["suggestion"]


@pytest.mark.requirement("C-06")
async def test_an_answer_larger_than_any_file_that_may_be_read_is_refused(world: CoreWorld) -> None:
    large = world.folder / "handbook" / "large.txt"
    large.write_text('"\n' * 400_000, encoding="utf-8")
    async with core_client(world.settings()) as core:
        error = await core.error("read_file", {"path": "large.txt"})
        part = await core.data("read_file", {"path": "large.txt", "max_lines": 10})
    large.unlink()
    assert (error["type"], error["code"]) == ("content", "too_large")
    assert part["content"].count("\n") in (9, 10)


async def test_calls_of_one_session_run_side_by_side(world: CoreWorld) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": "README.md"}),
        ("search_files", {"pattern": "*.md"}),
        ("query_database", {"table": "customers"}),
    ]
    async with core_client(world.settings()) as core:
        answers = await asyncio.gather(*(core.call(tool, arguments) for tool, arguments in calls for _ in range(20)))
    assert {answer["status"] for answer in answers} == {"success"}


def _filled(value: Any, places: dict[str, str]) -> Any:
    if isinstance(value, str) and "{" in value:
        for name, url in places.items():
            value = value.replace(f"{{{name}}}", url)
    return value
