"""LangGraph's long-term store in PostgreSQL; the tables are those of its `AsyncPostgresStore`, which can read them.

Each call runs in its own transaction, so that a failure affects one call. Nothing depends on the session of a
connection, because a pooler may pass it on to other clients after each transaction.
"""

import re
import sys
from array import array
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from math import ceil
from typing import Any

from langgraph.store.base import GetOp, Item, ListNamespacesOp, Op, Result, SearchItem, SearchOp
from langgraph.store.postgres.base import MIGRATIONS, VECTOR_MIGRATIONS
from psycopg import DataError, Error, errors

from toolweave.errors import ConfigError, InvalidRequest, PersistenceError
from toolweave.runtime.codec import EXACT_PREFIX, MICROSECOND, from_json, to_json, utc_now
from toolweave.runtime.persistence.postgres.database import Pool, RawConnection, scalar
from toolweave.runtime.persistence.retries import repeatable
from toolweave.runtime.persistence.store import LongTermStore, StoreIndex, StoreOptions, sweep_regularly
from toolweave.runtime.persistence.store_filter import matches_item_filter
from toolweave.runtime.persistence.store_items import (
    TOOL_RESULTS_PATTERN,
    ItemLifetime,
    ItemWrite,
    Namespace,
    StoreView,
    expiry,
    lifetimes,
    select_namespaces,
    thread_ids_of,
    tool_results_prefix,
)

Statement = tuple[str, dict[str, Any]]

