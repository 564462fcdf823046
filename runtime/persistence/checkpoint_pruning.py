"""Take old checkpoints out of checkpoints.db: a thread's history, and what no thread owns any more."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Connection

from toolweave.runtime.persistence.sqlite import driver_of

TABLES = ("checkpoints", "writes", "kept_writes")
# In a checkpoint's metadata: the channels whose value is rebuilt from what earlier checkpoints hold.
DELTAS = "counters_since_delta_snapshot"

NEWEST = "SELECT checkpoint_ns, MAX(checkpoint_id) FROM checkpoints WHERE thread_id = ? GROUP BY checkpoint_ns"
ONE = """
SELECT parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints
WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?
"""
DELETE_OLDER = """
DELETE FROM {table} WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id < :newest
AND checkpoint_id NOT IN (SELECT value FROM json_each(:needed))
"""
FORGET_LOST_PARENTS = """
UPDATE checkpoints SET parent_checkpoint_id = NULL
WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND parent_checkpoint_id IS NOT NULL
AND NOT EXISTS (
    SELECT 1 FROM checkpoints AS parent
    WHERE parent.thread_id = checkpoints.thread_id AND parent.checkpoint_ns = checkpoints.checkpoint_ns
    AND parent.checkpoint_id = checkpoints.parent_checkpoint_id
)
"""
# Both tables begin their primary keys with the thread.
THREADS_AFTER = """
SELECT thread_id FROM (
    SELECT thread_id FROM checkpoints WHERE thread_id > :after
    UNION SELECT thread_id FROM writes WHERE thread_id > :after
) ORDER BY thread_id LIMIT :most
"""
NEWEST_OF_ANY = """
SELECT MAX(checkpoint_id) FROM (
    SELECT checkpoint_id FROM checkpoints WHERE thread_id = :thread_id
    UNION ALL SELECT checkpoint_id FROM writes WHERE thread_id = :thread_id
)
"""
DELETE_UP_TO = "DELETE FROM {table} WHERE thread_id = :thread_id AND checkpoint_id <= :last"


class Serializer(Protocol):
    """What reads stored values."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode a value."""


def prune_older(connection: Connection, thread_id: str, serde: Serializer) -> None:
    """Delete what is older than the newest checkpoint of each namespace and not needed to read that one."""
    driver = driver_of(connection)
    for namespace, checkpoint_id in driver.execute(NEWEST, (thread_id,)).fetchall():
        needed = _ancestors_needed(connection, (thread_id, namespace, checkpoint_id), serde)
        where = {"thread_id": thread_id, "checkpoint_ns": namespace}
        for table in TABLES:
            older = {**where, "newest": checkpoint_id, "needed": json.dumps(needed)}
            driver.execute(DELETE_OLDER.format(table=table), older)
        driver.execute(FORGET_LOST_PARENTS, where)


def threads_after(connection: Connection, after: str, most: int) -> dict[str, str]:
    """Name the next threads that have checkpoints, in order, each with the newest of them in any namespace."""
    driver = driver_of(connection)
    found = driver.execute(THREADS_AFTER, {"after": after, "most": most}).fetchall()
    return {thread_id: driver.execute(NEWEST_OF_ANY, {"thread_id": thread_id}).fetchone()[0] for (thread_id,) in found}


def delete_up_to(connection: Connection, last: Mapping[str, str]) -> None:
    """Delete all that threads have up to a checkpoint each."""
    for thread_id, checkpoint_id in last.items():
        for table in TABLES:
            driver_of(connection).execute(
                DELETE_UP_TO.format(table=table), {"thread_id": thread_id, "last": checkpoint_id}
            )


def _ancestors_needed(connection: Connection, place: tuple[str, str, str], serde: Serializer) -> Sequence[str]:
    """Follow a checkpoint's parents back to where each of its delta channels was last stored whole."""
    thread_id, namespace, checkpoint_id = place
    row = driver_of(connection).execute(ONE, place).fetchone()
    missing = set(json.loads(row[3] or "{}").get(DELTAS) or ()) - _stored(row, serde) if row else set()
    needed: list[str] = []
    while missing and row is not None and row[0] is not None and row[0] not in needed:
        checkpoint_id = row[0]
        row = driver_of(connection).execute(ONE, (thread_id, namespace, checkpoint_id)).fetchone()
        if row is not None:
            needed.append(checkpoint_id)
            missing -= _stored(row, serde)
    return needed


def _stored(row: Sequence[Any], serde: Serializer) -> set[str]:
    return set(serde.loads_typed((row[1], row[2])).get("channel_values") or ())
