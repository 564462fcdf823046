"""Commands over HTTP: their envelopes, and what they do."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api.langgraph.protocol.listening import (
    APP,
    contents,
    ended,
    listening,
    new_thread,
    on,
    run_whole,
    send,
    start,
    stored_events,
)

LANGGRAPH_JSON = APP
MALFORMED = "Protocol commands must include an integer id and string method."


async def values(http: httpx.AsyncClient, thread_id: str) -> Any:
    return (await http.get(f"/threads/{thread_id}/state")).json()["values"]


async def newest_run(http: httpx.AsyncClient, thread_id: str) -> dict[str, Any]:
    run: dict[str, Any] = (await http.get(f"/threads/{thread_id}/runs")).json()[0]
    return run


async def settled(http: httpx.AsyncClient, thread_id: str) -> None:
    await ended(http, thread_id, (await newest_run(http, thread_id))["run_id"])


async def interrupted(http: httpx.AsyncClient, graph: str, count: int = 1) -> tuple[str, list[str]]:
    """Run a graph up to its questions; give the thread and the questions' ids."""
    thread_id, events = await run_whole(http, graph, {"n": 1})
    questions = [data["interrupt_id"] for data in on(events, "input.requested")]
    assert len(questions) == count
    return thread_id, questions


@pytest.mark.api("POST /threads/{thread_id}/commands", "200 starts a run with all modes and creates its thread")
async def test_a_run_is_started_on_a_thread_that_it_creates(http: httpx.AsyncClient) -> None:
    thread_id = str(uuid4())
    given: dict[str, Any] = {"input": {"n": 1}, "metadata": {"m": 1}, "config": {"tags": ["t"]}}
    given |= {"multitask_strategy": None, "multitaskStrategy": None, "context": None, "unknown": "field"}
    responses = await send(http, thread_id, "run.start", assistant_id="count", **given)
    run_id = responses["result"]["run_id"]
    expected = {"type": "success", "id": 7, "result": {"run_id": run_id}, "meta": {"applied_through_seq": 0}}
    assert responses == expected
    await ended(http, thread_id, run_id)
    run = await newest_run(http, thread_id)
    assert run["run_id"] == run_id
    assert (run["status"], run["multitask_strategy"]) == ("success", "enqueue")
    assert run["metadata"]["m"] == 1
    kwargs = run["kwargs"]
    modes = ["values", "updates", "messages", "tools", "lifecycle", "custom", "tasks", "checkpoints"]
    assert kwargs["stream_mode"] == modes
    assert (kwargs["subgraphs"], kwargs["resumable"], kwargs["config"]["tags"]) == (True, True, ["t"])
    thread = (await http.get(f"/threads/{thread_id}")).json()
    assert thread["metadata"]["graph_id"] == "count"
    assert thread["values"] == {"n": 3, "log": ["add", "add"]}


@pytest.mark.api("POST /threads/{thread_id}/commands", "200 refuses a run without an assistant, or of an unknown one")
@pytest.mark.parametrize(
    ("params", "code", "message"),
    [
        ({}, "invalid_argument", "run.start requires an assistant_id."),
        ({"assistant_id": 5}, "invalid_argument", "run.start requires an assistant_id."),
        ({"assistant_id": "nobody"}, "unknown_error", "422: Invalid assistant: 'nobody'."),
        ({"assistant_id": str(uuid4())}, "unknown_error", "404: "),
        ({"assistant_id": "count", "config": 5}, "unknown_error", "422: 5 is not of type"),
        ({"assistant_id": "count", "multitask_strategy": "later"}, "unknown_error", '422: "later" is not one of'),
    ],
)
async def test_an_invalid_start_of_a_run_is_refused(
    http: httpx.AsyncClient, params: dict[str, Any], code: str, message: str
) -> None:
    thread_id = str(uuid4())
    refused = await send(http, thread_id, "run.start", **params)
    assert (refused["type"], refused["error"]) == ("error", code)
    assert refused["message"].startswith(message)
    assert (await http.get(f"/threads/{thread_id}")).status_code == 404