# An updated item keeps its position in searches and its creation time.
PUT = """
    INSERT INTO store (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes)
    VALUES (%(prefix)s, %(key)s, %(value)s::text::jsonb, %(now)s, %(now)s, %(expires_at)s, %(ttl_minutes)s)
    ON CONFLICT (prefix, key) DO UPDATE SET
    created_at = CASE WHEN store.expires_at <= excluded.updated_at THEN excluded.created_at ELSE store.created_at END,
    value = excluded.value, updated_at = excluded.updated_at, expires_at = excluded.expires_at,
    ttl_minutes = excluded.ttl_minutes
"""
DELETE = "DELETE FROM store WHERE prefix = %(prefix)s AND key = %(key)s"
DELETE_VECTORS = "DELETE FROM store_vectors WHERE prefix = %(prefix)s AND key = %(key)s"
PUT_VECTOR = """
    INSERT INTO store_vectors (prefix, key, field_name, embedding, created_at, updated_at)
    VALUES (%(prefix)s, %(key)s, %(field_name)s, %(embedding)s, %(now)s, %(now)s)
    ON CONFLICT (prefix, key, field_name) DO UPDATE SET embedding = excluded.embedding
"""
# An item that is locked is being refreshed, written or deleted: a read never waits for that.
REFRESH = """
    UPDATE store SET expires_at = %(now)s + ttl_minutes * interval '1 minute' WHERE (prefix, key) IN (
        SELECT prefix, key FROM store
        WHERE (prefix, key) IN (SELECT * FROM unnest(%(prefixes)s::text[], %(keys)s::text[]))
        AND ttl_minutes IS NOT NULL AND expires_at > %(now)s FOR UPDATE SKIP LOCKED
    )
"""
# Several processes sweep: no one waits for another.
SWEEP = """
    DELETE FROM store WHERE (prefix, key) IN (
        SELECT prefix, key FROM store WHERE expires_at <= %(now)s FOR UPDATE SKIP LOCKED
    )
"""
_IS_TOOL_RESULTS = f"ILIKE '{TOOL_RESULTS_PATTERN}'"
_READABLE = (
    f"(s.expires_at IS NULL OR s.expires_at > %(now)s) AND (%(shows_tool_results)s OR s.prefix NOT {_IS_TOOL_RESULTS})"
)
_COLUMNS = "s.prefix, s.key, s.value::text, s.created_at, s.updated_at, s.ttl_minutes"
GET = f"SELECT {_COLUMNS} FROM store AS s WHERE s.prefix = %(prefix)s AND s.key = %(key)s AND {_READABLE}"  # noqa: S608 - constants
# These operators compare bytes, as the index on prefixes does, in every locale. '/' is the character after '.'.
_IN_NAMESPACE = """
    (%(prefix)s = '' OR s.prefix = %(prefix)s
     OR s.prefix ~>=~ (%(prefix)s || '.') AND s.prefix ~<~ (%(prefix)s || '/'))
"""
# An item's score is that of its best field; a zero vector has none.
_SCORES = f"""
    LEFT JOIN (
        SELECT s.prefix, s.key, max(nullif(1 - (s.embedding <=> %(vector)s), 'NaN')) AS score FROM store_vectors AS s
        WHERE {_IN_NAMESPACE} AND vector_dims(s.embedding) = %(dims)s GROUP BY s.prefix, s.key
    ) AS scored ON scored.prefix = s.prefix AND scored.key = s.key
"""  # noqa: S608 - constants
# Namespaces in the order of their first items, then items in the order of their creation.
_SEARCH = f"""
    SELECT {_COLUMNS}, {{score}}
    FROM (SELECT s.prefix, min(s.created_at) AS first FROM store AS s WHERE {_IN_NAMESPACE} GROUP BY s.prefix) AS place
    JOIN store AS s ON s.prefix = place.prefix {{scores}}
    WHERE {_IN_NAMESPACE} AND {_READABLE} AND {{condition}}
    ORDER BY {{score}} DESC NULLS LAST, place.first, s.prefix, s.created_at, s.key LIMIT %(most)s OFFSET %(skipped)s
"""  # noqa: S608 - constants
_NAMESPACES = f"SELECT DISTINCT s.prefix FROM store AS s WHERE {_IN_NAMESPACE} AND {_READABLE}"  # noqa: S608 - constants
_DELETE_ITEMS = "DELETE FROM store WHERE prefix = %(prefix)s"
_COPY_ITEMS = """
    INSERT INTO store (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes)
    SELECT %(target)s, key, value, created_at, updated_at, expires_at, ttl_minutes FROM store WHERE prefix = %(source)s
    ON CONFLICT (prefix, key) DO UPDATE SET value = excluded.value, created_at = excluded.created_at,
    updated_at = excluded.updated_at, expires_at = excluded.expires_at, ttl_minutes = excluded.ttl_minutes
"""
_TOOL_RESULT_PREFIXES = f"""
    SELECT DISTINCT prefix FROM store
    WHERE prefix ~>=~ 'threads.' AND prefix ~<~ 'threads/' AND prefix {_IS_TOOL_RESULTS}
"""  # noqa: S608 - constants

_MAX_TTL_MINUTES = 2**31 - 1
_MAX_EXACT_INTEGER = 2**53
# jsonb has no NUL and no lone surrogates: a value with one, or with a huge integer, is stored as text under this name.
_AS_TEXT = "toolweave:json"
_NOT_JSONB = re.compile(rf'^{EXACT_PREFIX}|\\u0000|"{_AS_TEXT}"')


