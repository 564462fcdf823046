"""Webhooks are written with the end of their run, say how it ended, and are delivered until they are accepted."""

import asyncio
import base64
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from tests.fixtures.hand_clock import NOON, HandClock
from tests.runtime.persistence.records import SUCCESS, new_run
from toolweave.errors import Conflict, OutboundFailed, OutboundRefused
from toolweave.runtime.codec import loads, utc_now
from toolweave.runtime.models import Run
from toolweave.runtime.persistence.data_folder import Persistence
from toolweave.runtime.persistence.webhooks import (
    FAILED_RETENTION,
    WebhookDelivery,
    WebhookRepository,
    insert_delivery,
)
from toolweave.runtime.webhooks import (
    MAX_ATTEMPTS,
    MAX_CONCURRENT_PER_HOST,
    add_sent_time,
    retry_delay,
    run_webhook_delivery,
    webhook_headers,
    webhook_payload,
    webhook_url,
    webhook_write,
)

BOUND_S = 60.0
URL = "https://a.example/hook"
Answer = Callable[[str, dict[str, str], bytes], Awaitable[int]]


class Receiver:
    """Stands for the other servers: records the requests and returns a status."""

    def __init__(self, answer: Answer | int = 200) -> None:
        self.answer = answer
        self.requests: asyncio.Queue[tuple[str, dict[str, str], bytes]] = asyncio.Queue()

    async def send(self, url: str, headers: dict[str, str], body: bytes) -> int:
        self.requests.put_nowait((url, headers, body))
        return self.answer if isinstance(self.answer, int) else await self.answer(url, headers, body)

    async def next(self) -> tuple[str, dict[str, str], Any]:
        url, headers, body = await asyncio.wait_for(self.requests.get(), BOUND_S)
        return url, headers, loads(body)


class Post:
    """An outbox over real files, and its clock."""

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
def post(persistence: Persistence) -> Post:
    return Post(persistence)


def gone(row: Any) -> bool:
    return row is None


def given_up(row: Any) -> bool:
    return row.given_up_at is not None


async def due_again(post: Post) -> Any:
    """Say when the delivery is due again, once that is written."""
    now = post.clock.now()
    async with asyncio.timeout(BOUND_S):
        while (due := await post.deliveries.next_due(now)) is None:
            await post.database.write(lambda _: None)
    return due


async def test_a_webhook_is_sent_as_soon_as_it_is_stored_signed_with_each_key_and_then_deleted(post: Post) -> None:
    receiver = Receiver(204)
    async with post.delivering(receiver, keys=(b"k" * 24, b"l" * 24)):
        await post.put("one")
        url, headers, body = await receiver.next()
        await post.settled("one", gone)
    assert url == URL
    assert body == {"name": "one", "webhook_sent_at": "2026-11-21T12:00:00.000000+00:00"}
    first, second = headers.pop("webhook-signature").split(" ")
    assert headers == {"webhook-id": "one", "webhook-timestamp": str(int(NOON.timestamp()))}
    assert (first[:3], second[:3]) == ("v1,", "v1,")
    assert first != second


@pytest.mark.parametrize("status", [301, 408, 425, 429, 500, 503])
async def test_an_answer_that_may_be_another_one_later_is_asked_for_again(post: Post, status: int) -> None:
    receiver = Receiver(status)
    async with post.delivering(receiver):
        await post.put("one")
        first = await receiver.next()
        due = await due_again(post)
        row = await post.row("one")
        assert (row.attempts, row.last_error) == (1, f"the receiver returned {status}")
        receiver.answer = 200
        await post.clock.advance(due - post.clock.now())
        second = await receiver.next()
        await post.settled("one", gone)
    # The same delivery, at another time: receivers know it by its id.
    assert first[1]["webhook-id"] == second[1]["webhook-id"]
    assert first[2]["webhook_sent_at"] < second[2]["webhook_sent_at"]


