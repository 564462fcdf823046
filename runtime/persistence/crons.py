"""Store crons, and claim their firings in the transactions that create the runs."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, TypedDict, Unpack

from sqlalchemy import Connection, Row, Select, delete, exists, func, insert, or_, select, update

from toolweave.encryption import TextCipher
from toolweave.errors import Conflict, NotFound
from toolweave.runtime.codec import from_json, from_micros, to_json, to_micros
from toolweave.runtime.models import Cron, JsonObject, Page
from toolweave.runtime.persistence.database import RuntimeDatabase, lock, notify
from toolweave.runtime.persistence.events import CRON_TOPIC
from toolweave.runtime.persistence.run_rows import seal_credentials
from toolweave.runtime.persistence.schema import assistants, crons, threads, to_record, to_row
from toolweave.runtime.persistence.search import current_filter, is_visible, page_query, where_contains, where_visible

# Claims a firing in the transaction that creates the run, so that both are stored or neither.
ClaimFiring = Callable[[Connection], None]
MAX_DUE_CRONS = 100


class FiringTakenError(Conflict):
    """The firing cannot be claimed: it was claimed already, or its cron was changed, disabled or deleted."""


class CronFilter(TypedDict, total=False):
    """The conditions of a search for crons."""

    assistant_id: str | None
    thread_id: str | None
    enabled: bool | None
    metadata: JsonObject | None


class CronRepository:
    """The crons of all assistants; `changed` is set when the next firing may have changed."""

    def __init__(self, database: RuntimeDatabase, cipher: TextCipher) -> None:
        self._database = database
        self._cipher = cipher
        self.changed = asyncio.Event()

    async def create(self, cron: Cron) -> Cron:
        """Store a new cron with the encrypted credentials of its user.

        Raises:
            NotFound: its assistant or its thread does not exist.
        """
        # The work on PostgreSQL runs on the event loop.
        sealed = await asyncio.to_thread(seal_credentials, self._cipher, cron.credentials)
        stored = replace(cron, credentials={}, sealed=sealed)

        def work(connection: Connection) -> None:
            lock(connection, "assistants")
            _require_row(connection, assistants.c.assistant_id, cron.assistant_id, f"Assistant '{cron.assistant_id}'")
            if cron.thread_id is not None:
                _require_row(connection, threads.c.thread_id, cron.thread_id, f"Thread with ID '{cron.thread_id}'")
            connection.execute(insert(crons), _cron_row(stored))
            notify(connection, CRON_TOPIC)

        await self._database.write(work)
        self.changed.set()
        return stored

    async def get(self, cron_id: str) -> Cron:
        """Return a cron. Raises NotFound."""
        return await self._database.read(lambda connection: _get_cron(connection, cron_id, "Not Found"))

    async def update(self, cron_id: str, change: Callable[[Cron], Cron]) -> Cron:
        """Store the result of `change(cron)`, in one transaction.

        Raises:
            NotFound: there is none with this id.
        """

        def work(connection: Connection) -> Cron:
            lock(connection, f"cron:{cron_id}")
            changed = change(_get_cron(connection, cron_id, f"Cron '{cron_id}' not found"))
            connection.execute(update(crons).where(crons.c.cron_id == cron_id).values(**_cron_row(changed)))
            notify(connection, CRON_TOPIC)
            return changed

        cron = await self._database.write(work)
        self.changed.set()
        return cron

    async def delete(self, cron_id: str) -> None:
        """Delete a cron; its runs continue. Raises NotFound."""

        def work(connection: Connection) -> None:
            if connection.execute(delete(crons).where(crons.c.cron_id == cron_id)).rowcount == 0:
                raise NotFound("Not Found")

        await self._database.write(work)
        self.changed.set()

    async def search(self, page: Page = Page(), **filters: Unpack[CronFilter]) -> list[Cron]:
        """Return the crons of this assistant and thread that contain the metadata, newest first."""
        keys = _apply_filter(select(crons.c.cron_id), filters)
        column = "next_run_at" if page.sort_by == "next_run_date" else page.sort_by or "created_at"
        query = page_query(keys, crons, page, column)
        return await self._database.read(lambda connection: [_cron_from_row(row) for row in connection.execute(query)])

    async def count(self, **filters: Unpack[CronFilter]) -> int:
        """Return the number of crons that `search` would find."""
        query = _apply_filter(select(func.count()).select_from(crons), filters)
        return await self._database.read(lambda connection: int(connection.execute(query).scalar_one()))

    async def list_due(self, now: datetime) -> list[Cron]:
        """Return at most `MAX_DUE_CRONS` crons that are due by now, the longest overdue first."""
        reached = _select_enabled().where(crons.c.next_run_at <= to_micros(now))
        query = reached.order_by(crons.c.next_run_at, crons.c.cron_id).limit(MAX_DUE_CRONS)
        return await self._database.read(lambda connection: [_cron_from_row(row) for row in connection.execute(query)])

    async def next_due(self) -> datetime | None:
        """Return the time of the next firing of any cron; None without one."""
        soonest = select(func.min(crons.c.next_run_at)).where(crons.c.enabled == 1)
        micros = await self._database.read(lambda connection: connection.execute(soonest).scalar_one())
        return None if micros is None else from_micros(micros)

    async def skip_firing(self, claim: ClaimFiring) -> None:
        """Mark an unclaimed firing as done without a run, so that the cron waits for its next one."""

        def work(connection: Connection) -> None:
            try:
                claim(connection)
            except FiringTakenError:
                return

        await self._database.write(work)


def firing_claim(cron: Cron, next_run_at: datetime | None) -> ClaimFiring:
    """Return the work that claims a cron's firing and sets `next_run_at`; it raises FiringTakenError."""

    def claim(connection: Connection) -> None:
        assert cron.next_run_at is not None  # noqa: S101 - `due` gave it
        updated = connection.execute(
            update(crons)
            .where(
                crons.c.cron_id == cron.cron_id,
                crons.c.next_run_at == to_micros(cron.next_run_at),
                crons.c.updated_at == to_micros(cron.updated_at),
                crons.c.enabled == 1,
            )
            .values(next_run_at=None if next_run_at is None else to_micros(next_run_at))
        )
        if updated.rowcount == 0:
            raise FiringTakenError(f"Cron {cron.cron_id} no longer fires at {cron.next_run_at.isoformat()}.")

    return claim