class PostgresStore(LongTermStore):
    """LangGraph's store in PostgreSQL; open it with `open_postgres_store`.

    `has_vectors` is whether there is a table of vectors, as after a start with an index: a put must delete the old
    vectors of its item.
    """

    def __init__(
        self, pool: Pool, options: StoreOptions, clock: Callable[[], datetime] = utc_now, *, has_vectors: bool = False
    ) -> None:
        super().__init__(options, clock)
        self._connect = partial(_connect, pool)
        self._has_vectors = has_vectors or options.index is not None

    async def sweep_ttl(self) -> int:
        """Delete expired items, which reads skip already; return how many."""
        async with self._connect() as connection:
            return (await connection.execute(SWEEP, {"now": self._clock()})).rowcount

    async def delete_thread_items(self, thread_id: str) -> None:
        """Delete the tool results of a thread."""
        await self._execute([(_DELETE_ITEMS, {"prefix": tool_results_prefix(thread_id)})])

    async def copy_thread_items(self, source: str, target: str) -> None:
        """Copy the tool results of a thread to another one."""
        prefixes = {"source": tool_results_prefix(source), "target": tool_results_prefix(target)}
        await self._execute([(_COPY_ITEMS, prefixes)])

    async def thread_ids(self) -> set[str]:
        """Return the ids of threads with stored tool results."""
        async with self._connect() as connection:
            return thread_ids_of(await (await connection.execute(_TOOL_RESULT_PREFIXES)).fetchall())

    @repeatable
    async def _find(
        self, ops: Sequence[Op], vectors: Mapping[str, bytes], view: StoreView
    ) -> tuple[list[Result], list[ItemLifetime]]:
        results: list[Result] = []
        used: list[ItemLifetime] = []
        async with self._connect() as connection, _snapshot(connection, ops):
            for op in ops:
                found: Any
                expiring: list[ItemLifetime] = []
                if isinstance(op, GetOp):
                    found, expiring = await _find_item(connection, op, view)
                elif isinstance(op, SearchOp):
                    found, expiring = await _search_items(connection, op, view, vectors.get(op.query or ""))
                elif isinstance(op, ListNamespacesOp):
                    found = await _find_namespaces(connection, op, view)
                else:
                    raise TypeError(f"not a store operation: {type(op).__name__}")
                results.append(found)
                used.extend(expiring)
        return results, used

    async def _refresh_ttl(self, items: Sequence[ItemLifetime], now: datetime) -> None:
        prefixes, keys = [".".join(item.namespace) for item in items], [item.key for item in items]
        await self._execute([(REFRESH, {"prefixes": prefixes, "keys": keys, "now": now})])

    async def _write_items(self, items: Sequence[ItemWrite], now: datetime) -> None:
        # Searches return the items of a batch in its order.
        keys = [{"prefix": ".".join(item.namespace), "key": item.key} for item in items]
        timed = [
            (key, item, now + place * MICROSECOND) for place, (key, item) in enumerate(zip(keys, items, strict=True))
        ]
        # All writers lock items in one order, so that none of them waits for one that waits for it.
        timed.sort(key=lambda row: (row[0]["prefix"], row[0]["key"]))
        await self._execute([statement for row in timed for statement in self._item_statements(*row)])

    def _item_statements(self, primary_key: dict[str, Any], item: ItemWrite, now: datetime) -> list[Statement]:
        if item.value is None:
            return [(DELETE, primary_key)]
        expires_at = expiry(now, item.ttl)
        minutes = None if expires_at is None else stored_minutes(item.ttl)
        row = {"value": stored_value(item.value), "now": now, "expires_at": expires_at, "ttl_minutes": minutes}
        vectors = [
            {"field_name": field_name, "embedding": vector_text(embedding), "now": now}
            for field_name, embedding in item.vectors
        ]
        return [
            (PUT, primary_key | row),
            *([(DELETE_VECTORS, primary_key)] if self._has_vectors else ()),
            *((PUT_VECTOR, primary_key | vector) for vector in vectors),
        ]

    @repeatable
    async def _execute(self, statements: Sequence[Statement]) -> None:
        """Run statements in one transaction; a single one is a transaction by itself, in half of the time."""
        async with self._connect() as connection:
            if len(statements) == 1:
                await connection.execute(*statements[0])
                return
            # Not in a pipeline: cancelling one leaves its connection unusable, in the pool.
            async with connection.transaction():
                for statement, parameters in statements:
                    await connection.execute(statement, parameters)


@asynccontextmanager
async def open_postgres_store(pool: Pool, options: StoreOptions) -> AsyncIterator[PostgresStore]:
    """Open the store, creating its tables if necessary; inside the block expired items are deleted at intervals.

    Raises:
        ConfigError: an index is configured, and the database has no pgvector.
        PersistenceError: the database cannot be used.
    """
    async with _connect(pool) as connection:
        has_vectors = await upgrade_store(connection, options.index)
    store = PostgresStore(pool, options, has_vectors=has_vectors)
    async with sweep_regularly(store, options):
        yield store


