"""Progress is parsed from events and stored at intervals: the first at once, then only the latest."""

import asyncio

import pytest

from tests.runtime.runs.conftest import progress_event
from toolweave.errors import PersistenceError
from toolweave.runtime.models import JsonObject
from toolweave.runtime.runs.progress import MAX_MESSAGE_CHARS, RunProgress, parse_progress

BOUND_S = 60.0


@pytest.mark.parametrize(
    ("event", "progress"),
    [
        (progress_event(0), {"percent": 0.0, "message": ""}),
        (progress_event(33.3, "x"), {"percent": 33.3, "message": "x"}),
        (progress_event(10**400), {"percent": 100.0, "message": ""}),
        (progress_event(-5), {"percent": 0.0, "message": ""}),
        (progress_event(1, {"deep": [[]]}), {"percent": 1.0, "message": ""}),
        (progress_event(1, "x" * MAX_MESSAGE_CHARS), {"percent": 1.0, "message": "x" * MAX_MESSAGE_CHARS}),
        (progress_event(1, "x" * 1_000_000), {"percent": 1.0, "message": "x" * (MAX_MESSAGE_CHARS - 1) + "…"}),
        (progress_event(float("nan")), None),
        (progress_event("50"), None),
        (progress_event(True), None),
        ({"type": "progress"}, None),
        ({"type": ["progress"], "progress": 1}, None),
        ({"type": "other", "progress": 1}, None),
        ("progress", None),
    ],
    ids=range(14),
)
async def test_malformed_events_are_bounded_or_ignored(event: object, progress: JsonObject | None) -> None:
    assert parse_progress(event) == progress


class Writes:
    """Record what is written; a write ends when the test allows it."""

    def __init__(self) -> None:
        self.written: list[JsonObject] = []
        self.news: asyncio.Queue[JsonObject] = asyncio.Queue()
        self.begun = asyncio.Event()
        self.free = asyncio.Event()
        self.failures = 0
        self.inside = 0

    async def write(self, progress: JsonObject) -> None:
        self.inside += 1
        assert self.inside == 1, "one at a time"
        self.begun.set()
        try:
            await self.free.wait()
        finally:
            self.inside -= 1
        if self.failures:
            self.failures -= 1
            raise PersistenceError("database is locked")
        self.written.append(progress)
        self.news.put_nowait(progress)

    async def until(self, percent: float) -> None:
        async with asyncio.timeout(BOUND_S):
            while (await self.news.get())["percent"] != percent:
                pass


def saved(percent: float) -> JsonObject:
    return {"percent": percent, "message": ""}


async def test_the_first_progress_is_written_at_once_and_of_later_ones_only_the_last() -> None:
    progress, writes = RunProgress(interval_s=0.01), Writes()
    async with progress.autosave(writes.write):
        progress.record_event(progress_event(1))
        await asyncio.wait_for(writes.begun.wait(), BOUND_S)
        for percent in range(2, 100):
            progress.record_event(progress_event(percent))
        await asyncio.to_thread(progress.record_event, progress_event(7))
        assert not writes.written, "the run has waited for the write"
        writes.free.set()
        await writes.until(7.0)
        progress.record_event(progress_event(8))
        await writes.until(8.0)
    assert writes.written == [saved(1.0), saved(7.0), saved(8.0)]


async def test_progress_within_the_interval_is_left_for_the_end_of_the_run() -> None:
    progress, writes = RunProgress(interval_s=600), Writes()
    writes.free.set()
    async with progress.autosave(writes.write):
        progress.record_event(progress_event(1))
        await writes.until(1.0)
        for percent in range(2, 1_000):
            progress.record_event(progress_event(percent / 10))
            await asyncio.sleep(0)
    progress.record_event(progress_event(99.95))
    assert writes.written == [saved(1.0)]
    assert progress.latest == saved(99.95)


async def test_a_write_that_fails_is_repeated() -> None:
    progress, writes = RunProgress(interval_s=0.01), Writes()
    writes.free.set()
    writes.failures = 3
    async with progress.autosave(writes.write):
        progress.record_event(progress_event(1))
        await writes.until(1.0)
    assert writes.failures == 0


async def test_the_end_of_a_run_waits_for_no_write() -> None:
    progress, writes = RunProgress(), Writes()
    async with asyncio.timeout(BOUND_S):
        async with progress.autosave(writes.write):
            progress.record_event(progress_event(1))
            await writes.begun.wait()
    assert (writes.written, writes.inside) == ([], 0)
