"""Todos are found by words, with the full-text index and without it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fixtures.mcp_server import held
from tests.servers.todo.conftest import empty_url
from tests.servers.todo.in_memory import TodoClient, todo_client, todo_url

pytestmark = pytest.mark.requirement("T-13")


@pytest_asyncio.fixture(loop_scope="module", params=["index", "containment", "postgresql"])
async def searched(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[TodoClient]:
    url = empty_url(request, tmp_path) if request.param == "postgresql" else todo_url(tmp_path)
    async with held(todo_client(url, full_text=request.param == "index")) as client:
        yield client


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("milk", {1}),
        ("mil", {1}),
        ("MILK buy", {1}),
        ("milk dentist", set()),
        ("drops", {2}),
        ("errand", {1, 2}),
        ("C++", {3}),
        ("report (draft)", {3}),
        ("entist", {2}),
        ("牛奶", {4}),
    ],
)
async def test_a_todo_is_found_when_it_has_every_word(searched: TodoClient, query: str, found: set[int]) -> None:
    await searched.data("create_todo", {"title": "Buy milk", "tags": ["errand"]})
    await searched.data("create_todo", {"title": "Dentist", "description": "ask for drops", "tags": ["errand"]})
    await searched.data("create_todo", {"title": "C++ report (draft)"})
    await searched.data("create_todo", {"title": "我要买牛奶"})
    assert set(await searched.ids("search_todos", {"query": query})) == found


async def test_a_changed_todo_is_found_by_its_new_words_only(searched: TodoClient) -> None:
    todo = await searched.data("create_todo", {"title": "Buy milk", "description": "oat", "tags": ["shop"]})
    await searched.data("update_todo", {"id": todo["id"], "title": "Sell bread", "description": "", "tags": ["market"]})
    for word in ("milk", "oat", "shop"):
        assert await searched.ids("search_todos", {"query": word}) == []
    for word in ("bread", "market"):
        assert await searched.ids("search_todos", {"query": word}) == [todo["id"]]


SYNTAX = [
    '"',
    '" OR "milk',
    "title:milk",
    "milk NOT bread",
    "NEAR(milk bread)",
    "OR OR OR",
    "{title}: milk",
    "%",
    "\\",
    "(" * 200,
    "\u0301",
]


async def test_search_syntax_in_a_query_is_only_text(searched: TodoClient) -> None:
    todo = await searched.data("create_todo", {"title": "Buy milk, or bread"})
    for query in SYNTAX:
        assert isinstance(await searched.data("search_todos", {"query": query}), list), query
    assert await searched.data("list_todos", {}) == [todo]


async def test_a_word_in_the_title_counts_more_than_one_in_the_description(todos: TodoClient) -> None:
    described = await todos.data("create_todo", {"title": "Shopping", "description": "milk"})
    titled = await todos.data("create_todo", {"title": "Buy milk", "description": "for the week, and some bread"})
    assert await todos.ids("search_todos", {"query": "milk"}) == [titled["id"], described["id"]]
    assert await todos.ids("search_todos", {"query": "milk", "limit": 1}) == [titled["id"]]


async def test_accents_do_not_matter_to_the_index(todos: TodoClient) -> None:
    todo = await todos.data("create_todo", {"title": "Ärztin anrufen"})
    assert await todos.ids("search_todos", {"query": "arztin"}) == [todo["id"]]