async def upgrade_store(connection: RawConnection, index: StoreIndex | None) -> bool:
    """Create or upgrade the tables; return whether there is one for vectors. Processes that start together take turns.

    Raises:
        ConfigError: an index is configured, and the database has no pgvector.
    """
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('toolweave store', 0))")
        await _migrate(connection, "store_migrations", MIGRATIONS)
        if index is not None:
            await _create_vectors(connection, index.dims)
        return await scalar(connection, "SELECT to_regclass('store_vectors')") is not None


async def _create_vectors(connection: RawConnection, dims: int) -> None:
    # The last migration creates an index that LangGraph's searches do not use, and that long vectors cannot have.
    statements = [migration.sql % {"dims": dims, "vector_type": "vector"} for migration in VECTOR_MIGRATIONS[:2]]
    try:
        await _migrate(connection, "vector_migrations", statements)
    except (errors.FeatureNotSupported, errors.InsufficientPrivilege, errors.UndefinedFile) as error:
        raise ConfigError(
            "semantic search needs the extension pgvector, which this PostgreSQL database does not have.",
            source="langgraph.json, store.index",
            fix="Install pgvector on the database's server, and run CREATE EXTENSION vector in this database as a "
            "user who may; or remove store.index.",
        ) from error
    typmod = "SELECT atttypmod FROM pg_attribute WHERE attrelid = 'store_vectors'::regclass AND attname = 'embedding'"
    if await scalar(connection, typmod) not in (dims, -1):
        # Vectors of an earlier model stay; searches skip them.
        await connection.execute("DROP INDEX IF EXISTS store_vectors_embedding_idx")
        await connection.execute("ALTER TABLE store_vectors ALTER COLUMN embedding TYPE vector")


async def _migrate(connection: RawConnection, table: str, statements: Sequence[str]) -> None:
    """Run the statements whose numbers are not in the table, as LangGraph's `setup` does."""
    # A user without the permission to create tables can use those that exist.
    if await scalar(connection, "SELECT to_regclass(%s)", (table,)) is None:
        await connection.execute(f"CREATE TABLE {table} (v INTEGER PRIMARY KEY)")
    done = await scalar(connection, f"SELECT coalesce(max(v), -1) FROM {table}")  # noqa: S608 - constants
    for version, statement in enumerate(statements):
        if version > done:
            # It cannot be done in a transaction, and the table is still empty.
            await connection.execute(statement.replace(" CONCURRENTLY", ""))
            await connection.execute(f"INSERT INTO {table} (v) VALUES (%s)", (version,))  # noqa: S608 - constants


@asynccontextmanager
async def _connect(pool: Pool) -> AsyncIterator[RawConnection]:
    try:
        async with pool.connection() as connection:
            yield connection
    except Error as error:
        raise _translate(error) from error


def _translate(error: Error) -> Exception:
    if isinstance(error, DataError | errors.ProgramLimitExceeded):
        return InvalidRequest(
            f"PostgreSQL cannot store or find this item: {error.diag.message_primary or error}. Namespaces and keys "
            "must not contain NUL characters, and together not exceed 2,600 bytes."
        )
    return PersistenceError(
        f"The store's PostgreSQL database cannot be used: {error}. Check that its server runs, and "
        "TOOLWEAVE_DATABASE_URL."
    )


@asynccontextmanager
async def _snapshot(connection: RawConnection, ops: Sequence[Op]) -> AsyncIterator[None]:
    """Read in a transaction with one snapshot; a single statement needs none, but for the cursor of a filter."""
    if len(ops) == 1 and not getattr(ops[0], "filter", None):
        yield
        return
    async with connection.transaction():
        await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


async def _find_item(connection: RawConnection, op: GetOp, view: StoreView) -> tuple[Item | None, list[ItemLifetime]]:
    parameters = {"prefix": ".".join(op.namespace), "key": op.key, **view._asdict()}
    row = await (await connection.execute(GET, parameters)).fetchone()
    if row is None:
        return None, []
    return Item(**_item_fields(row, _parse_value(row))), lifetimes([row] if op.refresh_ttl else [])


