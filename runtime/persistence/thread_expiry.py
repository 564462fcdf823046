"""Say when threads expire (langgraph_api.md 2.2, `ttl`)."""

from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, cast, exists, select

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
    busy = exists().where(runs.c.thread_id == threads.c.thread_id, runs.c.status.in_(("pending", "running")))
    query = (
        select(threads.c.thread_id, threads.c.ttl_strategy)
        .where(threads.c.expires_at <= now, ~busy)
        .order_by(threads.c.expires_at)
        .limit(limit)
    )
    return [ExpiredThread(*row) for row in connection.execute(query)]
