"""The events of several stream modes come in LangGraph's order (langgraph_api.md 6.1)."""

from typing import Any

from tests.runtime.runs.conftest import Bench
from toolweave.runtime.codec import loads


async def stream(bench: Bench, graph_id: str, *modes: str) -> list[tuple[str, Any]]:
    events = await bench.events(bench.run(graph_id, stream_mode=list(modes)))
    parts = [(event.event, loads(event.data)) for event in events]
    assert parts[0][0] == "metadata"
    assert parts[0][1]["attempt"] == 1
    return parts[1:]


async def test_debug_events_of_checkpoints_have_the_ids_of_the_checkpoint_and_its_parent(shared_bench: Bench) -> None:
    parts = [data for _, data in await stream(shared_bench, "counter", "debug")]
    saved = [data["payload"] for data in parts if data["type"] == "checkpoint"]
    assert saved[0]["parent_checkpoint"] is None
    assert [payload["parent_checkpoint"] for payload in saved[1:]] == [payload["checkpoint"] for payload in saved[:-1]]
    assert set(saved[0]["checkpoint"]) == {"checkpoint_id", "thread_id", "checkpoint_ns"}


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