@pytest.mark.api("POST /threads/{thread_id}/commands", "400 refuses what is no command, under its id if it has one")
@pytest.mark.parametrize(
    ("body", "number"),
    [
        (b"{}", None),
        (b"[]", None),
        (b'"run.start"', None),
        (b'{"id": 3}', 3),
        (b'{"id": "three", "method": "run.start"}', "three"),
        (b'{"id": false, "method": "run.start"}', False),
        (b'{"id": 1.5, "method": "run.start"}', 1.5),
        (b'{"id": null, "method": "run.start"}', None),
        (b'{"id": 4, "method": 5}', 4),
    ],
)
async def test_a_body_that_is_no_command_is_refused(http: httpx.AsyncClient, body: bytes, number: object) -> None:
    answer = await http.post(f"/threads/{uuid4()}/commands", content=body)
    assert answer.status_code == 400
    expected = {"type": "error", "id": number, "error": "invalid_argument", "message": MALFORMED}
    assert answer.json() == expected


@pytest.mark.parametrize("body", [b"{", b"", b"\xff", b'{"id": 1, "method": "x", "params": ' + b"[" * 300])
async def test_a_body_that_is_no_json_is_refused(http: httpx.AsyncClient, body: bytes) -> None:
    answer = await http.post(f"/threads/{uuid4()}/commands", content=body)
    assert (answer.status_code, answer.json()) == (400, {"detail": "Invalid JSON body"})


@pytest.mark.api("POST /threads/{thread_id}/commands", "200 refuses unknown commands and threads that can never be")
@pytest.mark.api("POST /threads/{thread_id}/commands", "200 checks subscriptions that have no connection to send to")
@pytest.mark.parametrize(
    ("method", "params", "error", "message"),
    [
        ("zzz", {}, "unknown_command", "Unknown protocol command: zzz"),
        ("", {}, "unknown_command", "Unknown protocol command: "),
        ("run.cancel", {}, "unknown_command", "Unknown protocol command: run.cancel"),
        ("input.inject", {}, "unknown_command", "Unknown protocol command: input.inject"),
        ("state.get", {}, "unknown_command", "Unknown protocol command: state.get"),
        ("state.fork", {}, "unknown_command", "Unknown protocol command: state.fork"),
        ("input.respond", {"interrupt_id": "x"}, "no_such_run", "No interrupted run is bound to this thread."),
        ("agent.getTree", {"run_id": 5}, "no_such_run", "No active run is bound to this thread."),
        ("subscription.subscribe", {}, "invalid_argument", ""),
        ("subscription.subscribe", {"channels": ["nope"]}, "invalid_argument", ""),
        ("subscription.unsubscribe", {}, "invalid_argument", ""),
        ("subscription.unsubscribe", {"subscription_id": "x"}, "no_such_subscription", ""),
        ("subscription.reconnect", {}, "no_such_run", ""),
    ],
)
async def test_a_command_that_fits_no_thread_run_or_subscription_is_refused(
    http: httpx.AsyncClient, thread_id: str, method: str, params: dict[str, Any], error: str, message: str
) -> None:
    for thread in (thread_id, str(uuid4())):
        refused = await send(http, thread, method, **params)
        text = message or refused["message"]
        assert refused == {"type": "error", "id": 7, "error": error, "message": text}


async def test_a_thread_id_that_is_no_uuid_is_refused(http: httpx.AsyncClient) -> None:
    refused = await send(http, "zz", "run.start", assistant_id="count")
    assert (refused["error"], refused["message"]) == ("unknown_error", "422: Invalid thread ID: must be a UUID")


@pytest.mark.api("POST /threads/{thread_id}/commands", "200 applies a multitask strategy under both of its names")
@pytest.mark.parametrize("name", ["multitask_strategy", "multitaskStrategy"])
async def test_a_multitask_strategy_works_under_both_names(http: httpx.AsyncClient, thread_id: str, name: str) -> None:
    gate = str(uuid4())
    async with listening(http, thread_id) as listener:
        first = await start(http, thread_id, "gated", {"n": 1, "gate": gate})
        await http.get(f"/gates/{gate}/reached")
        params: dict[str, Any] = {"assistant_id": "count", "input": {"n": 5}}
        refused = await send(http, thread_id, "run.start", **params, **{name: "reject"})
        assert refused["error"] == "unknown_error"
        assert refused["message"].startswith("409: Thread is already running a task.")
        second = await start(http, thread_id, "count", {"n": 5}, **{name: "interrupt"})
        events = await listener.run(runs=2)
    lives = [event for event in events if event["method"] == "lifecycle"]
    ends = [(event["event_id"].split(":")[1], event["params"]["data"]["event"]) for event in lives]
    assert ends == [(first, "running"), (first, "interrupted"), (second, "running"), (second, "completed")]


