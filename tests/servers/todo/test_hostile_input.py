"""Whatever a caller sends, the answer is an envelope that names the parameter, and the todos stay as they were."""

import string
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.mcp_server import held
from tests.servers.todo.conftest import DATABASES
from tests.servers.todo.in_memory import TodoClient, todo_client, todo_url
from tests.servers.todo.refused_calls import REFUSED

pytestmark = pytest.mark.requirement("T-13")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TodoClient]:
    """Start one server for tests that work with any other todos in it."""
    async with held(todo_client(todo_url(tmp_path_factory.mktemp("todo")))) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=DATABASES)
async def either(request: pytest.FixtureRequest, shared: TodoClient) -> AsyncIterator[TodoClient]:
    """One server on each database."""
    if request.param == "sqlite":
        yield shared
        return
    async with held(todo_client(request.getfixturevalue("emptied_url"))) as client:
        yield client


@pytest.mark.parametrize(("tool", "arguments", "names", "expects"), REFUSED)
async def test_a_wrong_parameter_is_named_with_what_it_must_be(
    shared: TodoClient, tool: str, arguments: dict[str, Any], names: str, expects: str
) -> None:
    before = await shared.data("list_todos", {})
    error = await shared.error(tool, arguments)
    assert error["type"] == "validation"
    assert names in error["message"]
    assert expects in error["message"]
    assert len(error["message"]) < 1000
    assert "pydantic" not in error["message"]
    assert await shared.data("list_todos", {}) == before


async def test_all_wrong_parameters_are_named_at_once(shared: TodoClient) -> None:
    error = await shared.error("create_todo", {"title": "", "priority": 1, "due_date": "x", "tags": 1})
    for name in ("'title'", "'priority'", "'due_date'", "'tags'"):
        assert error["message"].count(name) == 1


@pytest.mark.parametrize("number", [3.0, 3])
async def test_a_whole_number_may_be_written_with_a_point(shared: TodoClient, number: float) -> None:
    assert (await shared.call("list_todos", {"limit": number}))["status"] == "success"


@pytest.mark.parametrize("title", ["'; DROP TABLE todos; --", '" OR 1=1', "%s %d {0} {title}", "😀" * 200])
async def test_text_that_looks_like_code_is_stored_as_text(either: TodoClient, title: str) -> None:
    todo = await either.data("create_todo", {"title": title, "description": title, "tags": [title[:50]]})
    assert todo["title"] == title
    updated = await either.data("update_todo", {"id": todo["id"], "title": title})
    # The clock may have come to the next second.
    assert updated | {"updated_at": todo["updated_at"]} == todo
    assert (await either.data("delete_todo", {"id": todo["id"]}))["description"] == title


@given(st.text(st.characters(), max_size=210))
async def test_any_title_is_either_stored_or_refused(either: TodoClient, title: str) -> None:
    answer = await either.call("create_todo", {"title": title})
    if answer["status"] == "success":
        assert answer["data"]["title"] == title.strip()
        assert 1 <= len(title.strip()) <= 200
    else:
        assert "'title'" in answer["error"]["message"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(string.printable, max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
TOOLS = {
    "create_todo": ("title", "description", "priority", "due_date", "tags"),
    "list_todos": ("status", "priority", "tag", "due_before", "limit", "cursor"),
    "update_todo": ("id", "title", "description", "priority", "due_date", "tags", "status"),
    "search_todos": ("query", "limit"),
    "delete_todo": ("id",),
}


@given(st.data())
async def test_any_json_gets_an_envelope_and_never_an_internal_error(either: TodoClient, data: st.DataObject) -> None:
    tool = data.draw(st.sampled_from(sorted(TOOLS)))
    arguments = data.draw(st.dictionaries(st.sampled_from(TOOLS[tool]) | st.text(max_size=8), JSON, max_size=5))
    answer = await either.call(tool, arguments)
    if answer["status"] == "error":
        assert answer["error"]["type"] in ("validation", "not_found")