async def test_the_pauses_grow_to_six_hours_and_then_it_is_given_up(post: Post) -> None:
    receiver = Receiver(500)
    pauses = []
    async with post.delivering(receiver):
        await post.put("one")
        await receiver.next()
        for _ in range(MAX_ATTEMPTS - 1):
            due = await due_again(post)
            pauses.append(due - post.clock.now())
            await post.clock.advance(due - post.clock.now())
            await receiver.next()
        row = await post.settled("one", given_up)
    assert (row.attempts, row.next_attempt_at, row.last_error) == (MAX_ATTEMPTS, None, "the receiver returned 500")
    assert timedelta(seconds=4) <= pauses[0] <= timedelta(seconds=6)
    assert all(earlier < later for earlier, later in pairwise(pauses[:7]))
    assert max(pauses) <= timedelta(hours=6) * 1.2
    assert timedelta(hours=12) < sum(pauses, timedelta()) < timedelta(hours=36)


@pytest.mark.parametrize("status", [400, 401, 404, 410, 422])
async def test_an_answer_that_says_no_ends_the_attempts(post: Post, status: int) -> None:
    async with post.delivering(Receiver(status)):
        await post.put("one")
        row = await post.settled("one", given_up)
    assert (row.attempts, row.last_error) == (1, f"the receiver returned {status}")


async def test_what_the_policy_refuses_is_given_up_and_what_failed_is_tried_again(post: Post) -> None:
    async def answer(url: str, _headers: dict[str, str], _body: bytes) -> int:
        if "refused" in url:
            raise OutboundRefused("it may not go there")
        raise OutboundFailed("nobody is there", reason="connect")

    async with post.delivering(Receiver(answer)):
        await post.put("one", "https://refused.example/")
        await post.put("two")
        refused = await post.settled("one", given_up)
        failed = await post.settled("two", lambda row: row.last_error is not None)
    assert refused.last_error == "it may not go there"
    assert (failed.last_error, failed.given_up_at) == ("nobody is there", None)


async def test_a_receiver_that_hangs_delays_only_its_own_deliveries(post: Post) -> None:
    moment = post.clock.now()
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

    await post.database.write(fill)
    await post.clock.advance(timedelta(seconds=1))
    for number, url in enumerate(("https://b.example", "https://a.example.org/hook", "/a")):
        await post.put(f"quick-{number}", url)
    async with post.delivering(Receiver(answer)):
        for number in range(3):
            await post.settled(f"quick-{number}", gone)
    assert hanging == MAX_CONCURRENT_PER_HOST


async def test_waiting_ones_follow_as_soon_as_there_is_room(post: Post) -> None:
    receiver = Receiver()
    names = {f"{number}" for number in range(30)}
    async with post.delivering(receiver):
        for name in names:
            await post.put(name)
        assert {(await receiver.next())[2]["name"] for _ in names} == names
        for name in names:
            await post.settled(name, gone)


async def test_one_that_is_broken_off_by_a_stop_is_sent_again_at_the_next_start(post: Post) -> None:
    async def hang(_url: str, _headers: dict[str, str], _body: bytes) -> int:
        await asyncio.Event().wait()
        return 200

    receiver = Receiver(hang)
    async with post.delivering(receiver):
        await post.put("one")
        first = await receiver.next()
    assert (await post.row("one")).attempts == 0
    receiver.answer = 200
    async with post.delivering(receiver):
        assert (await receiver.next())[1]["webhook-id"] == first[1]["webhook-id"]
        await post.settled("one", gone)


async def test_one_that_takes_the_process_down_each_time_is_given_up(post: Post) -> None:
    await post.put("one")
    for _ in range(MAX_ATTEMPTS):
        assert await post.deliveries.start_next(NOON) is not None
    receiver = Receiver()
    async with post.delivering(receiver):
        row = await post.settled("one", given_up)
    assert row.last_error == "the server stopped during each of its attempts"
    assert receiver.requests.empty()


