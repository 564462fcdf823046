"""The todo database is created, shared, waited for and refused with a clear reason, on SQLite and on PostgreSQL."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.servers.databases.held import held_for_writing
from tests.servers.todo.conftest import OtherProgram
from tests.servers.todo.in_memory import todo_client, todo_url
from toolweave.errors import NewerSchema
from toolweave.servers.todo.database import open_todo_database

pytestmark = pytest.mark.requirement("T-13")


async def test_todos_outlive_the_server(database_url: str) -> None:
    async with todo_client(database_url) as client:
        todo = await client.data("create_todo", {"title": "x"})
    async with todo_client(database_url) as client:
        assert await client.data("list_todos", {}) == [todo]


async def test_many_servers_open_a_new_database_at_once_and_write_side_by_side(
    database_url: str, other: OtherProgram
) -> None:
    all_are_open = asyncio.Barrier(8)

    async def write(number: int) -> None:
        async with open_todo_database(database_url):
            await all_are_open.wait()
        async with todo_client(database_url, busy_timeout_s=60, tool_timeout_s=60) as client:
            await asyncio.gather(*(client.data("create_todo", {"title": f"{number}"}) for _ in range(5)))

    await asyncio.gather(*(write(number) for number in range(8)))
    assert other.execute("SELECT count(*), count(DISTINCT id) FROM todos") == [(40, 40)]
    assert other.execute("SELECT count(*) FROM todo_schema_version") == [(1,)]
    if other.is_sqlite:
        assert other.execute("PRAGMA journal_mode") == [("wal",)]


async def test_a_newer_schema_is_refused_and_left_alone(database_url: str, other: OtherProgram) -> None:
    async with open_todo_database(database_url):
        pass
    other.execute("UPDATE todo_schema_version SET version = 7")
    with pytest.raises(NewerSchema, match=r"has schema 7.* Upgrade Toolweave.*TOOLWEAVE_TODO_DATABASE_URL"):
        async with open_todo_database(database_url):
            pass
    assert other.execute("SELECT version FROM todo_schema_version") == [(7,)]


async def test_a_busy_database_is_an_error_to_try_again_and_nothing_is_written(
    database_url: str, other: OtherProgram, tmp_path: Path
) -> None:
    async with todo_client(database_url, busy_timeout_s=0.05) as client:
        todo = await client.data("create_todo", {"title": "x"})
        with other.write_lock():
            error = await client.error("create_todo", {"title": "y"})
            assert await client.data("list_todos", {}) == [todo]
        assert (error["type"], error["code"]) == ("unavailable", "unavailable")
        assert error["message"] == "The todo database is busy: another program is writing to it."
        assert str(tmp_path) not in str(error)
        await client.data("create_todo", {"title": "z"})
        assert [todo["title"] for todo in await client.data("list_todos", {})] == ["x", "z"]


async def test_calls_are_cut_at_their_limit_and_the_next_one_works(database_url: str, other: OtherProgram) -> None:
    async with todo_client(database_url, busy_timeout_s=600, tool_timeout_s=0.1) as client:
        with other.write_lock():
            errors = await asyncio.gather(*(client.error("create_todo", {"title": "cut"}) for _ in range(7)))
        assert {error["code"] for error in errors} == {"tool_timeout"}
        assert "0.1 s" in errors[0]["message"]
    async with todo_client(database_url) as client:
        todo = await client.data("create_todo", {"title": "z"})
        assert await client.data("list_todos", {}) == [todo]


def test_a_server_that_stops_right_after_it_cut_calls_ends_and_frees_the_database(tmp_path: Path) -> None:
    async def serve() -> None:
        async with todo_client(todo_url(tmp_path), busy_timeout_s=600, tool_timeout_s=0.05) as client:
            with held_for_writing(tmp_path / "todo.db"):
                await asyncio.gather(*(client.error("create_todo", {"title": "cut"}) for _ in range(7)))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    for _ in range(3):
        asyncio.run(serve())
    with held_for_writing(tmp_path / "todo.db"):
        pass


async def test_a_table_that_goes_under_the_server_is_an_error_without_inner_details(
    database_url: str, other: OtherProgram, tmp_path: Path
) -> None:
    async with todo_client(database_url) as client:
        await client.data("create_todo", {"title": "x"})
        other.execute("DROP TABLE todos")
        error = await client.error("list_todos", {})
        assert error["type"] == "unavailable"
        assert "todos" not in error["message"].replace("todo database", "")
    shutil.rmtree(tmp_path)
