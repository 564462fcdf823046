"""A PostgreSQL that fails under a todo server is an error, and the next call works after it is back (T-13)."""

import asyncio
import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
import sqlalchemy as sa

from tests.fixtures.postgres import PostgresServer
from tests.servers.todo.in_memory import todo_client
from toolweave.errors import PersistenceError
from toolweave.postgresql import TRANSACTION_TIMEOUT_S
from toolweave.servers.todo.database import TODOS, TodoFilter, TodoRepository, WriteResult, open_todo_database

pytestmark = pytest.mark.requirement("T-13")

TIDYING_BOUND_S = 60.0
OURS = """
    SELECT pid FROM pg_stat_activity
    WHERE application_name = 'toolweave todo database' AND datname = current_database()
"""


@contextmanager
def held(postgres: PostgresServer, url: str, lock: str = "EXCLUSIVE") -> Iterator[None]:
    """Hold the todos as another program would: for writing, or for everything (ACCESS EXCLUSIVE)."""
    with postgres.connect(url) as other, other.transaction():
        other.execute(f"LOCK TABLE todos IN {lock} MODE".encode())
        yield


async def test_a_read_of_a_locked_table_is_a_busy_error_or_is_cut_at_its_limit(
    postgres: PostgresServer, url: str
) -> None:
    async with todo_client(url, busy_timeout_s=0.05) as client:
        with held(postgres, url, "ACCESS EXCLUSIVE"):
            assert "is busy" in (await client.error("list_todos", {}))["message"]
        assert await client.data("list_todos", {}) == []
    async with todo_client(url, busy_timeout_s=600, tool_timeout_s=0.1) as client:
        with held(postgres, url, "ACCESS EXCLUSIVE"):
            errors = await asyncio.gather(*(client.error("list_todos", {}) for _ in range(9)))
    assert {error["code"] for error in errors} == {"tool_timeout"}


@pytest.mark.parametrize("signal_name", ["INT", pytest.param("QUIT", marks=pytest.mark.slow)])
async def test_calls_fail_while_the_server_is_down_and_none_fails_after_a_restart(
    postgres: PostgresServer, url: str, signal_name: Literal["INT", "QUIT"]
) -> None:
    async with todo_client(url) as client:
        await asyncio.gather(*(client.data("list_todos", {}) for _ in range(9)))
        await asyncio.to_thread(postgres.stop, signal_name)
        for tool, arguments in (("list_todos", {}), ("create_todo", {"title": "y"})):
            error = await client.error(tool, arguments)
            assert error["type"] == "unavailable"
            assert error["message"].startswith("The todo database cannot be reached: check host, port")
        await asyncio.to_thread(postgres.start)
        await asyncio.gather(*(client.data("create_todo", {"title": f"{n}"}) for n in range(9)))
        # Restart while no call notices: every connection of the pool is cut.
        await asyncio.to_thread(postgres.stop)
        await asyncio.to_thread(postgres.start)
        await asyncio.gather(*(client.data("list_todos", {}) for _ in range(9)))


async def test_a_connection_that_is_cut_while_a_call_waits_is_an_error_and_nothing_is_written(
    postgres: PostgresServer, url: str
) -> None:
    async with todo_client(url) as client:
        with held(postgres, url):
            call = asyncio.create_task(client.error("create_todo", {"title": "lost"}))
            waiting = await asyncio.to_thread(postgres.wait_for, f"{OURS} AND wait_event_type = 'Lock'", url=url)
            postgres.execute("SELECT pg_terminate_backend(%(pid)s)", {"pid": waiting[0][0]})
            assert "went away" in (await call)["message"]
        assert await client.data("list_todos", {}) == []


@contextmanager
def frozen_connections(postgres: PostgresServer, url: str) -> Iterator[None]:
    """Stop the server processes behind our connections, so that no query is answered."""
    pids = [pid for (pid,) in postgres.execute(OURS, url=url)]
    assert pids
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


