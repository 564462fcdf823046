"""Write the webhook of an ended run to the outbox, and send it until the receiver accepts it (langgraph_api.md 5.11).

Deliveries are independent: a slow or dead receiver delays only its own. Delivery is at least once: after a crash or a
lost response, the receiver gets the webhook again with the same id.
"""

import asyncio
import base64
import hashlib
import hmac
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from langchain_core.utils.uuid import uuid7
from loguru import logger
from sqlalchemy import Connection

from toolweave.errors import OutboundFailed, OutboundRefused, PersistenceError
from toolweave.runtime.background import background_task
from toolweave.runtime.codec import dumps
from toolweave.runtime.crons import Clock, WallClock, wait_for_change
from toolweave.runtime.models import JOB_ERROR_KEY, JsonObject, Outcome, Run, run_json, timestamp
from toolweave.runtime.persistence.runs import ExtraWork
from toolweave.runtime.persistence.webhooks import WebhookDelivery, WebhookRepository, insert_delivery, url_origin


def webhook_url(run: Run) -> str | None:
    """Return the URL of the run's webhook; None without one."""
    url = run.kwargs.get("webhook")
    return url if isinstance(url, str) and url else None


def webhook_payload(run: Run, outcome: Outcome, ended_at: datetime) -> bytes:
    """Return the JSON object without the time of sending; `run` is from its start, and `updated_at` is that time.

    A run on a temporary thread has no values. Neither has a run that was rolled back; its status is `rollback`.
    """
    # The payload's `error` describes the failure, as in the official server.
    added = {name: item for name, item in outcome.run_metadata.items() if name != JOB_ERROR_KEY}
    metadata = {**run.metadata, **added}
    body = run_json(
        replace(run, status=outcome.status, metadata=metadata, updated_at=ended_at, kwargs=_webhook_kwargs(run))
    )
    if outcome.rolled_back:
        body["status"] = "rollback"
    body["run_started_at"] = timestamp(run.updated_at)
    body["run_ended_at"] = timestamp(ended_at)
    without_values = outcome.rolled_back or bool(run.kwargs.get("temporary"))
    values = b"null" if without_values or outcome.values_json is None else outcome.values_json
    error = outcome.error
    tail = b"" if error is None else b',"error":' + dumps(error)
    return dumps(body)[:-1] + b',"values":' + values + tail + b"}"


def add_sent_time(payload: bytes, moment: datetime) -> bytes:
    """Add the time of sending to a payload."""
    return b'%b,"webhook_sent_at":"%b"}' % (payload[:-1], timestamp(moment).encode())


def _webhook_kwargs(run: Run) -> JsonObject:
    """Add the fields that the reference server's webhooks have beside the run, so that payloads compare as equal."""
    config: JsonObject = run.kwargs.get("config") or {}
    configurable = {**(config.get("configurable") or {}), "__pregel_node_finished": None}
    return {**run.kwargs, "config": {**config, "configurable": configurable}}


# Posts a body to a URL with these headers and returns the response status. Raises OutboundRefused if the URL is not
# allowed, OutboundFailed if there was no response.
SendWebhook = Callable[[str, dict[str, str], bytes], Awaitable[int]]
# About twenty hours from the first attempt to the last.
MAX_ATTEMPTS = 10
_FIRST_DELAY = timedelta(seconds=5)
_DELAY_FACTOR = 4
_MAX_DELAY = timedelta(hours=6)
# Deliveries that failed together are not retried together.
_JITTER = 0.2
MAX_CONCURRENT = 16
MAX_CONCURRENT_PER_HOST = 4
RETRY_DELAY = timedelta(seconds=5)
CLEANUP_INTERVAL = timedelta(hours=1)
STOP_TIMEOUT_S = 1.0
# Statuses of temporary failures.
_RETRYABLE_STATUSES = frozenset({408, 425, 429})


