"""What a run tells is read from its events and written now and then: the first at once, then only the latest."""

import asyncio

import pytest

from tests.runtime.runs.conftest import progress_event
from toolweave.errors import PersistenceError
from toolweave.runtime.models import JsonObject
from toolweave.runtime.runs.progress import MAX_MESSAGE_CHARS, RunProgress, parse_progress

BOUND_S = 60.0


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (progress_event(0), {"percent": 0.0, "message": ""}),
        (progress_event(33.3, "x"), {"percent": 33.3, "message": "x"}),
        (progress_event(10**9), {"percent": 100.0, "message": ""}),
        (progress_event(10**400), {"percent": 100.0, "message": ""}),
        (progress_event(float("inf")), {"percent": 100.0, "message": ""}),
        (progress_event(-5), {"percent": 0.0, "message": ""}),
        (progress_event(1, None), {"percent": 1.0, "message": ""}),
        (progress_event(1, {"deep": [[]]}), {"percent": 1.0, "message": ""}),
        (progress_event(1, "x" * MAX_MESSAGE_CHARS), {"percent": 1.0, "message": "x" * MAX_MESSAGE_CHARS}),
        (progress_event(1, "x" * 1_000_000), {"percent": 1.0, "message": "x" * (MAX_MESSAGE_CHARS - 1) + "…"}),
        (progress_event(1, "\x00\ud800"), {"percent": 1.0, "message": "\x00\ud800"}),
        (progress_event(1, "m", data={"deep": [[[]]]}), {"percent": 1.0, "message": "m"}),
        (progress_event(float("nan")), None),
        (progress_event("50"), None),
        (progress_event(None), None),
        (progress_event(True), None),
        (progress_event([50]), None),
        ({"type": "progress"}, None),
        ({"type": ["progress"], "progress": 1}, None),
        ({"type": "other", "progress": 1}, None),
        ("progress", None),
        (["type", "progress"], None),
        (None, None),
    ],
    ids=range(23),
)
async def test_malformed_events_are_bounded_or_ignored(event: object, told: JsonObject | None) -> None:
    assert parse_progress(event) == told


class Shelf:
    """Keeps what is written, and lets a write end when it is told to."""

    def __init__(self) -> None:
        self.written: list[JsonObject] = []
        self.news: asyncio.Queue[JsonObject] = asyncio.Queue()
        self.begun = asyncio.Event()
        self.free = asyncio.Event()
        self.failures = 0
        self.inside = 0

    async def write(self, told: JsonObject) -> None:
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
        self.written.append(told)
        self.news.put_nowait(told)

    async def until(self, percent: float) -> None:
        async with asyncio.timeout(BOUND_S):
            while (await self.news.get())["percent"] != percent:
                pass


def told(percent: float) -> JsonObject:
    return {"percent": percent, "message": ""}


async def test_the_first_is_written_at_once_and_of_what_follows_only_the_last() -> None:
    progress, shelf = RunProgress(interval_s=0.01), Shelf()
    async with progress.autosave(shelf.write):
        progress.record_event(progress_event(1))
        await asyncio.wait_for(shelf.begun.wait(), BOUND_S)
        for percent in range(2, 100):
            progress.record_event(progress_event(percent))
        await asyncio.to_thread(progress.record_event, progress_event(7))
        assert not shelf.written, "nobody has waited for the write"
        shelf.free.set()
        await shelf.until(7.0)
        progress.record_event(progress_event(8))
        await shelf.until(8.0)
    assert shelf.written == [told(1.0), told(7.0), told(8.0)]


async def test_what_is_told_within_the_pause_is_left_for_the_end() -> None:
    progress, shelf = RunProgress(interval_s=600), Shelf()
    shelf.free.set()
    async with progress.autosave(shelf.write):
        progress.record_event(progress_event(1))
        await shelf.until(1.0)
        for percent in range(2, 1_000):
            progress.record_event(progress_event(percent / 10))
            await asyncio.sleep(0)
    progress.record_event(progress_event(99.95))
    assert shelf.written == [told(1.0)]
    assert progress.latest == told(99.95)


async def test_a_write_that_fails_is_made_up_for() -> None:
    progress, shelf = RunProgress(interval_s=0.01), Shelf()
    shelf.free.set()
    shelf.failures = 3
    async with progress.autosave(shelf.write):
        progress.record_event(progress_event(1))
        await shelf.until(1.0)
    assert shelf.failures == 0


async def test_the_end_of_a_run_waits_for_no_write() -> None:
    progress, shelf = RunProgress(), Shelf()
    async with asyncio.timeout(BOUND_S):
        async with progress.autosave(shelf.write):
            progress.record_event(progress_event(1))
            await shelf.begun.wait()
    assert (shelf.written, shelf.inside) == ([], 0)
