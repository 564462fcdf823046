"""The database is created, shared, waited for and refused in words that name the file and the fix."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.servers.databases.held import held_for_writing
from tests.servers.todo.in_memory import todo_client, todo_url
from toolweave.errors import NewerSchema
from toolweave.servers.todo.database import has_full_text, open_todo_database

pytestmark = pytest.mark.requirement("T-13")


async def test_folder_and_file_are_created_and_todos_outlive_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er"
    async with todo_client(todo_url(folder)) as client:
        todo = await client.data("create_todo", {"title": "x"})
    async with todo_client(todo_url(folder)) as client:
        assert await client.data("list_todos", {}) == [todo]


async def test_many_servers_open_a_new_file_at_once_and_write_side_by_side(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'todo.db'}"
    everyone_is_open = asyncio.Barrier(8)

    async def write(number: int) -> None:
        async with open_todo_database(url):
            await everyone_is_open.wait()
        async with todo_client(todo_url(tmp_path)) as client:
            await asyncio.gather(*(client.data("create_todo", {"title": f"{number}"}) for _ in range(5)))

    await asyncio.gather(*(write(number) for number in range(8)))
    with closing(sqlite3.connect(tmp_path / "todo.db")) as file:
        assert file.execute("SELECT count(*), count(DISTINCT id) FROM todos").fetchone() == (40, 40)
        assert file.execute("SELECT count(*) FROM todo_schema_version").fetchone() == (1,)
        assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "todo.db"
    async with todo_client(todo_url(tmp_path)) as client:
        await client.data("create_todo", {"title": "x"})
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE todo_schema_version SET version = 7")
    before = path.read_bytes()
    with pytest.raises(NewerSchema) as refusal:
        async with open_todo_database(f"sqlite:///{path}"):
            pass
    assert str(path) in str(refusal.value)
    assert "TOOLWEAVE_TODO_DATABASE_URL" in str(refusal.value)
    assert "Upgrade" in str(refusal.value)
    assert path.read_bytes() == before


async def test_an_in_memory_database_serves_calls_side_by_side() -> None:
    async with open_todo_database("sqlite://") as database, database.read() as connection:
        assert await has_full_text(connection)


async def test_a_busy_database_is_an_error_to_try_again_and_nothing_is_written(tmp_path: Path) -> None:
    async with todo_client(todo_url(tmp_path), busy_timeout_s=0.05) as client:
        todo = await client.data("create_todo", {"title": "x"})
        with held_for_writing(tmp_path / "todo.db"):
            error = await client.error("create_todo", {"title": "y"})
            assert await client.data("list_todos", {}) == [todo]
        assert (error["type"], error["code"]) == ("unavailable", "unavailable")
        assert "busy" in error["message"]
        assert str(tmp_path) not in str(error)
        assert (await client.data("create_todo", {"title": "z"}))["title"] == "z"


async def test_a_call_is_cut_at_its_limit_and_the_next_one_works(tmp_path: Path) -> None:
    async with todo_client(todo_url(tmp_path), busy_timeout_s=600, tool_timeout_s=0.1) as client:
        with held_for_writing(tmp_path / "todo.db"):
            errors = await asyncio.gather(*(client.error("create_todo", {"title": "cut"}) for _ in range(7)))
        assert {error["code"] for error in errors} == {"tool_timeout"}
        assert "0.1 s" in errors[0]["message"]
    async with todo_client(todo_url(tmp_path)) as client:
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


async def test_a_database_that_breaks_under_the_server_is_an_error_without_inner_details(tmp_path: Path) -> None:
    async with todo_client(todo_url(tmp_path)) as client:
        await client.data("create_todo", {"title": "x"})
        with closing(sqlite3.connect(tmp_path / "todo.db", isolation_level=None)) as other:
            other.execute("DROP TABLE todos")
        error = await client.error("list_todos", {})
        assert error["type"] == "unavailable"
        assert "todos" not in error["message"].replace("todo database", "")
    shutil.rmtree(tmp_path)
