"""Open a store on a real file, with a clock that tests turn."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from toolweave.runtime.persistence.database import SqliteDatabase, open_sqlite
from toolweave.runtime.persistence.store import SqliteStore, StoreOptions, open_store


class Clock:
    """The time that the store believes it is."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A store without options in an empty file."""
    async with open_store(tmp_path / "store.db", StoreOptions()) as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    """The database of a store that has been opened before."""
    path = tmp_path / "store.db"
    async with open_store(path, StoreOptions()):
        pass
    async with open_sqlite(path) as opened:
        yield opened