@dataclass(slots=True)
class WebhookService:
    """Send due deliveries, wait for the next or a new one; start it with `run_webhook_delivery`."""

    deliveries: WebhookRepository
    send: SendWebhook
    keys: Sequence[bytes]
    clock: Clock
    attempts: "dict[asyncio.Task[None], WebhookDelivery]" = field(default_factory=dict)

    async def run(self) -> None:
        """Deliver until cancelled."""
        cleaned_at = None
        while True:
            self.deliveries.new_delivery.clear()
            now = self.clock.now()
            try:
                if cleaned_at is None or now - cleaned_at >= CLEANUP_INTERVAL:
                    await self.deliveries.delete_old_failures()
                    cleaned_at = now
                await self._start_due(now)
                wake_at = await self.deliveries.next_due(now)
            except PersistenceError as error:
                logger.error("webhook deliveries cannot be read: {}", error)
                wake_at = now + RETRY_DELAY
            wake_at = min(wake_at or now + CLEANUP_INTERVAL, now + CLEANUP_INTERVAL)
            await wait_for_change(self.deliveries.new_delivery, self.clock, wake_at)

    async def stop(self) -> None:
        """Cancel the current attempts after `STOP_TIMEOUT_S`; they are repeated at the next start."""
        if not self.attempts:
            return
        await asyncio.wait(self.attempts, timeout=STOP_TIMEOUT_S)
        unfinished = {attempt: delivery for attempt, delivery in self.attempts.items() if not attempt.done()}
        for attempt in unfinished:
            attempt.cancel()
        if unfinished:
            await asyncio.wait(unfinished)
            await self.deliveries.undo_attempts([delivery.delivery_id for delivery in unfinished.values()])

    async def _start_due(self, now: datetime) -> None:
        while len(self.attempts) < MAX_CONCURRENT:
            # Skip hosts with too many attempts, so that a slow host does not delay the others.
            active = Counter(url_origin(delivery.url) for delivery in self.attempts.values())
            full = [place for place, number in active.items() if number >= MAX_CONCURRENT_PER_HOST]
            excluded = [delivery.delivery_id for delivery in self.attempts.values()]
            delivery = await self.deliveries.start_next(now, excluded_ids=excluded, excluded_origins=full)
            if delivery is None:
                return
            attempt = asyncio.create_task(self._attempt_delivery(delivery), name=f"webhook-{delivery.delivery_id}")
            self.attempts[attempt] = delivery
            attempt.add_done_callback(self._on_attempt_done)

    def _on_attempt_done(self, attempt: "asyncio.Task[None]") -> None:
        if not attempt.cancelled() and (error := attempt.exception()) is not None:
            # The result cannot be stored: the delivery stays active for a while and is then sent again.
            logger.opt(exception=error).error("the result of a webhook delivery cannot be stored")
            asyncio.get_running_loop().call_later(RETRY_DELAY.total_seconds(), self._free_slot, attempt)
        else:
            self._free_slot(attempt)

    def _free_slot(self, attempt: "asyncio.Task[None]") -> None:
        del self.attempts[attempt]
        self.deliveries.new_delivery.set()

    async def _attempt_delivery(self, delivery: WebhookDelivery) -> None:
        if delivery.attempts > MAX_ATTEMPTS:
            await self._mark_failed(delivery, "the server stopped during each of its attempts")
            return
        moment = self.clock.now()
        body = add_sent_time(delivery.body, moment)
        headers = webhook_headers(self.keys, delivery.delivery_id, int(moment.timestamp()), body)
        try:
            status = await self.send(delivery.url, headers, body)
        except OutboundRefused as error:
            await self._mark_failed(delivery, str(error))
        except OutboundFailed as error:
            await self._retry_later(delivery, str(error))
        else:
            await self._handle_status(delivery, status)

    async def _handle_status(self, delivery: WebhookDelivery, status: int) -> None:
        if 200 <= status < 300:
            await self.deliveries.delete(delivery.delivery_id)
        elif 400 <= status < 500 and status not in _RETRYABLE_STATUSES:
            await self._mark_failed(delivery, f"the receiver returned {status}")
        else:
            await self._retry_later(delivery, f"the receiver returned {status}")

    async def _retry_later(self, delivery: WebhookDelivery, error: str) -> None:
        if delivery.attempts >= MAX_ATTEMPTS:
            await self._mark_failed(delivery, error)
            return
        logger.info("webhook of run {} will be sent again: {}", delivery.run_id, error)
        await self.deliveries.postpone(delivery.delivery_id, self.clock.now() + retry_delay(delivery.attempts), error)

    async def _mark_failed(self, delivery: WebhookDelivery, error: str) -> None:
        logger.bind(run_id=delivery.run_id, delivery_id=delivery.delivery_id).warning(
            "webhook of run {} failed after {} attempts: {}", delivery.run_id, delivery.attempts, error
        )
        await self.deliveries.mark_failed(delivery.delivery_id, error)


@asynccontextmanager
async def run_webhook_delivery(
    deliveries: WebhookRepository, send: SendWebhook, *, keys: Sequence[bytes] = (), clock: Clock | None = None
) -> AsyncIterator[None]:
    """Deliver webhooks inside the block, including those of an earlier process.

    Open it after the resources that `send` uses and close it before them.
    """
    service = WebhookService(deliveries, send, keys, clock or WallClock())
    try:
        async with background_task(service.run(), "webhooks"):
            yield
    finally:
        await service.stop()


def retry_delay(attempts: int) -> timedelta:
    """Return the delay after `attempts` failed attempts: 5 s, then four times as long each time, at most six hours."""
    delay = min(_FIRST_DELAY * int(_DELAY_FACTOR ** (attempts - 1)), _MAX_DELAY)
    return delay * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - spreads load, keeps no secret


def webhook_headers(keys: Sequence[bytes], delivery_id: str, seconds: int, body: bytes) -> dict[str, str]:
    """Return the headers of one attempt, by Standard Webhooks: id, seconds since the epoch, and a signature per key.

    The id stays the same over all attempts of a delivery. Without keys there is no signature.
    """
    headers = {"webhook-id": delivery_id, "webhook-timestamp": str(seconds)}
    signed = f"{delivery_id}.{seconds}.".encode() + body
    signatures = [base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys]
    if signatures:
        headers["webhook-signature"] = " ".join(f"v1,{signature}" for signature in signatures)
    return headers


def webhook_write(run: Run, outcome: Outcome) -> ExtraWork | None:
    """Return the database work that stores a run's webhook; None without a webhook."""
    url = webhook_url(run)
    if url is None:
        return None
    now = datetime.now(UTC)
    payload = webhook_payload(run, outcome, now)
    delivery = WebhookDelivery(f"whd_{uuid7().hex}", run.run_id, url, payload)

    def write(connection: Connection) -> None:
        insert_delivery(connection, delivery, now)

    return write
