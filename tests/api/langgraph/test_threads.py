"""Threads are made, found, changed, copied and deleted (langgraph_api.md 2.2, 3, 4)."""

from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

from tests.api.langgraph.steering import NOBODY

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"


@pytest.mark.api("POST /threads", "200 makes an idle thread without values")
async def test_a_new_thread_is_idle_and_empty(http: httpx.AsyncClient) -> None:
    thread = (await http.post("/threads", json={})).json()
    made = thread["created_at"]
    assert UUID(thread["thread_id"]).version == 7
    assert thread == {
        "thread_id": thread["thread_id"],
        "created_at": made,
        "updated_at": made,
        "state_updated_at": made,
        "metadata": {},
        "status": "idle",
        "config": {},
        "values": None,
    }


@pytest.mark.api("POST /threads", "200 returns the existing thread with if_exists do_nothing")
@pytest.mark.api("POST /threads", "409 a thread of this id exists")
async def test_a_thread_id_can_be_used_once(sdk: LangGraphClient) -> None:
    thread_id = str(uuid4())
    made = await sdk.threads.create(thread_id=thread_id, metadata={"a": {"b": 1}}, graph_id="steps")
    assert made["metadata"] == {"a": {"b": 1}, "graph_id": "steps"}
    with pytest.raises(ConflictError, match=f"Thread with ID {thread_id} already exists"):
        await sdk.threads.create(thread_id=thread_id)
    assert await sdk.threads.create(thread_id=thread_id, if_exists="do_nothing", metadata={"new": 1}) == made


@pytest.mark.api("GET /threads/{thread_id}", "200 shows status, values, error and interrupts")
async def test_after_a_run_the_thread_shows_its_status_and_values(sdk: LangGraphClient) -> None:
    thread = await sdk.threads.create()
    await sdk.runs.wait(thread["thread_id"], "steps", input={"n": 1})
    after: Any = await sdk.threads.get(thread["thread_id"])
    assert after["values"] == {"n": 4, "log": ["add", "double"]}
    assert (after["status"], after["config"], after["interrupts"]) == ("idle", {"configurable": {}}, {})
    assert after["error"] is None
    assert set(after["metadata"] or {}) == {"graph_id", "assistant_id"}


