"""Store threads (metadata, status, newest values), and claim them for writing their checkpoints (R-01).

A thread has one writer at a time. A run claims its thread by being the thread's only running run. Other writers of
checkpoints acquire a claim here: a state update, the deletion of a run, pruning, expiry, the deletion of a thread. The
database stores the holder of the claim; the checkpointer rejects writes under any other claim.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypedDict, Unpack
from uuid import uuid4

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    Row,
    Select,
    bindparam,
    delete,
    exists,
    func,
    null,
    or_,
    select,
    update,
)

from toolweave.errors import Conflict, NotFound
from toolweave.runtime.codec import RawJson, from_json, to_json, to_micros, utc_now
from toolweave.runtime.models import JsonObject, Outcome, Page, Run, Thread, ThreadStatus, ThreadTtl, TtlStrategy
from toolweave.runtime.persistence import run_rows as sql
from toolweave.runtime.persistence.database import RuntimeDatabase, lock, notify
from toolweave.runtime.persistence.events import DELETED_TOPIC, delete_run_events
from toolweave.runtime.persistence.run_rows import new_thread_row, next_run, ttl_columns
from toolweave.runtime.persistence.schema import ANY_STATUS, Statement, runs, threads, to_record
from toolweave.runtime.persistence.search import (
    current_filter,
    find_candidates,
    first_with_label,
    is_allowed,
    page_query,
    required_labels,
    store_labels,
    where_contains,
    where_visible,
)

IN_FLIGHT = "Thread {thread_id} has in-flight runs: {run_ids}. Wait for them to end or cancel them."
# The prefix of the token of a claim for deletion: no run is created on the thread, and it is not changed any more.
DELETION_PREFIX = "delete:"
CLAIMED_TEXT = "Thread {thread_id} is being changed by another request. Try again when that has ended."
TOKEN: BindParameter[str] = bindparam("token")
EXPIRED_BY: BindParameter[int] = bindparam("expired_by", type_=BigInteger)
# The process that holds the claim, for the case that it dies.
HOLDER: BindParameter[str] = bindparam("holder")
acquire_claim = Statement(
    update(threads)
    .where(
        sql.THREAD_BY_ID,
        threads.c.claim.is_(None),
        ~exists().where(runs.c.thread_id == threads.c.thread_id, sql.ACTIVE),
        or_(EXPIRED_BY.is_(None), threads.c.expires_at <= EXPIRED_BY),
    )
    .values(claim=TOKEN, claimed_by=HOLDER)
    .returning(threads.c.thread_id)
)
override_claim = Statement(
    update(threads).where(sql.THREAD_BY_ID).values(claim=TOKEN, claimed_by=HOLDER).returning(threads.c.thread_id)
)
release_claim = Statement(
    update(threads).where(sql.THREAD_BY_ID, threads.c.claim == TOKEN).values(claim=null(), claimed_by=null())
)
clear_claims = Statement(update(threads).where(threads.c.claim.is_not(None)).values(claim=null()))
read_claim = Statement(select(threads.c.claim).where(sql.THREAD_BY_ID))


class ThreadClaimed(Conflict):
    """Another request holds the claim on a thread."""


@dataclass(frozen=True, slots=True)
class ThreadClaim:
    """The exclusive right to write a thread's checkpoints; tokens are unique."""

    thread_id: str
    token: str

    @classmethod
    def new(cls, thread_id: str) -> "ThreadClaim":
        """Return a new claim, which is not acquired yet."""
        return cls(thread_id, str(uuid4()))

    @classmethod
    def for_deletion(cls, thread_id: str) -> "ThreadClaim":
        """Return a new claim for deleting the thread: until it is released, no run can be created there."""
        return cls(thread_id, f"{DELETION_PREFIX}{uuid4()}")

    @classmethod
    def for_run(cls, run: Run) -> "ThreadClaim":
        """Return the claim of a run's current attempt on its thread."""
        return cls(run.thread_id, f"{run.run_id}:{run.attempt}")


