"""Searches for a rare label read few threads, and each way of writing a thread keeps its labels."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from tests.runtime.persistence.records import SUCCESS, new_run
from toolweave.runtime.codec import to_micros, utc_now
from toolweave.runtime.models import NewRun, Page
from toolweave.runtime.persistence import search as search_module
from toolweave.runtime.persistence.data_folder import Persistence, open_persistence
from toolweave.runtime.persistence.database import driver_of
from toolweave.runtime.persistence.runs import RunEnd
from toolweave.runtime.persistence.schema import thread_labels
from toolweave.runtime.persistence.search import use_filters


async def plan(persistence: Persistence, **search: Any) -> str:
    """Return SQLite's plans for all statements of a search."""
    statements: list[str] = []

    def trace(connection: Connection) -> None:
        driver_of(connection).set_trace_callback(statements.append)

    def explain(connection: Connection) -> str:
        driver = driver_of(connection)
        driver.set_trace_callback(None)
        selects = [text for text in statements if text.startswith("SELECT")]
        assert selects
        return "\n".join(str(row[3]) for text in selects for row in driver.execute(f"EXPLAIN QUERY PLAN {text}"))

    await persistence.app.read(trace)
    await persistence.threads.search(**search)
    return await persistence.app.read(explain)


async def test_a_search_for_a_rare_label_does_not_read_all_threads(tmp_path: Path) -> None:
    async with open_persistence(tmp_path) as persistence:
        await persistence.threads.create("rare", metadata={"owner": "ada", "tags": ["x", 7]})
        filters: list[Mapping[str, Any]] = [
            {"owner": "ada"},
            {"tags": {"$contains": [7]}},
            {"$or": [{"owner": "ada"}, {"$and": [{"owner": "bob"}, {"team": 1}]}]},
        ]
        for wanted in filters:
            with use_filters({"threads": wanted}):
                assert "SCAN threads" not in await plan(persistence)
                assert [thread.thread_id for thread in await persistence.threads.search()] == ["rare"]
        assert "SCAN threads" not in await plan(persistence, metadata={"owner": "ada", "n": {"nested": 1}})
        for status in ("busy", "interrupted", "error"):
            assert "SCAN threads" not in await plan(persistence, status=status)


async def test_the_newest_threads_of_a_common_label_are_found_without_reading_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "MAX_CANDIDATES", 0)
    async with open_persistence(tmp_path) as persistence:
        for number in range(6):
            await persistence.threads.create(f"{number}", {"owner": "ada" if number % 2 else "bob"})
        assert "SCAN threads" not in await plan(persistence, metadata={"owner": "ada"})
        assert await persistence.threads.count(metadata={"owner": "ada"}) == 3
        run = new_run("1", created_at=utc_now())
        await persistence.runs.create_run(run)
        await check_pages(persistence, "3", "5", "1")
        await persistence.threads.patch("3", {"n": 1})
        await check_pages(persistence, "5", "1", "3")
        await finish(persistence, run)
        await check_pages(persistence, "5", "3", "1")
        await persistence.threads.patch("5", {"owner": "bob"})
        await persistence.threads.patch("0", {"owner": "ada"})
        await check_pages(persistence, "3", "1", "0")
        other_indexes: list[Mapping[str, Any]] = [
            {"ids": ["1", "2"]},
            {"status": "interrupted"},
            {"page": Page(offset=search_module.MAX_LABEL_OFFSET + 1)},
        ]
        for conditions in other_indexes:
            found = await plan(persistence, metadata={"owner": "ada"}, **conditions)
            assert found.count("thread_labels") == 1, "for counting only"


async def check_pages(persistence: Persistence, *oldest_first: str) -> None:
    """Check that searches for Ada's threads find these in the order of their last changes, in both directions."""
    everything = [thread.thread_id for thread in await persistence.threads.search(Page(sort_order="asc"))]
    assert sorted(oldest_first, key=everything.index) == list(oldest_first)
    with use_filters({"threads": {"owner": "ada"}}):
        for first in range(4):
            oldest = await persistence.threads.search(Page(1, first, sort_order="asc"))
            newest = await persistence.threads.search(Page(1, first))
            assert [thread.thread_id for thread in oldest] == list(oldest_first[first : first + 1])
            assert [thread.thread_id for thread in newest] == list(oldest_first[::-1][first : first + 1])


