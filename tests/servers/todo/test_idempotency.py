"""A call that is repeated with its key has its effect once and the same answer each time (part of T-03)."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.servers.todo.in_memory import TodoClient, todo_client
from toolweave.servers.todo.database import TodoRepository, open_todo_database


async def test_a_repeated_key_returns_the_first_todo(todos: TodoClient) -> None:
    first = await todos.call("create_todo", {"title": "Buy milk"}, idempotency_key="run:1")
    again = await todos.call("create_todo", {"title": "Something else"}, idempotency_key="run:1")
    other = await todos.call("create_todo", {"title": "Buy milk"}, idempotency_key="run:2")
    assert again["data"] == first["data"]
    assert again["metadata"]["replayed"] is True
    assert other["data"]["id"] != first["data"]["id"]
    assert len(await todos.data("list_todos", {})) == 2


async def test_a_key_returns_the_first_todo_after_it_was_deleted_and_the_server_restarted(database_url: str) -> None:
    async with todo_client(database_url) as todos:
        await todos.error("create_todo", {"title": ""}, idempotency_key="k")  # a refused call does not use the key
        first = await todos.data("create_todo", {"title": "a"}, idempotency_key="k")
        await todos.data("delete_todo", {"id": first["id"]})
    async with todo_client(database_url) as todos:
        assert await todos.data("create_todo", {"title": "a"}, idempotency_key="k") == first
        assert await todos.data("list_todos", {}) == []


async def test_a_repeated_deletion_answers_as_the_first(todos: TodoClient) -> None:
    todo = await todos.data("create_todo", {"title": "a"}, idempotency_key="k")
    assert await todos.data("delete_todo", {"id": todo["id"]}, idempotency_key="k") == todo
    assert await todos.data("delete_todo", {"id": todo["id"]}, idempotency_key="k") == todo
    assert (await todos.error("delete_todo", {"id": todo["id"]}, idempotency_key="other"))["code"] == "not_found"


async def test_calls_with_one_key_at_the_same_time_make_one_todo(database_url: str) -> None:
    async with todo_client(database_url) as one, todo_client(database_url) as other:
        answers = await asyncio.gather(
            *(client.data("create_todo", {"title": "x"}, idempotency_key="k") for client in [one, other] * 5)
        )
        assert len({todo["id"] for todo in answers}) == 1
        assert len(await one.data("list_todos", {})) == 1


@pytest.mark.parametrize("key", ["", "x" * 257, "a\x00b", "\ud800", 7, ["k"], {"k": 1}])
async def test_a_key_that_cannot_be_stored_is_refused_before_anything_happens(todos: TodoClient, key: Any) -> None:
    error = await todos.error("create_todo", {"title": "x"}, idempotency_key=key)
    assert (error["type"], error["code"]) == ("validation", "invalid_parameter")
    assert "_meta.idempotency_key" in error["message"]
    assert await todos.data("list_todos", {}) == []


async def test_keys_are_forgotten_after_thirty_days(database_url: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    async with open_todo_database(database_url) as database:
        todos = TodoRepository(database, clock=lambda: now)
        first = await todos.create({"title": "x"}, key="old")
        now += timedelta(days=31)
        await todos.create({"title": "y"}, key="new")
        again = await todos.create({"title": "x"}, key="old")
    assert not again.replayed
    assert again.todo["id"] > first.todo["id"]
