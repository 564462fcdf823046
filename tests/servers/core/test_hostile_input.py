"""Whatever a caller of the core tools sends, the answer is an envelope that names what is wrong, and in time."""

import string
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.core_world import SECRET, CoreWorld, core_client, core_world
from tests.fixtures.mcp_server import held
from tests.servers.todo.in_memory import TodoClient

LARGE = "x" * 1_000_000
TOOLS: dict[str, tuple[str, ...]] = {
    "query_database": ("table", "filters", "columns", "order_by", "limit"),
    "execute_job": ("endpoint", "params"),
    "check_job_status": ("endpoint", "job_id", "wait_s"),
    "read_file": ("path", "start_line", "max_lines"),
    "search_files": ("pattern", "directory", "content", "files", "ignore_case", "limit"),
}
REQUIRED = {"table": "orders", "endpoint": "{jobs}/count", "job_id": "1", "path": "README.md", "pattern": "*"}
# Half of the values are near to what is right: they get past the first check.
NEAR = st.sampled_from(
    [
        *("orders", "customers", "sqlite_master", "orders; DROP TABLE orders", '"', "id", "-id", "id desc", "total"),
        *("README.md", "../secret.txt", "/etc/passwd", "docs/../../secret.txt", "~", ".", "..", "docs/", "**/**", "[!"),
        *("http://127.0.0.1:1/", "file:///etc/passwd", "http://user:pw@[::1]/", "//", "http://\u2028", "{jobs}/count"),
        *("eq", "like", "in", "%", 0, 1, -1, 2**63, 10**400, 1e308, True, [], {}, [[]], [{}], "", " ", "\0", "\u202e"),
        *({"id": 1}, {"and": []}, {"or": [{"id": 1}]}, {"column": "id", "op": "in", "value": [1, "a"]}),
        *([{"column": "id", "op": "like", "value": 3}], [{"column": 3}], {"id": {"id": 1}}, {"\r\n": "\r\n"}),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(string.printable, max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CoreWorld]:
    async with held(core_world(tmp_path_factory.mktemp("world"))) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def core(world: CoreWorld) -> AsyncIterator[TodoClient]:
    async with held(core_client(world.settings())) as client:
        yield client


@pytest.mark.requirement("C-06")
@given(st.data())
async def test_any_json_gets_an_envelope_and_never_an_internal_error(
    core: TodoClient, world: CoreWorld, data: st.DataObject
) -> None:
    tool = data.draw(st.sampled_from(sorted(TOOLS)))
    names = TOOLS[tool]
    arguments: dict[str, Any] = {name: REQUIRED[name] for name in names if name in REQUIRED}
    arguments |= data.draw(
        st.dictionaries(st.sampled_from(names), NEAR | JSON, max_size=4)
        | st.dictionaries(st.sampled_from(names) | st.text(max_size=8), JSON, max_size=4)
    )
    arguments = {
        name: value.replace("{jobs}", world.jobs_url) if isinstance(value, str) else value
        for name, value in arguments.items()
    }
    answer = await core.call(tool, arguments)
    assert SECRET not in str(answer)
    if answer["status"] == "error":
        assert answer["error"]["code"] not in ("internal_error", "tool_timeout"), answer
        assert len(answer["error"]["message"]) < 2_000


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (tool, {**{name: REQUIRED[name] for name in names if name in REQUIRED}, name: value})
        for tool, names in TOOLS.items()
        for name in names
        if name not in ("params", "content", "ignore_case", "limit", "wait_s", "start_line", "max_lines")
        for value in (LARGE, "\ud800", [LARGE] * 3)
    ],
)
async def test_what_is_huge_or_half_a_character_is_refused_by_name(
    core: TodoClient, tool: str, arguments: dict[str, Any]
) -> None:
    error = await core.error(tool, arguments)
    assert error["type"] in ("validation", "access", "guardrail")
    assert len(error["message"]) < 1_000
    assert "Parameter '" in error["message"] or error["type"] == "access"


def nested(depth: int) -> list[Any]:
    value: list[Any] = [{"id": 1}]
    for _ in range(depth):
        value = [{"and": value}]
    return value


@pytest.mark.parametrize(
    "filters",
    [nested(6), nested(90), [{"column": "id", "op": "in", "value": list(range(100_000))}], [{"id": 1}] * 100_000],
)
async def test_filters_that_are_too_deep_or_too_many_are_refused(core: TodoClient, filters: list[Any]) -> None:
    error = await core.error("query_database", {"table": "orders", "filters": filters})
    assert (error["type"], error["code"]) == ("validation", "invalid_parameter")
    assert "Parameter 'filters" in error["message"]


async def test_params_of_any_depth_do_not_stop_the_server(core: TodoClient, world: CoreWorld) -> None:
    deep: Any = {}
    for _ in range(150):
        deep = {"a": deep}
    answer = await core.call("execute_job", {"endpoint": f"{world.jobs_url}/count", "params": deep})
    assert answer["error"]["code"] == "endpoint_error"
    answer = await core.call("execute_job", {"endpoint": f"{world.jobs_url}/count", "params": {"text": LARGE * 3}})
    assert answer["status"] in ("success", "error")
    assert (await core.call("read_file", {"path": "README.md"}))["status"] == "success"
