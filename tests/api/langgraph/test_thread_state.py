"""Thread states are read, searched and written through the graph (langgraph_api.md 2.2, 4, 5.15)."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError, ConflictError, NotFoundError

from tests.api.langgraph.steering import Thread

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
ON_POSTGRESQL = True
NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.mark.api("GET /threads/{thread_id}/state", "200 gives an empty state for a new thread")
@pytest.mark.api("POST /threads/{thread_id}/history", "200 gives nothing for a new thread")
async def test_a_new_thread_has_an_empty_state(thread: Thread) -> None:
    assert (await thread.get("/state")).json() == {
        "values": {},
        "next": [],
        "tasks": [],
        "metadata": None,
        "created_at": None,
        "checkpoint": None,
        "parent_checkpoint": None,
        "interrupts": [],
        "checkpoint_id": None,
        "parent_checkpoint_id": None,
    }
    assert await thread.history() == []


@pytest.mark.api("GET /threads/{thread_id}/state", "200 names the checkpoint and the run")
async def test_a_state_names_its_checkpoint_and_its_run(thread: Thread) -> None:
    await thread.wait("steps", input={"n": 1})
    state: Any = await thread.state()
    (run,) = await thread.runs()
    assert (state["values"], state["next"], state["tasks"]) == ({"n": 4, "log": ["add", "double"]}, [], [])
    assert state["checkpoint"] == {"thread_id": thread.id, "checkpoint_ns": "", "checkpoint_id": state["checkpoint_id"]}
    assert state["parent_checkpoint"]["checkpoint_id"] == state["parent_checkpoint_id"]
    named = {"source": "loop", "step": 2, "thread_id": thread.id, "run_id": run["run_id"], "graph_id": "steps"}
    assert state["metadata"].items() >= named.items()


@pytest.mark.api("GET /threads/{thread_id}/state", "200 shows tasks with their interrupts")
async def test_a_waiting_task_shows_its_interrupt(thread: Thread) -> None:
    await thread.wait("ask", input={"n": 5})
    state: Any = await thread.state()
    (task,) = state["tasks"]
    (interrupt,) = task["interrupts"]
    assert interrupt == {"id": interrupt["id"], "value": {"question": 5}}
    assert task == {
        "id": task["id"],
        "name": "ask_human",
        "path": ["__pregel_pull", "ask_human"],
        "error": None,
        "interrupts": [interrupt],
        "checkpoint": None,
        "state": None,
        "result": None,
    }
    assert (state["next"], state["interrupts"]) == (["ask_human"], [interrupt])
    assert (await thread.show())["interrupts"] == {task["id"]: [interrupt]}


@pytest.mark.api("GET /threads/{thread_id}/state", "200 shows tasks with their errors")
async def test_a_failed_task_shows_its_error(thread: Thread) -> None:
    await thread.wait("broken", input={"n": 1})
    state: Any = await thread.state()
    assert [task["error"] for task in state["tasks"]] == ["ValueError('cannot go on from 2')"]


@pytest.mark.api("GET /threads/{thread_id}/state", "200 shows the states of subgraphs on request")
async def test_a_subgraph_shows_where_it_keeps_its_state_or_the_state_itself(thread: Thread) -> None:
    await thread.wait("nested", input={"n": 1}, interrupt_before=["inner"])
    flat: Any = await thread.state()
    deep: Any = await thread.state(subgraphs=True)
    where = {"thread_id": thread.id, "checkpoint_ns": f"inner:{flat['tasks'][0]['id']}"}
    assert (flat["tasks"][0]["checkpoint"], flat["tasks"][0]["state"]) == (where, None)
    assert deep["tasks"][0]["state"]["values"] == {}


@pytest.mark.api("GET /threads/{thread_id}/state/{checkpoint_id}", "200 gives the state at a checkpoint")
@pytest.mark.api("GET /threads/{thread_id}/state/{checkpoint_id}", "200 gives an empty state for an unknown checkpoint")
@pytest.mark.api("POST /threads/{thread_id}/state/checkpoint", "200 gives the state at a checkpoint, or the newest")
async def test_a_state_is_read_at_any_checkpoint(thread: Thread) -> None:
    await thread.wait("steps", input={"n": 1})
    history: Any = await thread.history()
    earlier = history[1]
    by_id = await thread.state(checkpoint_id=earlier["checkpoint_id"])
    by_checkpoint = await thread.state(checkpoint=earlier["checkpoint"])
    assert by_id["values"] == by_checkpoint["values"] == {"n": 2, "log": ["add"]}
    assert by_checkpoint == earlier
    newest = await thread.post("/state/checkpoint", json={"checkpoint": {"thread_id": NOBODY}})
    assert newest.json() == history[0]
    unknown: Any = await thread.state(checkpoint_id=NOBODY)
    assert (unknown["values"], unknown["metadata"]) == ({}, None)
    assert unknown["checkpoint"] == {"checkpoint_id": NOBODY, "thread_id": thread.id}


@pytest.mark.api("POST /threads/{thread_id}/history", "200 gives the states newest first, one by default")
@pytest.mark.api("GET /threads/{thread_id}/history", "200 gives the states newest first, one by default")
@pytest.mark.api("POST /threads/{thread_id}/history", "200 filters by checkpoint metadata")
@pytest.mark.api("POST /threads/{thread_id}/history", "422 bad thread id, limit or filter")
async def test_the_history_is_newest_first_and_limited_and_filtered(http: httpx.AsyncClient, thread: Thread) -> None:
    await thread.wait("steps", input={"n": 1})
    history: Any = await thread.history()
    assert [state["metadata"]["step"] for state in history] == [2, 1, 0, -1]
    path = f"/threads/{thread.id}/history"
    assert (await http.post(path, json={})).json() == (await http.get(path)).json() == history[:1]
    assert (await http.get(path, params={"limit": 2})).json() == history[:2]
    found = (await http.post(path, json={"limit": 10, "metadata": {"source": "loop", "step": 1}})).json()
    assert [state["values"] for state in found] == [{"n": 2, "log": ["add"]}]
    for metadata in ({"a'b": 1}, {"": 1}, {"step') OR 1=1 --": 1}):
        refused = await http.post(path, json={"metadata": metadata})
        assert refused.status_code == 422
        assert refused.json()["detail"].startswith("Invalid history filter")


@pytest.mark.api("POST /threads/{thread_id}/history", "200 understands before as an id, a checkpoint and a config")
@pytest.mark.api("GET /threads/{thread_id}/history", "200 gives the states before a checkpoint")
async def test_before_is_understood_in_every_form_that_clients_send(http: httpx.AsyncClient, thread: Thread) -> None:
    await thread.wait("steps", input={"n": 1})
    history: Any = await thread.history()
    checkpoint = history[1]["checkpoint"]
    path = f"/threads/{thread.id}/history"
    for before in (checkpoint["checkpoint_id"], checkpoint, {"configurable": checkpoint}):
        assert (await http.post(path, json={"limit": 10, "before": before})).json() == history[2:]
    by_query = await http.get(path, params={"limit": 10, "before": checkpoint["checkpoint_id"]})
    assert by_query.json() == history[2:]


@pytest.mark.api("POST /threads/{thread_id}/state", "200 writes on top of the newest state")
async def test_an_update_writes_on_top_of_the_newest_state(thread: Thread) -> None:
    await thread.wait("steps", input={"n": 1})
    written: Any = await thread.update_state({"n": 100, "log": ["by hand"]})
    assert written["checkpoint"] == written["configurable"]
    assert written["checkpoint"]["checkpoint_id"] == written["checkpoint_id"]
    state: Any = await thread.state()
    assert (state["checkpoint_id"], state["metadata"]["source"]) == (written["checkpoint_id"], "update")
    assert set(state["metadata"]) == {"source", "step", "parents", "graph_id", "thread_id"}
    shown = await thread.show()
    assert (shown["status"], shown["values"]) == ("idle", {"n": 100, "log": ["add", "double", "by hand"]})


@pytest.mark.api("POST /threads/{thread_id}/state", "200 writes as a node, which decides what comes next")
async def test_an_update_as_a_node_decides_what_comes_next(thread: Thread) -> None:
    await thread.wait("steps", input={"n": 1})
    await thread.update_state({"n": 7}, as_node="add")
    assert (await thread.state())["next"] == ["double"]
    assert (await thread.show())["status"] == "interrupted"
    assert (await thread.wait("steps", input=None))["n"] == 14


@pytest.mark.api("POST /threads/{thread_id}/state", "200 forks from an earlier checkpoint")
@pytest.mark.api("POST /threads/{thread_id}/state", "404 unknown thread or checkpoint")
async def test_an_update_forks_from_an_earlier_checkpoint_and_not_from_an_unknown_one(thread: Thread) -> None:
    await thread.wait("steps", input={"n": 1})
    history: Any = await thread.history()
    with pytest.raises(NotFoundError, match=f"Checkpoint {NOBODY} not found"):
        await thread.update_state({"n": 1}, checkpoint_id=NOBODY)
    assert await thread.state() == history[0]
    base = history[1]["checkpoint_id"]
    await thread.update_state({"n": 55}, checkpoint_id=base)
    state: Any = await thread.state()
    assert (state["values"], state["parent_checkpoint_id"]) == ({"n": 55, "log": ["add"]}, base)
    assert state["metadata"]["checkpoint_id"] == base


@pytest.mark.api("POST /threads/{thread_id}/state", "400 the thread has no graph")
async def test_an_update_needs_a_graph(sdk: LangGraphClient, thread: Thread) -> None:
    with pytest.raises(BadRequestError, match="has no assigned graph ID"):
        await thread.update_state({"n": 1})
    named = (await sdk.threads.create(graph_id="steps"))["thread_id"]
    await sdk.threads.update_state(named, {"n": 1}, as_node="add")
    assert (await sdk.threads.get_state(named))["next"] == ["double"]
    retired = (await sdk.threads.create(graph_id="retired"))["thread_id"]
    with pytest.raises(NotFoundError, match="Graph 'retired' not found"):
        await sdk.threads.get_state(retired)


@pytest.mark.api("POST /threads/{thread_id}/state", "400 the graph does not take the update")
async def test_an_update_that_the_graph_does_not_take_is_refused_with_the_reason(thread: Thread) -> None:
    await thread.wait("steps", input={"n": 1})
    for body, reason in (
        ({"values": {"n": 1}, "as_node": "zzz"}, "Node zzz does not exist"),
        ({"values": {"log": 5}}, "can only concatenate list"),
        ({"values": [1]}, "Expected dict, got [1]"),
        ({"values": {"n": 1}, "checkpoint": {"checkpoint_ns": "nope:1"}}, "Subgraph nope not found"),
    ):
        refused = await thread.post("/state", json=body)
        assert refused.status_code == 400
        assert reason in refused.json()["detail"]


@pytest.mark.api("POST /threads/{thread_id}/state", "409 a run is executing")
async def test_an_update_of_a_running_thread_is_refused_without_waiting(
    http: httpx.AsyncClient, thread: Thread
) -> None:
    run = await thread.create_run("gated", input={"gate": "update"})
    await http.get("/gates/update/reached")
    with pytest.raises(ConflictError, match="has in-flight runs"):
        await thread.update_state({"n": 1}, as_node="add")
    await http.post("/gates/update/open")
    await thread.join(run["run_id"])


@pytest.mark.api("GET /threads/{thread_id}/state", "200 shows only the fields that are selected")
@pytest.mark.api("POST /threads/{thread_id}/history", "200 shows only the fields that are selected")
async def test_only_what_is_selected_is_shown(http: httpx.AsyncClient, thread: Thread) -> None:
    await thread.wait("steps", input={"n": 1})
    path = f"/threads/{thread.id}"
    whole: Any = await thread.state()
    part = {"values": {"log": ["add", "double"]}, "next": []}
    select = ["values.log", "next", "values.nothing"]
    by_id = f"{path}/state/{whole['checkpoint_id']}"
    answers = [
        await http.get(f"{path}/state", params={"select": select}),
        await http.get(by_id, params={"select": select}),
        await http.post(f"{path}/state/checkpoint", json={"checkpoint": whole["checkpoint"], "select": select}),
    ]
    assert [answer.json() for answer in answers] == [part] * 3
    histories = [
        await http.get(f"{path}/history", params={"select": select}),
        await http.post(f"{path}/history", json={"select": select}),
    ]
    assert [answer.json() for answer in histories] == [[part]] * 2
    everything = await http.post(f"{path}/history", json={"select": []})
    assert everything.json() == [whole]
    whole_values = await http.get(f"{path}/state", params={"select": ["values", "values.log"]})
    assert whole_values.json() == {"values": whole["values"]}


@pytest.mark.api("POST /threads/{thread_id}/history", "200 gives the states of a subgraph's namespace")
async def test_the_history_of_a_subgraph_is_found_by_its_namespace(thread: Thread) -> None:
    await thread.wait("nested", input={"n": 1})
    history: Any = await thread.history()
    tasks = [task for state in history for task in state["tasks"] if task["name"] == "inner"]
    assert [task["result"] for task in tasks] == [{"n": 4, "log": ["add", "double"]}]
    namespace = f"inner:{tasks[0]['id']}"
    checkpoint = {"checkpoint_ns": namespace}
    inner = (await thread.post("/history", json={"limit": 10, "checkpoint": checkpoint})).json()
    assert [state["metadata"]["step"] for state in inner] == [1, 0, -1]
    assert {state["checkpoint"]["checkpoint_ns"] for state in inner} == {namespace}
    assert {state["metadata"]["checkpoint_ns"] for state in inner} == {namespace}
    assert inner[0]["metadata"]["checkpoint_map"] == inner[0]["metadata"]["parents"]
    assert inner[1]["tasks"][0]["result"] == {"n": 4, "log": ["double"]}
    newest = await thread.post("/state/checkpoint", json={"checkpoint": checkpoint})
    assert newest.json() == inner[0]
