"""Webhooks are stored with the end of their run and delivered until their receiver accepts them."""

import asyncio
import base64
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from tests.fixtures.hand_clock import NOON, HandClock
from tests.runtime.persistence.records import SUCCESS, new_run
from toolweave.errors import Conflict, OutboundFailed, OutboundRefused
from toolweave.runtime.codec import loads, utc_now
from toolweave.runtime.persistence.data_folder import Persistence
from toolweave.runtime.persistence.run_rows import run_from_new
from toolweave.runtime.persistence.runs import RunEnd
from toolweave.runtime.persistence.webhooks import FAILED_RETENTION, WebhookDelivery, WebhookRepository, insert_delivery
from toolweave.runtime.webhooks import (
    MAX_ATTEMPTS,
    MAX_CONCURRENT_PER_HOST,
    add_sent_time,
    retry_delay,
    run_webhook_delivery,
    webhook_headers,
    webhook_payload,
    webhook_write,
)

BOUND_S = 60.0
URL = "https://a.example/hook"
Answer = Callable[[str, dict[str, str], bytes], Awaitable[int]]


class Receiver:
    """Record requests in place of other servers and return a status."""

    def __init__(self, answer: Answer | int = 200) -> None:
        self.answer = answer
        self.requests: asyncio.Queue[tuple[str, dict[str, str], bytes]] = asyncio.Queue()

    async def send(self, url: str, headers: dict[str, str], body: bytes) -> int:
        self.requests.put_nowait((url, headers, body))
        return self.answer if isinstance(self.answer, int) else await self.answer(url, headers, body)

    async def next(self) -> tuple[str, dict[str, str], Any]:
        url, headers, body = await asyncio.wait_for(self.requests.get(), BOUND_S)
        return url, headers, loads(body)


class Outbox:
    """Stored deliveries and their clock."""

    def __init__(self, persistence: Persistence) -> None:
        self.clock = HandClock()
        self.database = persistence.app
        self.deliveries = WebhookRepository(persistence.app, self.clock.now)

    async def put(self, name: str, url: str = URL) -> None:
        delivery = WebhookDelivery(name, f"run-{name}", url, b'{"name":"%b"}' % name.encode())
        await self.database.write(lambda connection: insert_delivery(connection, delivery, self.clock.now()))
        self.deliveries.new_delivery.set()

    def delivering(self, receiver: Receiver, keys: tuple[bytes, ...] = ()) -> AbstractAsyncContextManager[None]:
        return run_webhook_delivery(self.deliveries, receiver.send, keys=keys, clock=self.clock)

    async def row(self, name: str) -> Any:
        query = "SELECT attempts, next_attempt_at, last_error, given_up_at FROM webhook_deliveries WHERE delivery_id=?"
        return await self.database.read(lambda connection: connection.exec_driver_sql(query, (name,)).first())

    async def settled(self, name: str, expected: Callable[[Any], bool]) -> Any:
        """Wait until the row is as expected; each look waits for all writes before it."""
        async with asyncio.timeout(BOUND_S):
            while not expected(row := await self.row(name)):
                await self.database.write(lambda _: None)
        return row


@pytest.fixture
def outbox(persistence: Persistence) -> Outbox:
    return Outbox(persistence)


def is_deleted(row: Any) -> bool:
    return row is None


def has_failed(row: Any) -> bool:
    return row.given_up_at is not None


async def due_again(outbox: Outbox) -> Any:
    """Wait until the time of the next attempt is stored and return it."""
    now = outbox.clock.now()
    async with asyncio.timeout(BOUND_S):
        while (due := await outbox.deliveries.next_due(now)) is None:
            await outbox.database.write(lambda _: None)
    return due


async def test_a_webhook_is_sent_as_soon_as_it_is_stored_signed_with_each_key_and_then_deleted(outbox: Outbox) -> None:
    receiver = Receiver(204)
    async with outbox.delivering(receiver, keys=(b"k" * 24, b"l" * 24)):
        await outbox.put("one")
        url, headers, body = await receiver.next()
        await outbox.settled("one", is_deleted)
    assert url == URL
    assert body == {"name": "one", "webhook_sent_at": "2026-11-21T12:00:00.000000+00:00"}
    first, second = headers.pop("webhook-signature").split(" ")
    assert headers == {"webhook-id": "one", "webhook-timestamp": str(int(NOON.timestamp()))}
    assert (first[:3], second[:3]) == ("v1,", "v1,")
    assert first != second


@pytest.mark.parametrize("status", [301, 408, 425, 429, 500, 503])
async def test_a_delivery_is_repeated_after_a_temporary_failure(outbox: Outbox, status: int) -> None:
    receiver = Receiver(status)
    async with outbox.delivering(receiver):
        await outbox.put("one")
        first = await receiver.next()
        due = await due_again(outbox)
        row = await outbox.row("one")
        assert (row.attempts, row.last_error) == (1, f"the receiver returned {status}")
        receiver.answer = 200
        await outbox.clock.advance(due - outbox.clock.now())
        second = await receiver.next()
        await outbox.settled("one", is_deleted)
    # The same delivery, at another time: receivers know it by its id.
    assert first[1]["webhook-id"] == second[1]["webhook-id"]
    assert first[2]["webhook_sent_at"] < second[2]["webhook_sent_at"]