@pytest.mark.api("PATCH /threads/{thread_id}", "200 merges metadata at the top level")
@pytest.mark.api("PATCH /threads/{thread_id}", "204 without a body with Prefer: return=minimal")
async def test_metadata_is_merged_at_the_top_level(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread = await sdk.threads.create(metadata={"user": "u1", "deep": {"a": 1}})
    changed = await sdk.threads.update(thread["thread_id"], metadata={"user": "u2", "deep": {"b": 2}})
    assert changed["metadata"] == {"user": "u2", "deep": {"b": 2}}
    quiet = await http.patch(
        f"/threads/{thread['thread_id']}", json={"metadata": {"m": 1}}, headers={"prefer": "return=minimal"}
    )
    assert (quiet.status_code, quiet.content) == (204, b"")
    assert (await sdk.threads.get(thread["thread_id"]))["metadata"] == {"user": "u2", "deep": {"b": 2}, "m": 1}


@pytest.mark.api("DELETE /threads/{thread_id}", "204 deletes the thread")
@pytest.mark.api("DELETE /threads/{thread_id}", "404 unknown thread")
@pytest.mark.api("GET /threads/{thread_id}", "404 unknown thread")
async def test_a_deleted_thread_is_gone(sdk: LangGraphClient) -> None:
    thread = await sdk.threads.create()
    await sdk.threads.delete(thread["thread_id"])
    for call in (sdk.threads.get, sdk.threads.delete, sdk.threads.get_state, sdk.threads.get_history, sdk.runs.list):
        with pytest.raises(NotFoundError, match=f"Thread with ID {thread['thread_id']} not found"):
            await call(thread["thread_id"])


@pytest.mark.api("GET /threads/{thread_id}", "422 bad thread id")
@pytest.mark.api("DELETE /threads/{thread_id}", "422 bad thread id")
async def test_ids_that_are_no_uuids_are_refused(sdk: LangGraphClient) -> None:
    for attempt in (sdk.threads.get("zz"), sdk.threads.delete("zz"), sdk.threads.create(thread_id="zz")):
        with pytest.raises(UnprocessableEntityError, match="Invalid thread ID: must be a UUID"):
            await attempt


@pytest.mark.api("POST /threads/search", "200 finds by metadata, values, ids and status")
@pytest.mark.api("POST /threads/count", "200 counts what a search would find")
async def test_a_search_finds_by_metadata_values_ids_and_status(sdk: LangGraphClient) -> None:
    mark = str(uuid4())
    made = [await sdk.threads.create(metadata={"mark": mark, "i": i, "deep": {"x": i}}) for i in range(3)]
    ids = [thread["thread_id"] for thread in made]
    await sdk.runs.wait(ids[1], "ask", input={"n": 5})
    everything = await sdk.threads.search(metadata={"mark": mark}, sort_by="created_at", sort_order="asc")
    assert [thread["thread_id"] for thread in everything] == ids
    assert (await sdk.threads.search(metadata={"mark": mark}))[0]["thread_id"] == ids[1]
    found = [
        await sdk.threads.search(metadata={"mark": mark, "deep": {"x": 2}}),
        await sdk.threads.search(metadata={"mark": mark}, status="interrupted"),
        await sdk.threads.search(metadata={"mark": mark}, values={"n": 5}),
        await sdk.threads.search(ids=[ids[0], NOBODY]),
    ]
    assert [[thread["thread_id"] for thread in part] for part in found] == [[ids[2]], [ids[1]], [ids[1]], [ids[0]]]
    assert await sdk.threads.count(metadata={"mark": mark}) == 3
    assert await sdk.threads.count(metadata={"mark": mark}, status="interrupted") == 1


@pytest.mark.api("POST /threads/search", "200 shows what is selected and extracted")
async def test_a_search_shows_only_what_is_selected_and_extracted(
    http: httpx.AsyncClient, sdk: LangGraphClient
) -> None:
    mark = str(uuid4())
    thread = await sdk.threads.create(metadata={"mark": mark})
    await sdk.runs.wait(thread["thread_id"], "steps", input={"n": 1})
    extract = {"last": "values.log[-1]", "who": "metadata.graph_id", "gone": "values.no.such"}
    body = {"ids": [thread["thread_id"]], "select": ["status", "interrupts"], "extract": extract}
    answer = await http.post("/threads/search", json=body)
    extracted = {"last": "double", "who": "steps", "gone": None}
    assert answer.json() == [{"status": "idle", "interrupts": {}, "extracted": extracted}]
    assert answer.headers["x-pagination-total"] == "1"
    assert "x-pagination-next" not in answer.headers
    # An empty list of ids is no filter, and an empty step of a path does not count.
    body = {"ids": [], "metadata": {"mark": mark}, "select": ["status"], "extract": {"mark": "metadata..mark."}}
    assert (await http.post("/threads/search", json=body)).json() == [{"status": "idle", "extracted": {"mark": mark}}]


@pytest.mark.api("POST /threads/search", "200 says in headers how the pages go on")
async def test_pages_follow_each_other(http: httpx.AsyncClient, sdk: LangGraphClient) -> None:
    mark = str(uuid4())
    for _ in range(3):
        await sdk.threads.create(metadata={"mark": mark})
    seen: list[str] = []
    offset: str | None = "0"
    while offset is not None:
        body = {"metadata": {"mark": mark}, "limit": 2, "offset": int(offset), "select": ["thread_id"]}
        answer = await http.post("/threads/search", json=body)
        seen += [thread["thread_id"] for thread in answer.json()]
        offset = answer.headers.get("x-pagination-next")
    assert len(set(seen)) == len(seen) == 3


async def test_an_extract_path_must_start_at_the_thread(http: httpx.AsyncClient) -> None:
    answer = await http.post("/threads/search", json={"extract": {"x": "status"}})
    assert (answer.status_code, "(values|metadata|config|interrupts)" in answer.json()["detail"]) == (422, True)


@pytest.mark.api("POST /threads/{thread_id}/copy", "200 copies the history, not the runs")
async def test_a_copy_has_the_history_and_its_own_later_states(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = (await sdk.threads.create(metadata={"mine": 1}))["thread_id"]
    await sdk.runs.wait(thread_id, "ask", input={"n": 5})
    made = (await http.post(f"/threads/{thread_id}/copy")).json()
    assert UUID(made["thread_id"]).version == 4
    assert "values" not in made
    assert (made["status"], made["metadata"]["mine"]) == ("idle", 1)
    copy_id = made["thread_id"]
    original, copy = await sdk.threads.get_state(thread_id), await sdk.threads.get_state(copy_id)
    assert copy["values"] == original["values"]
    assert copy["interrupts"] == original["interrupts"]
    assert copy["checkpoint"]["thread_id"] == copy_id
    assert len(await sdk.threads.get_history(copy_id)) == len(await sdk.threads.get_history(thread_id))
    assert await sdk.runs.list(copy_id) == []
    resumed = await sdk.runs.wait(copy_id, "ask", command={"resume": "yes"})
    assert resumed["log"] == ["yes", "add"]  # type: ignore[call-overload]
    assert (await sdk.threads.get_state(thread_id))["next"] == ["ask_human"]


@pytest.mark.api("POST /threads/{thread_id}/copy", "409 unknown thread")
@pytest.mark.api("PATCH /threads/{thread_id}", "404 unknown thread")
async def test_an_unknown_thread_is_neither_copied_nor_changed(http: httpx.AsyncClient) -> None:
    copied = await http.post(f"/threads/{NOBODY}/copy")
    # The status of the reference server.
    assert (copied.status_code, copied.json()) == (409, {"detail": "Conflict"})
    changed = await http.patch(f"/threads/{NOBODY}", json={"metadata": {"a": 1}})
    assert (changed.status_code, changed.json()) == (404, {"detail": "Not Found"})


@pytest.mark.api("POST /threads", "200 builds up a state from supersteps")
async def test_a_thread_can_begin_with_a_state(sdk: LangGraphClient) -> None:
    updates: Any = [
        {"updates": [{"values": {"n": 1}, "as_node": "__input__"}]},
        {"updates": [{"values": {"n": 5, "log": ["x"]}, "as_node": "add"}]},
    ]
    thread = await sdk.threads.create(graph_id="steps", supersteps=updates)
    assert (thread["status"], thread["values"]) == ("interrupted", {"n": 5, "log": ["x"]})
    newest, first = await sdk.threads.get_history(thread["thread_id"])
    shared = {"thread_id": thread["thread_id"], "parents": {}}
    origin = first["checkpoint"]["checkpoint_id"]
    assert newest["metadata"] == {**shared, "source": "update", "step": 0, "checkpoint_id": origin}
    assert first["metadata"] == {**shared, "source": "input", "step": -1, "graph_id": "steps"}
    assert (await sdk.runs.wait(thread["thread_id"], "steps", input=None))["n"] == 10  # type: ignore[call-overload]


@pytest.mark.api("POST /threads", "201 says that there is no graph for the supersteps")
async def test_a_state_that_cannot_be_applied_leaves_the_thread_and_gives_the_reason(http: httpx.AsyncClient) -> None:
    steps = [{"updates": [{"values": {"n": 1}, "as_node": "__input__"}]}]
    answer = await http.post("/threads", json={"supersteps": steps})
    assert answer.status_code == 201
    assert "was created, but there were problems updating the state" in answer.json()["detail"]
    assert "has no assigned graph ID" in answer.json()["detail"]


@pytest.mark.api("POST /threads", "400 the graph does not take a superstep")
@pytest.mark.parametrize("updates", [[{"values": {"n": 1}, "as_node": "zzz"}], []])
async def test_supersteps_that_the_graph_does_not_take_are_refused(
    http: httpx.AsyncClient, updates: list[dict[str, Any]]
) -> None:
    body = {"metadata": {"graph_id": "steps"}, "supersteps": [{"updates": updates}]}
    assert (await http.post("/threads", json=body)).status_code == 400


async def test_runs_and_their_checkpoints_have_the_metadata_of_their_thread(sdk: LangGraphClient) -> None:
    thread_id = (await sdk.threads.create(metadata={"owner": "ada", "kind": "thread"}))["thread_id"]
    await sdk.runs.wait(thread_id, "steps", input={"n": 1}, metadata={"kind": "run"})
    runs: Any = await sdk.runs.list(thread_id)
    state: Any = await sdk.threads.get_state(thread_id)
    thread: Any = await sdk.threads.get(thread_id)
    for metadata in (runs[0]["metadata"], state["metadata"]):
        assert (metadata["owner"], metadata["kind"], metadata["graph_id"]) == ("ada", "run", "steps")
    assert thread["metadata"]["kind"] == "thread"
