"""The protocol over a WebSocket: commands in, answers and events out, and how it is closed."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.api.langgraph.protocol.listening import (
    APP,
    BOUND_S,
    OFFICIAL,
    Event,
    as_command,
    contents,
    ended,
    ends_run,
    on,
    run_whole,
    socket,
    start,
)

LANGGRAPH_JSON = APP
DEEP = '{"id": 7, "method": "run.start", "params": {"assistant_id": "count", "input": %s}}' % ("[" * 250 + "]" * 250)


async def frame(client: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(BOUND_S):
        message: dict[str, Any] = json.loads(await client.recv())
    return message


async def exchange(client: ClientConnection, text: str | bytes) -> tuple[list[Event], dict[str, Any]]:
    """Send a command; give the events that came before its answer, and the answer."""
    await client.send(text)
    events: list[Event] = []
    while (message := await frame(client))["type"] == "event":
        events.append(message)
    return events, message


async def until_run_ends(client: ClientConnection) -> list[Event]:
    events = [await frame(client)]
    while not ends_run(events[-1]):
        events.append(await frame(client))
    return events


async def close_code(client: ClientConnection) -> tuple[int, str]:
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


async def test_a_client_starts_a_run_answers_its_interrupt_and_gets_all_events(http: httpx.AsyncClient) -> None:
    thread_id = str(uuid4())
    async with socket(http, thread_id) as client:
        _, subscribed = await exchange(client, as_command("subscription.subscribe", 1, channels=OFFICIAL))
        assert subscribed["result"]["replayed_events"] == 0
        before, started = await exchange(client, as_command("run.start", 2, assistant_id="ask", input={"n": 1}))
        assert (before, started["id"], list(started["result"])) == ([], 2, ["run_id"])
        events = await until_run_ends(client)
        question = on(events, "input.requested")[0]["interrupt_id"]
        _, answered = await exchange(client, as_command("input.respond", 3, interrupt_id=question, response="yes"))
        assert (answered["type"], answered["id"], answered["result"]) == ("success", 3, {})
        assert contents(await until_run_ends(client))[-1] == (
            "lifecycle",
            [],
            {"event": "completed", "graph_name": "ask"},
        )


async def test_a_subscription_gets_the_stored_events_before_its_response(http: httpx.AsyncClient) -> None:
    thread_id, whole = await run_whole(http, "nested", {"n": 1})
    async with socket(http, thread_id) as client:
        events, answer = await exchange(client, as_command("subscription.subscribe", 1, channels=OFFICIAL))
        assert events == whole
        assert answer["result"]["replayed_events"] == len(whole)
        assert answer["meta"] == {"applied_through_seq": whole[-1]["seq"]}
        since = whole[3]["seq"]
        events, _ = await exchange(client, as_command("subscription.subscribe", 2, channels=OFFICIAL, since=since))
        assert events == whole[4:]
        events, answer = await exchange(client, as_command("subscription.reconnect", 3, channels=["lifecycle"]))
        assert {event["method"] for event in events} == {"lifecycle"}
        assert (answer["result"]["restored"], answer["result"]["missed_events"]) == (True, len(events))


async def test_an_event_of_two_subscriptions_is_sent_once(http: httpx.AsyncClient, thread_id: str) -> None:
    async with socket(http, thread_id) as client:
        _, first = await exchange(client, as_command("subscription.subscribe", 1, channels=["values", "lifecycle"]))
        await exchange(client, as_command("subscription.subscribe", 2, channels=["values"], namespaces=[[]], depth=0))
        await start(http, thread_id, "nested", {"n": 1})
        numbers = [event["seq"] for event in await until_run_ends(client)]
        assert numbers == sorted(set(numbers))
        number = first["result"]["subscription_id"]
        _, gone = await exchange(client, as_command("subscription.unsubscribe", 3, subscription_id=number))
        assert gone["result"] == {}
        await ended(http, thread_id, await start(http, thread_id, "nested", {"n": 1}))
        events, _ = await exchange(client, as_command("zzz"))
        assert {(event["method"], *event["params"]["namespace"]) for event in events} == {("values",)}
        _, again = await exchange(client, as_command("subscription.unsubscribe", 4, subscription_id=number))
        assert again["error"] == "no_such_subscription"


@pytest.mark.parametrize(
    ("text", "number", "error"),
    [
        ("{", None, "invalid_argument"),
        ("", None, "invalid_argument"),
        (b"\xff\xfe", None, "invalid_argument"),
        ("[" * 5000, None, "invalid_argument"),
        ("[]", None, "invalid_argument"),
        ('{"id": 3}', 3, "invalid_argument"),
        (as_command("zzz"), 7, "unknown_command"),
        (as_command("zzz").encode(), 7, "unknown_command"),
        (DEEP, 7, "unknown_error"),
        pytest.param('{"id": 7, "x": [%s0]}' % ("0," * 200_000), None, "invalid_argument", id="too many values"),
        (as_command("run.start", assistant_id="nobody"), 7, "unknown_error"),
        (as_command("subscription.subscribe"), 7, "invalid_argument"),
        (as_command("subscription.subscribe", channels=["nope"]), 7, "invalid_argument"),
        (as_command("subscription.unsubscribe"), 7, "invalid_argument"),
    ],
)
async def test_a_bad_frame_is_refused_and_the_connection_stays_open(
    http: httpx.AsyncClient, text: str | bytes, number: int | None, error: str
) -> None:
    async with socket(http, str(uuid4())) as client:
        events, refused = await exchange(client, text)
        assert (events, refused["type"], refused["id"], refused["error"]) == ([], "error", number, error)
        assert (await exchange(client, as_command("zzz", 8)))[1]["id"] == 8


async def test_the_subscriptions_of_a_connection_are_limited(http: httpx.AsyncClient) -> None:
    async with socket(http, str(uuid4())) as client:
        answers = [
            (await exchange(client, as_command("subscription.subscribe", number, channels=["input"])))[1]
            for number in range(101)
        ]
    assert [answer["type"] for answer in answers] == [*["success"] * 100, "error"]


async def test_deleting_the_thread_closes_the_connection(http: httpx.AsyncClient) -> None:
    thread_id, _ = await run_whole(http, "count", {"n": 1})
    async with socket(http, thread_id) as client:
        await exchange(client, as_command("subscription.subscribe", channels=["values"]))
        await http.delete(f"/threads/{thread_id}")
        assert await close_code(client) == (4404, f"Thread with ID {thread_id} not found")


async def test_a_thread_id_that_is_no_uuid_closes_the_connection(http: httpx.AsyncClient) -> None:
    async with socket(http, "zz") as client:
        assert await close_code(client) == (4422, "Invalid thread ID: must be a UUID")


async def test_a_page_of_a_foreign_origin_is_not_connected(http: httpx.AsyncClient) -> None:
    url = str(http.base_url.copy_with(scheme="ws", path=f"/threads/{uuid4()}/stream/events"))
    with pytest.raises(InvalidStatus):
        await connect(url, origin="https://stranger.example")  # type: ignore[arg-type]


async def test_the_path_takes_no_plain_get(http: httpx.AsyncClient) -> None:
    answer = await http.get(f"/threads/{uuid4()}/stream/events")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
