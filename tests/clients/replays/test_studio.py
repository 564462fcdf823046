"""What LangGraph Studio sends, from a public page to a server on this machine (langgraph_api.md 9.4 and 3.1)."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.clients.replays.browser import Page

pytestmark = pytest.mark.requirement("S-01")

LANGGRAPH_JSON = Path(__file__).parent.parent / "app" / "langgraph.json"
ALL_MODES = ["values", "updates", "messages", "debug", "tasks", "checkpoints", "custom"]


@pytest.fixture
def studio(http: httpx.AsyncClient) -> Page:
    return Page(http, "https://smith.langchain.com", public=True)


def human(text: str) -> dict[str, Any]:
    return {"messages": [{"type": "human", "content": text}]}


async def new_thread(studio: Page) -> str:
    thread_id: str = (await studio.plain("POST", "/threads", {"metadata": {}})).body["thread_id"]
    return thread_id


async def run(studio: Page, thread_id: str, assistant: str, **fields: Any) -> list[tuple[str, Any, str | None]]:
    body = {"assistant_id": assistant, "stream_mode": ALL_MODES, "stream_subgraphs": True, **fields}
    answer = await studio.plain("POST", f"/threads/{thread_id}/runs/stream", body)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    return answer.events


async def test_it_finds_a_server_it_can_talk_to_and_its_graphs(studio: Page) -> None:
    info = (await studio.plain("GET", "/info")).body
    major, minor, *_ = (int(part) for part in info["version"].split(".")[:2])
    # A low version hides features.
    assert (major, minor) >= (0, 4)
    assert info["flags"]["assistants"] is True
    body = {"limit": 10, "offset": 0, "metadata": {"created_by": "system"}}
    found = await studio.plain("POST", "/assistants/search", body)
    assert found.status == 200
    assert {"talk", "family", "approve"} <= {assistant["graph_id"] for assistant in found.body}
    assert found.headers["x-pagination-total"]


async def test_it_draws_a_graph_and_the_forms_of_its_state(studio: Page) -> None:
    (family,) = (await studio.plain("POST", "/assistants/search", {"graph_id": "family"})).body
    path = f"/assistants/{family['assistant_id']}"
    assert (await studio.plain("GET", path)).body == family
    graph = (await studio.plain("GET", f"{path}/graph?xray=true")).body
    assert "child:confirm" in {node["id"] for node in graph["nodes"]}
    assert all({"source", "target"} <= edge.keys() for edge in graph["edges"])
    schemas = (await studio.plain("GET", f"{path}/schemas")).body
    assert {"input_schema", "output_schema", "state_schema", "config_schema", "context_schema"} <= schemas.keys()
    subgraphs = (await studio.plain("GET", f"{path}/subgraphs?recurse=true")).body
    assert list(subgraphs) == ["child"]


async def test_it_follows_a_run_in_every_detail(studio: Page) -> None:
    thread_id = await new_thread(studio)
    events = await run(studio, thread_id, "family", input={"n": 1}, config={"configurable": {}, "recursion_limit": 25})
    names = {name.partition("|")[0] for name, _, _ in events}
    assert names == {"metadata", "values", "updates", "debug", "tasks", "checkpoints"}
    kinds = [data["type"] for name, data, _ in events if name.startswith("debug")]
    assert {"checkpoint", "task", "task_result"} == set(kinds)
    assert any(name.startswith("tasks|child:") for name, _, _ in events)
    body = {
        "limit": 100,
        "offset": 0,
        "metadata": {"graph_id": "family"},
        "sort_by": "updated_at",
        "sort_order": "desc",
    }
    listed = (await studio.plain("POST", "/threads/search", body)).body
    assert listed[0]["thread_id"] == thread_id


async def test_it_shows_messages_while_they_are_written(studio: Page) -> None:
    events = await run(studio, await new_thread(studio), "talk", input=human("good morning"))
    partial = [data[0]["content"] for name, data, _ in events if name == "messages/partial"]
    assert list(dict.fromkeys(partial)) == ["you said:", "you said: good", "you said: good morning"]
    assert [data for name, data, _ in events if name == "custom"] == [{"message_count": 1}]


async def test_it_looks_at_every_step_of_the_past(studio: Page) -> None:
    thread_id = await new_thread(studio)
    await run(studio, thread_id, "family", input={"n": 1, "ask": True})
    state = (await studio.plain("GET", f"/threads/{thread_id}/state?subgraphs=true")).body
    assert state["tasks"][0]["state"]["next"] == ["confirm"]
    history = (await studio.plain("POST", f"/threads/{thread_id}/history", {"limit": 1000})).body
    assert [past["next"] for past in history] == [["child"], ["parent"], ["__start__"]]
    for past in history:
        body = {"checkpoint": past["checkpoint"], "subgraphs": True}
        looked_at = (await studio.plain("POST", f"/threads/{thread_id}/state/checkpoint", body)).body
        assert (looked_at["values"], looked_at["next"]) == (past["values"], past["next"])
    inner = state["tasks"][0]["checkpoint"] or state["tasks"][0]["state"]["checkpoint"]
    body = {"checkpoint": inner, "subgraphs": True}
    assert (await studio.plain("POST", f"/threads/{thread_id}/state/checkpoint", body)).body["next"] == ["confirm"]


async def test_it_steps_through_a_graph_node_by_node(studio: Page) -> None:
    thread_id = await new_thread(studio)
    await run(studio, thread_id, "count", input={"n": 1}, interrupt_before="*")
    steps = []
    for _ in range(2):
        state = (await studio.plain("GET", f"/threads/{thread_id}/state")).body
        steps += state["next"]
        await run(studio, thread_id, "count", input=None, interrupt_before="*")
    assert steps == ["add", "double"]
    assert (await studio.plain("GET", f"/threads/{thread_id}")).body["status"] == "idle"


async def test_it_shows_a_failure_and_where_it_happened(studio: Page) -> None:
    thread_id = await new_thread(studio)
    events = await run(studio, thread_id, "broken", input={"n": 1})
    assert events[-1][:2] == ("error", {"error": "ValueError", "message": "cannot go on from 2"})
    state = (await studio.plain("GET", f"/threads/{thread_id}/state")).body
    assert [(task["name"], task["error"]) for task in state["tasks"]] == [("fail", "ValueError('cannot go on from 2')")]


async def test_it_looks_into_the_store_and_at_crons(studio: Page) -> None:
    place = ["studio", str(uuid4())]
    item = {"namespace": place, "key": "k", "value": {"seen": True}}
    assert (await studio.plain("PUT", "/store/items", item)).status == 204
    spaces = (await studio.plain("POST", "/store/namespaces", {"limit": 100, "offset": 0, "prefix": place})).body
    assert spaces == {"namespaces": [place]}
    found = (await studio.plain("POST", "/store/items/search", {"namespace_prefix": place, "limit": 10})).body
    assert [one["value"] for one in found["items"]] == [{"seen": True}]
    assert (await studio.plain("DELETE", "/store/items", {"namespace": place, "key": "k"})).status == 204
    crons = await studio.plain("POST", "/runs/crons/search", {"limit": 10, "offset": 0})
    assert (crons.status, crons.headers["x-pagination-total"]) == (200, "0")
