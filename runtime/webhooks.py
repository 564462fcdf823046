"""Write the webhook of an ended run into the outbox, and deliver it until it is accepted (langgraph_api.md 5.11).

Deliveries are independent of each other: a slow or dead receiver delays only its own. Each is delivered at least once:
after a crash or a lost answer a receiver gets a run again, under the same id.
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
from toolweave.runtime.background import in_background
from toolweave.runtime.codec import dumps
from toolweave.runtime.crons import Clock, WallClock, change_or_moment
from toolweave.runtime.models import JOB_ERROR, CancelAction, JsonObject, NewRun, Outcome, Run, run_json, timestamp
from toolweave.runtime.persistence.runs import Alongside
from toolweave.runtime.persistence.webhooks import WebhookDelivery, WebhookRepository, insert_delivery, place_of


def webhook_url(run: Run) -> str | None:
    """Give the URL that wants to hear of the run's end."""
    url = run.kwargs.get("webhook")
    return url if isinstance(url, str) and url else None


def webhook_payload(run: Run, outcome: Outcome, ended_at: datetime) -> bytes:
    """Give the JSON object without the time of sending; `run` is as its execution began, `updated_at` its start.

    A run whose thread goes with it has no values, and neither has one that was rolled back: its status is then
    `rollback`.
    """
    # The payload's own `error` says why the run failed, as the official server's does.
    told = {name: item for name, item in outcome.run_metadata.items() if name != JOB_ERROR}
    metadata = {**run.metadata, **told}
    shown = run_json(
        replace(run, status=outcome.status, metadata=metadata, updated_at=ended_at, kwargs=_shown_kwargs(run))
    )
    if outcome.rolled_back:
        shown["status"] = "rollback"
    shown["run_started_at"] = timestamp(run.updated_at)
    shown["run_ended_at"] = timestamp(ended_at)
    gone = outcome.rolled_back or bool(run.kwargs.get("temporary"))
    values = b"null" if gone or outcome.values_json is None else outcome.values_json
    error = outcome.error
    tail = b"" if error is None else b',"error":' + dumps(error)
    return dumps(shown)[:-1] + b',"values":' + values + tail + b"}"


def sent(payload: bytes, moment: datetime) -> bytes:
    """Add the time of sending to a payload."""
    return b'%b,"webhook_sent_at":"%b"}' % (payload[:-1], timestamp(moment).encode())


def _shown_kwargs(run: Run) -> JsonObject:
    """Add what the reference server's webhooks show beyond the run itself, so that payloads compare as equal."""
    config: JsonObject = run.kwargs.get("config") or {}
    configurable = {**(config.get("configurable") or {}), "__pregel_node_finished": None}
    return {**run.kwargs, "config": {**config, "configurable": configurable}}


# Posts a body to a URL with these headers and gives the status of the answer. Raises OutboundRefused when it never may
# be sent, OutboundFailed when there was no answer.
Send = Callable[[str, dict[str, str], bytes], Awaitable[int]]
# About twenty hours from the first attempt to the last.
MOST_ATTEMPTS = 10
_FIRST = timedelta(seconds=5)
_FACTOR = 4
_LONGEST = timedelta(hours=6)
# Deliveries that failed together do not come back together.
_JITTER = 0.2
MOST_AT_ONCE = 16
MOST_AT_ONCE_PER_HOST = 4
RETRY = timedelta(seconds=5)
CLEANING = timedelta(hours=1)
STOP_SECONDS = 1.0
# Statuses that a receiver gives when it may answer otherwise later.
_PASSING = frozenset({408, 425, 429})


