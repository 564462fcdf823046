"""The events of a run on each channel, and their order."""

from typing import Any

import httpx
import pytest

from tests.api.langgraph.protocol.listening import APP, contents, on, run_whole

LANGGRAPH_JSON = APP
EVERYTHING = ("values", "updates", "messages", "lifecycle", "input", "tasks", "custom", "checkpoints")


def running(graph: str) -> tuple[str, list[str], Any]:
    return ("lifecycle", [], {"event": "running", "graph_name": graph})


def completed(graph: str) -> tuple[str, list[str], Any]:
    return ("lifecycle", [], {"event": "completed", "graph_name": graph})


@pytest.mark.api("POST /threads/{thread_id}/stream/events", "200 sends lifecycle, values and interrupts in order")
async def test_a_run_has_events_from_running_to_completed(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "count", {"n": 1})
    assert contents(events) == [
        running("count"),
        ("values", [], {"n": 1, "log": []}),
        ("values", [], {"n": 2, "log": ["add"]}),
        ("values", [], {"n": 3, "log": ["add", "add"]}),
        completed("count"),
    ]


@pytest.mark.api("POST /threads/{thread_id}/stream/events", "200 streams messages as content blocks")
async def test_the_words_of_a_model_are_sent_block_by_block_and_stored_in_the_values(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "speak", {"messages": [{"role": "user", "content": "you there"}]})
    blocks = on(events, "messages")
    message = on(events, "values")[-1]["messages"][-1]
    assert blocks[0] == {"event": "message-start", "role": "ai", "id": message["id"]}
    assert [block["event"] for block in blocks] == [
        "message-start",
        "content-block-start",
        *["content-block-delta"] * 5,
        "content-block-finish",
        "message-finish",
    ]
    assert "".join(block["delta"]["text"] for block in blocks[2:7]) == "hello you there"
    assert message == {
        "type": "ai",
        "id": message["id"],
        "content": [{"type": "text", "text": "hello you there", "index": 0}],
        "response_metadata": {"output_version": "v1"},
    }
    assert set(on(events, "values")[0]["messages"][0]) == {"type", "content", "id"}


async def test_words_of_two_models_at_once_have_different_message_ids(http: httpx.AsyncClient) -> None:
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


async def test_events_of_subgraphs_have_their_namespaces_and_lifecycles(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "nested", {"n": 1})
    lives = [
        (steps, {"event": data["event"], "graph_name": data["graph_name"]})
        for method, steps, data in contents(events)
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
async def test_a_failure_has_events_of_the_subgraph_and_of_the_run(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "broken", {"n": 1})
    assert contents(events)[-2:] == [
        ("lifecycle", ["child"], {"event": "failed", "graph_name": "child", "error": "cannot go on"}),
        ("lifecycle", [], {"event": "failed", "graph_name": "broken", "error": "cannot go on"}),
    ]


async def test_an_interrupt_is_sent_before_the_end_of_the_run_and_the_values_after_it(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "ask", {"n": 1})
    interrupted = on(events, "input.requested")[0]
    assert contents(events)[-3:] == [
        ("input.requested", [], {"interrupt_id": interrupted["interrupt_id"], "payload": {"question": 1}}),
        ("lifecycle", [], {"event": "interrupted", "graph_name": "ask"}),
        ("values", [], {"n": 1, "log": []}),
    ]


async def test_two_interrupts_at_once_stop_the_run_once(http: httpx.AsyncClient) -> None:
    thread_id, events = await run_whole(http, "ask_both", {"n": 1})
    first, second = (interrupted["payload"] for interrupted in on(events, "input.requested"))
    assert (first, second["about"]["content"]) == ("first", "second")
    assert [data["event"] for data in on(events, "lifecycle")] == ["running", "interrupted"]
    thread = (await http.get(f"/threads/{thread_id}")).json()
    assert (thread["status"], len(thread["interrupts"])) == ("interrupted", 2)


async def test_an_interrupt_of_a_subgraph_is_sent_once_in_its_namespace(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "ask_inside", {"n": 1})
    interrupted = [(steps, data["payload"]) for method, steps, data in contents(events) if method == "input.requested"]
    assert interrupted == [(["child"], {"question": 1})]
    assert contents(events)[-1] == ("lifecycle", ["child"], {"event": "interrupted", "graph_name": "child"})


async def test_a_breakpoint_ends_a_run_without_an_interrupt(http: httpx.AsyncClient) -> None:
    thread_id, events = await run_whole(http, "stopping", {"n": 1})
    assert contents(events)[-1] == completed("stopping")
    assert (await http.get(f"/threads/{thread_id}")).json()["status"] == "interrupted"


@pytest.mark.api("POST /threads/{thread_id}/stream/events", "200 sends the other channels to clients that request them")
async def test_a_tool_call_has_events_from_its_start_to_its_end(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "tooled", {"messages": [{"role": "user", "content": "go"}]}, ["tools"])
    calls = sorted((data["tool_call_id"], data["event"]) for data in on(events, "tools"))
    starts_and_ends = [("call-1", "tool-finished"), ("call-1", "tool-started")]
    starts_and_ends += [("call-2", "tool-error"), ("call-2", "tool-started")]
    assert calls == starts_and_ends
    done = next(data for data in on(events, "tools") if data["event"] == "tool-finished")
    message = {"type": "tool", "id": None, "name": "add_up", "tool_call_id": "call-1", "artifact": None}
    assert done["output"] == {**message, "content": "3", "status": "success"}


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        ("updates", [{"add": {"n": 2, "log": ["add"]}}, {"again": {"n": 3, "log": ["add"]}}]),
        ("custom", [{"name": "progress", "payload": 1}, "adding"] * 2),
        ("custom:progress", [{"name": "progress", "payload": 1}] * 2),
        ("custom:other", []),
    ],
)
async def test_updates_and_custom_events_are_sent_to_their_subscribers(
    http: httpx.AsyncClient, channel: str, expected: list[Any]
) -> None:
    _, events = await run_whole(http, "count", {"n": 1}, [channel])
    assert on(events, channel.partition(":")[0]) == expected


async def test_a_task_has_events_at_its_start_and_its_end(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "nested", {"n": 1}, ["tasks"])
    names = [(steps, data["name"], "result" in data) for _, steps, data in contents(events)]
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
    assert [envelope["step"] for envelope in saved] == [-1, 0, 1, 2]
    assert [envelope["source"] for envelope in saved] == ["input", "loop", "loop", "loop"]
    assert [envelope["parent_id"] for envelope in saved[1:]] == [envelope["id"] for envelope in saved[:-1]]
    history = (await http.post(f"/threads/{thread_id}/history", json={"limit": 10})).json()
    assert [state["checkpoint"]["checkpoint_id"] for state in reversed(history)] == [save["id"] for save in saved]
    values = [state["values"] for state in reversed(history)][1:]
    assert values == on(events, "values")


async def test_a_subscription_to_all_channels_gets_each_step_of_a_plain_graph_once(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "count", {"n": 1}, EVERYTHING)
    assert {event["method"] for event in events} == {"values", "lifecycle"}


async def test_the_modes_that_a_graphs_transformers_require_are_streamed(http: httpx.AsyncClient) -> None:
    _, events = await run_whole(http, "telling", {"n": 1}, EVERYTHING)
    assert on(events, "updates") == [{"add": {"n": 2, "log": ["add"]}}]
    assert on(events, "custom") == [
        {"name": "echo", "payload": {"name": "progress", "payload": 1}},
        {"name": "progress", "payload": 1},
        {"name": "echo", "payload": "adding"},
        "adding",
    ]
