"""Thread states are read, searched and written through the graph (langgraph_api.md 2.2, 4, 5.15)."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError, ConflictError, NotFoundError

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
NOBODY = "00000000-0000-4000-8000-000000000000"


async def thread_after_steps(sdk: LangGraphClient, n: int = 1) -> str:
    thread_id = (await sdk.threads.create())["thread_id"]
    await sdk.runs.wait(thread_id, "steps", input={"n": n})
    return thread_id


@pytest.mark.api("GET /threads/{thread_id}/state", "200 gives an empty state for a new thread")
@pytest.mark.api("POST /threads/{thread_id}/history", "200 gives nothing for a new thread")
async def test_a_new_thread_has_an_empty_state(http: httpx.AsyncClient, sdk: LangGraphClient, thread_id: str) -> None:
    assert (await http.get(f"/threads/{thread_id}/state")).json() == {
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
    assert await sdk.threads.get_history(thread_id) == []


@pytest.mark.api("GET /threads/{thread_id}/state", "200 names the checkpoint and the run")
async def test_a_state_names_its_checkpoint_and_its_run(sdk: LangGraphClient) -> None:
    thread_id = await thread_after_steps(sdk)
    state: Any = await sdk.threads.get_state(thread_id)
    (run,) = await sdk.runs.list(thread_id)
    assert (state["values"], state["next"], state["tasks"]) == ({"n": 4, "log": ["add", "double"]}, [], [])
    assert state["checkpoint"] == {
        "thread_id": thread_id,
        "checkpoint_ns": "",
        "checkpoint_id": state["checkpoint_id"],
    }
    assert state["parent_checkpoint"]["checkpoint_id"] == state["parent_checkpoint_id"]
    named = {"source": "loop", "step": 2, "thread_id": thread_id, "run_id": run["run_id"], "graph_id": "steps"}
    assert state["metadata"].items() >= named.items()


@pytest.mark.api("GET /threads/{thread_id}/state", "200 shows tasks with their interrupts")
async def test_a_waiting_task_shows_its_interrupt(sdk: LangGraphClient, thread_id: str) -> None:
    await sdk.runs.wait(thread_id, "ask", input={"n": 5})
    state: Any = await sdk.threads.get_state(thread_id)
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
    assert (await sdk.threads.get(thread_id))["interrupts"] == {task["id"]: [interrupt]}


@pytest.mark.api("GET /threads/{thread_id}/state", "200 shows tasks with their errors")
async def test_a_failed_task_shows_its_error(sdk: LangGraphClient, thread_id: str) -> None:
    await sdk.runs.wait(thread_id, "broken", input={"n": 1}, raise_error=False)
    state: Any = await sdk.threads.get_state(thread_id)
    assert [task["error"] for task in state["tasks"]] == ["ValueError('cannot go on from 2')"]


@pytest.mark.api("GET /threads/{thread_id}/state", "200 shows the states of subgraphs when asked to")
async def test_a_subgraph_shows_where_it_keeps_its_state_or_the_state_itself(
    sdk: LangGraphClient, thread_id: str
) -> None:
    await sdk.runs.wait(thread_id, "nested", input={"n": 1}, interrupt_before=["inner"])
    flat: Any = await sdk.threads.get_state(thread_id)
    deep: Any = await sdk.threads.get_state(thread_id, subgraphs=True)
    where = {"thread_id": thread_id, "checkpoint_ns": f"inner:{flat['tasks'][0]['id']}"}
    assert (flat["tasks"][0]["checkpoint"], flat["tasks"][0]["state"]) == (where, None)
    assert deep["tasks"][0]["state"]["values"] == {}


@pytest.mark.api("GET /threads/{thread_id}/state/{checkpoint_id}", "200 gives the state at a checkpoint")
@pytest.mark.api("GET /threads/{thread_id}/state/{checkpoint_id}", "200 gives an empty state for an unknown checkpoint")
@pytest.mark.api("POST /threads/{thread_id}/state/checkpoint", "200 gives the state at a checkpoint, or the newest")
async def test_a_state_is_read_at_any_checkpoint(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await thread_after_steps(sdk)
    history: Any = await sdk.threads.get_history(thread_id)
    earlier = history[1]
    by_id = await sdk.threads.get_state(thread_id, checkpoint_id=earlier["checkpoint_id"])
    by_checkpoint = await sdk.threads.get_state(thread_id, checkpoint=earlier["checkpoint"])
    assert by_id["values"] == by_checkpoint["values"] == {"n": 2, "log": ["add"]}
    assert by_checkpoint == earlier
    newest = await http.post(f"/threads/{thread_id}/state/checkpoint", json={"checkpoint": {"thread_id": NOBODY}})
    assert newest.json() == history[0]
    unknown: Any = await sdk.threads.get_state(thread_id, checkpoint_id=NOBODY)
    assert (unknown["values"], unknown["metadata"]) == ({}, None)
    assert unknown["checkpoint"] == {"checkpoint_id": NOBODY, "thread_id": thread_id}


@pytest.mark.api("POST /threads/{thread_id}/history", "200 gives the states newest first, one by default")
@pytest.mark.api("GET /threads/{thread_id}/history", "200 gives the states newest first, one by default")
@pytest.mark.api("POST /threads/{thread_id}/history", "200 filters by checkpoint metadata")
@pytest.mark.api("POST /threads/{thread_id}/history", "422 bad thread id, limit or filter")
async def test_the_history_is_newest_first_and_limited_and_filtered(
    sdk: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread_id = await thread_after_steps(sdk)
    history: Any = await sdk.threads.get_history(thread_id)
    assert [state["metadata"]["step"] for state in history] == [2, 1, 0, -1]
    path = f"/threads/{thread_id}/history"
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
async def test_before_is_understood_in_every_form_that_clients_send(
    sdk: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread_id = await thread_after_steps(sdk)
    history: Any = await sdk.threads.get_history(thread_id)
    checkpoint = history[1]["checkpoint"]
    path = f"/threads/{thread_id}/history"
    for before in (checkpoint["checkpoint_id"], checkpoint, {"configurable": checkpoint}):
        assert (await http.post(path, json={"limit": 10, "before": before})).json() == history[2:]
    by_query = await http.get(path, params={"limit": 10, "before": checkpoint["checkpoint_id"]})
    assert by_query.json() == history[2:]


@pytest.mark.api("POST /threads/{thread_id}/state", "200 writes on top of the newest state")
async def test_an_update_writes_on_top_of_the_newest_state(sdk: LangGraphClient) -> None:
    thread_id = await thread_after_steps(sdk)
    written: Any = await sdk.threads.update_state(thread_id, {"n": 100, "log": ["by hand"]})
    assert written["checkpoint"] == written["configurable"]
    assert written["checkpoint"]["checkpoint_id"] == written["checkpoint_id"]
    state: Any = await sdk.threads.get_state(thread_id)
    assert (state["checkpoint_id"], state["metadata"]["source"]) == (written["checkpoint_id"], "update")
    assert set(state["metadata"]) == {"source", "step", "parents", "graph_id", "thread_id"}
    thread = await sdk.threads.get(thread_id)
    assert (thread["status"], thread["values"]) == ("idle", {"n": 100, "log": ["add", "double", "by hand"]})


@pytest.mark.api("POST /threads/{thread_id}/state", "200 writes as a node, which decides what comes next")
async def test_an_update_as_a_node_decides_what_comes_next(sdk: LangGraphClient) -> None:
    thread_id = await thread_after_steps(sdk)
    await sdk.threads.update_state(thread_id, {"n": 7}, as_node="add")
    assert (await sdk.threads.get_state(thread_id))["next"] == ["double"]
    assert (await sdk.threads.get(thread_id))["status"] == "interrupted"
    assert (await sdk.runs.wait(thread_id, "steps", input=None))["n"] == 14  # type: ignore[call-overload]


@pytest.mark.api("POST /threads/{thread_id}/state", "200 forks from an earlier checkpoint")
@pytest.mark.api("POST /threads/{thread_id}/state", "404 unknown thread or checkpoint")
async def test_an_update_forks_from_an_earlier_checkpoint_and_not_from_an_unknown_one(sdk: LangGraphClient) -> None:
    thread_id = await thread_after_steps(sdk)
    history: Any = await sdk.threads.get_history(thread_id)
    with pytest.raises(NotFoundError, match=f"Checkpoint {NOBODY} not found"):
        await sdk.threads.update_state(thread_id, {"n": 1}, checkpoint_id=NOBODY)
    assert await sdk.threads.get_state(thread_id) == history[0]
    base = history[1]["checkpoint_id"]
    await sdk.threads.update_state(thread_id, {"n": 55}, checkpoint_id=base)
    state: Any = await sdk.threads.get_state(thread_id)
    assert (state["values"], state["parent_checkpoint_id"]) == ({"n": 55, "log": ["add"]}, base)
    assert state["metadata"]["checkpoint_id"] == base


@pytest.mark.api("POST /threads/{thread_id}/state", "400 the thread has no graph")
async def test_an_update_needs_a_graph(sdk: LangGraphClient, thread_id: str) -> None:
    with pytest.raises(BadRequestError, match="has no assigned graph ID"):
        await sdk.threads.update_state(thread_id, {"n": 1})
    named = (await sdk.threads.create(graph_id="steps"))["thread_id"]
    await sdk.threads.update_state(named, {"n": 1}, as_node="add")
    assert (await sdk.threads.get_state(named))["next"] == ["double"]
    retired = (await sdk.threads.create(graph_id="retired"))["thread_id"]
    with pytest.raises(NotFoundError, match="Graph 'retired' not found"):
        await sdk.threads.get_state(retired)


@pytest.mark.api("POST /threads/{thread_id}/state", "400 the graph does not take the update")
async def test_an_update_that_the_graph_does_not_take_is_refused_with_the_reason(
    http: httpx.AsyncClient, sdk: LangGraphClient
) -> None:
    thread_id = await thread_after_steps(sdk)
    for body, reason in (
        ({"values": {"n": 1}, "as_node": "zzz"}, "Node zzz does not exist"),
        ({"values": {"log": 5}}, "can only concatenate list"),
        ({"values": [1]}, "Expected dict, got [1]"),
        ({"values": {"n": 1}, "checkpoint": {"checkpoint_ns": "nope:1"}}, "Subgraph nope not found"),
    ):
        refused = await http.post(f"/threads/{thread_id}/state", json=body)
        assert refused.status_code == 400
        assert reason in refused.json()["detail"]


@pytest.mark.api("POST /threads/{thread_id}/state", "409 a run is executing")
async def test_an_update_waits_for_nobody_but_refuses_a_running_thread(
    sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str
) -> None:
    run = await sdk.runs.create(thread_id, "gated", input={"gate": "update"})
    await http.get("/gates/update/reached")
    with pytest.raises(ConflictError, match="has in-flight runs"):
        await sdk.threads.update_state(thread_id, {"n": 1}, as_node="add")
    await http.post("/gates/update/open")
    await sdk.runs.join(thread_id, run["run_id"])


@pytest.mark.api("GET /threads/{thread_id}/state", "200 shows only the fields that are selected")
@pytest.mark.api("POST /threads/{thread_id}/history", "200 shows only the fields that are selected")
async def test_only_what_is_selected_is_shown(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await thread_after_steps(sdk)
    path = f"/threads/{thread_id}"
    whole: Any = await sdk.threads.get_state(thread_id)
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
async def test_the_history_of_a_subgraph_is_found_by_its_namespace(
    sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str
) -> None:
    await sdk.runs.wait(thread_id, "nested", input={"n": 1})
    history: Any = await sdk.threads.get_history(thread_id)
    tasks = [task for state in history for task in state["tasks"] if task["name"] == "inner"]
    assert [task["result"] for task in tasks] == [{"n": 4, "log": ["add", "double"]}]
    namespace = f"inner:{tasks[0]['id']}"
    checkpoint = {"checkpoint_ns": namespace}
    inner = (await http.post(f"/threads/{thread_id}/history", json={"limit": 10, "checkpoint": checkpoint})).json()
    assert [state["metadata"]["step"] for state in inner] == [1, 0, -1]
    assert {state["checkpoint"]["checkpoint_ns"] for state in inner} == {namespace}
    assert {state["metadata"]["checkpoint_ns"] for state in inner} == {namespace}
    assert inner[0]["metadata"]["checkpoint_map"] == inner[0]["metadata"]["parents"]
    assert inner[1]["tasks"][0]["result"] == {"n": 4, "log": ["double"]}
    newest = await http.post(f"/threads/{thread_id}/state/checkpoint", json={"checkpoint": checkpoint})
    assert newest.json() == inner[0]


@pytest.mark.api("GET /threads/{thread_id}/state", "404 unknown thread, or its graph is not served any more")
@pytest.mark.api("GET /threads/{thread_id}/state", "422 bad thread id or select")
@pytest.mark.api("POST /threads/{thread_id}/state", "422 bad thread id or body")
@pytest.mark.api("POST /threads/{thread_id}/state/checkpoint", "404 unknown thread")
@pytest.mark.api("POST /threads/{thread_id}/state/checkpoint", "422 bad thread id or no checkpoint")
@pytest.mark.api("GET /threads/{thread_id}/state/{checkpoint_id}", "404 unknown thread")
@pytest.mark.api("GET /threads/{thread_id}/state/{checkpoint_id}", "422 bad thread id")
@pytest.mark.api("GET /threads/{thread_id}/history", "404 unknown thread")
@pytest.mark.api("GET /threads/{thread_id}/history", "422 bad thread id or limit")
@pytest.mark.api("POST /threads/{thread_id}/history", "404 unknown thread")
@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        # The reference server has this method.
        ("PATCH", f"{NOBODY}/state", {"metadata": {"a": 1}}, 405),
        ("GET", f"{NOBODY}/state", None, 404),
        ("GET", "zz/state", None, 422),
        ("GET", "{thread}/state?select=zz", None, 422),
        ("POST", f"{NOBODY}/state", {"values": {}}, 404),
        ("POST", "zz/state", {"values": {}}, 422),
        ("POST", f"{NOBODY}/state", {"values": "x"}, 422),
        ("POST", f"{NOBODY}/state/checkpoint", {"checkpoint": {}}, 404),
        ("POST", "zz/state/checkpoint", {"checkpoint": {}}, 422),
        ("POST", f"{NOBODY}/state/checkpoint", {}, 422),
        ("GET", f"{NOBODY}/state/{NOBODY}", None, 404),
        ("GET", f"zz/state/{NOBODY}", None, 422),
        ("GET", f"{NOBODY}/history", None, 404),
        ("GET", "zz/history", None, 422),
        ("GET", f"{NOBODY}/history?limit=0", None, 422),
        ("GET", f"{NOBODY}/history?limit=abc", None, 422),
        ("POST", f"{NOBODY}/history", {}, 404),
        ("POST", "zz/history", {}, 422),
        ("POST", f"{NOBODY}/history", {"limit": 1001}, 422),
        ("POST", "{thread}/history", {"select": ["zz"]}, 422),
    ],
)
async def test_a_request_for_an_unknown_thread_or_with_a_bad_value_is_refused(
    http: httpx.AsyncClient, sdk: LangGraphClient, method: str, path: str, body: Any, status: int
) -> None:
    thread_id = await thread_after_steps(sdk) if "{thread}" in path else ""
    answer = await http.request(method, f"/threads/{path.replace('{thread}', thread_id)}", json=body)
    assert answer.status_code == status
    assert isinstance(answer.json()["detail"], str)
