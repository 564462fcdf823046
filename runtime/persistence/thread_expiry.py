"""Say when threads expire, and end or clear them only while nothing runs on them (langgraph_api.md 2.2, `ttl`)."""

from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, Select, cast, delete, exists, select, update

from toolweave.runtime.models import ThreadTtl, TtlStrategy
from toolweave.runtime.persistence.json_text import from_micros
from toolweave.runtime.persistence.tables import runs, threads

MICROS_PER_MINUTE = 60_000_000


class ExpiredThread(NamedTuple):
    """A thread whose time is over, and what is to happen with it."""

    thread_id: str
    strategy: TtlStrategy


def expires_after(now: ColumnElement[int]) -> ColumnElement[int]:
    """Give the expiry of a thread that changed at `now`, as an expression: NULL for one without a time to live."""
    return cast(now + threads.c.ttl_minutes * MICROS_PER_MINUTE, BigInteger)


def ttl_columns(ttl: ThreadTtl | None, now: int) -> dict[str, object]:
    """Give the columns of a time to live that begins at `now`, in microseconds."""
    if ttl is None:
        return {"ttl_strategy": None, "ttl_minutes": None, "expires_at": None}
    expires_at = now + int(ttl.minutes * MICROS_PER_MINUTE)
    return {"ttl_strategy": ttl.strategy, "ttl_minutes": ttl.minutes, "expires_at": expires_at}


def ttl_fields(row: Any) -> dict[str, Any]:
    """Give the fields of a thread's record that say how long it lives."""
    if row.ttl_minutes is None:
        return {}
    expires_at = None if row.expires_at is None else from_micros(row.expires_at)
    return {"ttl": ThreadTtl(row.ttl_minutes, row.ttl_strategy), "expires_at": expires_at}


def find_expired(connection: Connection, now: int, limit: int) -> list[ExpiredThread]:
    """Name the threads whose time is over and on which nothing is pending or running, the longest overdue first."""
    query = (
        select(threads.c.thread_id, threads.c.ttl_strategy)
        .where(_is_expired(now))
        .order_by(threads.c.expires_at)
        .limit(limit)
    )
    return [ExpiredThread(*row) for row in connection.execute(query)]


def delete_expired(connection: Connection, thread_id: str, now: int) -> bool:
    """Delete a thread unless it has been used meanwhile; say whether it was deleted."""
    return connection.execute(delete(threads).where(threads.c.thread_id == thread_id, _is_expired(now))).rowcount > 0


def clear_expiry(connection: Connection, thread_id: str, now: int) -> bool:
    """Let an expired thread stay until its next change; False when it has been used meanwhile."""
    found = threads.c.thread_id == thread_id
    return connection.execute(update(threads).where(found, _is_expired(now)).values(expires_at=None)).rowcount > 0


def idle_among(thread_ids: list[str]) -> Select[tuple[str]]:
    """Find those of these threads that exist and on which nothing is pending or running."""
    return select(threads.c.thread_id).where(threads.c.thread_id.in_(thread_ids), ~_busy())


def _is_expired(now: int) -> ColumnElement[bool]:
    return (threads.c.expires_at <= now) & ~_busy()


def _busy() -> ColumnElement[bool]:
    return exists().where(runs.c.thread_id == threads.c.thread_id, runs.c.status.in_(("pending", "running")))