@dataclass(slots=True)
class WebhookService:
    """Send what is due, wait for the next or for a new one; run it with `delivering_webhooks`."""

    deliveries: WebhookRepository
    send: Send
    keys: Sequence[bytes]
    clock: Clock
    attempts: "dict[asyncio.Task[None], WebhookDelivery]" = field(default_factory=dict)

    async def run(self) -> None:
        """Deliver until cancelled."""
        cleaned_at = None
        while True:
            self.deliveries.written.clear()
            now = self.clock.now()
            try:
                if cleaned_at is None or now - cleaned_at >= CLEANING:
                    await self.deliveries.forget_old()
                    cleaned_at = now
                await self._begin_due(now)
                wake_at = await self.deliveries.next_due(now)
            except PersistenceError as error:
                logger.error("webhooks cannot be read now: {}", error)
                wake_at = now + RETRY
            wake_at = min(wake_at or now + CLEANING, now + CLEANING)
            await change_or_moment(self.deliveries.written, self.clock, wake_at)

    async def stop(self) -> None:
        """Break off what is being sent, after a short while; it is sent again at the next start."""
        if not self.attempts:
            return
        await asyncio.wait(self.attempts, timeout=STOP_SECONDS)
        broken_off = {attempt: delivery for attempt, delivery in self.attempts.items() if not attempt.done()}
        for attempt in broken_off:
            attempt.cancel()
        if broken_off:
            await asyncio.wait(broken_off)
            await self.deliveries.put_back([delivery.delivery_id for delivery in broken_off.values()])

    async def _begin_due(self, now: datetime) -> None:
        while len(self.attempts) < MOST_AT_ONCE:
            # However many wait for a host that is slow, those behind them are seen.
            at_once = Counter(place_of(delivery.url) for delivery in self.attempts.values())
            full = [place for place, number in at_once.items() if number >= MOST_AT_ONCE_PER_HOST]
            besides = [delivery.delivery_id for delivery in self.attempts.values()]
            delivery = await self.deliveries.begin_next(now, besides=besides, places=full)
            if delivery is None:
                return
            attempt = asyncio.create_task(self._attempt(delivery), name=f"webhook-{delivery.delivery_id}")
            self.attempts[attempt] = delivery
            attempt.add_done_callback(self._ended)

    def _ended(self, attempt: "asyncio.Task[None]") -> None:
        if not attempt.cancelled() and (error := attempt.exception()) is not None:
            # What became of it cannot be written: it counts as being sent for a while, and is then sent again.
            logger.opt(exception=error).error("the attempt of a webhook cannot be written")
            asyncio.get_running_loop().call_later(RETRY.total_seconds(), self._make_room, attempt)
        else:
            self._make_room(attempt)

    def _make_room(self, attempt: "asyncio.Task[None]") -> None:
        del self.attempts[attempt]
        self.deliveries.written.set()

    async def _attempt(self, delivery: WebhookDelivery) -> None:
        if delivery.attempts > MOST_ATTEMPTS:
            await self._give_up(delivery, "the server ended during each of its attempts")
            return
        moment = self.clock.now()
        body = sent(delivery.body, moment)
        headers = webhook_headers(self.keys, delivery.delivery_id, int(moment.timestamp()), body)
        try:
            status = await self.send(delivery.url, headers, body)
        except OutboundRefused as error:
            await self._give_up(delivery, str(error))
        except OutboundFailed as error:
            await self._again(delivery, str(error))
        else:
            await self._answered(delivery, status)

    async def _answered(self, delivery: WebhookDelivery, status: int) -> None:
        if 200 <= status < 300:
            await self.deliveries.done(delivery.delivery_id)
        elif 400 <= status < 500 and status not in _PASSING:
            await self._give_up(delivery, f"the receiver answers {status}")
        else:
            await self._again(delivery, f"the receiver answers {status}")

    async def _again(self, delivery: WebhookDelivery, error: str) -> None:
        if delivery.attempts >= MOST_ATTEMPTS:
            await self._give_up(delivery, error)
            return
        logger.info("webhook of run {} is tried again later: {}", delivery.run_id, error)
        await self.deliveries.postpone(delivery.delivery_id, self.clock.now() + pause_after(delivery.attempts), error)

    async def _give_up(self, delivery: WebhookDelivery, error: str) -> None:
        logger.bind(run_id=delivery.run_id, delivery_id=delivery.delivery_id).warning(
            "webhook of run {} is given up after {} attempts: {}", delivery.run_id, delivery.attempts, error
        )
        await self.deliveries.give_up(delivery.delivery_id, error)


@asynccontextmanager
async def delivering_webhooks(
    deliveries: WebhookRepository, send: Send, *, keys: Sequence[bytes] = (), clock: Clock | None = None
) -> AsyncIterator[None]:
    """Deliver webhooks while the block runs, first of all those that an earlier process left behind.

    Open it when what `send` needs is there, and leave it before that is closed.
    """
    service = WebhookService(deliveries, send, keys, clock or WallClock())
    try:
        async with in_background(service.run(), "webhooks"):
            yield
    finally:
        await service.stop()


def pause_after(attempts: int) -> timedelta:
    """Give the pause after so many attempts: 5 s, then four times as long each time, at most six hours."""
    pause = min(_FIRST * int(_FACTOR ** (attempts - 1)), _LONGEST)
    return pause * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - spreads load, keeps no secret


def webhook_headers(keys: Sequence[bytes], delivery_id: str, seconds: int, body: bytes) -> dict[str, str]:
    """Give the headers of one attempt, as Standard Webhooks: id, seconds since the epoch, and a signature per key.

    The id stays the same over all attempts of a delivery. Without keys there is no signature.
    """
    headers = {"webhook-id": delivery_id, "webhook-timestamp": str(seconds)}
    signed = f"{delivery_id}.{seconds}.".encode() + body
    signatures = [base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys]
    if signatures:
        headers["webhook-signature"] = " ".join(f"v1,{signature}" for signature in signatures)
    return headers


def superseded_by(new: NewRun, action: CancelAction) -> str:
    """Say why a run was cancelled that another one took the place of."""
    return f"superseded by run {new.run_id} (multitask_strategy={action})"


def telling(run: Run, outcome: Outcome) -> Alongside | None:
    """Give the work that writes a run's webhook; None when nobody wants one."""
    url = webhook_url(run)
    if url is None:
        return None
    now = datetime.now(UTC)
    payload = webhook_payload(run, outcome, now)
    delivery = WebhookDelivery(f"whd_{uuid7().hex}", run.run_id, url, payload)

    def write(connection: Connection) -> None:
        insert_delivery(connection, delivery, now)

    return write
