"""Runs on a thread: the fields of their requests, and the responses of waiting (langgraph_api.md 2.3, 4.1, 5)."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.api.langgraph.steering import NOBODY, Thread, new_thread

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
ON_POSTGRESQL = True


@pytest.mark.api("POST /threads/{thread_id}/runs", "200 creates a pending run and shows the request's fields")
@pytest.mark.api("GET /threads/{thread_id}/runs/{run_id}", "200 gives a run")
@pytest.mark.api("GET /threads/{thread_id}/runs/{run_id}/join", "200 gives the result when the run has ended")
async def test_a_created_run_shows_the_fields_of_its_request(thread: Thread) -> None:
    body = {"assistant_id": "steps", "input": {"n": 1}, "metadata": {"who": "me"}, "config": {"tags": ["t"]}}
    answer = await thread.post("/runs", json=body)
    run = answer.json()
    run_id, assistant_id = run["run_id"], run["assistant_id"]
    assert answer.headers["content-location"] == f"/threads/{thread.id}/runs/{run_id}"
    assert UUID(run_id).version == 7
    metadata = {"created_by": "system", "graph_id": "steps", "assistant_id": assistant_id, "who": "me"}
    identity = {"run_id": run_id, "thread_id": thread.id, "graph_id": "steps", "assistant_id": assistant_id}
    identity["langgraph_request_id"] = answer.headers["x-request-id"]
    assert run == {
        "run_id": run_id,
        "thread_id": thread.id,
        "assistant_id": assistant_id,
        "metadata": metadata,
        "status": "pending",
        "kwargs": {
            "input": {"n": 1},
            "command": None,
            "config": {"tags": ["t"], "configurable": identity, "metadata": metadata},
            "context": {},
            "stream_mode": ["values"],
            "interrupt_before": None,
            "interrupt_after": None,
            "webhook": None,
            "feedback_keys": None,
            "temporary": False,
            "subgraphs": False,
            "resumable": False,
            "checkpoint_during": True,
            "durability": "async",
        },
        "multitask_strategy": "enqueue",
        "created_at": run["created_at"],
        "updated_at": run["updated_at"],
        "langsmith_session_name": None,
    }
    assert await thread.join(run_id) == {"n": 4, "log": ["add", "double"]}
    assert (await thread.run(run_id))["status"] == "success"


@pytest.mark.api("POST /threads/{thread_id}/runs/wait", "200 gives the values and says where to come back")
async def test_wait_gives_the_values_and_the_location_of_the_run(thread: Thread) -> None:
    answer = await thread.post("/runs/wait", json={"assistant_id": "steps", "input": {"n": 1}})
    assert answer.json() == {"n": 4, "log": ["add", "double"]}
    (run,) = await thread.runs()
    path = f"/threads/{thread.id}/runs/{run['run_id']}"
    assert (answer.headers["content-location"], answer.headers["location"]) == (path, f"{path}/join")


@pytest.mark.api("POST /threads/{thread_id}/runs/wait", "200 with the error of a failed run")
async def test_wait_gives_an_error_in_the_body(thread: Thread) -> None:
    answer: Any = await thread.wait("broken", input={"n": 1})
    assert answer == {"__error__": {"error": "ValueError", "message": "cannot go on from 2"}}
    shown: Any = await thread.show()
    assert (shown["status"], shown["error"]) == ("error", answer["__error__"])
    (run,) = await thread.runs(status="error")
    assert await thread.join(run["run_id"]) == answer


@pytest.mark.api("POST /threads/{thread_id}/runs/wait", "200 with the question of an interrupted run")
async def test_an_interrupt_is_answered_by_a_command(thread: Thread) -> None:
    interrupted: Any = await thread.wait("ask", input={"n": 5})
    (interrupt,) = interrupted.pop("__interrupt__")
    assert (interrupted, interrupt["value"]) == ({"n": 5, "log": []}, {"question": 5})
    assert (await thread.show())["status"] == "interrupted"
    resumed = await thread.wait("ask", command={"resume": {interrupt["id"]: "yes"}})
    assert resumed == {"n": 6, "log": ["yes", "add"]}


@pytest.mark.parametrize(
    "start",
    [
        {"checkpoint_id": NOBODY},
        {"checkpoint": {"checkpoint_id": NOBODY, "checkpoint_ns": ""}},
        {"config": {"configurable": {"checkpoint_id": {"no": "id"}}}},
    ],
)
async def test_a_run_from_an_unknown_checkpoint_is_refused_and_the_state_stays(
    thread: Thread, start: dict[str, Any]
) -> None:
    values = await thread.wait("steps", input={"n": 1})
    for path in ("runs", "runs/wait", "runs/stream"):
        answer = await thread.post(f"/{path}", json={"assistant_id": "steps", "input": {}, **start})
        assert answer.status_code == 404
        assert answer.json()["detail"].startswith("Checkpoint ")
    assert (await thread.state())["values"] == values


@pytest.mark.parametrize("given", [{"context": {"greeting": "hi"}}, {"config": {"configurable": {"greeting": "hi"}}}])
async def test_context_and_configurable_reach_the_node(thread: Thread, given: Any) -> None:
    hello: Any = {"messages": [{"role": "user", "content": "x"}]}
    values: Any = await thread.wait("talk", input=hello, **given)
    assert values["messages"][-1]["content"] == "hi x"


async def test_a_client_cannot_set_langgraphs_internal_keys_or_another_thread(
    sdk: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread_id, victim = await new_thread(sdk), await new_thread(sdk)
    configurable = {"thread_id": victim, "run_id": NOBODY, "__pregel_resuming": "x", "__pregel_checkpointer": "x"}
    body = {"assistant_id": "steps", "input": {"n": 1}, "config": {"configurable": configurable, "callbacks": "x"}}
    answer = await http.post(f"/threads/{thread_id}/runs/wait", json=body)
    assert answer.json() == {"n": 4, "log": ["add", "double"]}
    ignored = "config.callbacks, config.configurable.__pregel_resuming, config.configurable.__pregel_checkpointer"
    assert answer.headers["x-ignored-fields"] == ignored
    assert (await sdk.threads.get(victim))["values"] is None
    assert await sdk.threads.get_history(victim) == []


@pytest.mark.api("POST /threads/{thread_id}/runs", "200 names fields without effect in a header")
async def test_fields_without_effect_are_named_in_a_header(thread: Thread) -> None:
    body = {"assistant_id": "steps", "input": {"n": 1}, "interrupt_befor": ["add"], "feedback_keys": ["k"]}
    body["langsmith_tracer"] = {"project_name": "p"}
    answer = await thread.post("/runs/wait", json=body)
    assert answer.headers["x-ignored-fields"] == "interrupt_befor, feedback_keys, langsmith_tracer"
    assert answer.json()["n"] == 4


@pytest.mark.api("POST /threads/{thread_id}/runs/stream", "400 for a thread id that is not a UUID")
async def test_bad_thread_ids_have_the_reference_servers_statuses(http: httpx.AsyncClient) -> None:
    answers = [await http.post(f"/threads/zz/runs{end}", json={"assistant_id": "steps"}) for end in ("", "/stream")]
    assert [answer.status_code for answer in answers] == [422, 400]
    assert answers[1].json() == {"detail": "badly formed hexadecimal UUID string"}


@pytest.mark.api("POST /threads/{thread_id}/runs", "200 creates a missing thread on request")
async def test_a_run_creates_a_missing_thread_with_its_metadata(sdk: LangGraphClient) -> None:
    thread_id = str(uuid4())
    metadata = {"x": 1, "graph_id": "not this one"}
    config: Any = {"metadata": {"why": "config"}}
    await sdk.runs.wait(thread_id, "steps", input={"n": 1}, if_not_exists="create", metadata=metadata, config=config)
    thread = await sdk.threads.get(thread_id)
    assert thread["values"] == {"n": 4, "log": ["add", "double"]}
    assert (thread["metadata"] or {}).items() >= {"x": 1, "graph_id": "steps", "why": "config"}.items()


@pytest.mark.api("GET /threads/{thread_id}/runs", "200 newest first, by status, page and selected fields")
@pytest.mark.api("GET /threads/{thread_id}/runs", "422 for a filter, page or field that does not exist")
async def test_runs_are_listed_newest_first_and_filtered(thread: Thread) -> None:
    await thread.wait("steps", input={"n": 1})
    await thread.wait("broken", input={"n": 1})
    assert [run["status"] for run in await thread.runs()] == ["error", "success"]
    assert [run["status"] for run in await thread.runs(status="success")] == ["success"]
    assert [run["status"] for run in await thread.runs(limit=1, offset=1)] == ["success"]
    for select in ("select=run_id&select=status", 'select=["run_id","status"]'):
        rows = (await thread.get(f"/runs?{select}")).json()
        assert [list(row) for row in rows] == [["run_id", "status"]] * 2
    for wrong in ("select=zz", "status=zz", "limit=0", "limit=x", "offset=-1", "limit=99999999999999999999"):
        assert (await thread.get(f"/runs?{wrong}")).status_code == 422


@pytest.mark.api("POST /threads/{thread_id}/runs", "200 starts later on request")
async def test_a_delayed_run_is_pending_until_it_is_due(thread: Thread) -> None:
    body = {"assistant_id": "steps", "input": {"n": 1}, "after_seconds": 3600}
    later = (await thread.post("/runs", json=body)).json()
    assert later["status"] == "pending"
    assert (await thread.show())["status"] == "busy"
    await thread.cancel(later["run_id"], wait=True)
    run = (await thread.post("/runs", json={**body, "after_seconds": 0.3})).json()
    assert run["status"] == "pending"
    async with asyncio.timeout(60):
        assert await thread.join(run["run_id"]) == {"n": 4, "log": ["add", "double"]}


async def test_a_graph_made_per_run_is_served_like_any_other(thread: Thread) -> None:
    assert await thread.wait("made", input={"n": 1}) == {"n": 2, "log": ["add"]}