async def test_the_pauses_grow_to_six_hours_and_then_the_delivery_has_failed(outbox: Outbox) -> None:
    receiver = Receiver(500)
    pauses = []
    async with outbox.delivering(receiver):
        await outbox.put("one")
        await receiver.next()
        for _ in range(MAX_ATTEMPTS - 1):
            due = await due_again(outbox)
            pauses.append(due - outbox.clock.now())
            await outbox.clock.advance(due - outbox.clock.now())
            await receiver.next()
        row = await outbox.settled("one", has_failed)
    assert (row.attempts, row.next_attempt_at, row.last_error) == (MAX_ATTEMPTS, None, "the receiver returned 500")
    assert timedelta(seconds=4) <= pauses[0] <= timedelta(seconds=6)
    assert all(earlier < later for earlier, later in pairwise(pauses[:7]))
    assert max(pauses) <= timedelta(hours=6) * 1.2
    assert timedelta(hours=12) < sum(pauses, timedelta()) < timedelta(hours=36)


@pytest.mark.parametrize("status", [400, 401, 404, 410, 422])
async def test_a_delivery_is_not_repeated_after_a_permanent_failure(outbox: Outbox, status: int) -> None:
    async with outbox.delivering(Receiver(status)):
        await outbox.put("one")
        row = await outbox.settled("one", has_failed)
    assert (row.attempts, row.last_error) == (1, f"the receiver returned {status}")


async def test_a_url_that_the_policy_refuses_fails_at_once_and_a_failed_connection_is_repeated(outbox: Outbox) -> None:
    async def answer(url: str, _headers: dict[str, str], _body: bytes) -> int:
        if "refused" in url:
            raise OutboundRefused("it may not go there")
        raise OutboundFailed("no response", reason="connect")

    async with outbox.delivering(Receiver(answer)):
        await outbox.put("one", "https://refused.example/")
        await outbox.put("two")
        refused = await outbox.settled("one", has_failed)
        failed = await outbox.settled("two", lambda row: row.last_error is not None)
    assert refused.last_error == "it may not go there"
    assert (failed.last_error, failed.given_up_at) == ("no response", None)


async def test_a_receiver_that_hangs_delays_only_its_own_deliveries(outbox: Outbox) -> None:
    moment = outbox.clock.now()
    hanging = 0

    def fill(connection: Connection) -> None:
        for number in range(1001):
            insert_delivery(connection, WebhookDelivery(f"slow-{number}", "run", URL, b"{}"), moment)

    async def answer(url: str, _headers: dict[str, str], _body: bytes) -> int:
        nonlocal hanging
        if url == URL:
            hanging += 1
            await asyncio.Event().wait()
        return 200

    await outbox.database.write(fill)
    await outbox.clock.advance(timedelta(seconds=1))
    for number, url in enumerate(("https://b.example", "https://a.example.org/hook", "/a")):
        await outbox.put(f"quick-{number}", url)
    async with outbox.delivering(Receiver(answer)):
        for number in range(3):
            await outbox.settled(f"quick-{number}", is_deleted)
    assert hanging == MAX_CONCURRENT_PER_HOST


async def test_a_delivery_that_a_stop_cancels_is_sent_again_at_the_next_start(outbox: Outbox) -> None:
    async def hang(_url: str, _headers: dict[str, str], _body: bytes) -> int:
        await asyncio.Event().wait()
        return 200

    receiver = Receiver(hang)
    async with outbox.delivering(receiver):
        await outbox.put("one")
        first = await receiver.next()
    assert (await outbox.row("one")).attempts == 0
    receiver.answer = 200
    async with outbox.delivering(receiver):
        assert (await receiver.next())[1]["webhook-id"] == first[1]["webhook-id"]
        await outbox.settled("one", is_deleted)


async def test_a_delivery_that_ends_the_process_each_time_has_failed(outbox: Outbox) -> None:
    await outbox.put("one")
    for _ in range(MAX_ATTEMPTS):
        assert await outbox.deliveries.start_next(NOON) is not None
    receiver = Receiver()
    async with outbox.delivering(receiver):
        row = await outbox.settled("one", has_failed)
    assert row.last_error == "the server stopped during each of its attempts"
    assert receiver.requests.empty()


