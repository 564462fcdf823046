"""SQL of the store's file: the columns are those of LangGraph's own SQLite store, so files made by it are read, too.

`prefix` is the namespace joined by periods. What clients send is bound, never written into a statement.
"""

CREATE = (
    """
    CREATE TABLE IF NOT EXISTS store (
        prefix TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, created_at TIMESTAMP, updated_at TIMESTAMP,
        expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key)
    )
    """,
    "CREATE INDEX IF NOT EXISTS store_prefix_idx ON store (prefix)",
    "CREATE INDEX IF NOT EXISTS idx_store_expires_at ON store (expires_at) WHERE expires_at IS NOT NULL",
    """
    CREATE TABLE IF NOT EXISTS store_vectors (
        prefix TEXT NOT NULL, key TEXT NOT NULL, field_name TEXT NOT NULL, embedding BLOB,
        created_at TIMESTAMP, updated_at TIMESTAMP, PRIMARY KEY (prefix, key, field_name),
        FOREIGN KEY (prefix, key) REFERENCES store (prefix, key) ON DELETE CASCADE
    )
    """,
)

# An updated item keeps its place in searches and the time it was made.
PUT = (
    "INSERT INTO store (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes) "
    "VALUES (:prefix, :key, :value, :now, :now, :expires_at, :ttl_minutes) ON CONFLICT (prefix, key) DO UPDATE SET "
    "created_at = iif(expires_at <= :now, :now, created_at), value = excluded.value, "
    "updated_at = excluded.updated_at, expires_at = excluded.expires_at, ttl_minutes = excluded.ttl_minutes"
)
DELETE = "DELETE FROM store WHERE prefix = :prefix AND key = :key"
DELETE_VECTORS = "DELETE FROM store_vectors WHERE prefix = :prefix AND key = :key"
PUT_VECTOR = (
    "INSERT OR REPLACE INTO store_vectors (prefix, key, field_name, embedding, created_at, updated_at) "
    "VALUES (:prefix, :key, :field_name, :embedding, :now, :now)"
)
REFRESH = (
    "UPDATE store SET expires_at = :expires_at WHERE prefix = :prefix AND key = :key AND ttl_minutes IS NOT NULL "
    "AND expires_at > :now"
)
SWEEP = "DELETE FROM store WHERE expires_at IS NOT NULL AND expires_at <= :now"

# Tool results kept for a thread: a server's threads have UUIDs, what looks otherwise is an application's own.
KEPT_FOR_A_THREAD = "LIKE 'threads.________-____-____-____-____________.tool_results'"
_SHOWN = f"(:shows_kept OR s.prefix NOT {KEPT_FOR_A_THREAD})"
_ALIVE = f"(s.expires_at IS NULL OR s.expires_at > :now) AND {_SHOWN}"
# A range of the index on prefixes, without wildcards; `under` gives its bounds.
_UNDER = "s.prefix >= :prefix AND s.prefix < :end AND (s.prefix = :prefix OR s.prefix >= :below)"
_COLUMNS = "s.prefix, s.key, s.value, s.created_at, s.updated_at, s.ttl_minutes"

GET = f"SELECT {_COLUMNS} FROM store AS s WHERE s.prefix = :prefix AND s.key = :key AND {_ALIVE}"  # noqa: S608 - constants
NAMESPACES = f"SELECT DISTINCT s.prefix FROM store AS s WHERE {_ALIVE}"  # noqa: S608 - constants
# Searches find the rows first: the indexes on prefixes and on times suffice for it, and nothing large is sorted.
ROW = f"SELECT {_COLUMNS} FROM store AS s WHERE s.rowid = ?"  # noqa: S608 - constants
# Namespaces in the order in which they got their first item, then items as they were first put.
_FOUND = f"""
    FROM (SELECT s.prefix, min(s.rowid) AS first FROM store AS s WHERE {_UNDER} GROUP BY s.prefix) AS place
    CROSS JOIN store AS s ON s.prefix = place.prefix
"""  # noqa: S608 - constants
_VISIBLE = f"s.rowid NOT IN (SELECT rowid FROM store WHERE expires_at <= :now) AND {_SHOWN}"  # noqa: S608 - constants
# An item's score is that of its best field; items without one come last.
_SCORES = f"""
    LEFT JOIN (
        SELECT s.prefix, s.key, max(nearness(s.embedding)) AS score
        FROM store_vectors AS s WHERE {_UNDER} GROUP BY s.prefix, s.key
    ) AS scored ON scored.prefix = s.prefix AND scored.key = s.key
"""  # noqa: S608 - constants


def under(prefix: str) -> dict[str, object]:
    """Bound a search to a namespace and everything below it; '' has everything below it."""
    # '/' is the character after '.'; a blob comes after every text.
    return {"prefix": prefix, "below": prefix and f"{prefix}.", "end": f"{prefix}/" if prefix else b""}


def search(condition: str, *, by_meaning: bool) -> str:
    """Write the statement that finds the rows of a search, each with its score, in order."""
    score, scores, best = "NULL", "", ""
    if by_meaning:
        score, scores, best = "scored.score", _SCORES, "scored.score IS NULL, scored.score DESC, "
    return (
        f"SELECT s.rowid, {score} {_FOUND} {scores} WHERE {_VISIBLE} AND {condition} "
        f"ORDER BY {best}place.first, s.rowid LIMIT :most OFFSET :skipped"
    )
