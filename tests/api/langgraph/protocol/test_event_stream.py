"""The events of a thread over SSE: their frames, their order, what is kept and who is sent what."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api.langgraph.protocol.listening import (
    APP,
    OFFICIAL,
    Event,
    ended,
    kept,
    listening,
    new_thread,
    on,
    run_whole,
    start,
    told,
)

LANGGRAPH_JSON = APP
EVERYTHING = ("values", "updates", "messages", "lifecycle", "input", "tasks", "custom", "checkpoints")


def running(graph: str) -> tuple[str, list[str], Any]:
    return ("lifecycle", [], {"event": "running", "graph_name": graph})


def completed(graph: str) -> tuple[str, list[str], Any]:
    return ("lifecycle", [], {"event": "completed", "graph_name": graph})


async def test_a_frame_has_the_method_the_envelope_and_the_number_as_its_id(http: httpx.AsyncClient) -> None:
    thread_id, _ = await run_whole(http, "count", {"n": 1})
    body = {"channels": ["lifecycle"]}
    async with http.stream("POST", f"/threads/{thread_id}/stream/events", json=body) as answer:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-accel-buffering"] == "no"
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


@pytest.mark.api(
    "POST /threads/{thread_id}/stream/events", "200 tells a run's life, values and questions in the protocol's order"
)
async def test_a_run_is_told_from_running_to_completed(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "count", {"n": 1})
    assert told(events) == [
        running("count"),
        ("values", [], {"n": 1, "log": []}),
        ("values", [], {"n": 2, "log": ["add"]}),
        ("values", [], {"n": 3, "log": ["add", "add"]}),
        completed("count"),
    ]


@pytest.mark.api("POST /threads/{thread_id}/stream/events", "200 streams messages as content blocks")
async def test_a_models_words_are_told_block_by_block_and_kept_in_the_values(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "speak", {"messages": [{"role": "user", "content": "you there"}]})
    spoken = on(events, "messages")
    said = on(events, "values")[-1]["messages"][-1]
    assert spoken[0] == {"event": "message-start", "role": "ai", "id": said["id"]}
    assert [block["event"] for block in spoken] == [
        "message-start",
        "content-block-start",
        *["content-block-delta"] * 5,
        "content-block-finish",
        "message-finish",
    ]
    assert "".join(block["delta"]["text"] for block in spoken[2:7]) == "hello you there"
    assert said == {
        "type": "ai",
        "id": said["id"],
        "content": [{"type": "text", "text": "hello you there", "index": 0}],
        "response_metadata": {"output_version": "v1"},
    }
    assert set(on(events, "values")[0]["messages"][0]) == {"type", "content", "id"}


async def test_words_of_two_models_at_once_can_be_told_apart(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "duet", {"messages": [{"role": "user", "content": "sing"}]})
    texts: dict[str, str] = {}
    alone = ""
    for block in on(events, "messages"):
        if block["event"] == "message-start":
            alone = block["id"]
        elif block["event"] == "content-block-delta":
            key = block.get("id", alone)
            texts[key] = texts.get(key, "") + block["delta"]["text"]
    assert sorted(texts.values()) == ["bom bom bom", "la la la"]


async def test_subgraphs_are_told_with_their_namespaces_and_lives(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "nested", {"n": 1})
    lives = [
        (steps, {"event": data["event"], "graph_name": data["graph_name"]})
        for method, steps, data in told(events)
        if method == "lifecycle"
    ]
    assert lives == [
        ([], {"event": "running", "graph_name": "nested"}),
        (["middle"], {"event": "started", "graph_name": "middle"}),
        (["middle", "inner"], {"event": "started", "graph_name": "inner"}),
        (["middle", "inner"], {"event": "completed", "graph_name": "inner"}),
        (["middle"], {"event": "completed", "graph_name": "middle"}),
        ([], {"event": "completed", "graph_name": "nested"}),
    ]
    began = next(event for event in events if event["params"]["data"].get("event") == "started")
    namespace = began["params"]["namespace"]
    assert began["params"]["data"]["namespace"] == namespace
    assert began["params"]["data"]["trigger_call_id"] == namespace[0].partition(":")[2]


@pytest.mark.api("POST /threads/{thread_id}/stream/events", "200 tells how a run failed")
async def test_a_failure_is_told_of_the_subgraph_and_of_the_run(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "broken", {"n": 1})
    assert told(events)[-2:] == [
        ("lifecycle", ["child"], {"event": "failed", "graph_name": "child", "error": "cannot go on"}),
        ("lifecycle", [], {"event": "failed", "graph_name": "broken", "error": "cannot go on"}),
    ]


async def test_a_question_comes_before_the_run_stands_still_and_the_values_after(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "ask", {"n": 1})
    asked = on(events, "input.requested")[0]
    assert told(events)[-3:] == [
        ("input.requested", [], {"interrupt_id": asked["interrupt_id"], "payload": {"question": 1}}),
        ("lifecycle", [], {"event": "interrupted", "graph_name": "ask"}),
        ("values", [], {"n": 1, "log": []}),
    ]


async def test_two_questions_at_once_stop_the_run_once(http: httpx.AsyncClient) -> None:
    thread_id, events = await run_whole(http, "ask_both", {"n": 1})
    payloads = [asked["payload"] for asked in on(events, "input.requested")]
    assert payloads[0] == "first"
    assert payloads[1]["about"]["content"] == "second"
    assert [data["event"] for data in on(events, "lifecycle")] == ["running", "interrupted"]
    thread = (await http.get(f"/threads/{thread_id}")).json()
    assert thread["status"] == "interrupted"
    assert len(thread["interrupts"]) == 2


async def test_a_question_of_a_subgraph_is_told_once_in_its_namespace(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "ask_inside", {"n": 1})
    asked = [(steps, data["payload"]) for method, steps, data in told(events) if method == "input.requested"]
    assert asked == [(["child"], {"question": 1})]
    assert told(events)[-1] == ("lifecycle", ["child"], {"event": "interrupted", "graph_name": "child"})


async def test_a_breakpoint_ends_a_run_that_asks_nothing(http: httpx.AsyncClient) -> None:
    thread_id, events = await run_whole(http, "stopping", {"n": 1})
    assert told(events)[-1] == completed("stopping")
    assert (await http.get(f"/threads/{thread_id}")).json()["status"] == "interrupted"


@pytest.mark.api(
    "POST /threads/{thread_id}/stream/events",
    "200 tells tool calls, tasks, updates, checkpoints and custom events to whoever asks for them",
)
async def test_tool_calls_are_told_from_start_to_end(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "tooled", {"messages": [{"role": "user", "content": "go"}]}, ["tools"])
    calls = sorted((data["tool_call_id"], data["event"]) for data in on(events, "tools"))
    assert calls == [
        ("call-1", "tool-finished"),
        ("call-1", "tool-started"),
        ("call-2", "tool-error"),
        ("call-2", "tool-started"),
    ]
    done = next(data for data in on(events, "tools") if data["event"] == "tool-finished")
    assert done["output"] == {
        "type": "tool",
        "content": "3",
        "id": None,
        "name": "add_up",
        "tool_call_id": "call-1",
        "status": "success",
        "artifact": None,
    }


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        ("updates", [{"add": {"n": 2, "log": ["add"]}}, {"again": {"n": 3, "log": ["add"]}}]),
        ("custom", [{"name": "progress", "payload": 1}, "adding"] * 2),
        ("custom:progress", [{"name": "progress", "payload": 1}] * 2),
        ("custom:other", []),
    ],
)
async def test_what_nodes_return_and_write_is_told_to_who_asks_for_it(
    http: httpx.AsyncClient, channel: str, expected: list[Any]
) -> None:
    _, events = await run_whole(http, "count", {"n": 1}, [channel])
    assert on(events, channel.partition(":")[0]) == expected


async def test_tasks_are_told_when_they_start_and_end(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "nested", {"n": 1}, ["tasks"])
    names = [(steps, data["name"], "result" in data) for _, steps, data in told(events)]
    assert names == [
        ([], "middle", False),
        (["middle"], "inner", False),
        (["middle", "inner"], "add", False),
        (["middle", "inner"], "add", True),
        (["middle"], "inner", True),
        ([], "middle", True),
        ([], "after", False),
        ([], "after", True),
    ]


async def test_each_checkpoint_comes_right_before_the_values_that_it_holds(http: httpx.AsyncClient) -> None:
    thread_id, events = await run_whole(http, "count", {"n": 1}, ["values", "checkpoints"])
    assert [event["method"] for event in events] == ["checkpoints", *["checkpoints", "values"] * 3]
    saved = on(events, "checkpoints")
    assert [(envelope["step"], envelope["source"]) for envelope in saved] == [
        (-1, "input"),
        (0, "loop"),
        (1, "loop"),
        (2, "loop"),
    ]
    assert [envelope["parent_id"] for envelope in saved[1:]] == [envelope["id"] for envelope in saved[:-1]]
    history = (await http.post(f"/threads/{thread_id}/history", json={"limit": 10})).json()
    assert [state["checkpoint"]["checkpoint_id"] for state in reversed(history)] == [save["id"] for save in saved]
    values = [state["values"] for state in reversed(history)][1:]
    assert values == on(events, "values")


async def test_who_asks_for_everything_is_shown_a_plain_graphs_steps_once(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "count", {"n": 1}, EVERYTHING)
    assert {event["method"] for event in events} == {"values", "lifecycle"}


async def test_a_graph_that_asks_for_modes_by_its_transformers_has_them_told(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "telling", {"n": 1}, EVERYTHING)
    assert on(events, "updates") == [{"add": {"n": 2, "log": ["add"]}}]
    assert on(events, "custom") == [
        {"name": "echo", "payload": {"name": "progress", "payload": 1}},
        {"name": "progress", "payload": 1},
        {"name": "echo", "payload": "adding"},
        "adding",
    ]


@pytest.mark.parametrize(
    ("limits", "steps"),
    [
        ({}, [[], ["middle"], ["middle", "inner"]]),
        ({"namespaces": []}, [[], ["middle"], ["middle", "inner"]]),
        ({"namespaces": [[]], "depth": 0}, [[]]),
        ({"namespaces": [["middle"]]}, [["middle"], ["middle", "inner"]]),
        ({"namespaces": [["middle"]], "depth": 0}, [["middle"]]),
        ({"namespaces": [["middle", "inner"]]}, [["middle", "inner"]]),
        ({"namespaces": [["middle:nobody"]]}, []),
        ({"namespaces": "middle", "depth": "0"}, [[], ["middle"], ["middle", "inner"]]),
    ],
)
async def test_namespaces_and_depth_limit_what_is_sent(
    http: httpx.AsyncClient, limits: dict[str, Any], steps: list[list[str]]
) -> None:
    thread_id, _ = await run_whole(http, "nested", {"n": 1})
    events = await kept(http, thread_id, ["values"], **limits)
    assert sorted({tuple(names) for _, names, _ in told(events)}) == sorted(tuple(names) for names in steps)


@pytest.mark.api(
    "POST /threads/{thread_id}/stream/events",
    "200 replays what is kept to late listeners, from since on, and goes on live without a gap",
)
async def test_a_late_listener_hears_the_same_and_then_the_next_run_without_a_gap(http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(http)
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


@pytest.mark.parametrize("since", ["2", -1, 2.5, None, True])
async def test_a_since_that_is_no_number_counts_as_not_given(http: httpx.AsyncClient, since: object) -> None:
    thread_id, events = await run_whole(http, "count", {"n": 1})
    assert await kept(http, thread_id, since=since) == events


@pytest.mark.parametrize("since", [10**6, 2**63 - 1, 2**64 - 1])
async def test_nothing_is_sent_from_before_since(http: httpx.AsyncClient, since: int) -> None:
    thread_id, _ = await run_whole(http, "count", {"n": 1})
    assert await kept(http, thread_id, since=since) == []


@pytest.mark.api(
    "POST /threads/{thread_id}/stream/events",
    "200 waits for a thread that does not exist yet, and ends with the thread",
)
async def test_a_listener_may_come_before_the_thread_and_is_ended_with_it(http: httpx.AsyncClient) -> None:
    thread_id = str(uuid4())
    async with listening(http, thread_id) as heard:
        await start(http, thread_id, "count", {"n": 1})
        assert told(await heard.run())[-1] == completed("count")
        await http.delete(f"/threads/{thread_id}")
        await heard.until_ended()
    assert (await http.get(f"/threads/{thread_id}")).status_code == 404


async def test_a_cancelled_run_is_told_as_interrupted_and_leaves_its_thread_idle(http: httpx.AsyncClient) -> None:
    thread_id, gate = await new_thread(http), str(uuid4())
    async with listening(http, thread_id) as heard:
        run_id = await start(http, thread_id, "gated", {"n": 1, "gate": gate})
        await http.get(f"/gates/{gate}/reached")
        assert (await http.post(f"/threads/{thread_id}/runs/{run_id}/cancel?wait=1")).status_code == 200
        events = await heard.run()
    assert told(events)[-1] == ("lifecycle", [], {"event": "interrupted", "graph_name": "gated"})
    assert (await http.get(f"/threads/{thread_id}/runs/{run_id}")).json()["status"] == "interrupted"
    assert (await http.get(f"/threads/{thread_id}")).json()["status"] == "idle"
    assert (await http.get(f"/threads/{thread_id}/state")).json()["next"] == ["wait"]


async def test_a_rolled_back_run_is_told_live_and_then_forgotten(http: httpx.AsyncClient) -> None:
    thread_id, gate = await new_thread(http), str(uuid4())
    async with listening(http, thread_id) as heard:
        run_id = await start(http, thread_id, "gated", {"n": 1, "gate": gate})
        await http.get(f"/gates/{gate}/reached")
        await http.post(f"/threads/{thread_id}/runs/{run_id}/cancel?wait=1&action=rollback")
        last = (await heard.run())[-1]
        assert await kept(http, thread_id) == []
        await start(http, thread_id, "count", {"n": 1})
        following = (await heard.run(runs=2))[-1]
    assert last["params"]["data"]["event"] == "interrupted"
    assert [event["seq"] > last["seq"] for event in await kept(http, thread_id)] == [True] * 5
    assert following["seq"] > last["seq"]


async def test_whoever_hears_of_the_end_finds_the_run_ended(http: httpx.AsyncClient) -> None:
    for _ in range(5):
        thread_id = await new_thread(http)
        async with listening(http, thread_id, ["lifecycle"]) as heard:
            run_id = await start(http, thread_id, "count", {"n": 1})
            await heard.run()
            assert (await http.get(f"/threads/{thread_id}/runs/{run_id}")).json()["status"] == "success"
            assert (await http.get(f"/threads/{thread_id}")).json()["status"] == "idle"


async def test_a_run_of_the_older_endpoints_is_told_to_who_listens_already(http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(http)
    older = {"assistant_id": "ask", "input": {"n": 1}}
    await http.post(f"/threads/{thread_id}/runs/wait", json=older)
    assert await kept(http, thread_id) == []
    async with listening(http, thread_id) as heard:
        await http.post(f"/threads/{thread_id}/runs/wait", json=older)
        events = await heard.until(
            lambda events: on(events, "values")[-1:] == [{"n": 1, "log": []}] and len(events) > 4
        )
    assert [event["method"] for event in events] == ["lifecycle", "values", "input.requested", "lifecycle", "values"]
    assert "__interrupt__" not in on(events, "values")[-1]
    assert await kept(http, thread_id) == events


async def test_a_run_of_the_protocol_can_be_joined_by_the_older_endpoints(http: httpx.AsyncClient) -> None:
    thread_id, gate = await new_thread(http), str(uuid4())
    run_id = await start(http, thread_id, "gated", {"n": 1, "gate": gate})
    await http.get(f"/gates/{gate}/reached")
    async with http.stream("GET", f"/threads/{thread_id}/runs/{run_id}/stream") as answer:
        await http.post(f"/gates/{gate}/open")
        text = (await answer.aread()).decode()
    assert 'event: values\r\ndata: {"n":3,"gate":' in text
    assert (await http.get(f"/threads/{thread_id}/runs/{run_id}/join")).json()["log"] == ["add", "passed", "add"]


@pytest.mark.api(
    "POST /threads/{thread_id}/stream/events",
    "400 refuses bodies that are no JSON, and channels that are missing or unknown",
)
@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"{", "Invalid JSON body"),
        (b"", "Invalid JSON body"),
        (b"[]", "channels is required and must be a non-empty array"),
        (b"{}", "channels is required and must be a non-empty array"),
        (b'{"channels": "values"}', "channels is required and must be a non-empty array"),
        (b'{"channels": []}', "channels is required and must be a non-empty array"),
        (
            b'{"channels": ["values", 5, "debug", "custom:"]}',
            "channels contains unsupported entries: 5, debug, custom:.",
        ),
        (
            b'{"channels": [%b]}' % b",".join([b'"values"'] * 501),
            "channels contains unsupported entries: more than 500",
        ),
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


async def test_many_listeners_hear_the_same(http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(http)

    async def hear() -> list[Event]:
        async with listening(http, thread_id, OFFICIAL) as heard:
            return await heard.run()

    hearing = [asyncio.create_task(hear()) for _ in range(20)]
    await ended(http, thread_id, await start(http, thread_id, "nested", {"n": 1}))
    whole = await kept(http, thread_id)
    assert await asyncio.gather(*hearing) == [whole] * 20
