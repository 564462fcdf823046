"""The events of a thread over SSE: their frames, the stored ones, filters, and when the stream ends."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api.langgraph.protocol.listening import (
    APP,
    OFFICIAL,
    Event,
    contents,
    ended,
    listening,
    new_thread,
    on,
    run_whole,
    start,
    stored_events,
)

LANGGRAPH_JSON = APP
ON_POSTGRESQL = True


def completed(graph: str) -> tuple[str, list[str], Any]:
    return ("lifecycle", [], {"event": "completed", "graph_name": graph})


async def test_a_frame_has_the_method_the_envelope_and_the_number_as_its_id(http: httpx.AsyncClient) -> None:
    thread_id, _ = await run_whole(http, "count", {"n": 1})
    body = {"channels": ["lifecycle"]}
    async with http.stream("POST", f"/threads/{thread_id}/stream/events", json=body) as answer:
        headers = [answer.headers[name] for name in ("content-type", "cache-control", "x-accel-buffering")]
        assert headers == ["text/event-stream; charset=utf-8", "no-store", "no"]
        frame = b""
        async for part in answer.aiter_bytes():
            frame += part
            if b"\r\n\r\n" in frame:
                break
    event, data, number = frame.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    assert event == "event: lifecycle"
    assert data.startswith('data: {"type":"event","event_id":"synth:')
    assert '"seq":1,"method":"lifecycle","params":{"namespace":[],"timestamp":' in data
    assert data.endswith(',"data":{"event":"running","graph_name":"count"}}}')
    assert number == "id: 1"


async def test_namespaces_and_depth_limit_what_is_sent(http: httpx.AsyncClient) -> None:
    thread_id, _ = await run_whole(http, "nested", {"n": 1})
    root, middle, inner = (), ("middle",), ("middle", "inner")
    limits: tuple[tuple[dict[str, Any], set[tuple[str, ...]]], ...] = (
        ({}, {root, middle, inner}),
        ({"namespaces": []}, {root, middle, inner}),
        ({"namespaces": [[]], "depth": 0}, {root}),
        ({"namespaces": [["middle"]]}, {middle, inner}),
        ({"namespaces": [["middle"]], "depth": 0}, {middle}),
        ({"namespaces": [["middle", "inner"]]}, {inner}),
        ({"namespaces": [["middle:nobody"]]}, set()),
        ({"namespaces": "middle", "depth": "0"}, {root, middle, inner}),
    )
    for limit, namespaces in limits:
        events = await stored_events(http, thread_id, ["values"], **limit)
        assert {tuple(names) for _, names, _ in contents(events)} == namespaces, limit


@pytest.mark.api("POST /threads/{thread_id}/stream/events", "200 replays stored events from since on, then live ones")
async def test_a_late_subscriber_gets_the_same_events_and_then_the_next_run_without_a_gap(
    http: httpx.AsyncClient, thread_id: str
) -> None:
    async with listening(http, thread_id) as live:
        await start(http, thread_id, "count", {"n": 1})
        first = await live.run()
        async with listening(http, thread_id) as late, listening(http, thread_id, since=first[2]["seq"]) as later:
            assert await late.run() == first
            await start(http, thread_id, "count", {"n": 5})
            whole = await live.run(runs=2)
            assert await late.run(runs=2) == whole
            assert await later.run(runs=2) == whole[3:]
    numbers = [event["seq"] for event in whole]
    assert numbers == sorted(set(numbers))
    identities = [event["event_id"] for event in whole]
    assert len(set(identities)) == len(identities)


async def test_since_limits_what_is_sent_if_it_is_a_number(http: httpx.AsyncClient) -> None:
    thread_id, events = await run_whole(http, "count", {"n": 1})
    not_numbers: tuple[Any, ...] = ("2", -1, 2.5, None, True)
    for since in not_numbers:
        assert await stored_events(http, thread_id, since=since) == events, since
    for later in (10**6, 2**63 - 1, 2**64 - 1):
        assert await stored_events(http, thread_id, since=later) == [], later


@pytest.mark.api("POST /threads/{thread_id}/stream/events", "200 waits for a missing thread, and ends with the thread")
async def test_a_subscriber_may_come_before_the_thread_and_its_stream_ends_with_it(http: httpx.AsyncClient) -> None:
    thread_id = str(uuid4())
    async with listening(http, thread_id) as listener:
        await start(http, thread_id, "count", {"n": 1})
        assert contents(await listener.run())[-1] == completed("count")
        await http.delete(f"/threads/{thread_id}")
        await listener.until_ended()
    assert (await http.get(f"/threads/{thread_id}")).status_code == 404


async def test_a_cancelled_run_ends_as_interrupted_and_leaves_its_thread_idle(
    http: httpx.AsyncClient, thread_id: str
) -> None:
    gate = str(uuid4())
    async with listening(http, thread_id) as listener:
        run_id = await start(http, thread_id, "gated", {"n": 1, "gate": gate})
        await http.get(f"/gates/{gate}/reached")
        assert (await http.post(f"/threads/{thread_id}/runs/{run_id}/cancel?wait=1")).status_code == 200
        events = await listener.run()
    assert contents(events)[-1] == ("lifecycle", [], {"event": "interrupted", "graph_name": "gated"})
    assert (await http.get(f"/threads/{thread_id}/runs/{run_id}")).json()["status"] == "interrupted"
    assert (await http.get(f"/threads/{thread_id}")).json()["status"] == "idle"
    assert (await http.get(f"/threads/{thread_id}/state")).json()["next"] == ["wait"]


async def test_a_rolled_back_run_is_streamed_live_and_not_stored(http: httpx.AsyncClient, thread_id: str) -> None:
    gate = str(uuid4())
    async with listening(http, thread_id) as listener:
        run_id = await start(http, thread_id, "gated", {"n": 1, "gate": gate})
        await http.get(f"/gates/{gate}/reached")
        await http.post(f"/threads/{thread_id}/runs/{run_id}/cancel?wait=1&action=rollback")
        last = (await listener.run())[-1]
        assert await stored_events(http, thread_id) == []
        await start(http, thread_id, "count", {"n": 1})
        following = (await listener.run(runs=2))[-1]
    assert last["params"]["data"]["event"] == "interrupted"
    assert [event["seq"] > last["seq"] for event in await stored_events(http, thread_id)] == [True] * 5
    assert following["seq"] > last["seq"]


async def test_the_run_has_ended_when_its_end_event_arrives(http: httpx.AsyncClient) -> None:
    for _ in range(5):
        thread_id = await new_thread(http)
        async with listening(http, thread_id, ["lifecycle"]) as listener:
            run_id = await start(http, thread_id, "count", {"n": 1})
            await listener.run()
            assert (await http.get(f"/threads/{thread_id}/runs/{run_id}")).json()["status"] == "success"
            assert (await http.get(f"/threads/{thread_id}")).json()["status"] == "idle"


async def test_a_run_of_the_older_endpoints_is_sent_to_open_subscriptions(
    http: httpx.AsyncClient, thread_id: str
) -> None:
    older = {"assistant_id": "ask", "input": {"n": 1}}
    await http.post(f"/threads/{thread_id}/runs/wait", json=older)
    assert await stored_events(http, thread_id) == []
    async with listening(http, thread_id) as listener:
        await http.post(f"/threads/{thread_id}/runs/wait", json=older)
        events = await listener.until(
            lambda events: on(events, "values")[-1:] == [{"n": 1, "log": []}] and len(events) > 4
        )
    assert [event["method"] for event in events] == ["lifecycle", "values", "input.requested", "lifecycle", "values"]
    assert "__interrupt__" not in on(events, "values")[-1]
    assert await stored_events(http, thread_id) == events


async def test_a_run_of_the_protocol_can_be_joined_by_the_older_endpoints(
    http: httpx.AsyncClient, thread_id: str
) -> None:
    gate = str(uuid4())
    run_id = await start(http, thread_id, "gated", {"n": 1, "gate": gate})
    await http.get(f"/gates/{gate}/reached")
    async with http.stream("GET", f"/threads/{thread_id}/runs/{run_id}/stream") as answer:
        await http.post(f"/gates/{gate}/open")
        text = (await answer.aread()).decode()
    assert 'event: values\r\ndata: {"n":3,"gate":' in text
    assert (await http.get(f"/threads/{thread_id}/runs/{run_id}/join")).json()["log"] == ["add", "passed", "add"]


@pytest.mark.api("POST /threads/{thread_id}/stream/events", "400 for no JSON, and for missing or unknown channels")
@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"{", "Invalid JSON body"),
        (b"", "Invalid JSON body"),
        (b"[]", "channels is required and must be a non-empty array"),
        (b"{}", "channels is required and must be a non-empty array"),
        (b'{"channels": "values"}', "channels is required and must be a non-empty array"),
        (b'{"channels": []}', "channels is required and must be a non-empty array"),
        (b'{"channels": ["values", 5, "debug", "custom:"]}', "unsupported entries: 5, debug, custom:."),
        (b'{"channels": [%b]}' % b",".join([b'"values"'] * 501), "unsupported entries: more than 500"),
        (b'{"channels": %b}' % (b"[" * 201 + b"]" * 201), "nested more than"),
    ],
)
async def test_a_bad_request_for_events_is_refused(http: httpx.AsyncClient, body: bytes, detail: str) -> None:
    answer = await http.post(f"/threads/{uuid4()}/stream/events", content=body)
    assert answer.status_code == 400
    assert detail in answer.json()["detail"]


@pytest.mark.api("POST /threads/{thread_id}/stream/events", "422 refuses a thread id that is no UUID")
async def test_a_thread_id_that_is_no_uuid_has_no_events(http: httpx.AsyncClient) -> None:
    answer = await http.post("/threads/zz/stream/events", json={"channels": ["values"]})
    assert (answer.status_code, answer.json()) == (422, {"detail": "Invalid thread ID: must be a UUID"})


async def test_many_subscribers_get_the_same_events(http: httpx.AsyncClient, thread_id: str) -> None:

    async def receive() -> list[Event]:
        async with listening(http, thread_id, OFFICIAL) as listener:
            return await listener.run()

    receiving = [asyncio.create_task(receive()) for _ in range(20)]
    await ended(http, thread_id, await start(http, thread_id, "nested", {"n": 1}))
    whole = await stored_events(http, thread_id)
    assert await asyncio.gather(*receiving) == [whole] * 20