async def _search_items(
    connection: RawConnection, op: SearchOp, view: StoreView, vector: bytes | None
) -> tuple[list[SearchItem], list[ItemLifetime]]:
    """Return the items below a namespace that match the filter, by similarity to the vector or in creation order."""
    item_filter = op.filter or {}
    condition, parameters = _sql_condition(item_filter)
    # With a filter, the offset and limit apply to the items that match it, not to PostgreSQL's rows.
    most, skipped, start = (None, 0, op.offset) if item_filter else (min(op.limit, sys.maxsize), op.offset, 0)
    parameters |= {"prefix": ".".join(op.namespace_prefix), "most": most, "skipped": skipped, **view._asdict()}
    score, scores = "NULL::float8", ""
    if vector is not None:
        score, scores = "scored.score", _SCORES
        parameters |= {"vector": vector_text(vector), "dims": len(vector) // array("f").itemsize}
    items: list[SearchItem] = []
    rows: list[tuple[Any, ...]] = []
    # A cursor with a name fetches rows in portions.
    async with connection.cursor("search" if item_filter else "") as cursor:
        await cursor.execute(_SEARCH.format(score=score, scores=scores, condition=condition), parameters)
        async for row in cursor:
            value = _parse_value(row)
            if item_filter and not matches_item_filter(value, item_filter):
                continue
            if start > 0:
                start -= 1
                continue
            if len(items) >= op.limit:
                break
            items.append(SearchItem(**_item_fields(row, value), score=row[6]))
            rows.append(row)
    return items, lifetimes(rows if op.refresh_ttl else [])


def _sql_condition(item_filter: Mapping[str, Any]) -> tuple[str, dict[str, object]]:
    """Return an SQL condition, true for all stored values that match, and its parameters: texts and integers decide."""
    # In Python, 1 equals true.
    wanted = {
        name: inner
        for name, inner in item_filter.items()
        if isinstance(inner, str) or (type(inner) is int and 1 < abs(inner) < _MAX_EXACT_INTEGER)
    }
    text = to_json(wanted)
    if not wanted or _NOT_JSONB.search(text):
        return "true", {}
    return f"(s.value ? '{_AS_TEXT}' OR s.value @> %(wanted)s::text::jsonb)", {"wanted": text}


async def _find_namespaces(connection: RawConnection, op: ListNamespacesOp, view: StoreView) -> list[Namespace]:
    prefixes = [condition.path for condition in op.match_conditions or () if condition.match_type == "prefix"]
    labels = takewhile(lambda label: label != "*", prefixes[0] if prefixes else ())
    rows = await connection.execute(_NAMESPACES, {"prefix": ".".join(labels), **view._asdict()})
    return select_namespaces(await rows.fetchall(), op)


def _item_fields(row: tuple[Any, ...], value: Any) -> dict[str, Any]:
    prefix, key, _, created_at, updated_at, *_ = row
    times = {"created_at": created_at.astimezone(UTC), "updated_at": updated_at.astimezone(UTC)}
    return {"namespace": tuple(prefix.split(".")), "key": key, "value": value, **times}


def _parse_value(row: tuple[Any, ...]) -> Any:
    value = from_json(row[2])
    return from_json(value[_AS_TEXT]) if isinstance(value, dict) and value.keys() == {_AS_TEXT} else value


def stored_value(text: str) -> str:
    """Return the JSON text that is stored for a value's JSON text; `_parse_value` is the reverse."""
    return to_json({_AS_TEXT: text}) if _NOT_JSONB.search(text) else text


def stored_minutes(ttl: float | None) -> int | None:
    """Return a time to live as LangGraph's column has it: in whole minutes."""
    return None if ttl is None else min(ceil(ttl), _MAX_TTL_MINUTES)


def vector_text(vector: bytes) -> str:
    """Return a vector of 32-bit numbers as text that pgvector reads."""
    return str(array("f", vector).tolist())
