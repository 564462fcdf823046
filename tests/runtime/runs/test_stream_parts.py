"""Each stream mode gives its events under their names, in LangGraph's order (langgraph_api.md 6.1)."""

from itertools import pairwise
from typing import Any

from tests.runtime.runs.conftest import Bench
from toolweave.runtime.codec import loads

HELLO = {"messages": [{"role": "user", "content": "hello"}]}


async def stream(bench: Bench, graph_id: str, *modes: str, **fields: Any) -> list[tuple[str, Any]]:
    events = await bench.events(bench.run(graph_id, stream_mode=list(modes), **fields))
    parts = [(event.event, loads(event.data)) for event in events]
    assert parts[0][0] == "metadata"
    assert parts[0][1]["attempt"] == 1
    return parts[1:]


async def test_values_are_the_full_state_first_as_given_then_after_each_step(shared_bench: Bench) -> None:
    assert await stream(shared_bench, "counter", "values") == [
        ("values", {"n": 1, "log": []}),
        ("values", {"n": 2, "log": ["first"]}),
        ("values", {"n": 4, "log": ["first", "second"]}),
    ]


async def test_updates_name_the_node(shared_bench: Bench) -> None:
    assert await stream(shared_bench, "counter", "updates") == [
        ("updates", {"first": {"n": 2, "log": ["first"]}}),
        ("updates", {"second": {"n": 4, "log": ["second"]}}),
    ]


async def test_an_interrupt_shows_in_updates_and_as_a_last_values(shared_bench: Bench) -> None:
    parts = await stream(shared_bench, "asking", "values", "updates", input={"text": "ok?"})
    assert [name for name, _ in parts] == ["values", "updates", "values"]
    (question,) = parts[1][1]["__interrupt__"]
    assert (question["value"], question["response_schema"]) == ({"question": "ok?"}, None)
    assert parts[2][1]["__interrupt__"] == [question]


async def test_tasks_tell_start_and_end_and_name_an_error(shared_bench: Bench) -> None:
    parts = await stream(shared_bench, "failing", "tasks", input={"text": "kaboom"})
    assert [(name, data.get("name"), data.get("error")) for name, data in parts] == [
        ("tasks", "first", None),
        ("tasks", "first", None),
        ("tasks", "boom", None),
        ("tasks", "boom", {"error": "ValueError", "message": "kaboom"}),
        ("error", None, "ValueError"),
    ]


async def test_debug_checkpoints_carry_their_checkpoint_and_its_parent(shared_bench: Bench) -> None:
    parts = [data for _, data in await stream(shared_bench, "counter", "debug")]
    saved = [data["payload"] for data in parts if data["type"] == "checkpoint"]
    assert saved[0]["parent_checkpoint"] is None
    assert [payload["parent_checkpoint"] for payload in saved[1:]] == [payload["checkpoint"] for payload in saved[:-1]]
    assert set(saved[0]["checkpoint"]) == {"checkpoint_id", "thread_id", "checkpoint_ns"}


async def test_messages_give_metadata_once_and_then_what_is_there_so_far(shared_bench: Bench) -> None:
    parts = await stream(shared_bench, "echo", "messages", input=HELLO)
    assert [name for name, _ in parts] == ["messages/metadata"] + ["messages/partial"] * (len(parts) - 1)
    texts = [data[0]["content"] for _, data in parts[1:]]
    assert texts[-1] == "echo: hello"
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
    assert {data[0]["type"] for _, data in parts[1:]} == {"ai"}


async def test_both_message_modes_together_give_only_tuples(shared_bench: Bench) -> None:
    parts = await stream(shared_bench, "echo", "messages", "messages-tuple", input=HELLO)
    assert {name for name, _ in parts} == {"messages"}


async def test_events_enclose_the_other_modes(shared_bench: Bench) -> None:
    parts = await stream(shared_bench, "counter", "events", "values")
    assert parts[0][1]["event"] == "on_chain_start"
    assert parts[-1][1]["event"] == "on_chain_end"
    assert [data["n"] for name, data in parts if name == "values"] == [1, 2, 4]
    run_id = parts[0][1]["run_id"]
    assert not [
        data
        for name, data in parts
        if name == "events" and data["event"] == "on_chain_stream" and data["run_id"] == run_id
    ]


async def test_the_order_within_a_step_is_tasks_updates_values_checkpoints(shared_bench: Bench) -> None:
    modes = ("values", "updates", "tasks", "checkpoints")
    names = [name for name, _ in await stream(shared_bench, "counter", *modes)]
    step = ["tasks", "updates", "tasks", "values", "checkpoints"]
    assert names == ["checkpoints", "values", "checkpoints", *step, *step]