@pytest.mark.api("POST /threads/{thread_id}/commands", "200 forks from a checkpoint, and refuses one that is not there")
async def test_a_run_forks_from_a_checkpoint(http: httpx.AsyncClient) -> None:
    thread_id, _ = await run_whole(http, "count", {"n": 1})
    history = (await http.post(f"/threads/{thread_id}/history", json={"limit": 10})).json()
    checkpoint_id = next(state for state in history if state["next"] == ["again"])["checkpoint"]["checkpoint_id"]
    fork = {"configurable": {"checkpoint_id": checkpoint_id, "thread_id": thread_id}}
    await ended(http, thread_id, await start(http, thread_id, "count", None, config=fork))
    assert await values(http, thread_id) == {"n": 3, "log": ["add", "add"]}
    assert on(await stored_events(http, thread_id), "values")[-2:] == [
        {"n": 2, "log": ["add"]},
        {"n": 3, "log": ["add", "add"]},
    ]
    lost = {"configurable": {"checkpoint_id": str(uuid4())}}
    refused = await send(http, thread_id, "run.start", assistant_id="count", input=None, config=lost)
    assert refused["error"] == "no_such_checkpoint"


@pytest.mark.api("POST /threads/{thread_id}/commands", "200 answers an interrupt, with update, goto, config, metadata")
async def test_an_answer_resumes_the_run(http: httpx.AsyncClient) -> None:
    thread_id, (question,) = await interrupted(http, "ask")
    assert await send(http, thread_id, "input.respond", interrupt_id=question, namespace=[], response="yes") == {
        "type": "success",
        "id": 7,
        "result": {},
        "meta": {"applied_through_seq": 0},
    }
    await settled(http, thread_id)
    assert await values(http, thread_id) == {"n": 2, "log": ["asked: yes", "add"]}
    assert contents(await stored_events(http, thread_id))[-1] == (
        "lifecycle",
        [],
        {"event": "completed", "graph_name": "ask"},
    )


async def test_an_answer_may_update_the_state_and_choose_the_next_node(http: httpx.AsyncClient) -> None:
    thread_id, (question,) = await interrupted(http, "ask")
    extras = {"update": {"n": 40}, "goto": "after", "metadata": {"m": 2}, "config": {"tags": ["t"]}}
    answer = {"interrupt_id": question, "namespace": [], "response": "yes"}
    await send(http, thread_id, "input.respond", responses=[answer], strict_resume=True, **extras)
    run = await newest_run(http, thread_id)
    assert run["kwargs"]["command"] == {"resume": {question: "yes"}, "update": {"n": 40}, "goto": "after"}
    assert (run["metadata"]["m"], run["kwargs"]["config"]["tags"]) == (2, ["t"])
    await settled(http, thread_id)
    assert (await values(http, thread_id))["n"] > 40


@pytest.mark.api("POST /threads/{thread_id}/commands", "200 answers several questions at once, or one of them")
async def test_interrupts_are_answered_one_by_one_or_together(http: httpx.AsyncClient) -> None:
    thread_id, (first, second) = await interrupted(http, "ask_both", 2)
    await send(http, thread_id, "input.respond", interrupt_id=first, namespace=[], response="one")
    await settled(http, thread_id)
    state = (await http.get(f"/threads/{thread_id}/state")).json()
    assert [waiting["id"] for waiting in state["interrupts"]] == [second]
    thread_id, questions = await interrupted(http, "ask_both", 2)
    answers = [{"interrupt_id": question, "namespace": [], "response": question} for question in questions]
    await send(http, thread_id, "input.respond", responses=answers)
    await settled(http, thread_id)
    assert sorted((await values(http, thread_id))["log"]) == sorted(questions)


@pytest.mark.api("POST /threads/{thread_id}/commands", "200 refuses answers that nobody waits for, or has been given")
@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({}, "invalid_argument"),
        ({"interrupt_id": 5}, "invalid_argument"),
        ({"interrupt_id": "x", "namespace": "x"}, "invalid_argument"),
        ({"responses": []}, "invalid_argument"),
        ({"responses": ["x"]}, "invalid_argument"),
        ({"responses": [{"response": 1}]}, "invalid_argument"),
        ({"interrupt_id": "nobody's"}, "no_such_interrupt"),
        ({"responses": [{"interrupt_id": "nobody's", "response": 1}]}, "no_such_interrupt"),
    ],
)
async def test_an_answer_to_no_interrupt_is_refused(http: httpx.AsyncClient, params: dict[str, Any], code: str) -> None:
    thread_id, _ = await run_whole(http, "count", {"n": 1})
    assert (await send(http, thread_id, "input.respond", **params))["error"] == code


