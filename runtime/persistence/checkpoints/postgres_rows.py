"""SQL for LangGraph's tables and `kept_writes` in PostgreSQL, and the fences that prove a claim on a thread.

A fence is the CTE `fence`, which has a row if the claim holds the thread. It locks the rows that prove this FOR SHARE,
so that the claim cannot be lost before the statement's changes are committed, and `SELECT 1 FROM fence` tells the
caller whether they were made.
"""

import re
from functools import cache
from typing import Any

from toolweave.runtime.persistence.checkpoints import rows as shared
from toolweave.runtime.persistence.threads import ThreadClaim

# The thread's row is locked first, by everybody: otherwise two could wait for each other.
RUN_FENCE = """
WITH thread AS MATERIALIZED (
    SELECT thread_id FROM threads WHERE thread_id = %(thread_id)s AND claim IS NULL FOR SHARE
), fence AS MATERIALIZED (
    SELECT 1 FROM thread JOIN runs USING (thread_id)
    WHERE run_id = %(claiming_run)s AND attempt = %(attempt)s AND status = 'running' FOR SHARE OF runs
)
"""
REQUEST_FENCE = """
WITH fence AS MATERIALIZED (
    SELECT 1 FROM threads WHERE thread_id = %(thread_id)s AND claim = %(token)s FOR SHARE
)
"""
# For writes without a claim, after LOCK_THREAD in the same transaction: a statement sees what others have committed
# before it began, not what they committed while it waited for a lock.
LOCK_THREAD = "SELECT 1 FROM threads WHERE thread_id = %(thread_id)s FOR NO KEY UPDATE"
UNCLAIMED_FENCE = """
WITH newest AS (
    SELECT checkpoint_id FROM checkpoints WHERE thread_id = %(thread_id)s AND checkpoint_ns = %(checkpoint_ns)s
    ORDER BY checkpoint_id DESC LIMIT 1
), fence AS MATERIALIZED (
    SELECT 1
    WHERE NOT EXISTS (SELECT 1 FROM threads WHERE thread_id = %(thread_id)s AND claim IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM runs WHERE thread_id = %(thread_id)s AND status = 'running')
    AND (%(after)s::text IS NULL OR NOT EXISTS (SELECT 1 FROM newest WHERE checkpoint_id <> %(after)s::text))
)
"""
PROOF = "SELECT 1 FROM fence"
PUT_CHECKPOINT = """
, blobs AS (
    INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
    SELECT %(thread_id)s, %(checkpoint_ns)s, added.*
    FROM fence, unnest(%(channels)b::text[], %(versions)b::text[], %(types)b::text[], %(blobs)b::bytea[]) AS added
    ON CONFLICT (thread_id, checkpoint_ns, channel, version) DO NOTHING
), saved AS (
    INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
    SELECT %(thread_id)s, %(checkpoint_ns)s, %(new_id)s, %(checkpoint_id)s,
        %(checkpoint)s::jsonb, %(metadata)s::jsonb
    FROM fence
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET
        parent_checkpoint_id = EXCLUDED.parent_checkpoint_id,
        checkpoint = EXCLUDED.checkpoint, metadata = EXCLUDED.metadata
)
SELECT 1 FROM fence
"""
_PUT_WRITES = """
, written AS (
    INSERT INTO checkpoint_writes
        (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
    SELECT %(thread_id)s, %(checkpoint_ns)s, %(checkpoint_id)s, %(task_id)s, %(task_path)s, added.*
    FROM fence, unnest(%(indexes)b::int[], %(channels)b::text[], %(types)b::text[], %(blobs)b::bytea[]) AS added
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO
"""
ADD_WRITES = f"{_PUT_WRITES} NOTHING) {PROOF}"
REPLACE_WRITES = f"""{_PUT_WRITES} UPDATE SET
    task_path = EXCLUDED.task_path, channel = EXCLUDED.channel, type = EXCLUDED.type, blob = EXCLUDED.blob
) {PROOF}"""
# One statement: several would see different states of a thread that others write to or prune meanwhile.
COPY_THREAD = f"""
WITH checkpoints_copy AS ({shared.COPY_THREAD[0]}), writes_copy AS ({shared.COPY_THREAD[1]})
INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
SELECT %(target)s, checkpoint_ns, channel, version, type, blob FROM checkpoint_blobs WHERE thread_id = %(source)s
"""  # noqa: S608 - constants
# Channel values that no checkpoint of the thread has any more.
DELETE_UNUSED_BLOBS = """
WITH used AS MATERIALIZED (
    SELECT DISTINCT checkpoint_ns, channel, version
    FROM checkpoints CROSS JOIN LATERAL jsonb_each_text(checkpoint -> 'channel_versions') AS named(channel, version)
    WHERE thread_id = %(thread_id)s
)
DELETE FROM checkpoint_blobs AS stored WHERE thread_id = %(thread_id)s AND NOT EXISTS (
    SELECT 1 FROM used WHERE used.checkpoint_ns = stored.checkpoint_ns
    AND used.channel = stored.channel AND used.version = stored.version
)
"""
# `earlier` is the number of checkpoints that the channels of the newest one need (`shared.DELTAS_KEY`).
_DELETE_OLDER = f"""
WITH RECURSIVE newest AS (
    SELECT DISTINCT ON (checkpoint_ns) checkpoint_ns, checkpoint_id, COALESCE((
        SELECT MAX((counts ->> 1)::int)
        FROM jsonb_each(metadata -> '{shared.DELTAS_KEY}') AS delta(channel, counts)
    ), 0) AS earlier
    FROM checkpoints WHERE thread_id = %(thread_id)s ORDER BY checkpoint_ns, checkpoint_id DESC
), needed AS (
    SELECT checkpoint_ns, checkpoint_id, earlier FROM newest UNION ALL
    SELECT child.checkpoint_ns, child.parent_checkpoint_id, needed.earlier - 1
    FROM needed JOIN checkpoints AS child USING (checkpoint_ns, checkpoint_id)
    WHERE child.thread_id = %(thread_id)s AND child.parent_checkpoint_id IS NOT NULL AND needed.earlier > 0
)
DELETE FROM {{table}} AS stored WHERE thread_id = %(thread_id)s
AND checkpoint_id < (SELECT checkpoint_id FROM newest WHERE newest.checkpoint_ns = stored.checkpoint_ns)
AND NOT EXISTS (
    SELECT 1 FROM needed
    WHERE needed.checkpoint_ns = stored.checkpoint_ns AND needed.checkpoint_id = stored.checkpoint_id
)
"""  # noqa: S608 - constants
PRUNE = (
    *(_DELETE_OLDER.format(table=table) for table in ("checkpoint_writes", "kept_writes", "checkpoints")),
    shared.CLEAR_MISSING_PARENTS,
)
MEASURE_CHECKPOINTS = """
SELECT COUNT(*) AS number,
    COALESCE(SUM(octet_length(checkpoint::text) + octet_length(metadata::text)), 0)::bigint AS bytes
FROM checkpoints WHERE thread_id = %(thread_id)s
"""
MEASURE_WRITES = """
SELECT COUNT(*) AS number, COALESCE(SUM(octet_length(blob)), 0)::bigint AS bytes
FROM checkpoint_writes WHERE thread_id = %(thread_id)s
"""
MEASURE_CHANNELS = """
SELECT channel, SUM(octet_length(blob))::bigint AS bytes FROM checkpoint_blobs
WHERE thread_id = %(thread_id)s GROUP BY channel
"""
CHANNEL_VERSIONS = """
SELECT DISTINCT channel, checkpoint_ns, version
FROM checkpoints CROSS JOIN LATERAL jsonb_each_text(checkpoint -> 'channel_versions') AS named(channel, version)
WHERE thread_id = %(thread_id)s
"""
# Held until the end of the transaction that creates the tables.
LOCK_SETUP = "SELECT pg_advisory_xact_lock(hashtextextended('toolweave checkpoints', 0))"
NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


@cache
def for_postgres(statement: str) -> str:
    """Translate a statement for SQLite: LangGraph names a table and a column otherwise, and metadata is `jsonb`.

    The statements of this module stay as they are.
    """
    statement = statement.replace(shared.RUN_ID, "metadata ->> 'run_id'")
    for name, other in (("writes", "checkpoint_writes"), ("BLOB", "BYTEA"), ("value", "blob")):
        statement = re.sub(rf"\b{name}\b", other, statement)
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", statement)


def fence(claim: ThreadClaim) -> tuple[str, dict[str, Any]]:
    """Return the fence of a claim and its parameters."""
    run_id, _, attempt = claim.token.rpartition(":")
    if attempt.isdecimal():
        return RUN_FENCE, {"thread_id": claim.thread_id, "claiming_run": run_id, "attempt": int(attempt)}
    return REQUEST_FENCE, {"thread_id": claim.thread_id, "token": claim.token}


def to_jsonb(text: str) -> str:
    """Return JSON text without the characters that `jsonb` rejects."""
    return NUL.sub(r"\1", text).encode("utf-8", "ignore").decode()


def is_text(name: str) -> bool:
    """Return whether a column may have this text."""
    return "\0" not in name and name.encode("utf-8", "ignore").decode() == name
