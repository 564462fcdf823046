"""Runs on a thread: created, waited for, streamed, joined, listed, cancelled, deleted (langgraph_api.md 2.3, 5)."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
NOBODY = "00000000-0000-4000-8000-000000000000"


async def new_thread(sdk: LangGraphClient) -> str:
    return (await sdk.threads.create())["thread_id"]


async def run_at_gate(sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str, **fields: Any) -> tuple[str, str]:
    """Start a run and return when it waits at a gate of its own: its id and the gate's name."""
    gate = str(uuid4())
    run = await sdk.runs.create(thread_id, "gated", input={"n": 1, "gate": gate}, **fields)
    await http.get(f"/gates/{gate}/reached")
    return run["run_id"], gate


async def test_a_created_run_shows_what_was_asked_for(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    body = {"assistant_id": "steps", "input": {"n": 1}, "metadata": {"who": "me"}, "config": {"tags": ["t"]}}
    answer = await http.post(f"/threads/{thread_id}/runs", json=body)
    run = answer.json()
    run_id, assistant_id = run["run_id"], run["assistant_id"]
    assert answer.headers["content-location"] == f"/threads/{thread_id}/runs/{run_id}"
    assert UUID(run_id).version == 7
    metadata = {"created_by": "system", "graph_id": "steps", "assistant_id": assistant_id, "who": "me"}
    identity = {"run_id": run_id, "thread_id": thread_id, "graph_id": "steps", "assistant_id": assistant_id}
    assert run == {
        "run_id": run_id,
        "thread_id": thread_id,
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
    assert await sdk.runs.join(thread_id, run_id) == {"n": 4, "log": ["add", "double"]}
    assert (await sdk.runs.get(thread_id, run_id))["status"] == "success"


async def test_wait_gives_the_values_and_says_where_to_come_back(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    answer = await http.post(f"/threads/{thread_id}/runs/wait", json={"assistant_id": "steps", "input": {"n": 1}})
    assert answer.json() == {"n": 4, "log": ["add", "double"]}
    (run,) = await sdk.runs.list(thread_id)
    path = f"/threads/{thread_id}/runs/{run['run_id']}"
    assert (answer.headers["content-location"], answer.headers["location"]) == (path, f"{path}/join")


async def test_wait_gives_an_error_in_the_body(sdk: LangGraphClient) -> None:
    thread_id = await new_thread(sdk)
    answer: Any = await sdk.runs.wait(thread_id, "broken", input={"n": 1}, raise_error=False)
    assert answer == {"__error__": {"error": "ValueError", "message": "cannot go on from 2"}}
    thread: Any = await sdk.threads.get(thread_id)
    assert (thread["status"], thread["error"]) == ("error", answer["__error__"])
    (run,) = await sdk.runs.list(thread_id, status="error")
    assert await sdk.runs.join(thread_id, run["run_id"]) == answer


async def test_a_stream_begins_with_metadata_and_simply_ends(sdk: LangGraphClient) -> None:
    created: list[Any] = []
    thread_id = await new_thread(sdk)
    stream = sdk.runs.stream(
        thread_id, "steps", input={"n": 1}, stream_mode=["values", "custom"], on_run_created=created.append
    )
    parts = [(part.event, part.data, part.id) async for part in stream]
    (run,) = await sdk.runs.list(thread_id)
    assert created == [{"run_id": run["run_id"], "thread_id": thread_id}]
    assert run["status"] == "success"
    assert parts == [
        ("metadata", {"run_id": run["run_id"], "attempt": 1}, None),
        ("values", {"n": 1, "log": []}, None),
        ("values", {"n": 2, "log": ["add"]}, None),
        ("custom", {"doubling": 2}, None),
        ("values", {"n": 4, "log": ["add", "double"]}, None),
    ]


async def test_tokens_arrive_as_message_chunks(sdk: LangGraphClient) -> None:
    hello: Any = {"messages": [{"role": "user", "content": "dear world"}]}
    stream = sdk.runs.stream(
        await new_thread(sdk),
        "talk",
        input=hello,
        stream_mode="messages-tuple",
        context={"greeting": "good morning"},
    )
    chunks = [part.data[0]["content"] async for part in stream if part.event == "messages"]
    assert "".join(chunks) == "good morning dear world"
    assert len(chunks) > 3


async def test_an_interrupt_is_answered_by_a_command(sdk: LangGraphClient) -> None:
    thread_id = await new_thread(sdk)
    asked: Any = await sdk.runs.wait(thread_id, "ask", input={"n": 5})
    (interrupt,) = asked.pop("__interrupt__")
    assert (asked, interrupt["value"]) == ({"n": 5, "log": []}, {"question": 5})
    assert (await sdk.threads.get(thread_id))["status"] == "interrupted"
    resumed = await sdk.runs.wait(thread_id, "ask", command={"resume": {interrupt["id"]: "yes"}})
    assert resumed == {"n": 6, "log": ["yes", "add"]}


async def test_a_breakpoint_stops_the_run_and_null_input_goes_on(sdk: LangGraphClient) -> None:
    thread_id = await new_thread(sdk)
    stopped = await sdk.runs.wait(thread_id, "steps", input={"n": 1}, interrupt_before=["double"])
    assert stopped == {"n": 2, "log": ["add"]}
    assert (await sdk.threads.get_state(thread_id))["next"] == ["double"]
    assert await sdk.runs.wait(thread_id, "steps", input=None) == {"n": 4, "log": ["add", "double"]}


async def test_a_run_goes_on_from_an_earlier_checkpoint(sdk: LangGraphClient) -> None:
    thread_id = await new_thread(sdk)
    await sdk.runs.wait(thread_id, "steps", input={"n": 1})
    history: Any = await sdk.threads.get_history(thread_id)
    base = history[1]["checkpoint_id"]
    again = await sdk.runs.wait(thread_id, "steps", input=None, checkpoint_id=base)
    assert again == {"n": 4, "log": ["add", "double"]}
    state: Any = await sdk.threads.get_state(thread_id)
    assert state["metadata"]["checkpoint_id"] == base


async def test_context_and_configurable_reach_the_node_but_not_together(
    sdk: LangGraphClient, http: httpx.AsyncClient
) -> None:
    hello: Any = {"messages": [{"role": "user", "content": "x"}]}
    for given in ({"context": {"greeting": "hi"}}, {"config": {"configurable": {"greeting": "hi"}}}):
        values: Any = await sdk.runs.wait(await new_thread(sdk), "talk", input=hello, **given)
        assert values["messages"][-1]["content"] == "hi x"
    both = {"context": {"greeting": "a"}, "config": {"configurable": {"greeting": "b"}}}
    answer = await http.post("/runs/wait", json={"assistant_id": "talk", **both})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("Cannot specify both configurable and context")


async def test_a_client_cannot_reach_langgraphs_inner_parts_or_another_thread(
    sdk: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread_id, victim = await new_thread(sdk), await new_thread(sdk)
    configurable = {"thread_id": victim, "run_id": NOBODY, "__pregel_resuming": True, "__pregel_checkpointer": "x"}
    body = {"assistant_id": "steps", "input": {"n": 1}, "config": {"configurable": configurable, "callbacks": "x"}}
    answer = await http.post(f"/threads/{thread_id}/runs/wait", json=body)
    assert answer.json() == {"n": 4, "log": ["add", "double"]}
    ignored = "config.callbacks, config.configurable.__pregel_resuming, config.configurable.__pregel_checkpointer"
    assert answer.headers["x-ignored-fields"] == ignored
    assert (await sdk.threads.get(victim))["values"] is None
    assert await sdk.threads.get_history(victim) == []


async def test_typing_errors_are_found_in_a_header(http: httpx.AsyncClient, sdk: LangGraphClient) -> None:
    body = {"assistant_id": "steps", "input": {"n": 1}, "interrupt_befor": ["add"], "feedback_keys": ["k"]}
    answer = await http.post(f"/threads/{await new_thread(sdk)}/runs/wait", json=body)
    assert answer.headers["x-ignored-fields"] == "interrupt_befor, feedback_keys"
    assert answer.json()["n"] == 4


async def test_webhooks_are_refused_rather_than_forgotten(http: httpx.AsyncClient, sdk: LangGraphClient) -> None:
    body = {"assistant_id": "steps", "input": {"n": 1}, "webhook": "https://example.com/hook"}
    answer = await http.post(f"/threads/{await new_thread(sdk)}/runs", json=body)
    assert answer.status_code == 422
    assert "Webhooks are not supported" in answer.json()["detail"]


async def test_unknown_threads_and_assistants_are_told_apart_from_bad_ones(
    http: httpx.AsyncClient, sdk: LangGraphClient
) -> None:
    thread_id = await new_thread(sdk)
    missing = "Thread or assistant not found."
    for end in ("", "/wait", "/stream"):
        for thread, assistant in ((NOBODY, "steps"), (thread_id, NOBODY)):
            answer = await http.post(f"/threads/{thread}/runs{end}", json={"assistant_id": assistant})
            assert (answer.status_code, answer.json()) == (404, {"detail": missing})
        bad = await http.post(f"/threads/{thread_id}/runs{end}", json={"assistant_id": "nope"})
        assert bad.status_code == 422
        assert bad.json()["detail"].startswith("Invalid assistant: 'nope'. Must be either:\n- A valid assistant UUID")


async def test_bad_thread_ids_have_the_reference_servers_statuses(http: httpx.AsyncClient) -> None:
    answers = [await http.post(f"/threads/zz/runs{end}", json={"assistant_id": "steps"}) for end in ("", "/stream")]
    assert [answer.status_code for answer in answers] == [422, 400]
    assert answers[1].json() == {"detail": "badly formed hexadecimal UUID string"}


async def test_a_missing_thread_is_made_when_asked_for(sdk: LangGraphClient) -> None:
    thread_id = str(uuid4())
    await sdk.runs.wait(thread_id, "steps", input={"n": 1}, if_not_exists="create", metadata={"x": 1})
    thread = await sdk.threads.get(thread_id)
    assert (thread["values"], (thread["metadata"] or {})["x"]) == ({"n": 4, "log": ["add", "double"]}, 1)


async def test_runs_are_listed_newest_first_and_filtered(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    await sdk.runs.wait(thread_id, "steps", input={"n": 1})
    await sdk.runs.wait(thread_id, "broken", input={"n": 1}, raise_error=False)
    assert [run["status"] for run in await sdk.runs.list(thread_id)] == ["error", "success"]
    assert [run["status"] for run in await sdk.runs.list(thread_id, status="success")] == ["success"]
    assert [run["status"] for run in await sdk.runs.list(thread_id, limit=1, offset=1)] == ["success"]
    for select in ("select=run_id&select=status", 'select=["run_id","status"]'):
        rows = (await http.get(f"/threads/{thread_id}/runs?{select}")).json()
        assert [list(row) for row in rows] == [["run_id", "status"]] * 2
    for wrong in ("select=zz", "status=zz", "limit=0", "limit=x", "offset=-1", "limit=99999999999999999999"):
        assert (await http.get(f"/threads/{thread_id}/runs?{wrong}")).status_code == 422


async def test_a_delayed_run_is_pending_until_it_is_due(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    body = {"assistant_id": "steps", "input": {"n": 1}, "after_seconds": 0.3}
    run = (await http.post(f"/threads/{thread_id}/runs", json=body)).json()
    assert run["status"] == "pending"
    assert (await sdk.threads.get(thread_id))["status"] == "busy"
    async with asyncio.timeout(20):
        assert await sdk.runs.join(thread_id, run["run_id"]) == {"n": 4, "log": ["add", "double"]}


async def test_a_busy_thread_refuses_or_queues_the_next_run(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    _, gate = await run_at_gate(sdk, http, thread_id)
    assert (await sdk.threads.get(thread_id))["status"] == "busy"
    with pytest.raises(ConflictError, match="Thread is already running a task"):
        await sdk.runs.create(thread_id, "steps", input={"n": 1}, multitask_strategy="reject")
    second = await sdk.runs.create(thread_id, "steps", input={"n": 9})
    await http.post(f"/gates/{gate}/open")
    assert (await sdk.runs.join(thread_id, second["run_id"]))["n"] == 20
    assert [run["status"] for run in await sdk.runs.list(thread_id)] == ["success", "success"]


async def test_a_cancelled_run_keeps_what_it_has_done(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    run_id, _ = await run_at_gate(sdk, http, thread_id)
    path = f"/threads/{thread_id}/runs/{run_id}"
    answer = await http.post(f"{path}/cancel?wait=1")
    assert (answer.status_code, answer.json()) == (200, {})
    assert (answer.headers["content-location"], answer.headers["location"]) == (path, f"{path}/join")
    assert (await sdk.runs.get(thread_id, run_id))["status"] == "interrupted"
    thread = await sdk.threads.get(thread_id)
    assert (thread["status"], (thread["values"] or {})["log"]) == ("interrupted", ["add"])
    assert (await sdk.threads.get_state(thread_id))["next"] == ["hold"]


async def test_a_run_rolled_back_was_never_there(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    run_id, _ = await run_at_gate(sdk, http, thread_id)
    answer = await http.post(f"/threads/{thread_id}/runs/{run_id}/cancel?wait=true&action=rollback")
    assert (answer.status_code, answer.json()) == (200, {})
    with pytest.raises(NotFoundError):
        await sdk.runs.get(thread_id, run_id)
    assert (await sdk.threads.get(thread_id))["status"] == "idle"
    assert await sdk.threads.get_history(thread_id) == []


async def test_cancelling_without_waiting_is_accepted_at_once(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    run_id, _ = await run_at_gate(sdk, http, thread_id)
    answer = await http.post(f"/threads/{thread_id}/runs/{run_id}/cancel?wait=false")
    assert (answer.status_code, answer.content) == (202, b"")
    async with asyncio.timeout(10):
        await sdk.runs.join(thread_id, run_id)
    assert (await sdk.runs.get(thread_id, run_id))["status"] == "interrupted"


async def test_there_is_nothing_to_cancel_in_ended_or_unknown_runs(
    sdk: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread_id = await new_thread(sdk)
    run = await sdk.runs.create(thread_id, "steps", input={"n": 1})
    await sdk.runs.join(thread_id, run["run_id"])
    for run_id in (run["run_id"], NOBODY):
        with pytest.raises(NotFoundError, match="No runs found to cancel"):
            await sdk.runs.cancel(thread_id, run_id)
    assert (await http.post(f"/threads/{thread_id}/runs/{NOBODY}/cancel?action=zz")).status_code == 422
    assert (await http.post(f"/threads/{thread_id}/runs/{NOBODY}/cancel?wait=perhaps")).status_code == 422


async def test_a_deleted_run_takes_its_checkpoints_along(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    run = await sdk.runs.create(thread_id, "steps", input={"n": 1})
    await sdk.runs.join(thread_id, run["run_id"])
    await sdk.runs.delete(thread_id, run["run_id"])
    assert (await sdk.threads.get_state(thread_id))["values"] == {}
    running, _ = await run_at_gate(sdk, http, thread_id)
    await sdk.runs.delete(thread_id, running)
    assert await sdk.runs.list(thread_id) == []
    with pytest.raises(NotFoundError):
        await sdk.runs.delete(thread_id, running)


async def test_deleting_a_busy_thread_stops_its_run(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    run_id, _ = await run_at_gate(sdk, http, thread_id)
    waiting = asyncio.create_task(http.get(f"/threads/{thread_id}/runs/{run_id}/join"))
    async with asyncio.timeout(10):
        await sdk.threads.delete(thread_id)
        await waiting
    with pytest.raises(NotFoundError):
        await sdk.threads.get(thread_id)


async def test_joining_an_unknown_run_tells_so_in_the_body(sdk: LangGraphClient) -> None:
    thread_id = await new_thread(sdk)
    error = {"error": "HTTPException", "message": "404: Run not found"}
    assert await sdk.runs.join(thread_id, NOBODY) == {"__error__": error}
    parts = [(part.event, part.data) async for part in sdk.runs.join_stream(thread_id, NOBODY)]
    assert parts == [("error", error)]
    with pytest.raises(UnprocessableEntityError, match="Invalid run ID: must be a UUID"):
        await sdk.runs.get(thread_id, "zz")


async def test_a_joined_stream_goes_on_from_where_the_run_is(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    run_id, gate = await run_at_gate(sdk, http, thread_id, stream_mode=["values", "updates"])
    parts: list[str] = []
    async with asyncio.timeout(10), http.stream("GET", f"/threads/{thread_id}/runs/{run_id}/stream") as answer:
        await http.post(f"/gates/{gate}/open")
        parts = [line async for line in answer.aiter_lines() if line.startswith("event: ")]
    assert parts == [f"event: {name}" for name in ("updates", "values", "updates", "values")]


async def test_a_resumable_run_is_replayed_from_any_id(sdk: LangGraphClient) -> None:
    thread_id = await new_thread(sdk)
    stream = sdk.runs.stream(thread_id, "steps", input={"n": 1}, stream_mode=["values"], stream_resumable=True)
    parts = [(part.event, part.data, part.id) async for part in stream]
    ids = [part[2] or "" for part in parts]
    assert ids == sorted(set(ids))
    run_id = parts[0][1]["run_id"]

    async def joined(last: str | None, **query: Any) -> list[Any]:
        found = sdk.runs.join_stream(thread_id, run_id, last_event_id=last, **query)
        return [(part.event, part.data, part.id) async for part in found]

    assert await joined("-1") == parts
    assert await joined(ids[1]) == parts[2:]
    assert await joined(ids[-1]) == []
    assert await joined(None) == []
    assert await joined("garbage") == []
    assert await joined("-1", stream_mode="values") == parts[1:]
    assert await joined("-1", stream_mode=["updates", "values"]) == parts[1:]


async def test_a_run_that_is_not_resumable_has_no_replay(sdk: LangGraphClient) -> None:
    thread_id = await new_thread(sdk)
    run = await sdk.runs.create(thread_id, "steps", input={"n": 1})
    await sdk.runs.join(thread_id, run["run_id"])
    assert [part async for part in sdk.runs.join_stream(thread_id, run["run_id"], last_event_id="-1")] == []


@pytest.mark.parametrize("end", ["stream", "wait"])
async def test_a_client_that_leaves_can_take_its_run_along(
    sdk: LangGraphClient, http: httpx.AsyncClient, end: str
) -> None:
    thread_id, gate = await new_thread(sdk), str(uuid4())
    body = {"assistant_id": "gated", "input": {"gate": gate}, "on_disconnect": "cancel"}
    async with asyncio.timeout(20):
        async with http.stream("POST", f"/threads/{thread_id}/runs/{end}", json=body):
            await http.get(f"/gates/{gate}/reached")
        (run,) = await sdk.runs.list(thread_id)
        await sdk.runs.join(thread_id, run["run_id"])
    assert (await sdk.runs.get(thread_id, run["run_id"]))["status"] == "interrupted"


async def test_a_run_goes_on_without_its_client(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id, gate = await new_thread(sdk), str(uuid4())
    body = {"assistant_id": "gated", "input": {"n": 1, "gate": gate}}
    async with asyncio.timeout(20):
        async with http.stream("POST", f"/threads/{thread_id}/runs/stream", json=body):
            await http.get(f"/gates/{gate}/reached")
        (run,) = await sdk.runs.list(thread_id)
        await http.post(f"/gates/{gate}/open")
        assert (await sdk.runs.join(thread_id, run["run_id"]))["log"] == ["add", "passed", "double"]


async def test_leaving_a_joined_stream_cancels_only_when_asked(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    run_id, _ = await run_at_gate(sdk, http, thread_id)
    path = f"/threads/{thread_id}/runs/{run_id}/stream"
    async with http.stream("GET", path):
        pass
    assert (await sdk.runs.get(thread_id, run_id))["status"] == "running"
    async with asyncio.timeout(20):
        async with http.stream("GET", path, params={"cancel_on_disconnect": "true"}):
            pass
        await sdk.runs.join(thread_id, run_id)
    assert (await sdk.runs.get(thread_id, run_id))["status"] == "interrupted"


async def test_exit_durability_keeps_one_checkpoint(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    for given in ({"durability": "exit"}, {"checkpoint_during": False}):
        thread_id = await new_thread(sdk)
        body = {"assistant_id": "steps", "input": {"n": 1}, **given}
        await http.post(f"/threads/{thread_id}/runs/wait", json=body)
        assert len(await sdk.threads.get_history(thread_id)) == 1


async def test_a_graph_made_per_run_is_served_like_any_other(sdk: LangGraphClient) -> None:
    assert await sdk.runs.wait(await new_thread(sdk), "made", input={"n": 1}) == {"n": 2, "log": ["add"]}
