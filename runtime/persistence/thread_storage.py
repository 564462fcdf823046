"""Measure what threads take up in checkpoints.db (langgraph_api.md 2.2, `/storage`)."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from sqlalchemy import Connection

from toolweave.runtime.persistence.database import Database
from toolweave.runtime.persistence.sqlite import driver_of

BATCH = 50

PAGE = """
SELECT checkpoint_ns, checkpoint_id, type, checkpoint, COALESCE(LENGTH(metadata), 0) FROM checkpoints
WHERE thread_id = :thread_id AND (checkpoint_ns, checkpoint_id) > (:namespace, :after)
ORDER BY checkpoint_ns, checkpoint_id LIMIT :most
"""
WRITES = "SELECT COUNT(*), COALESCE(SUM(LENGTH(value)), 0) FROM writes WHERE thread_id = ?"


class Serializer(Protocol):
    """What reads and writes stored values."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode a value."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Encode a value."""


@dataclass(slots=True)
class ThreadStorage:
    """What a thread takes up, in bytes.

    SQLite keeps a channel's value inside every checkpoint that has it: `by_channel` counts each copy's bytes, and the
    channel's versions once. `checkpoint_bytes` is the rest of the checkpoint rows, metadata included.
    """

    checkpoints: int = 0
    checkpoint_bytes: int = 0
    writes: int = 0
    write_bytes: int = 0
    channel_bytes: "defaultdict[str, int]" = field(default_factory=lambda: defaultdict(int))
    channel_versions: "defaultdict[str, set[tuple[str, Any]]]" = field(default_factory=lambda: defaultdict(set))


async def measure_thread(database: Database, serde: Serializer, thread_id: str) -> ThreadStorage:
    """Measure a thread, some checkpoints at a time, so that neither memory nor other readers suffer."""
    storage = ThreadStorage()
    storage.writes, storage.write_bytes = await database.read(
        lambda connection: driver_of(connection).execute(WRITES, (thread_id,)).fetchone()
    )
    after = ("", "")
    while True:
        rows = await database.read(partial(_page, thread_id=thread_id, after=after))
        if not rows:
            return storage
        await asyncio.to_thread(_add, storage, rows, serde)
        after = rows[-1][:2]


def _page(connection: Connection, thread_id: str, after: tuple[str, str]) -> list[Any]:
    values = {"thread_id": thread_id, "namespace": after[0], "after": after[1], "most": BATCH}
    return driver_of(connection).execute(PAGE, values).fetchall()


def _add(storage: ThreadStorage, rows: Sequence[Any], serde: Serializer) -> None:
    for namespace, _, kind, blob, metadata_bytes in rows:
        checkpoint = serde.loads_typed((kind, blob))
        sizes = {name: len(serde.dumps_typed(value)[1]) for name, value in checkpoint["channel_values"].items()}
        for name, size in sizes.items():
            storage.channel_bytes[name] += size
        for name, version in checkpoint["channel_versions"].items():
            storage.channel_versions[name].add((namespace, version))
        storage.checkpoints += 1
        # Encoded alone, a value can be longer than inside its checkpoint: a reference becomes a copy.
        storage.checkpoint_bytes += max(0, len(blob) - sum(sizes.values())) + metadata_bytes
