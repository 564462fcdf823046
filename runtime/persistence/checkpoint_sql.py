"""Hold the SQL of the checkpointer; its first two tables are LangGraph's, the third is ours."""

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
# A task's results are stored once; its error, its interrupt and the answer to it are replaced.
ADD_WRITE = """
INSERT OR IGNORE INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
REPLACE_WRITE = """
INSERT OR REPLACE INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# A task's error, interrupt and answers have negative indexes and stay.
DELETE_RESULTS = """
DELETE FROM writes WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id
AND task_id = :task_id AND idx >= 0
"""
DELETE_CHECKPOINT = tuple(
    f"DELETE FROM {table} WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns "  # noqa: S608 - constants
    "AND checkpoint_id = :checkpoint_id"
    for table in ("checkpoints", "writes", "kept_writes")
)
DELETE_THREAD = (
    "DELETE FROM checkpoints WHERE thread_id = :thread_id",
    "DELETE FROM writes WHERE thread_id = :thread_id",
    "DELETE FROM kept_writes WHERE thread_id = :thread_id",
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

# One row per pending write that a checkpoint had before another run first wrote there, and one without a task
# that says that all of them are here.
CREATE_KEPT_WRITES = """
CREATE TABLE IF NOT EXISTS kept_writes (
    run_id TEXT NOT NULL, thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL, checkpoint_id TEXT NOT NULL,
    task_id TEXT, task_path TEXT, idx INTEGER, channel TEXT, type TEXT, value BLOB
)
"""
INDEX_KEPT_WRITES = "CREATE INDEX IF NOT EXISTS ix_kept_writes ON kept_writes (thread_id, run_id)"

# Once per run and checkpoint.
KEEP_WRITES = """
INSERT INTO kept_writes
SELECT :run_id, :thread_id, :checkpoint_ns, :checkpoint_id, * FROM (
    SELECT NULL, NULL, NULL, NULL, NULL, NULL
    UNION ALL
    SELECT task_id, task_path, idx, channel, type, value FROM writes
    WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id
)
WHERE NOT EXISTS (
    SELECT 1 FROM kept_writes
    WHERE thread_id = :thread_id AND run_id = :run_id
    AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id
)
"""

# A task stores the answers it has taken when it ends or asks again; only in the first case it has other writes, too.
ASKED_AGAIN = """
SELECT 1 FROM kept_writes AS begun
JOIN writes AS taken USING (thread_id, checkpoint_ns, checkpoint_id)
WHERE begun.thread_id = :thread_id AND begun.run_id = :run_id AND begun.task_id IS NULL
AND taken.channel = '__resume__' AND taken.task_id <> :for_all_tasks
AND NOT EXISTS (
    SELECT 1 FROM kept_writes AS before
    WHERE before.thread_id = :thread_id AND before.run_id = :run_id
    AND before.checkpoint_ns = taken.checkpoint_ns AND before.checkpoint_id = taken.checkpoint_id
    AND before.task_id = taken.task_id AND before.idx = taken.idx AND before.value = taken.value
)
AND NOT EXISTS (
    SELECT 1 FROM writes AS result
    WHERE result.thread_id = :thread_id
    AND result.checkpoint_ns = taken.checkpoint_ns AND result.checkpoint_id = taken.checkpoint_id
    AND result.task_id = taken.task_id AND result.channel NOT IN ('__resume__', '__interrupt__')
)
LIMIT 1
"""

# Its update and its answer, on an earlier run's checkpoint.
WROTE_ONLY_ITS_COMMAND = """
SELECT EXISTS (
    SELECT 1 FROM kept_writes WHERE thread_id = :thread_id AND run_id = :run_id
)
AND NOT EXISTS (
    SELECT 1 FROM kept_writes AS begun
    JOIN writes AS made USING (thread_id, checkpoint_ns, checkpoint_id)
    WHERE begun.thread_id = :thread_id AND begun.run_id = :run_id AND begun.task_id IS NULL
    AND made.task_id <> :for_all_tasks
    AND NOT EXISTS (
        SELECT 1 FROM kept_writes AS before
        WHERE before.thread_id = :thread_id AND before.run_id = :run_id
        AND before.checkpoint_ns = made.checkpoint_ns AND before.checkpoint_id = made.checkpoint_id
        AND before.task_id = made.task_id AND before.idx = made.idx AND before.value = made.value
    )
)
"""

# A checkpoint's metadata is JSON in bytes.
DELETE_OWN_WRITES = """
DELETE FROM writes WHERE thread_id = :thread_id AND (checkpoint_ns, checkpoint_id) IN (
    SELECT checkpoint_ns, checkpoint_id FROM checkpoints
    WHERE thread_id = :thread_id AND json_extract(CAST(metadata AS TEXT), '$.run_id') = :run_id
)
"""
DELETE_OWN_CHECKPOINTS = """
DELETE FROM checkpoints
WHERE thread_id = :thread_id AND json_extract(CAST(metadata AS TEXT), '$.run_id') = :run_id
"""
DELETE_REPLACED_WRITES = """
DELETE FROM writes WHERE thread_id = :thread_id AND (checkpoint_ns, checkpoint_id) IN (
    SELECT checkpoint_ns, checkpoint_id FROM kept_writes WHERE thread_id = :thread_id AND run_id = :run_id
)
"""
RESTORE_KEPT_WRITES = """
INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)
SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value FROM kept_writes
WHERE thread_id = :thread_id AND run_id = :run_id AND task_id IS NOT NULL
AND (checkpoint_ns, checkpoint_id) IN (
    SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = :thread_id
)
"""
FORGET_KEPT_WRITES = "DELETE FROM kept_writes WHERE thread_id = :thread_id AND run_id = :run_id"
TAKE_BACK = (
    DELETE_OWN_WRITES,
    DELETE_OWN_CHECKPOINTS,
    DELETE_REPLACED_WRITES,
    RESTORE_KEPT_WRITES,
    FORGET_KEPT_WRITES,
)