async def test_one_of_many_answers_at_once_is_accepted(http: httpx.AsyncClient) -> None:
    thread_id, (question,) = await interrupted(http, "ask")
    responses = await asyncio.gather(
        *(send(http, thread_id, "input.respond", interrupt_id=question, response=number) for number in range(8))
    )
    assert sorted(answer["type"] for answer in responses) == [*["error"] * 7, "success"]
    assert {answer["error"] for answer in responses if answer["type"] == "error"} == {"no_such_interrupt"}
    await settled(http, thread_id)
    assert len((await http.get(f"/threads/{thread_id}/runs")).json()) == 2


async def test_an_interrupt_can_be_answered_as_soon_as_its_event_arrives(http: httpx.AsyncClient) -> None:
    for _ in range(5):
        thread_id = await new_thread(http)
        async with listening(http, thread_id) as listener:
            await start(http, thread_id, "ask", {"n": 1})
            events = await listener.until(lambda events: bool(on(events, "input.requested")))
            question = on(events, "input.requested")[0]["interrupt_id"]
            answer = await send(http, thread_id, "input.respond", interrupt_id=question, response="at once")
            assert answer["type"] == "success", answer
            await listener.until(
                lambda events: on(events, "lifecycle")[-1:] == [{"event": "completed", "graph_name": "ask"}]
            )
        assert (await values(http, thread_id))["log"] == ["asked: at once", "add"]


@pytest.mark.api("POST /threads/{thread_id}/commands", "200 takes the input for an interrupted thread as the answer")
async def test_an_input_to_an_interrupted_thread_is_the_answer(http: httpx.AsyncClient) -> None:
    thread_id, _ = await interrupted(http, "ask")
    await ended(http, thread_id, await start(http, thread_id, "ask", {"said": "so"}))
    assert await values(http, thread_id) == {"n": 2, "log": ["asked: {'said': 'so'}", "add"]}
    assert (await newest_run(http, thread_id))["kwargs"]["command"] == {"resume": {"said": "so"}}


async def test_an_input_sent_when_the_run_is_interrupted_is_the_answer(http: httpx.AsyncClient) -> None:
    for _ in range(5):
        thread_id = await new_thread(http)
        async with listening(http, thread_id, ["lifecycle"]) as listener:
            await start(http, thread_id, "ask", {"n": 1})
            await listener.run()
            await ended(http, thread_id, await start(http, thread_id, "ask", "so"))
        assert (await values(http, thread_id))["log"] == ["asked: so", "add"]


async def test_an_input_after_a_cancelled_run_is_an_input(http: httpx.AsyncClient, thread_id: str) -> None:
    gate = str(uuid4())
    run_id = await start(http, thread_id, "gated", {"n": 1, "gate": gate})
    await http.get(f"/gates/{gate}/reached")
    await http.post(f"/threads/{thread_id}/runs/{run_id}/cancel?wait=1")
    await ended(http, thread_id, await start(http, thread_id, "count", {"n": 10}))
    assert (await newest_run(http, thread_id))["kwargs"]["input"] == {"n": 10}
    assert (await values(http, thread_id))["n"] == 12


@pytest.mark.api("POST /threads/{thread_id}/commands", "200 draws the tree of a run's graphs")
async def test_the_tree_shows_the_graphs_of_the_newest_run_or_a_named_one(http: httpx.AsyncClient) -> None:
    thread_id, _ = await run_whole(http, "nested", {"n": 1})
    first = (await newest_run(http, thread_id))["run_id"]
    await ended(http, thread_id, await start(http, thread_id, "ask", {"n": 1}))
    newest = (await send(http, thread_id, "agent.getTree"))["result"]["tree"]
    assert newest == {"namespace": [], "status": "interrupted", "graph_name": "ask"}
    tree = (await send(http, thread_id, "agent.getTree", run_id=first))["result"]["tree"]
    middle = tree["children"][0]
    inner = middle["children"][0]
    assert [(node["graph_name"], node["status"], len(node["namespace"])) for node in (tree, middle, inner)] == [
        ("nested", "completed", 0),
        ("middle", "completed", 1),
        ("inner", "completed", 2),
    ]


async def test_a_subscription_without_a_connection_is_accepted(http: httpx.AsyncClient) -> None:
    result = (await send(http, str(uuid4()), "subscription.subscribe", channels=["values", "custom:x"]))["result"]
    assert result["replayed_events"] == 0
    assert result["subscription_id"]
