"""A thread stays usable when its graph refuses what a request or a node wrote (langgraph_api.md 5, issue R-04)."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.langgraph.steering import Thread

LANGGRAPH_JSON = Path(__file__).parent / "apps" / "refusing" / "langgraph.json"
MALFORMED = [{"role": "zzz", "content": 5}]
BAD_CALL = {"role": "ai", "content": "", "tool_calls": [{"name": 5}]}
REMOVE_ALL = [{"type": "remove", "id": "__remove_all__", "content": ""}]
STEPPED = "00000000-0000-4000-8000-000000000036"
HELLO = {"messages": [{"role": "human", "content": "you"}]}

# A graph, an input that it takes, and a run that it refuses.
REFUSED_RUNS = {
    "a malformed message": ("talk", HELLO, {"input": {"messages": MALFORMED}}),
    "a number for messages": ("talk", HELLO, {"input": {"messages": 5}}),
    "a malformed tool call": ("talk", HELLO, {"input": {"messages": [BAD_CALL]}}),
    "a number for a list": ("log", {"n": 1}, {"input": {"log": 5}}),
    "a word for a typed number": ("typed", {"n": 1}, {"input": {"n": "many"}}),
    "a node that returns a malformed message": ("talk", HELLO, {"input": {"messages": "malformed"}}),
    "a subgraph's node that returns one": ("outer", HELLO, {"input": {"messages": "malformed"}}),
    "two nodes that write the same key": ("clash", {"n": 2}, {"input": {"n": 1}}),
    "a command with a malformed message": ("talk", HELLO, {"command": {"update": {"messages": MALFORMED}}}),
    "an answer with a malformed message": ("ask", HELLO, {"command": {"resume": "x", "update": {"messages": 5}}}),
    "an answer that is malformed": ("ask", HELLO, {"command": {"resume": "malformed"}}),
    "a command with a word for a number": ("typed", {"n": 1}, {"command": {"update": {"n": "x"}, "goto": "count"}}),
}
refused_runs = pytest.mark.parametrize(("graph", "taken", "refused"), REFUSED_RUNS.values(), ids=REFUSED_RUNS.keys())


@pytest.mark.requirement("R-04")
@pytest.mark.parametrize("begun", [True, False], ids=["on a used thread", "on a new thread"])
@refused_runs
async def test_a_refused_run_leaves_a_thread_that_can_be_read_and_run(
    thread: Thread, graph: str, taken: Any, refused: Any, begun: bool
) -> None:
    if begun:
        await thread.wait(graph, input=taken)
    failed = await thread.wait(graph, **refused)
    assert failed["__error__"]["error"]
    assert failed["__error__"]["message"]
    assert (await thread.show())["status"] == "error"
    await thread.state()
    await thread.state(subgraphs=True)
    await thread.history()
    assert "__error__" not in await thread.wait(graph, input=taken)
    await thread.state()
    await thread.history()


@pytest.mark.requirement("R-04")
@refused_runs
async def test_a_refused_run_leaves_a_thread_that_can_be_updated(
    thread: Thread, graph: str, taken: Any, refused: Any
) -> None:
    await thread.wait(graph, input=taken)
    before = (await thread.state())["values"]
    await thread.wait(graph, **refused)
    node = {"talk": "answer", "ask": "answer", "outer": "inner", "log": "note", "clash": "set_number"}
    answer = await thread.post("/state", json={"values": taken, "as_node": node.get(graph, "count")})
    assert answer.status_code == 200, answer.text
    after = (await thread.state())["values"]
    assert set(after) == set(before)
    assert "__error__" not in await thread.wait(graph, input=taken)


async def test_a_refused_task_shows_its_error_and_runs_again(thread: Thread) -> None:
    await thread.wait("talk", input={"messages": "malformed"})
    state = await thread.state()
    errors = {task["name"]: task["error"] for task in state["tasks"]}
    assert "Unexpected message type" in errors["answer"]
    assert errors["beside"] is None
    assert [message["content"] for message in state["values"]["messages"]] == ["malformed", "beside"]
    assert state["next"] == ["answer"]


async def test_a_refused_command_leaves_the_thread_as_it_was(thread: Thread) -> None:
    await thread.wait("ask", input=HELLO)
    before = await thread.state()
    await thread.wait("ask", command={"resume": "x", "update": {"messages": MALFORMED}})
    assert await thread.state() == before
    answered = await thread.wait("ask", command={"resume": "x"})
    assert [message["content"] for message in answered["messages"]] == ["you", "x", "hello x"]


async def test_writes_of_another_resumed_task_are_stored_when_one_task_is_refused(thread: Thread) -> None:
    await thread.wait("shop", input={"log": []})
    interrupted = {task["name"]: task["interrupts"][0]["id"] for task in (await thread.state())["tasks"]}
    await thread.wait("shop", command={"resume": {interrupted["pay"]: ["paid"], interrupted["book"]: 5}})
    state = await thread.state()
    assert (state["values"], state["next"]) == ({"log": ["paid"]}, ["book"])


@pytest.mark.requirement("R-04")
async def test_a_cancelled_run_with_a_refused_task_leaves_a_thread_that_can_be_read(
    http: httpx.AsyncClient, thread: Thread
) -> None:
    run = {"assistant_id": "talk", "input": {"messages": "malformed, and never done"}, "stream_mode": "updates"}
    async with http.stream("POST", f"/threads/{thread.id}/runs/stream", json=run) as streamed:
        async for line in streamed.aiter_lines():
            if "answer" in line:
                await http.post(f"{streamed.headers['content-location']}/cancel", params={"wait": True})
    assert (await thread.state())["next"] == ["answer", "beside"]


REFUSED_UPDATES = {
    "a malformed message": ("ask", {"values": {"messages": MALFORMED}, "as_node": "question"}),
    "a number for messages": ("ask", {"values": {"messages": 5}, "as_node": "question"}),
    "no values where the task is next": ("ask", {"values": {"messages": [BAD_CALL]}, "as_node": "question"}),
    "a malformed message as the first step": ("ask", {"values": {"messages": 5}, "as_node": "__start__"}),
    "a number for a list": ("log", {"values": {"log": 5}, "as_node": "note"}),
    "a word for a typed number": ("typed", {"values": {"n": "x"}, "as_node": "__start__"}),
    "an edge that meets an empty list": ("agent", {"values": {"messages": REMOVE_ALL}, "as_node": "answer"}),
    "an edge that raises an error of its own": ("edges", {"values": {"n": 13}, "as_node": "note"}),
}


@pytest.mark.requirement("R-04")
@pytest.mark.api("POST /threads/{thread_id}/state", "400 the graph does not take the update")
@pytest.mark.parametrize(("graph", "update"), REFUSED_UPDATES.values(), ids=REFUSED_UPDATES.keys())
async def test_a_refused_update_is_400_and_leaves_the_thread_as_it_was(thread: Thread, graph: str, update: Any) -> None:
    taken = {"n": 1} if graph in ("log", "typed", "edges") else HELLO
    await thread.wait(graph, input=taken)
    state, history = await thread.state(), await thread.history()
    for _ in range(2):
        answer = await thread.post("/state", json=update)
        assert answer.status_code == 400
        assert answer.json()["detail"]
        assert (await thread.state(), await thread.history()) == (state, history)
    assert "__error__" not in await thread.wait(graph, input=taken)


async def test_an_error_of_a_graph_is_named_in_the_refusal(thread: Thread) -> None:
    await thread.sdk.threads.update(thread.id, metadata={"graph_id": "edges"})
    answer = await thread.post("/state", json={"values": {"n": 13}, "as_node": "note"})
    assert answer.json()["detail"] == "The graph refused the state update: OddError: thirteen is refused"


async def test_a_refused_superstep_leaves_what_the_earlier_ones_wrote(http: httpx.AsyncClient) -> None:
    updates = [{"values": {"n": 1}, "as_node": "__input__"}, {"values": {"n": 2}, "as_node": "count"}]
    steps = [{"updates": [update]} for update in (*updates, {"values": {"n": "x"}, "as_node": "__start__"})]
    body = {"thread_id": STEPPED, "metadata": {"graph_id": "typed"}, "supersteps": steps}
    assert (await http.post("/threads", json=body)).status_code == 400
    state = (await http.get(f"/threads/{STEPPED}/state")).json()
    assert state["values"] == {"n": 2}
    answer = await http.post(f"/threads/{STEPPED}/runs/wait", json={"assistant_id": "typed", "input": {"n": 5}})
    assert answer.json() == {"n": 6}


@pytest.mark.parametrize(
    ("graph", "method", "params"),
    [
        ("talk", "run.start", {"assistant_id": "talk", "input": {"messages": MALFORMED}}),
        ("ask", "input.respond", {"response": "malformed"}),
        ("ask", "input.respond", {"response": "x", "update": {"messages": 5}}),
    ],
)
async def test_a_refused_command_of_the_newer_protocol_leaves_a_readable_thread(
    http: httpx.AsyncClient, thread: Thread, graph: str, method: str, params: dict[str, Any]
) -> None:
    await thread.wait(graph, input=HELLO)
    for waiting in (await thread.state())["interrupts"]:
        params = {**params, "interrupt_id": waiting["id"]}
    path = f"/threads/{thread.id}"
    answer = (await http.post(f"{path}/commands", json={"id": 1, "method": method, "params": params})).json()
    assert answer["type"] == "success"
    newest = (await http.get(f"{path}/runs")).json()[0]["run_id"]
    await http.get(f"{path}/runs/{newest}/join")
    assert (await http.get(f"{path}/runs/{newest}")).json()["status"] == "error"
    await thread.state()
    await thread.history()
    assert "__error__" not in await thread.wait(graph, input=HELLO)
