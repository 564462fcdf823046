"""SQL and functions for checkpoints.db: LangGraph's tables `checkpoints` and `writes`, and our `kept_writes`.

Statements with named parameters are used on PostgreSQL, too (`postgres_rows.for_postgres`).
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from sqlalchemy import Connection

from toolweave.runtime.persistence.database import SqliteDatabase, driver_of

NEWEST_CHECKPOINT = """
SELECT checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints
WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns
ORDER BY checkpoint_id DESC LIMIT 1
"""
ONE_CHECKPOINT = """
SELECT checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints
WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id
"""
PENDING_WRITES = """
SELECT task_path, task_id, idx, channel, type, value FROM writes
WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id
"""
PUT_CHECKPOINT = """
INSERT OR REPLACE INTO checkpoints
(thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
WRITE_COLUMNS = "(thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)"
# A task's results are stored once; its error, interrupt and resume values are replaced.
ADD_WRITE = f"INSERT OR IGNORE INTO writes {WRITE_COLUMNS} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constants
REPLACE_WRITE = f"INSERT OR REPLACE INTO writes {WRITE_COLUMNS} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constants
# A task's error, interrupt and resume values have negative indexes and stay.
RESULTS = """
FROM writes WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id
AND task_id = :task_id AND idx >= 0
"""
FAIL_TASK = (
    f"""
    INSERT INTO writes {WRITE_COLUMNS}
    SELECT DISTINCT thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, :idx, :channel, :type, :encoded
    {RESULTS}
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
    DO UPDATE SET channel = excluded.channel, type = excluded.type, value = excluded.value
    """,
    f"DELETE {RESULTS}",
)
TABLES = ("checkpoints", "writes", "kept_writes")
DELETE_THREAD = tuple(f"DELETE FROM {table} WHERE thread_id = :thread_id" for table in TABLES)  # noqa: S608 - constants
DELETE_CHECKPOINT = tuple(
    f"{delete} AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id" for delete in DELETE_THREAD
)
COPY_THREAD = (
    """
    INSERT INTO checkpoints
    (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
    SELECT :target, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata
    FROM checkpoints WHERE thread_id = :source
    """,
    """
    INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)
    SELECT :target, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value
    FROM writes WHERE thread_id = :source
    """,
)
# A backup of the pending writes of a checkpoint, made before a later run first writes there: one row per write, and one
# row without a task that marks the backup as complete.
CREATE_KEPT_WRITES = """
CREATE TABLE IF NOT EXISTS kept_writes (
    run_id TEXT NOT NULL, thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL, checkpoint_id TEXT NOT NULL,
    task_id TEXT, task_path TEXT, idx INTEGER, channel TEXT, type TEXT, value BLOB
)
"""
INDEX_KEPT_WRITES = "CREATE INDEX IF NOT EXISTS ix_kept_writes ON kept_writes (thread_id, run_id)"
# Once per run and checkpoint.
BACK_UP_WRITES = """
INSERT INTO kept_writes
SELECT :run_id, :thread_id, :checkpoint_ns, :checkpoint_id, * FROM (
    SELECT NULL, NULL, NULL, NULL, NULL, NULL
    UNION ALL
    SELECT task_id, task_path, idx, channel, type, value FROM writes
    WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id
) AS marker_and_writes
WHERE NOT EXISTS (
    SELECT 1 FROM kept_writes
    WHERE thread_id = :thread_id AND run_id = :run_id
    AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id
)
"""
# A task stores the resume values that it has used when it ends or interrupts again; only when it ends, it has other
# writes, too.
INTERRUPTED_AGAIN = """
SELECT 1 FROM kept_writes AS backup
JOIN writes AS resumed USING (thread_id, checkpoint_ns, checkpoint_id)
WHERE backup.thread_id = :thread_id AND backup.run_id = :run_id AND backup.task_id IS NULL
AND resumed.channel = '__resume__' AND resumed.task_id <> :for_all_tasks
AND NOT EXISTS (
    SELECT 1 FROM kept_writes AS before
    WHERE before.thread_id = :thread_id AND before.run_id = :run_id
    AND before.checkpoint_ns = resumed.checkpoint_ns AND before.checkpoint_id = resumed.checkpoint_id
    AND before.task_id = resumed.task_id AND before.idx = resumed.idx AND before.value = resumed.value
)
AND NOT EXISTS (
    SELECT 1 FROM writes AS result
    WHERE result.thread_id = :thread_id
    AND result.checkpoint_ns = resumed.checkpoint_ns AND result.checkpoint_id = resumed.checkpoint_id
    AND result.task_id = resumed.task_id AND result.channel NOT IN ('__resume__', '__interrupt__')
)
LIMIT 1
"""
# The update and resume value of a Command, on an earlier run's checkpoint.
WROTE_ONLY_COMMAND = """
SELECT 1 FROM kept_writes WHERE thread_id = :thread_id AND run_id = :run_id
AND NOT EXISTS (
    SELECT 1 FROM kept_writes AS backup
    JOIN writes AS added USING (thread_id, checkpoint_ns, checkpoint_id)
    WHERE backup.thread_id = :thread_id AND backup.run_id = :run_id AND backup.task_id IS NULL
    AND added.task_id <> :for_all_tasks
    AND NOT EXISTS (
        SELECT 1 FROM kept_writes AS before
        WHERE before.thread_id = :thread_id AND before.run_id = :run_id
        AND before.checkpoint_ns = added.checkpoint_ns AND before.checkpoint_id = added.checkpoint_id
        AND before.task_id = added.task_id AND before.idx = added.idx AND before.value = added.value
    )
)
"""
# A checkpoint's metadata is JSON in bytes.
RUN_ID = "json_extract(CAST(metadata AS TEXT), '$.run_id')"
DELETE_OWN_WRITES = f"""
DELETE FROM writes WHERE thread_id = :thread_id AND (checkpoint_ns, checkpoint_id) IN (
    SELECT checkpoint_ns, checkpoint_id FROM checkpoints
    WHERE thread_id = :thread_id AND {RUN_ID} = :run_id
)
"""  # noqa: S608 - constants
DELETE_OWN_CHECKPOINTS = f"""
DELETE FROM checkpoints
WHERE thread_id = :thread_id AND {RUN_ID} = :run_id
"""  # noqa: S608 - constants
DELETE_REPLACED_WRITES = """
DELETE FROM writes WHERE thread_id = :thread_id AND (checkpoint_ns, checkpoint_id) IN (
    SELECT checkpoint_ns, checkpoint_id FROM kept_writes WHERE thread_id = :thread_id AND run_id = :run_id
)
"""
RESTORE_WRITES = """
INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)
SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value FROM kept_writes
WHERE thread_id = :thread_id AND run_id = :run_id AND task_id IS NOT NULL
AND (checkpoint_ns, checkpoint_id) IN (
    SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = :thread_id
)
"""
DELETE_BACKUP = "DELETE FROM kept_writes WHERE thread_id = :thread_id AND run_id = :run_id"
ROLL_BACK_RUN = (DELETE_OWN_WRITES, DELETE_OWN_CHECKPOINTS, DELETE_REPLACED_WRITES, RESTORE_WRITES, DELETE_BACKUP)
PAGE_SIZE = 50
SELECT_PAGE = """
SELECT checkpoint_ns, checkpoint_id, type, checkpoint, COALESCE(LENGTH(metadata), 0) FROM checkpoints
WHERE thread_id = :thread_id AND (checkpoint_ns, checkpoint_id) > (:namespace, :after)
ORDER BY checkpoint_ns, checkpoint_id LIMIT :most
"""
MEASURE_WRITES = "SELECT COUNT(*), COALESCE(SUM(LENGTH(value)), 0) FROM writes WHERE thread_id = ?"


class Serializer(Protocol):
    """Encodes and decodes stored values."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode a value."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Encode a value."""


@dataclass(slots=True)
class ThreadStorage:
    """The storage of a thread in bytes.

    Each checkpoint contains the values of its channels. `channel_bytes` counts the bytes of all copies,
    `channel_versions` each version once. `checkpoint_bytes` is the rest of the checkpoint rows, including metadata.
    """

    checkpoints: int = 0
    checkpoint_bytes: int = 0
    writes: int = 0
    write_bytes: int = 0
    channel_bytes: "defaultdict[str, int]" = field(default_factory=lambda: defaultdict(int))
    channel_versions: "defaultdict[str, set[tuple[str, Any]]]" = field(default_factory=lambda: defaultdict(set))


async def measure_thread(database: SqliteDatabase, serde: Serializer, thread_id: str) -> ThreadStorage:
    """Measure a thread page by page, to limit memory and not to block other readers."""
    storage = ThreadStorage()
    storage.writes, storage.write_bytes = await database.read(
        lambda connection: driver_of(connection).execute(MEASURE_WRITES, (thread_id,)).fetchone()
    )
    after = ("", "")
    while True:
        rows = await database.read(partial(_read_page, thread_id=thread_id, after=after))
        if not rows:
            return storage
        await asyncio.to_thread(_add_sizes, storage, rows, serde)
        after = rows[-1][:2]


def _read_page(connection: Connection, thread_id: str, after: tuple[str, str]) -> list[Any]:
    values = {"thread_id": thread_id, "namespace": after[0], "after": after[1], "most": PAGE_SIZE}
    return driver_of(connection).execute(SELECT_PAGE, values).fetchall()


def _add_sizes(storage: ThreadStorage, rows: Sequence[Any], serde: Serializer) -> None:
    for namespace, _, kind, blob, metadata_bytes in rows:
        checkpoint = serde.loads_typed((kind, blob))
        sizes = {name: len(serde.dumps_typed(value)[1]) for name, value in checkpoint["channel_values"].items()}
        for name, size in sizes.items():
            storage.channel_bytes[name] += size
        for name, version in checkpoint["channel_versions"].items():
            storage.channel_versions[name].add((namespace, version))
        storage.checkpoints += 1
        # A value encoded alone can be longer than inside its checkpoint, where it may be a reference.
        storage.checkpoint_bytes += max(0, len(blob) - sum(sizes.values())) + metadata_bytes


# In a checkpoint's metadata: the channels whose value is rebuilt from earlier checkpoints, each with the number of
# updates and of checkpoints since its last full copy.
DELTAS_KEY = "counters_since_delta_snapshot"
SELECT_NEWEST = (
    "SELECT checkpoint_ns, MAX(checkpoint_id), metadata FROM checkpoints WHERE thread_id = ? GROUP BY checkpoint_ns"
)
DELETE_OLDER = """
WITH RECURSIVE needed(id, earlier) AS (
    SELECT :newest, :earlier UNION ALL
    SELECT parent_checkpoint_id, earlier - 1 FROM checkpoints JOIN needed ON checkpoint_id = id
    WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND parent_checkpoint_id IS NOT NULL AND earlier > 0
)
DELETE FROM {table} WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id < :newest
AND checkpoint_id NOT IN (SELECT id FROM needed)
"""
CLEAR_MISSING_PARENTS = """
UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE thread_id = :thread_id
AND (checkpoint_ns, parent_checkpoint_id) NOT IN (
    SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = :thread_id
)
"""
# The primary keys start with the thread, so this needs one look-up per thread instead of one per row.
SELECT_THREAD_IDS = """
WITH RECURSIVE found(thread_id) AS (
    SELECT MIN(thread_id) FROM {table} UNION ALL
    SELECT (SELECT MIN(thread_id) FROM {table} WHERE thread_id > found.thread_id) FROM found WHERE thread_id IS NOT NULL
)
SELECT thread_id FROM found WHERE thread_id IS NOT NULL
"""


def prune_checkpoints(connection: Connection, thread_id: str) -> None:
    """Delete checkpoints older than the newest of each namespace that are not needed to read that one."""
    driver = driver_of(connection)
    for namespace, newest, metadata in driver.execute(SELECT_NEWEST, (thread_id,)).fetchall():
        deltas = json.loads(metadata or "{}").get(DELTAS_KEY) or {}
        earlier = max((checkpoints for _, checkpoints in deltas.values()), default=0)
        where = {"thread_id": thread_id, "checkpoint_ns": namespace, "newest": newest, "earlier": earlier}
        for table in TABLES:
            driver.execute(DELETE_OLDER.format(table=table), where)
    driver.execute(CLEAR_MISSING_PARENTS, {"thread_id": thread_id})


def thread_ids(connection: Connection) -> set[str]:
    """Return the ids of threads that have checkpoints or writes."""
    driver = driver_of(connection)
    found = (driver.execute(SELECT_THREAD_IDS.format(table=table)) for table in ("checkpoints", "writes"))
    return {thread_id for rows in found for (thread_id,) in rows}