def _select_enabled() -> Select[Any]:
    return select(crons).where(crons.c.enabled == 1, crons.c.next_run_at.is_not(None))


def _apply_filter(query: Select[Any], filters: CronFilter) -> Select[Any]:
    for column in (crons.c.assistant_id, crons.c.thread_id):
        if (wanted := filters.get(column.name)) is not None:
            query = query.where(column == wanted)
    if (enabled := filters.get("enabled")) is not None:
        query = query.where(crons.c.enabled == int(enabled))
    query = where_visible(query, "crons", crons.c.metadata)
    if current_filter("threads") is not None:
        visible = exists().where(threads.c.thread_id == crons.c.thread_id, is_visible("threads", threads.c.metadata))
        query = query.where(or_(crons.c.thread_id.is_(None), visible))
    return where_contains(query, crons.c.metadata, filters.get("metadata"))


def _require_row(connection: Connection, column: Any, value: str, what: str) -> None:
    if not connection.execute(select(exists().where(column == value))).scalar_one():
        raise NotFound(f"{what} not found")


def _get_cron(connection: Connection, cron_id: str, message: str) -> Cron:
    row = connection.execute(select(crons).where(crons.c.cron_id == cron_id)).one_or_none()
    if row is None:
        raise NotFound(message)
    return _cron_from_row(row)


def _cron_row(cron: Cron) -> dict[str, Any]:
    members = None if cron.user is None else to_json(cron.user)
    return to_row(crons, cron, user_members=members, enabled=int(cron.enabled))


def _cron_from_row(row: Row[Any]) -> Cron:
    user = None if row.user_members is None else from_json(row.user_members)
    return to_record(Cron, row, user_id=row.user_id or "", user=user, enabled=bool(row.enabled))