async def finish(persistence: Persistence, run: NewRun) -> None:
    claimed = await persistence.runs.claim(run.run_id)
    assert claimed is not None
    await persistence.runs.finalise(RunEnd(run.run_id, claimed.attempt, SUCCESS))


async def test_the_first_start_orders_the_labels_of_an_earlier_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "MAX_CANDIDATES", 0)
    as_version_7 = (
        "UPDATE thread_labels SET created_at = t.created_at FROM threads t WHERE t.thread_id = thread_labels.thread_id",
        "INSERT INTO thread_labels VALUES ('owner', 'ada', 1, 'deleted')",
        "DROP INDEX ix_thread_labels_thread",
        "DROP INDEX ix_threads_status",
        "DROP INDEX ix_threads_state_updated_at",
        "UPDATE alembic_version SET version_num = '0007'",
    )
    of_version_7_in_the_new_schema = (
        "UPDATE threads SET updated_at = updated_at * 2 WHERE thread_id = '1'",
        "INSERT INTO thread_labels SELECT 'n', '2', created_at, thread_id FROM threads WHERE thread_id = '1'",
        "INSERT INTO thread_labels SELECT 'owner', 'ada', created_at, thread_id FROM threads WHERE thread_id = '1'",
        "DELETE FROM threads WHERE thread_id = '2'",
    )
    async with open_persistence(tmp_path) as persistence:
        for number in range(3):
            await persistence.threads.create(f"{number}", {"owner": "ada"})
        for trigger in ("move_labels", "place_labels", "delete_labels"):
            await persistence.app.write(partial(execute, f"DROP TRIGGER {trigger}"))
        await persistence.threads.patch("0", {"n": 1})
        for statement in as_version_7:
            await persistence.app.write(partial(execute, statement))
    async with open_persistence(tmp_path) as persistence:
        await check_pages(persistence, "1", "2", "0")
        for statement in of_version_7_in_the_new_schema:
            await persistence.app.write(partial(execute, statement))
        await check_pages(persistence, "0", "1")
        labels = await persistence.app.read(lambda connection: connection.execute(select(thread_labels)).all())
        assert sorted(row.thread_id + row.key for row in labels) == ["0n", "0owner", "1n", "1owner"]
        times = {to_micros(thread.updated_at) for thread in await persistence.threads.search()}
        assert {row.created_at for row in labels} == times


def execute(statement: str, connection: Connection) -> None:
    connection.exec_driver_sql(statement)


@pytest.mark.parametrize("field", ["thread_id", "status", "created_at", "updated_at", "state_updated_at"])
async def test_threads_are_sorted_by_each_field_through_an_index(tmp_path: Path, field: str) -> None:
    async with open_persistence(tmp_path) as persistence:
        found = await plan(persistence, page=Page(sort_by=field))
        # The rows of the page are sorted again.
        assert found.count("USE TEMP B-TREE FOR ORDER BY") <= 1
        assert "SCAN threads" not in found.splitlines()


async def test_each_way_of_writing_a_thread_keeps_its_labels(tmp_path: Path) -> None:
    async with open_persistence(tmp_path) as persistence:

        async def found(**labels: object) -> list[str]:
            return [thread.thread_id for thread in await persistence.threads.search(metadata=labels)]

        await persistence.threads.create("patched", metadata={"owner": "ada", "on": True})
        await persistence.threads.patch("patched", {"owner": "bob"})
        assert (await found(owner="ada"), await found(owner="bob", on=True)) == ([], ["patched"])
        new = new_run("of a run", thread_metadata={"owner": "eve"})
        await persistence.runs.create_run(new)
        temporary = new_run("temporary", thread_metadata={"owner": "tom"}, temporary=True)
        await persistence.runs.create_run(temporary)
        assert (await found(owner="eve"), await found(owner="tom")) == (["of a run"], ["temporary"])
        for run in (new, temporary):
            await finish(persistence, run)
        for thread_id in ("patched", "of a run"):
            await persistence.threads.delete(thread_id)
        assert await persistence.app.read(lambda connection: connection.execute(select(thread_labels)).all()) == []
