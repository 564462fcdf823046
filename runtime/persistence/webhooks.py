"""Store webhook deliveries in an outbox, in the transaction that ends a run (langgraph_api.md 5.11)."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from toolweave.runtime.codec import from_micros, to_micros, utc_now
from toolweave.runtime.persistence.database import RuntimeDatabase, is_sqlite, notify
from toolweave.runtime.persistence.events import WEBHOOK_TOPIC
from toolweave.runtime.persistence.schema import Statement, to_record, to_row, webhook_deliveries

# How long a failed delivery is retained.
FAILED_RETENTION = timedelta(days=7)

# Longer than an attempt takes.
ATTEMPT_LEASE = timedelta(minutes=2)

_insert_row = Statement(insert(webhook_deliveries), [column.name for column in webhook_deliveries.c])
_DELIVERY_ID_MATCHES = webhook_deliveries.c.delivery_id == bindparam("of_delivery")


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """The webhook of one run; `attempts` counts started attempts, `body` has no time of sending yet."""

    delivery_id: str
    run_id: str
    url: str
    body: bytes
    attempts: int = 0


def insert_delivery(connection: Connection, delivery: WebhookDelivery, now: datetime) -> None:
    """Insert a delivery that is due at once, in the transaction that ends its run."""
    moment = to_micros(now)
    row = to_row(webhook_deliveries, delivery, next_attempt_at=moment, created_at=moment)
    _insert_row.run(connection, {"last_error": None, "given_up_at": None, **row})
    notify(connection, WEBHOOK_TOPIC)


def url_origin(url: str) -> str:
    """Return scheme and host of a URL with a trailing slash; only the slash for a path on this server."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.partition('/')[0]}/" if mark else "/"


class WebhookRepository:
    """The deliveries of all runs; `new_delivery` is set when there is a new one."""

    def __init__(self, database: RuntimeDatabase, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock
        self.new_delivery = asyncio.Event()

    async def start_next(
        self, now: datetime, *, excluded_ids: Collection[str] = (), excluded_origins: Collection[str] = ()
    ) -> WebhookDelivery | None:
        """Count and return the delivery that is due longest; None if none is due.

        The attempt is counted before it is made, so that one that crashes the process is counted, too. Deliveries in
        `excluded_ids` are skipped, and those whose URL starts with one of `excluded_origins` (see `url_origin`).
        """
        whole = webhook_deliveries.c.url + "/"
        next_one = (
            select(webhook_deliveries.c.delivery_id)
            .where(webhook_deliveries.c.next_attempt_at <= to_micros(now))
            .where(webhook_deliveries.c.delivery_id.not_in(excluded_ids))
            .where(*(func.substr(whole, 1, len(place)) != place for place in excluded_origins))
            .order_by(webhook_deliveries.c.next_attempt_at)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        started = (
            update(webhook_deliveries)
            .where(webhook_deliveries.c.delivery_id == next_one.scalar_subquery())
            .values(attempts=webhook_deliveries.c.attempts + 1)
            .returning(*webhook_deliveries.c)
        )
        # Another process sends it only if this one has died.
        leased = started.values(next_attempt_at=to_micros(now + ATTEMPT_LEASE))

        def work(connection: Connection) -> WebhookDelivery | None:
            row = connection.execute(started if is_sqlite(connection) else leased).first()
            return None if row is None else to_record(WebhookDelivery, row)

        return await self._database.write(work)

    async def next_due(self, now: datetime) -> datetime | None:
        """Return the due time of the next delivery that is not due yet."""
        column = webhook_deliveries.c.next_attempt_at
        query = select(func.min(column)).where(column > to_micros(now))
        micros = await self._database.read(lambda connection: connection.execute(query).scalar())
        return None if micros is None else from_micros(micros)

    async def delete(self, delivery_id: str) -> None:
        """Delete a delivery that its receiver has accepted."""
        statement = delete(webhook_deliveries).where(_DELIVERY_ID_MATCHES)
        await self._database.write(lambda connection: connection.execute(statement, {"of_delivery": delivery_id}))

    async def postpone(self, delivery_id: str, until: datetime, error: str) -> None:
        """Store an attempt's error and the time of the next attempt."""
        await self._update(delivery_id, next_attempt_at=to_micros(until), last_error=error)

    async def mark_failed(self, delivery_id: str, error: str) -> None:
        """Store that a delivery failed finally; it is retained for some days with its error."""
        await self._update(delivery_id, next_attempt_at=None, last_error=error, given_up_at=self._now())

    async def undo_attempts(self, delivery_ids: Sequence[str]) -> None:
        """Decrement the attempts of deliveries that this server cancelled, and make them due."""
        statement = (
            update(webhook_deliveries)
            .where(webhook_deliveries.c.delivery_id.in_(delivery_ids), webhook_deliveries.c.attempts > 0)
            .values(attempts=webhook_deliveries.c.attempts - 1, next_attempt_at=self._now())
        )
        await self._database.write(lambda connection: connection.execute(statement))

    async def delete_old_failures(self) -> int:
        """Delete failed deliveries after their retention; return how many."""
        limit = self._now() - FAILED_RETENTION // timedelta(microseconds=1)
        statement = delete(webhook_deliveries).where(webhook_deliveries.c.given_up_at < limit)
        return await self._database.write(lambda connection: connection.execute(statement).rowcount)

    async def _update(self, delivery_id: str, **values: Any) -> None:
        statement = update(webhook_deliveries).where(_DELIVERY_ID_MATCHES).values(**values)
        await self._database.write(lambda connection: connection.execute(statement, {"of_delivery": delivery_id}))

    def _now(self) -> int:
        return to_micros(self._clock())
