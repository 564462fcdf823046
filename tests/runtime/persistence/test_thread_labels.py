"""Searches for a rare label read few threads, and each way of writing a thread keeps its labels."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from tests.runtime.persistence.records import SUCCESS, new_run
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


async def test_a_common_label_is_searched_in_the_order_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "MAX_CANDIDATES", 0)
    async with open_persistence(tmp_path) as persistence:
        await persistence.threads.create("common", metadata={"owner": "ada"})
        assert "SCAN threads USING INDEX ix_threads_updated_at" in await plan(persistence, metadata={"owner": "ada"})
        assert await persistence.threads.count(metadata={"owner": "ada"}) == 1


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
            claimed = await persistence.runs.claim(run.run_id)
            assert claimed is not None
            await persistence.runs.finalise(RunEnd(run.run_id, claimed.attempt, SUCCESS))
        for thread_id in ("patched", "of a run"):
            await persistence.threads.delete(thread_id)
        assert await persistence.app.read(lambda connection: connection.execute(select(thread_labels)).all()) == []