async def test_a_server_that_does_not_answer_does_not_hold_a_call_beyond_its_limit(
    postgres: PostgresServer, url: str
) -> None:
    async with todo_client(url, tool_timeout_s=5) as client:
        await asyncio.gather(*(client.data("list_todos", {}) for _ in range(5)))
        with frozen_connections(postgres, url):
            errors = await asyncio.gather(*(client.error("list_todos", {}) for _ in range(5)))
        assert {error["code"] for error in errors} == {"tool_timeout"}
    async with todo_client(url) as client:
        assert await client.data("list_todos", {}) == []


@pytest.mark.slow
async def test_a_transaction_without_a_call_limit_ends_when_the_server_does_not_answer(
    postgres: PostgresServer, url: str
) -> None:
    async with open_todo_database(url) as database:
        with frozen_connections(postgres, url):
            async with asyncio.timeout(TRANSACTION_TIMEOUT_S + TIDYING_BOUND_S):
                with pytest.raises(PersistenceError, match="does not answer"):
                    await TodoRepository(database).list_page(TodoFilter(), limit=1)
        assert (await TodoRepository(database).list_page(TodoFilter(), limit=1)).total == 0


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("53100", "cannot grow: the disk is full"),
        ("53200", "is out of memory"),
        ("40001", "is busy"),
        ("40P01", "is busy"),
        ("57014", "took too long and was stopped"),
        ("58030", "cannot be read or written: the disk reports an error"),
        ("XX001", "is damaged"),
        ("P0001", "cannot be used"),
    ],
)
async def test_an_error_of_the_server_is_described_without_inner_details(
    postgres: PostgresServer, url: str, state: str, words: str
) -> None:
    async with open_todo_database(url) as database:
        postgres.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE 'inner details' USING ERRCODE = '{state}'; END $$; "
            "CREATE TRIGGER refuse BEFORE INSERT ON todos EXECUTE FUNCTION refuse()",
            url=url,
        )
        with pytest.raises(PersistenceError, match=rf"^The todo database {words}[^.]*\.$") as refusal:
            await TodoRepository(database).create({"title": "x"})
        assert "inner" not in str(refusal.value)
    assert postgres.execute("SELECT count(*) FROM todos", url=url) == [(0,)]


async def test_callers_cancelled_at_any_step_write_all_or_nothing_and_leave_no_transaction(
    postgres: PostgresServer, url: str
) -> None:
    calls: list[asyncio.Task[WriteResult]] = []
    async with open_todo_database(url) as database:
        todos = TodoRepository(database)
        for step, steps_between in itertools.product(range(0, 60, 3), (0, 2)):
            # The list holds it, as a log holds the traceback of a failed call.
            calls.append(call := asyncio.create_task(todos.create({"title": f"{step}"}, key=f"{step}:{steps_between}")))
            for steps in (step, steps_between):
                for _ in range(steps):
                    await asyncio.sleep(0)
                call.cancel()
            await asyncio.wait({call})
        assert any(call.cancelled() for call in calls)
        rows: list[Any] = postgres.execute("SELECT count(*) FROM todos", url=url)
        assert rows == postgres.execute("SELECT count(*) FROM todo_idempotent_results", url=url)
        await todos.create({"title": "after"})
    assert postgres.execute(f"{OURS} AND state LIKE 'idle in transaction%'", url=url) == []


def test_the_loop_may_be_any_and_ends_without_a_trace(url: str) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def use() -> int:
        async with open_todo_database(url) as database:
            todos = TodoRepository(database)
            await asyncio.gather(*(todos.create({"title": f"{n}"}) for n in range(9)))
            return len((await todos.list_page(TodoFilter(), limit=100)).todos)

    for count, loop_factory in enumerate((uvloop.new_event_loop, asyncio.new_event_loop), start=1):
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            assert runner.run(use()) == 9 * count


async def test_a_page_and_its_total_are_of_one_moment(postgres: PostgresServer, url: str) -> None:
    async with open_todo_database(url) as database:
        await TodoRepository(database).create({"title": "x"})
        async with database.read() as connection:
            statement = sa.select(sa.func.count()).select_from(TODOS)
            before = await connection.scalar(statement)
            postgres.execute("DELETE FROM todos", url=url)
            assert await connection.scalar(statement) == before == 1
        with pytest.raises(PersistenceError, match="is read-only"):
            async with database.read() as connection:
                await connection.execute(TODOS.delete())
