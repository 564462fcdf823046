"""The writer commits in groups, acknowledges only what is committed, and says what is wrong with a file."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from tests.fixtures.logged import logged
from toolweave.errors import NotFound, PersistenceError
from toolweave.runtime.persistence.database import SqliteDatabase, open_sqlite

CREATE = text("CREATE TABLE notes (id INTEGER PRIMARY KEY, note TEXT UNIQUE) STRICT")
INSERT = text("INSERT INTO notes (note) VALUES (:note)")
COUNT = text("SELECT count(*) FROM notes")


def prepare(connection: Connection) -> None:
    connection.execute(CREATE)


def insert(connection: Connection, note: str) -> None:
    connection.execute(INSERT, {"note": note})


def count(connection: Connection) -> int:
    return int(connection.execute(COUNT).scalar_one())


def stored_notes(path: Path) -> set[str]:
    """Read the file like another process."""
    connection = sqlite3.connect(path)
    try:
        return {note for (note,) in connection.execute("SELECT note FROM notes")}
    finally:
        connection.close()


@contextmanager
def writer_held(database: SqliteDatabase) -> Iterator[None]:
    """Block the writer, so that later writes become one batch."""
    release, held = threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        held.set()
        release.wait(60)

    database.queue_write(hold)
    held.wait(60)
    try:
        yield
    finally:
        release.set()


async def write_as_one_batch(database: SqliteDatabase, *works: Callable[[Connection], Any]) -> list[Any]:
    with writer_held(database):
        writes = [asyncio.ensure_future(database.write(work)) for work in works]
        await asyncio.sleep(0)
    return await asyncio.gather(*writes, return_exceptions=True)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    async with open_sqlite(tmp_path / "notes.db", prepare) as opened:
        yield opened


async def test_a_batch_is_committed_once_and_waiters_wake_only_then(tmp_path: Path, database: SqliteDatabase) -> None:
    path = tmp_path / "notes.db"
    seen_by_others: list[set[str]] = []

    def write_and_look(connection: Connection, note: str) -> None:
        insert(connection, note)
        seen_by_others.append(stored_notes(path))

    await write_as_one_batch(database, *(partial(write_and_look, note=note) for note in ("a", "b", "c")))

    assert seen_by_others == [set(), set(), set()]
    assert stored_notes(path) == {"a", "b", "c"}


async def test_work_that_fails_is_rolled_back_without_the_rest_of_its_batch(
    tmp_path: Path, database: SqliteDatabase
) -> None:
    def fail_after_writing(connection: Connection) -> None:
        insert(connection, "rolled back")
        raise NotFound("on purpose")

    results = await write_as_one_batch(
        database, partial(insert, note="before"), fail_after_writing, partial(insert, note="after")
    )

    assert [type(result) for result in results] == [type(None), NotFound, type(None)]
    assert stored_notes(tmp_path / "notes.db") == {"before", "after"}


async def test_a_failing_commit_fails_every_write_of_the_batch(tmp_path: Path) -> None:
    def child_tables(connection: Connection) -> None:
        prepare(connection)
        reference = "REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED"
        connection.execute(text(f"CREATE TABLE replies (note_id INTEGER {reference}) STRICT"))

    async with open_sqlite(tmp_path / "notes.db", child_tables) as database:
        orphan = text("INSERT INTO replies VALUES (7)")
        results = await write_as_one_batch(
            database, partial(insert, note="good"), lambda connection: connection.execute(orphan).rowcount
        )
        await database.write(lambda connection: insert(connection, "later"))

    assert [type(result) for result in results] == [PersistenceError, PersistenceError]
    assert results[0] is not results[1]
    assert "This write was not stored" in str(results[0])
    assert stored_notes(tmp_path / "notes.db") == {"later"}


async def test_a_full_disk_fails_the_write_and_the_database_goes_on(tmp_path: Path, database: SqliteDatabase) -> None:
    await database.write(lambda connection: connection.execute(text("PRAGMA max_page_count = 8")).all())

    with pytest.raises(PersistenceError, match=r"notes\.db: database or disk is full\. Free space"):
        await database.write(partial(insert, note="x" * 100_000))
    await database.write(partial(insert, note="small"))

    assert stored_notes(tmp_path / "notes.db") == {"small"}


async def test_the_reader_cannot_write(database: SqliteDatabase) -> None:
    with pytest.raises(PersistenceError, match="attempt to write a readonly database"):
        await database.read(partial(insert, note="sneaky"))


async def test_a_read_is_of_one_moment(database: SqliteDatabase) -> None:
    looked, written = threading.Event(), threading.Event()

    def look_twice(connection: Connection) -> tuple[int, int]:
        first = count(connection)
        looked.set()
        written.wait(60)
        return first, count(connection)

    reading = asyncio.ensure_future(database.read(look_twice))
    await asyncio.to_thread(looked.wait, 60)
    await database.write(partial(insert, note="between"))
    written.set()

    assert await reading == (0, 0)
    assert await database.read(count) == 1


async def test_closing_executes_all_queued_writes(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "notes.db", prepare) as database:
        for number in range(2000):
            database.queue_write(partial(insert, note=str(number)))

    assert len(stored_notes(tmp_path / "notes.db")) == 2000


async def test_a_failed_write_without_a_waiter_is_logged(tmp_path: Path) -> None:
    with logged("ERROR") as lines:
        async with open_sqlite(tmp_path / "notes.db", prepare) as database:
            database.queue_write(lambda connection: insert(connection, "twice"))
            database.queue_write(lambda connection: insert(connection, "twice"))

    assert len(lines) == 1
    assert "is not stored" in lines[0]
    assert stored_notes(tmp_path / "notes.db") == {"twice"}


async def test_a_cancelled_caller_does_not_take_a_queued_write_back(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "notes.db", prepare) as database:
        with writer_held(database):
            writing = asyncio.ensure_future(database.write(lambda connection: insert(connection, "stored")))
            await asyncio.sleep(0)
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing

    assert stored_notes(tmp_path / "notes.db") == {"stored"}


async def test_a_closed_database_refuses_work(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "notes.db", prepare) as database:
        pass

    with pytest.raises(PersistenceError, match="closed"):
        await database.write(count)
    with pytest.raises(PersistenceError, match="closed"):
        database.queue_write(count)


async def test_a_missing_folder_is_refused_with_its_name_and_the_fix(tmp_path: Path) -> None:
    with pytest.raises(PersistenceError, match=r"absent/notes\.db: unable to open database file\. Make its folder"):
        async with open_sqlite(tmp_path / "absent" / "notes.db", prepare):
            pytest.fail("opened")
