"""Every field of RunCreate has its effect (langgraph_api.md 4.1); those that are tested elsewhere are not repeated."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.api.langgraph.steering import Thread

LANGGRAPH_JSON = Path(__file__).parent / "runs_app" / "langgraph.json"
UNKNOWN = "0" * 32


async def events(http: httpx.AsyncClient, assistant_id: str, **fields: Any) -> list[str]:
    answer = await http.post("/runs/stream", json={"assistant_id": assistant_id, **fields})
    assert answer.status_code == 200, answer.text
    return [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]


async def test_config_and_metadata_reach_the_node(thread: Thread) -> None:
    config = {
        "tags": ["t"],
        "recursion_limit": 7,
        "max_concurrency": 3,
        "configurable": {"style": "loud"},
        "metadata": {"why": "config"},
    }
    given = [1, {"deep": None}]
    fields = {"config": config, "metadata": {"who": "me"}, "input": {"given": given}}
    answer = await thread.wait("shown", **fields)
    assert answer["seen"] == {
        "tags": ["t"],
        "recursion_limit": 7,
        "max_concurrency": 3,
        "metadata": {"who": "me", "why": "config", "graph_id": "shown"},
        "configurable": "loud",
        "given": given,
    }


async def test_a_recursion_limit_ends_the_run(thread: Thread) -> None:
    answer = await thread.wait("letters", input={}, config={"recursion_limit": 2})
    assert answer["__error__"]["error"] == "GraphRecursionError"
    assert (await thread.show())["status"] == "error"


@pytest.mark.parametrize(
    ("fields", "stopped", "next_nodes"),
    [
        ({"interrupt_before": ["b"]}, ["a"], ["b"]),
        ({"interrupt_before": "*"}, [], ["a"]),
        ({"interrupt_after": ["b"]}, ["a", "b"], ["c"]),
        ({"interrupt_after": "*"}, ["a"], ["b"]),
        ({"interrupt_before": ["nowhere"], "interrupt_after": ["nowhere"]}, ["a", "b", "c"], []),
    ],
)
async def test_breakpoints_stop_before_and_after_the_named_nodes(
    thread: Thread, fields: Any, stopped: list[str], next_nodes: list[str]
) -> None:
    assert (await thread.wait("letters", input={"log": []}, **fields))["log"] == stopped
    assert (await thread.state())["next"] == next_nodes
    (run,) = await thread.runs()
    assert run["status"] == "success"


async def test_a_command_updates_the_state_and_chooses_the_next_node(thread: Thread) -> None:
    await thread.wait("letters", input={}, interrupt_before=["b"])
    answer = await thread.wait("letters", command={"update": {"log": ["x"]}, "goto": "c"})
    assert answer["log"] == ["a", "x", "b", "c", "c"]


async def test_a_command_sends_an_input_to_a_node(thread: Thread) -> None:
    sent = {"goto": [{"node": "c", "input": {"log": []}}]}
    answer = await thread.wait("letters", input={"log": ["ignored"]}, command=sent)
    assert answer["log"][:2] == ["a", "c"]


async def test_a_run_continues_from_a_checkpoint_with_or_without_input(thread: Thread) -> None:
    await thread.wait("letters", input={})
    history = await thread.history()
    after_a = next(state for state in history if state["next"] == ["b"])["checkpoint"]
    start = {"checkpoint_id": after_a["checkpoint_id"], "checkpoint_ns": ""}
    assert (await thread.wait("letters", checkpoint=start))["log"] == ["a", "b", "c"]
    answer = await thread.wait("letters", checkpoint=start, input={"log": ["x"]})
    assert answer["log"] == ["a", "x", "a", "b", "c"]


async def test_a_fork_is_named_in_its_checkpoints_and_nowhere_in_its_stream(thread: Thread) -> None:
    await thread.wait("letters", input={})
    origin = (await thread.history())[1]["checkpoint"]["checkpoint_id"]
    body = {
        "assistant_id": "letters",
        "checkpoint_id": origin,
        "stream_mode": ["debug", "tasks", "checkpoints", "events"],
    }
    answer = await thread.post("/runs/stream", json=body)
    assert "event: checkpoints" in answer.text
    assert "forked_from" not in answer.text
    state: Any = await thread.state()
    assert state["metadata"]["checkpoint_id"] == origin
    assert "forked_from" not in state["metadata"]


@pytest.mark.api("POST /runs/stream", "200 in the requested modes, by default values")
@pytest.mark.parametrize(
    ("modes", "names"),
    [
        ([], ["values"] * 4),
        ("updates", ["updates"] * 3),
        (["tasks"], ["tasks"] * 6),
        (["updates", "values"], ["values", *["updates", "values"] * 3]),
    ],
)
async def test_the_requested_modes_are_streamed(http: httpx.AsyncClient, modes: Any, names: list[str]) -> None:
    assert await events(http, "letters", input={"log": []}, stream_mode=modes) == ["metadata", *names]


@pytest.mark.parametrize("subgraphs", [True, False])
async def test_subgraphs_are_streamed_on_request(http: httpx.AsyncClient, subgraphs: bool) -> None:
    names = await events(http, "outer", input={}, stream_mode="updates", stream_subgraphs=subgraphs)
    inner = [name for name in names if name.startswith("updates|inner:")]
    assert len(inner) == (3 if subgraphs else 0)
    assert names.count("updates") == 2


@pytest.mark.parametrize("query", [{"namespace": ""}, {"namespace": "none:such"}, {"namespace": '["", "none:such"]'}])
@pytest.mark.api("POST /runs/stream", "200 shows only the requested namespaces")
async def test_a_stream_shows_the_requested_namespaces(http: httpx.AsyncClient, query: dict[str, str]) -> None:
    body = {"assistant_id": "outer", "input": {}, "stream_mode": "updates", "stream_subgraphs": True}
    text = (await http.post("/runs/stream", json=body, params=query)).text
    assert "updates|inner" not in text
    assert text.count("event: updates") == (0 if query["namespace"] == "none:such" else 2)
    assert text.startswith("event: metadata")


async def test_one_subgraph_of_a_stream_can_be_joined(http: httpx.AsyncClient, thread: Thread) -> None:
    body = {"assistant_id": "outer", "input": {}, "stream_mode": "updates"}
    answer = await thread.post("/runs/stream", json={**body, "stream_subgraphs": True, "stream_resumable": True})
    path = answer.headers["location"]
    inner = next(line for line in answer.text.splitlines() if "|inner:" in line).partition("|")[2]
    joined = await http.get(path, params={"namespace": inner}, headers={"last-event-id": "-1"})
    assert joined.text.count("event: updates") == joined.text.count(f"event: updates|{inner}") == 3


@pytest.mark.parametrize(
    ("given", "durability", "checkpoints"),
    [
        ({"durability": "sync"}, "sync", 5),
        ({"durability": "async"}, "async", 5),
        ({"durability": "exit"}, "exit", 1),
        ({"checkpoint_during": False}, "exit", 1),
    ],
)
async def test_the_durability_decides_how_many_checkpoints_are_stored(
    thread: Thread, given: Any, durability: str, checkpoints: int
) -> None:
    await thread.wait("letters", input={}, **given)
    (run,) = await thread.runs()
    kwargs: Any = run
    assert kwargs["kwargs"]["durability"] == durability
    assert len(await thread.history()) == checkpoints


@pytest.mark.parametrize(
    ("resume", "reason"),
    [({UNKNOWN: "yes"}, "Unknown or already-consumed interrupt"), ({}, "The resume map names no interrupt")],
)
@pytest.mark.api("POST /threads/{thread_id}/runs/wait", "200 with an error for an answer nobody waits for, when strict")
async def test_only_a_strict_resume_refuses_an_unknown_interrupt(thread: Thread, resume: Any, reason: str) -> None:
    (question,) = (await thread.wait("asking", input={}))["__interrupt__"]
    answer = await thread.wait("asking", command={"resume": resume}, strict_resume=True)
    assert answer["__error__"]["error"] == "UnknownInterruptError"
    assert reason in answer["__error__"]["message"]
    shown: Any = await thread.show()
    assert (shown["status"], shown["values"]) == ("interrupted", {"log": ["a"]})
    ((waiting,),) = shown["interrupts"].values()
    assert (waiting["id"], waiting["value"]) == (question["id"], "first?")
    plain = await thread.wait("asking", command={"resume": {UNKNOWN: "yes"}}, strict_resume=False)
    assert plain["__interrupt__"] == [question]
    right = await thread.wait("asking", command={"resume": {question["id"]: "yes"}}, strict_resume=True)
    assert [interrupted["value"] for interrupted in right["__interrupt__"]] == ["second?"]


@pytest.mark.parametrize("end", ["/runs", "/runs/stream", "/runs/wait"])
async def test_an_answer_needs_the_thread_of_the_interrupt(http: httpx.AsyncClient, end: str) -> None:
    answer = await http.post(end, json={"assistant_id": "asking", "command": {"resume": "yes"}})
    assert (answer.status_code, answer.json()) == (400, {"detail": "You must provide a thread_id when resuming."})


async def test_a_run_whose_delay_has_passed_starts_at_once(thread: Thread) -> None:
    assert (await thread.wait("letters", input={}, after_seconds=-5))["log"] == ["a", "b", "c"]


@pytest.mark.parametrize(("on_completion", "shown"), [("keep", 5), ("delete", 0)])
async def test_checkpoints_of_a_temporary_thread_are_not_shown(
    http: httpx.AsyncClient, on_completion: str, shown: int
) -> None:
    body = {"assistant_id": "letters", "input": {}, "stream_mode": ["checkpoints", "debug"]}
    text = (await http.post("/runs/stream", json={**body, "on_completion": on_completion})).text
    assert text.count("event: checkpoints") == text.count('"type":"checkpoint"') == shown
    assert text.count('"type":"task_result"') == 3


async def test_writes_of_a_task_beside_an_interrupted_one_are_not_in_the_result(thread: Thread) -> None:
    command = {"goto": {"node": "a", "input": {}}}
    answer = await thread.wait("asking_at_once", command=command)
    assert (answer["log"], [interrupted["value"] for interrupted in answer["__interrupt__"]]) == ([], ["first?"])
    assert (await thread.state())["values"] == {"log": ["a"]}


async def test_a_run_that_continues_a_fork_shows_the_origin_as_the_state_does(
    sdk: LangGraphClient, thread: Thread
) -> None:
    await thread.wait("letters", input={})
    origin = (await thread.history())[2]["checkpoint"]["checkpoint_id"]
    await thread.wait("letters", checkpoint_id=origin, interrupt_before=["c"])
    state: Any = await thread.state()
    parts = [
        part.data
        async for part in sdk.runs.stream(thread.id, "letters", input=None, stream_mode=["checkpoints", "debug"])
        if part.event in ("checkpoints", "debug")
    ]
    first, twin = parts[0], parts[1]["payload"]
    for shown in (first["metadata"], twin["metadata"]):
        assert (shown["checkpoint_id"], shown["thread_id"]) == (origin, thread.id)
        assert shown == {**state["metadata"], **{name: shown[name] for name in ("run_id", "run_attempt")}}
        assert "forked_from" not in shown


async def test_the_run_shows_what_it_was_configured_with(http: httpx.AsyncClient, sdk: LangGraphClient) -> None:
    thread_id = (await sdk.threads.create(metadata={"of": "thread", "who": "thread"}))["thread_id"]
    config = {"run_name": "mine", "tags": ["t"], "configurable": {"style": "loud"}, "metadata": {"why": "config"}}
    body = {"assistant_id": "shown", "input": {}, "config": config, "metadata": {"who": "me"}, "durability": "exit"}
    run = (await http.post(f"/threads/{thread_id}/runs", json=body)).json()
    assert run["metadata"].items() >= {"of": "thread", "who": "me", "why": "config"}.items()
    assert run["kwargs"]["config"]["run_name"] == "mine"
    assert run["kwargs"]["context"] == {"style": "loud"}
    assert (run["kwargs"]["durability"], run["kwargs"]["checkpoint_during"]) == ("exit", True)
    stored = {name: item for name, item in config.items() if name != "configurable"}
    assert (await http.get(f"/threads/{thread_id}")).json()["config"] == {**stored, "configurable": {}}
    await sdk.runs.join(thread_id, run["run_id"])
