"""Threads are created, merged, searched and deleted as the API says (langgraph_api.md 2.2, 4)."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.runtime.persistence.records import MOMENT, SUCCESS, new_run
from toolweave.runtime.models import Page, ThreadTtl
from toolweave.runtime.persistence.data_folder import Persistence, open_persistence
from toolweave.runtime.persistence.runs import RunEnd
from toolweave.runtime.persistence.search import contains
from toolweave.runtime.persistence.threads import ThreadRepository


@pytest.fixture
def threads(persistence: Persistence) -> ThreadRepository:
    return persistence.threads


async def populate(persistence: Persistence) -> None:
    """Five threads, t0 the oldest; t3 has run, t4 is busy."""
    for number in range(3):
        metadata = {"number": number, "nested": {"even": number % 2 == 0, "tags": ["x", str(number)]}}
        await persistence.threads.create(f"t{number}", metadata, created_at=MOMENT + timedelta(seconds=number))
    for number in (3, 4):
        moment = MOMENT + timedelta(seconds=number)
        created = await persistence.runs.create_run(new_run(f"t{number}", created_at=moment))
        if number == 3:
            await persistence.runs.claim(created.run.run_id)
            await persistence.runs.finalise(RunEnd(created.run.run_id, 1, SUCCESS))


@pytest.mark.parametrize(
    ("page", "filters", "expected"),
    [
        (Page(sort_by="created_at"), {}, ["t4", "t3", "t2", "t1", "t0"]),
        (Page(sort_by="created_at", sort_order="asc", limit=2), {}, ["t0", "t1"]),
        (Page(sort_by="thread_id", limit=2, offset=1), {}, ["t3", "t2"]),
        (Page(sort_by="status", sort_order="asc", limit=1), {}, ["t4"]),
        (Page(), {"metadata": {"number": 1}}, ["t1"]),
        (Page(sort_by="created_at"), {"metadata": {"nested": {"even": True}}}, ["t2", "t0"]),
        (Page(), {"metadata": {"nested": {"tags": ["2"]}}}, ["t2"]),
        (Page(sort_by="created_at", limit=1), {"metadata": {}}, ["t4"]),
        (Page(), {"metadata": {"graph_id": "graph"}, "status": "busy"}, ["t4"]),
        (Page(), {"values": {"n": 1}}, ["t3"]),
        (Page(), {"values": {"n": 2}}, []),
        (Page(sort_by="created_at"), {"status": "idle"}, ["t3", "t2", "t1", "t0"]),
        (Page(sort_by="created_at"), {"ids": ["t1", "t4", "unknown"]}, ["t4", "t1"]),
        (Page(), {"ids": []}, []),
        (Page(offset=10**30), {}, []),
        (Page(), {"metadata": {"text": "\ud800"}}, []),
    ],
)
async def test_search_finds(persistence: Persistence, page: Page, filters: dict[str, Any], expected: list[str]) -> None:
    await populate(persistence)

    assert [thread.thread_id for thread in await persistence.threads.search(page, **filters)] == expected


METADATA: list[dict[str, Any]] = [
    {"user": "u 1", "n": 10**40},
    {"user": "u 1", "nested": {"user": "u2"}},
    {"user": ["u 1"]},
    {"user": {"u 1": 1}},
    {"user": None, 'quo"te': "u2", "\ud800": "x"},
    {"user": True, "n": "1"},
    {"user": "", "n": 1, "nested": {"user": "u 1", "n": 1}},
]


@pytest.mark.parametrize(
    "pattern",
    [*METADATA, {"user": "u 1"}, {"n": 1}, {"n": "1"}, {"nested": {"user": "u 1"}}, {"user": "%"}, {"absent": "x"}],
)
async def test_search_by_metadata_finds_exactly_what_contains_it(
    threads: ThreadRepository, pattern: dict[str, Any]
) -> None:
    for number, metadata in enumerate(METADATA):
        await threads.create(str(number), metadata)

    found = await threads.search(Page(sort_by="thread_id", sort_order="asc"), metadata=pattern)

    assert [thread.metadata for thread in found] == [metadata for metadata in METADATA if contains(metadata, pattern)]


async def test_pages_of_threads_made_at_the_same_moment_repeat_nothing(threads: ThreadRepository) -> None:
    names = {str(uuid4()) for _ in range(30)}
    for name in names:
        await threads.create(name, created_at=MOMENT)

    pages = [await threads.search(Page(7, offset, "updated_at")) for offset in range(0, 35, 7)]

    assert sorted(thread.thread_id for page in pages for thread in page) == sorted(names)


async def test_every_new_thread_has_the_default_time_to_live_unless_it_has_its_own(tmp_path: Path) -> None:
    async with open_persistence(tmp_path, thread_ttl=ThreadTtl(5, "keep_latest")) as persistence:
        made = await persistence.threads.create("made")
        chosen = await persistence.threads.create("chosen", ttl=ThreadTtl(0.5))
        await persistence.runs.create_run(new_run("by a run"))
        by_run = await persistence.threads.get("by a run")
    assert made.ttl == by_run.ttl == ThreadTtl(5, "keep_latest")
    assert made.expires_at == made.created_at + timedelta(minutes=5)
    assert by_run.expires_at == MOMENT + timedelta(minutes=5)
    assert (chosen.ttl, chosen.expires_at) == (ThreadTtl(0.5), chosen.created_at + timedelta(seconds=30))