class ThreadClaims:
    """The claims of requests and sweeps; a run's claim is its row with status running.

    `process_id` is stored as the holder, if several processes share the database.
    """

    def __init__(self, database: RuntimeDatabase, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock
        self.process_id: str | None = None

    async def acquire(self, claim: ThreadClaim, *, expired_by: datetime | None = None) -> None:
        """Claim an idle thread; with `expired_by`, only if it has expired by then.

        Raises:
            NotFound: there is no such thread.
            Conflict: a run is pending or running there, another claim holds it, or it has not expired.
        """
        values = {
            "of_thread": claim.thread_id,
            "token": claim.token,
            "expired_by": None if expired_by is None else to_micros(expired_by),
            "holder": self.process_id,
        }

        def work(connection: Connection) -> None:
            sql.thread_head.first(connection, values)
            if acquire_claim.first(connection, values) is None:
                raise _claim_error(connection, claim.thread_id)

        await self._database.write(work)

    async def override(self, claim: ThreadClaim) -> None:
        """Claim a thread that is to be deleted, and replace any other claim. Raises NotFound."""

        def work(connection: Connection) -> None:
            sql.thread_head.first(connection, {"of_thread": claim.thread_id})
            values = {"of_thread": claim.thread_id, "token": claim.token, "holder": self.process_id}
            if override_claim.first(connection, values) is None:
                raise _not_found(claim.thread_id)

        await self._database.write(work)

    async def release(self, claim: ThreadClaim) -> str | None:
        """Release a claim if it is held, and return the id of the run that may start now on its thread."""
        now = to_micros(self._clock())

        def work(connection: Connection) -> str | None:
            release_claim.run(connection, {"of_thread": claim.thread_id, "token": claim.token})
            return next_run(connection, claim.thread_id, now)

        return await self._database.write(work)

    async def release_all(self) -> None:
        """Release all claims; only for the start of the process that uses the folder."""
        await self._database.write(lambda connection: clear_claims.run(connection, {}))


def is_being_deleted(thread: Any) -> bool:
    """Return whether a row of `threads` has a claim for deletion."""
    return thread.claim is not None and thread.claim.startswith(DELETION_PREFIX)


def _claim_error(connection: Connection, thread_id: str) -> Exception:
    row = read_claim.first(connection, {"of_thread": thread_id})
    if row is None:
        return _not_found(thread_id)
    active = sql.active_runs.all(connection, {"of_thread": thread_id})
    if active:
        return Conflict(IN_FLIGHT.format(thread_id=thread_id, run_ids=", ".join(run.run_id for run in active[:10])))
    return ThreadClaimed(CLAIMED_TEXT.format(thread_id=thread_id))


def _not_found(thread_id: str) -> NotFound:
    return NotFound(f"Thread with ID {thread_id} not found")


class ExpiredThread(NamedTuple):
    """A thread whose time to live is over, and the strategy to apply."""

    thread_id: str
    strategy: TtlStrategy


class ThreadFilter(TypedDict, total=False):
    """The conditions of a search for threads."""

    ids: Sequence[str] | None
    metadata: JsonObject | None
    values: JsonObject | None
    status: ThreadStatus | None


class ThreadHead(NamedTuple):
    """A thread's metadata, and whether it has priority settings."""

    metadata: JsonObject
    has_priority: bool


class ThreadRepository:
    """The threads of all graphs; those without a requested time to live have `default_ttl`."""

    def __init__(
        self,
        database: RuntimeDatabase,
        clock: Callable[[], datetime] = utc_now,
        *,
        default_ttl: ThreadTtl | None = None,
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
        row = new_thread_row(thread_id, metadata or {}, moment, ttl or self.default_ttl)
        metadata_filter = current_filter("threads")

        def work(connection: Connection) -> Thread:
            lock(connection, f"thread:{thread_id}")
            existing = _find_row(connection, thread_id)
            if existing is not None:
                if if_exists == "raise" or not is_allowed(metadata_filter, from_json(existing.metadata)):
                    raise Conflict(f"Thread with ID {thread_id} already exists")
                return _thread_from_row(existing)
            sql.insert_thread.run(connection, {**row, "of_thread": thread_id})
            store_labels(connection, thread_id, moment, str(row["metadata"]))
            return _thread_from_row(_get_row(connection, thread_id))

        return await self._database.write(work)

    async def get(self, thread_id: str) -> Thread:
        """Return a thread.

        Raises:
            NotFound: there is none with this id.
        """
        return await self._database.read(lambda connection: _thread_from_row(_get_row(connection, thread_id)))

    async def find_head(self, thread_id: str) -> ThreadHead | None:
        """Return what a new run needs to know of a thread, None if there is none with this id."""
        query = select(threads.c.metadata, threads.c.priority).where(threads.c.thread_id == thread_id)

        def work(connection: Connection) -> ThreadHead | None:
            row = connection.execute(query).one_or_none()
            return None if row is None else ThreadHead(from_json(row.metadata), row.priority is not None)

        return await self._database.read(work)

    async def patch(self, thread_id: str, metadata: JsonObject, ttl: ThreadTtl | None = None) -> Thread:
        """Merge metadata into the thread's, key by key at the top level; a time to live starts now.

        Raises:
            NotFound: there is none with this id.
        """
        now = to_micros(self._clock())

        def work(connection: Connection) -> Thread:
            row = _find_row(connection, thread_id, for_change=True)
            if row is None or is_being_deleted(row):
                raise NotFound("Not Found")
            merged = to_json({**from_json(row.metadata), **metadata})
            lifetime = ttl_columns(ttl, now) if ttl is not None else {}
            connection.execute(_update_thread(thread_id).values(metadata=merged, updated_at=now, **lifetime))
            store_labels(connection, thread_id, now, merged, row.metadata)
            return _thread_from_row(_get_row(connection, thread_id))

        return await self._database.write(work)

    async def delete(self, thread_id: str) -> None:
        """Delete a thread with its runs and their events, busy or not.

        Raises:
            NotFound: there is none with this id.
        """

        def work(connection: Connection) -> None:
            delete_run_events(connection, runs.c.thread_id == thread_id)
            notify(connection, f"{DELETED_TOPIC}{thread_id}")
            _get_row(connection, thread_id)
            connection.execute(delete(threads).where(threads.c.thread_id == thread_id))

        await self._database.write(work)

    async def search(
        self, page: Page = Page(), *, raw_values: bool = False, **filters: Unpack[ThreadFilter]
    ) -> list[Thread]:
        """Return the threads among `ids` with this status that contain the metadata and the values.

        With `raw_values` their values are the stored JSON, ready for the encoder: parsing and encoding those of a
        thousand threads takes seconds.
        """
        keys = _apply_filter(select(threads.c.thread_id), filters)
        labels = required_labels(filters.get("metadata"), "threads")
        column = page.sort_by or "updated_at"
        # Other conditions may match few of the label's threads, and are faster through their own index.
        is_plain = filters.get("ids") is None and filters.get("status") in (None, "idle")
        if column == "status":
            keys = keys.where(ANY_STATUS)
        parse_values = _raw_json if raw_values else _parse_json

        def work(connection: Connection) -> list[Thread]:
            candidates = find_candidates(connection, labels)
            if candidates is None and column == "updated_at" and is_plain:
                candidates = first_with_label(connection, keys, labels, page)
            few = candidates is not None
            query = page_query(_narrow(keys, candidates), threads, page, column, few=few)
            return [_thread_from_row(row, parse_values) for row in connection.execute(query)]

        return await self._database.read(work)

    async def count(self, **filters: Unpack[ThreadFilter]) -> int:
        """Return the number of threads that `search` would find."""
        query = _apply_filter(select(func.count()).select_from(threads), filters)
        labels = required_labels(filters.get("metadata"), "threads")

        def work(connection: Connection) -> int:
            return int(connection.execute(_narrow(query, find_candidates(connection, labels))).scalar_one())

        return await self._database.read(work)

    async def set_state(self, thread_id: str, values_json: bytes, status: ThreadStatus, interrupts: JsonObject) -> None:
        """Store a state that a client wrote; a thread with pending runs stays busy.

        Raises:
            NotFound: there is none with this id.
        """
        now = to_micros(self._clock())
        state = Outcome("success", status, values_json, interrupts)

        def work(connection: Connection) -> None:
            if _find_row(connection, thread_id, for_change=True) is None:
                raise _not_found(thread_id)
            store_thread_state(connection, thread_id, state, now)

        await self._database.write(work)

    async def list_expired(self, now: datetime, limit: int) -> list[ExpiredThread]:
        """Return unused threads whose time to live is over, the longest overdue first."""
        query = (
            select(threads.c.thread_id, threads.c.ttl_strategy)
            .where(threads.c.expires_at <= to_micros(now), ~_has_active_runs())
            .order_by(threads.c.expires_at)
            .limit(limit)
        )
        return await self._database.read(lambda connection: [ExpiredThread(*row) for row in connection.execute(query)])

    async def clear_expiry(self, thread_id: str, now: datetime) -> None:
        """Clear the expiry of a thread that has expired by `now`; its next change sets a new one."""
        cleared = _update_thread(thread_id).where(threads.c.expires_at <= to_micros(now)).values(expires_at=None)
        await self._database.write(lambda connection: connection.execute(cleared))


def store_thread_state(connection: Connection, thread_id: str, state: Outcome, now: int) -> Sequence[Any]:
    """Store a thread's state and return its unfinished runs; with any, the thread stays busy."""
    waiting = sql.active_runs.all(connection, {"of_thread": thread_id})
    sql.update_thread_state.run(
        connection,
        {
            "of_thread": thread_id,
            "new_status": "busy" if waiting else state.thread_status,
            "new_settled": state.thread_status,
            "new_values": None if state.values_json is None else state.values_json.decode(),
            "new_interrupts": to_json(state.interrupts),
            "new_error": None if state.error is None else to_json(state.error),
            "now": now,
        },
    )
    return waiting


def _update_thread(thread_id: str) -> Any:
    return update(threads).where(threads.c.thread_id == thread_id)


def _has_active_runs() -> ColumnElement[bool]:
    return exists().where(runs.c.thread_id == threads.c.thread_id, runs.c.status.in_(("pending", "running")))


def _find_row(connection: Connection, thread_id: str, *, for_change: bool = False) -> Row[Any] | None:
    query = select(threads).where(threads.c.thread_id == thread_id)
    return connection.execute(query.with_for_update() if for_change else query).one_or_none()


def _get_row(connection: Connection, thread_id: str) -> Row[Any]:
    row = _find_row(connection, thread_id)
    if row is None:
        raise _not_found(thread_id)
    return row


def _apply_filter(query: Select[Any], filters: ThreadFilter) -> Select[Any]:
    if (ids := filters.get("ids")) is not None:
        query = query.where(threads.c.thread_id.in_(ids))
    if (status := filters.get("status")) is not None:
        # In the text of the statement: indexes on some statuses are not used for a parameter.
        query = query.where(threads.c.status == bindparam(None, status, literal_execute=True))
        if status == "busy":
            query = query.where(threads.c.thread_id.in_(select(runs.c.thread_id).where(sql.ACTIVE)))
    query = where_visible(query, "threads", threads.c.metadata)
    query = where_contains(query, threads.c.metadata, filters.get("metadata"))
    return where_contains(query, threads.c.state_values, filters.get("values"))


def _narrow(query: Select[Any], candidates: Select[tuple[str]] | None) -> Select[Any]:
    return query if candidates is None else query.where(threads.c.thread_id.in_(candidates))


def _thread_from_row(row: Row[Any], parse_values: "Callable[[str | None], Any] | None" = None) -> Thread:
    ttl = None if row.ttl_minutes is None else ThreadTtl(row.ttl_minutes, row.ttl_strategy)
    return to_record(Thread, row, values=(parse_values or _parse_json)(row.state_values), ttl=ttl)


def _raw_json(text: str | None) -> Any:
    return None if text is None else RawJson(text)


def _parse_json(text: str | None) -> JsonObject | None:
    document: JsonObject | None = None if text is None else from_json(text)
    return document