async def test_a_sender_that_breaks_stops_nobody_and_is_asked_again(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolweave.runtime.webhooks.RETRY_DELAY", timedelta())

    async def answer(url: str, _headers: dict[str, str], _body: bytes) -> int:
        if "broken" in url:
            raise RuntimeError("a mistake of ours")
        return 200

    receiver = Receiver(answer)
    async with post.delivering(receiver):
        await post.put("one", "https://broken.example/")
        assert (await receiver.next())[2]["name"] == "one"
        await post.put("two")
        heard: set[str] = set()
        while heard != {"one", "two"}:
            heard.add((await receiver.next())[2]["name"])
        await post.settled("two", gone)


async def test_given_up_deliveries_are_kept_for_a_week(post: Post) -> None:
    receiver = Receiver(404)
    async with post.delivering(receiver):
        await post.put("one")
        await post.settled("one", given_up)
        await post.clock.advance(FAILED_RETENTION)
        assert await post.deliveries.delete_old_failures() == 0
        await post.clock.advance(timedelta(hours=2))
        await post.settled("one", gone)


async def test_a_delivery_that_is_not_due_is_not_begun(post: Post) -> None:
    await post.put("one")
    await post.deliveries.postpone("one", NOON + timedelta(seconds=5), "for the test")
    assert await post.deliveries.start_next(NOON) is None
    assert await post.deliveries.start_next(NOON + timedelta(seconds=5)) is not None
    await post.deliveries.mark_failed("one", "for the test")
    assert await post.deliveries.start_next(NOON + timedelta(days=1)) is None


def test_pauses_are_spread() -> None:
    pauses = {retry_delay(3) for _ in range(50)}
    assert len(pauses) > 1
    assert all(timedelta(seconds=64) <= pause <= timedelta(seconds=96) for pause in pauses)


async def running(persistence: Persistence, **fields: Any) -> Run:
    kwargs = {"input": {"n": 1}, "webhook": URL, "temporary": fields.get("temporary", False)}
    new = new_run(str(uuid4()), kwargs=kwargs, **fields)
    await persistence.runs.create_run(new)
    claimed = await persistence.runs.claim(new.run_id)
    assert claimed is not None
    return claimed


async def waiting(persistence: Persistence) -> WebhookDelivery | None:
    return await persistence.webhooks.start_next(utc_now() + timedelta(seconds=1))


async def test_an_end_that_cannot_be_written_tells_nobody(persistence: Persistence) -> None:
    run = await running(persistence)
    write = webhook_write(run, SUCCESS)
    assert write is not None

    def failing(connection: Connection) -> None:
        write(connection)
        raise RuntimeError("the transaction ends here")

    with pytest.raises(RuntimeError):
        await persistence.runs.finalise(run.run_id, run.attempt, SUCCESS, failing)
    assert (await persistence.runs.get(run.thread_id, run.run_id)).status == "running"
    assert await waiting(persistence) is None


async def test_an_attempt_that_was_taken_over_tells_nobody(persistence: Persistence) -> None:
    run = await running(persistence)
    await persistence.runs.requeue(run.run_id)
    again = await persistence.runs.claim(run.run_id)
    assert again is not None
    with pytest.raises(Conflict):
        await persistence.runs.finalise(run.run_id, run.attempt, SUCCESS, webhook_write(run, SUCCESS))
    assert await waiting(persistence) is None
    await persistence.runs.finalise(run.run_id, again.attempt, SUCCESS, webhook_write(again, SUCCESS))
    assert await waiting(persistence) is not None


def run(**kwargs: Any) -> Run:
    return Run(
        run_id="r",
        thread_id="t",
        assistant_id="a",
        graph_id="g",
        status="running",
        metadata={"m": 1},
        kwargs={"webhook": "https://a.example/", "temporary": False, **kwargs},
        multitask_strategy="enqueue",
        created_at=NOON,
        updated_at=NOON,
        not_before=None,
        attempt=1,
        cancel=None,
    )


def test_input_that_is_hard_to_write_as_json_does_not_keep_a_run_from_ending() -> None:
    hostile = {"half": "\ud800", "huge": 2**70, "nan": float("nan"), "text": 'quote " and } brace'}
    payload = webhook_payload(run(input=hostile), SUCCESS, NOON + timedelta(milliseconds=12))
    body = loads(add_sent_time(payload, NOON + timedelta(seconds=1)))
    assert body["kwargs"]["input"]["text"] == 'quote " and } brace'
    assert body["run_started_at"] == "2026-11-21T12:00:00.000000+00:00"
    assert body["run_ended_at"] == body["updated_at"] == "2026-11-21T12:00:00.012000+00:00"
    assert body["webhook_sent_at"] == "2026-11-21T12:00:01.000000+00:00"


@pytest.mark.parametrize("url", [None, "", 3])
def test_a_run_without_a_webhook_has_none(url: Any) -> None:
    assert webhook_url(run(webhook=url)) is None


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


def test_the_check_in_the_documentation_knows_ours_from_others() -> None:
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