async def test_a_sender_that_raises_stops_no_other_delivery_and_is_called_again(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolweave.runtime.webhooks.RETRY_DELAY", timedelta())

    async def answer(url: str, _headers: dict[str, str], _body: bytes) -> int:
        if "broken" in url:
            raise RuntimeError("a mistake of ours")
        return 200

    receiver = Receiver(answer)
    async with outbox.delivering(receiver):
        await outbox.put("one", "https://broken.example/")
        assert (await receiver.next())[2]["name"] == "one"
        await outbox.put("two")
        names: set[str] = set()
        while names != {"one", "two"}:
            names.add((await receiver.next())[2]["name"])
        await outbox.settled("two", is_deleted)


async def test_failed_deliveries_are_stored_for_a_week(outbox: Outbox) -> None:
    receiver = Receiver(404)
    async with outbox.delivering(receiver):
        await outbox.put("one")
        await outbox.settled("one", has_failed)
        await outbox.clock.advance(FAILED_RETENTION)
        assert await outbox.deliveries.delete_old_failures() == 0
        await outbox.clock.advance(timedelta(hours=2))
        await outbox.settled("one", is_deleted)


def test_pauses_are_random() -> None:
    pauses = {retry_delay(3) for _ in range(50)}
    assert len(pauses) > 1
    assert all(timedelta(seconds=64) <= pause <= timedelta(seconds=96) for pause in pauses)


async def test_only_the_current_attempt_of_a_run_stores_its_webhook(persistence: Persistence) -> None:
    new = new_run("t", kwargs={"input": {"n": 1}, "webhook": URL})
    await persistence.runs.create_run(new)
    first = await persistence.runs.claim(new.run_id)
    await persistence.runs.requeue(new.run_id)
    second = await persistence.runs.claim(new.run_id)
    assert first is not None
    assert second is not None
    write = webhook_write(first, SUCCESS)
    assert write is not None
    with pytest.raises(Conflict):
        await persistence.runs.finalise(
            RunEnd(new.run_id, first.attempt, SUCCESS), [w for w in [webhook_write(first, SUCCESS)] if w]
        )
    later = utc_now() + timedelta(seconds=1)
    assert await persistence.webhooks.start_next(later) is None
    await persistence.runs.finalise(
        RunEnd(new.run_id, second.attempt, SUCCESS), [w for w in [webhook_write(second, SUCCESS)] if w]
    )
    assert await persistence.webhooks.start_next(later) is not None


async def test_an_error_in_the_transaction_that_ends_a_run_leaves_it_running_without_a_webhook(
    persistence: Persistence,
) -> None:
    new = new_run("t", kwargs={"input": {"n": 1}, "webhook": URL})
    await persistence.runs.create_run(new)
    run = await persistence.runs.claim(new.run_id)
    assert run is not None
    write = webhook_write(run, SUCCESS)
    assert write is not None

    def fail(connection: Connection) -> None:
        write(connection)
        raise RuntimeError("the transaction ends here")

    with pytest.raises(RuntimeError):
        await persistence.runs.finalise(RunEnd(run.run_id, run.attempt, SUCCESS), [fail])
    assert (await persistence.runs.get("t", run.run_id)).status == "running"
    assert await persistence.webhooks.start_next(utc_now() + timedelta(seconds=1)) is None


def test_a_payload_can_hold_input_that_json_cannot() -> None:
    hostile = {"half": "\ud800", "huge": 2**70, "nan": float("nan"), "text": 'quote " and } brace'}
    run = replace(run_from_new(new_run("t", kwargs={"input": hostile, "webhook": URL})), updated_at=NOON, attempt=1)
    payload = webhook_payload(run, SUCCESS, NOON + timedelta(milliseconds=12))
    body = loads(add_sent_time(payload, NOON + timedelta(seconds=1)))
    assert body["kwargs"]["input"]["text"] == 'quote " and } brace'
    assert body["run_started_at"] == "2026-11-21T12:00:00.000000+00:00"
    assert body["run_ended_at"] == body["updated_at"] == "2026-11-21T12:00:00.012000+00:00"
    assert body["webhook_sent_at"] == "2026-11-21T12:00:01.000000+00:00"


def test_the_signature_is_the_one_of_the_standard() -> None:
    # A published example of the Standard Webhooks specification's libraries.
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = webhook_headers([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert "webhook-signature" not in webhook_headers([], "msg", 1614265330, b"{}")


def test_the_check_in_the_documentation_accepts_only_our_requests() -> None:
    page = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text(encoding="utf-8")
    check: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[1], check)  # noqa: S102 - our own page
    key, body, now = b"0123456789abcdef01234567", b'{"a":1}', int(time.time())
    secret = f"whsec_{base64.b64encode(key).decode()}"
    headers = webhook_headers([b"another key, of a new secret", key], "whd_1", now, body)
    assert check["is_ours"](secret, headers, body)
    assert not check["is_ours"](secret, headers, body + b" ")
    assert not check["is_ours"](secret, {**headers, "webhook-id": "whd_2"}, body)
    old = webhook_headers([key], "whd_1", now - 3600, body)
    assert not check["is_ours"](secret, old, body)
