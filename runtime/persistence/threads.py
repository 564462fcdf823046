"""Keep threads: their metadata, their status and the newest values of their state."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, Row, Select, delete, exists, func, insert, literal, select, update

from toolweave.errors import Conflict, NotFound
from toolweave.runtime.models import JsonObject, Thread, ThreadStatus, ThreadTtl
from toolweave.runtime.persistence.claims import is_being_deleted
from toolweave.runtime.persistence.clock import utc_now
from toolweave.runtime.persistence.database import Database
from toolweave.runtime.persistence.json_text import StoredJson, from_json, from_micros, to_json, to_micros
from toolweave.runtime.persistence.search import page, where_contains
from toolweave.runtime.persistence.tables import runs, threads
from toolweave.runtime.persistence.thread_expiry import (
    ExpiredThread,
    expires_after,
    find_expired,
    ttl_columns,
    ttl_fields,
)
from toolweave.runtime.persistence.visibility import allows, filter_in_force, where_visible

ThreadSort = Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"]


class ThreadRepository:
    """The threads of all graphs; those that ask for no time to live have `default_ttl`."""

    def __init__(
        self, database: Database, clock: Callable[[], datetime] = utc_now, *, default_ttl: ThreadTtl | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self.default_ttl = default_ttl

    async def create(
        self,
        thread_id: str,
        metadata: JsonObject | None = None,
        if_exists: Literal["raise", "do_nothing"] = "raise",
        created_at: datetime | None = None,
        ttl: ThreadTtl | None = None,
    ) -> Thread:
        """Create an idle thread, or return the one that exists if `if_exists` is do_nothing.

        Raises:
            Conflict: it exists and `if_exists` is raise.
        """
        moment = to_micros(created_at or self._clock())
        row = {
            "thread_id": thread_id,
            "status": "idle",
            "settled": "idle",
            "metadata": to_json(metadata or {}),
            "config": to_json({}),
            "created_at": moment,
            "updated_at": moment,
            "state_updated_at": moment,
            **ttl_columns(ttl or self.default_ttl, moment),
        }

        wanted = filter_in_force("threads")

        def work(connection: Connection) -> Thread:
            existing = _row(connection, thread_id)
            if existing is not None:
                if if_exists == "raise" or not allows(wanted, from_json(existing.metadata)):
                    raise Conflict(f"Thread with ID {thread_id} already exists")
                return _thread_from(existing)
            connection.execute(insert(threads), row)
            return _thread_from(_required_row(connection, thread_id))

        return await self._database.write(work)

    async def get(self, thread_id: str) -> Thread:
        """Return a thread.

        Raises:
            NotFound: there is none with this id.
        """
        return await self._database.read(lambda connection: _thread_from(_required_row(connection, thread_id)))

    async def patch(self, thread_id: str, metadata: JsonObject, ttl: ThreadTtl | None = None) -> Thread:
        """Merge metadata into the thread's, key by key at the top level; a time to live counts from now.

        Raises:
            NotFound: there is none with this id.
        """
        now = to_micros(self._clock())

        def work(connection: Connection) -> Thread:
            row = _row(connection, thread_id)
            if row is None or is_being_deleted(row):
                raise NotFound("Not Found")
            merged = to_json({**from_json(row.metadata), **metadata})
            lifetime = ttl_columns(ttl, now) if ttl is not None else {}
            connection.execute(_at(thread_id).values(metadata=merged, updated_at=now, **lifetime))
            return _thread_from(_required_row(connection, thread_id))

        return await self._database.write(work)

    async def delete(self, thread_id: str) -> None:
        """Delete a thread with its runs and their events, busy or not.

        Raises:
            NotFound: there is none with this id.
        """

        def work(connection: Connection) -> None:
            if connection.execute(delete(threads).where(threads.c.thread_id == thread_id)).rowcount == 0:
                raise NotFound(f"Thread with ID {thread_id} not found")

        await self._database.write(work)

    async def search(
        self,
        *,
        ids: Sequence[str] | None = None,
        metadata: JsonObject | None = None,
        values: JsonObject | None = None,
        status: ThreadStatus | None = None,
        limit: int = 10,
        offset: int = 0,
        sort_by: ThreadSort | None = None,
        sort_order: Literal["asc", "desc"] | None = None,
        values_as_stored: bool = False,
    ) -> list[Thread]:
        """Return the threads among `ids` with this status that contain the metadata and the values.

        With `values_as_stored` their values are the stored JSON, ready for the encoder: parsing and encoding those of a
        thousand threads takes seconds.
        """
        keys = _filtered(select(threads.c.thread_id), ids, metadata, values, status)
        query = page(keys, threads, sort_by or "updated_at", sort_order, limit, offset)
        values_from = _as_stored if values_as_stored else _optional
        return await self._database.read(
            lambda connection: [_thread_from(row, values_from) for row in connection.execute(query)]
        )

    async def count(
        self,
        *,
        metadata: JsonObject | None = None,
        values: JsonObject | None = None,
        status: ThreadStatus | None = None,
    ) -> int:
        """Count what search would find."""
        query = _filtered(select(func.count()).select_from(threads), None, metadata, values, status)
        return await self._database.read(lambda connection: int(connection.execute(query).scalar_one()))

    async def set_state(
        self,
        thread_id: str,
        values_json: bytes,
        status: ThreadStatus,
        interrupts: JsonObject,
    ) -> None:
        """Mirror a state that was written by hand; a thread with pending runs stays busy.

        Raises:
            NotFound: there is none with this id.
        """
        now = to_micros(self._clock())

        def work(connection: Connection) -> None:
            _required_row(connection, thread_id)
            busy = connection.execute(_busy(thread_id)).scalar_one()
            connection.execute(
                _at(thread_id).values(
                    status="busy" if busy else status,
                    settled=status,
                    state_values=values_json.decode(),
                    interrupts=to_json(interrupts),
                    error=None,
                    updated_at=now,
                    state_updated_at=now,
                    expires_at=expires_after(literal(now)),
                )
            )

        await self._database.write(work)

    async def expired(self, now: datetime, limit: int) -> list[ExpiredThread]:
        """Name threads whose time to live is over and that nothing uses, at most `limit`."""
        return await self._database.read(lambda connection: find_expired(connection, to_micros(now), limit))

    async def clear_expiry(self, thread_id: str, now: datetime) -> None:
        """Let a thread that has expired by `now` stay until its next change."""
        cleared = _at(thread_id).where(threads.c.expires_at <= to_micros(now)).values(expires_at=None)
        await self._database.write(lambda connection: connection.execute(cleared))


def _at(thread_id: str) -> Any:
    return update(threads).where(threads.c.thread_id == thread_id)


def _busy(thread_id: str) -> Select[tuple[bool]]:
    return select(exists().where(runs.c.thread_id == thread_id, runs.c.status.in_(("pending", "running"))))


def _row(connection: Connection, thread_id: str) -> Row[Any] | None:
    return connection.execute(select(threads).where(threads.c.thread_id == thread_id)).one_or_none()


def _required_row(connection: Connection, thread_id: str) -> Row[Any]:
    row = _row(connection, thread_id)
    if row is None:
        raise NotFound(f"Thread with ID {thread_id} not found")
    return row


def _filtered(
    query: Select[Any],
    ids: Sequence[str] | None,
    metadata: JsonObject | None,
    values: JsonObject | None,
    status: ThreadStatus | None,
) -> Select[Any]:
    if ids is not None:
        query = query.where(threads.c.thread_id.in_(ids))
    if status is not None:
        query = query.where(threads.c.status == status)
    query = where_visible(query, "threads", threads.c.metadata)
    return where_contains(where_contains(query, threads.c.metadata, metadata), threads.c.state_values, values)


def _thread_from(row: Row[Any], values_from: "Callable[[str | None], Any] | None" = None) -> Thread:
    return Thread(
        thread_id=row.thread_id,
        created_at=from_micros(row.created_at),
        updated_at=from_micros(row.updated_at),
        state_updated_at=from_micros(row.state_updated_at),
        metadata=from_json(row.metadata),
        status=row.status,
        config=from_json(row.config),
        values=(values_from or _optional)(row.state_values),
        interrupts=_optional(row.interrupts),
        error=_optional(row.error),
        **ttl_fields(row),
    )


def _as_stored(text: str | None) -> Any:
    return None if text is None else StoredJson(text)


def _optional(text: str | None) -> JsonObject | None:
    document: JsonObject | None = None if text is None else from_json(text)
    return document
