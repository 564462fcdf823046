"""Assistants as A2A agents, in both revisions of the protocol (langgraph_api.md section 8)."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.api.langgraph.steering import NOBODY

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
HI: dict[str, Any] = {"kind": "text", "text": "you"}
BOUND_S = 60.0


async def agent(http: httpx.AsyncClient, graph_id: str) -> str:
    found = (await http.post("/assistants/search", json={"graph_id": graph_id})).json()
    return f"/a2a/{found[0]['assistant_id']}"


def message(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"message": {"role": "user", "parts": list(parts), "messageId": str(uuid4()), **fields}}


def data(**fields: Any) -> dict[str, Any]:
    return {"kind": "data", "data": fields}


def rpc(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}


async def ask(http: httpx.AsyncClient, graph_id: str, method: str, params: Any, **headers: str) -> Any:
    answer = await http.post(await agent(http, graph_id), json=rpc(method, params), headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert (answer.json()["jsonrpc"], answer.json()["id"]) == ("2.0", "1")
    return answer.json()


async def error_code(http: httpx.AsyncClient, graph_id: str, method: str, params: Any, **headers: str) -> int:
    return int((await ask(http, graph_id, method, params, **headers))["error"]["code"])


async def send(http: httpx.AsyncClient, graph_id: str, params: Any, method: str = "message/send") -> Any:
    return (await ask(http, graph_id, method, params))["result"]


async def stream(http: httpx.AsyncClient, graph_id: str, params: Any, method: str = "message/stream") -> list[Any]:
    headers = {"accept": "text/event-stream"}
    answer = await http.post(await agent(http, graph_id), json=rpc(method, params), headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    frames = answer.text.replace("\r\n", "\n").strip().split("\n\n")
    assert all(frame.startswith("event: message\n") for frame in frames)
    return [json.loads(frame.partition("data: ")[2])["result"] for frame in frames]


def history_texts(task: Any) -> list[tuple[str, str]]:
    return [(entry["role"], entry["parts"][0]["text"]) for entry in task["history"]]


def artifact_text(task: Any) -> str:
    (artifact,) = task["artifacts"]
    return str(artifact["parts"][0]["text"])


@pytest.mark.api("POST /a2a/{assistant_id}", "200 runs a message and gives the finished task")
async def test_a_message_is_a_run_and_its_context_a_thread(http: httpx.AsyncClient, sdk: LangGraphClient) -> None:
    task = await send(http, "talk", message(HI, messageId="m1"))
    assert list(task) == ["kind", "id", "contextId", "history", "status", "artifacts"]
    assert task["status"]["state"] == "completed"
    assert history_texts(task) == [("user", "you"), ("agent", "hello you")]
    assert artifact_text(task) == "hello you"
    assert task["history"][0]["messageId"] == "m1"
    thread_id, _, run_id = task["id"].partition(":")
    assert thread_id == task["contextId"]
    assert (await sdk.runs.get(thread_id, run_id))["status"] == "success"
    again = await send(http, "talk", message({"text": "again"}, contextId=thread_id))
    assert history_texts(again)[2:] == [("user", "again"), ("agent", "hello again")]
    assert again["id"] != task["id"]


async def test_the_later_revision_has_its_own_names_for_methods_states_and_roles(http: httpx.AsyncClient) -> None:
    message = {"message": {"role": "ROLE_USER", "parts": [{"text": "you"}], "messageId": "m1"}}
    task = (await send(http, "talk", message, "SendMessage"))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert history_texts(task) == [("ROLE_USER", "you"), ("ROLE_AGENT", "hello you")]
    found = await send(http, "talk", {"id": task["id"]}, "GetTask")
    assert (found["status"]["state"], history_texts(found)) == ("TASK_STATE_COMPLETED", history_texts(task))


async def test_the_history_is_of_the_context_or_of_the_task_and_has_the_requested_length(
    http: httpx.AsyncClient,
) -> None:
    first = await send(http, "talk", message(HI))
    context = first["contextId"]
    scope = {"LangGraph-A2A-History-Scope": "task"}
    second = (await ask(http, "talk", "message/send", message(HI, contextId=context), **scope))["result"]
    assert len(second["history"]) == 2
    for wanted, length in (({}, 4), ({"historyLength": 3}, 3)):
        found = await send(http, "talk", {"id": second["id"], **wanted}, "tasks/get")
        assert len(found["history"]) == length
    assert "history" not in await send(http, "talk", {"id": second["id"], "historyLength": 0}, "tasks/get")
    assert len((await send(http, "talk", {"id": first["id"]}, "tasks/get"))["history"]) == 2
    found = (await ask(http, "talk", "tasks/get", {"id": second["id"]}, **scope))["result"]
    assert found["history"] == second["history"]
    unknown_scope = {"LangGraph-A2A-History-Scope": "all"}
    assert await error_code(http, "talk", "tasks/get", {"id": first["id"]}, **unknown_scope) == -32602


async def test_texts_are_one_message_and_data_is_the_graphs_input(http: httpx.AsyncClient) -> None:
    task = await send(http, "talk", message(HI, {"kind": "text", "text": "and you"}))
    assert history_texts(task)[0] == ("user", "you\nand you")
    task = await send(http, "steps", message(data(n=1), data(log=["z"])))
    assert task["history"] == []
    assert json.loads(artifact_text(task)) == {"n": 4, "log": ["z", "add", "double"]}


@pytest.mark.api("POST /a2a/{assistant_id}", "200 streams a task, its messages and its end")
async def test_a_stream_has_the_states_and_texts_of_the_task(http: httpx.AsyncClient) -> None:
    events = await stream(http, "talk", message(HI))
    assert [event["kind"] for event in events] == ["task", *["status-update"] * 3, "artifact-update", "status-update"]
    assert events[0]["status"]["state"] == "submitted"
    spoken = [event["status"]["message"]["parts"][0]["text"] for event in events[1:4]]
    assert spoken == ["hello", "hello ", "hello you"]
    assert events[4]["artifact"]["parts"] == [{"kind": "text", "text": "hello you"}]
    assert (events[5]["status"]["state"], events[5]["final"]) == ("completed", True)
    assert {event.get("taskId", event.get("id")) for event in events} == {events[0]["id"]}
    later = await stream(http, "steps", message(data(n=1)), "SendStreamingMessage")
    assert later[0]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert later[-1]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.api("POST /a2a/{assistant_id}", "200 gives a failed run as a failed task")
async def test_a_failed_run_is_a_failed_task(http: httpx.AsyncClient) -> None:
    task = await send(http, "broken", message(data(n=1)))
    assert task["status"]["state"] == "failed"
    text = "Error executing assistant: ValueError: cannot go on from 2"
    assert task["status"]["message"]["parts"] == [{"kind": "text", "text": text}]
    assert (await send(http, "broken", {"id": task["id"]}, "tasks/get"))["status"]["state"] == "failed"
    events = await stream(http, "broken", message(data(n=1)))
    assert [event["status"]["state"] for event in events] == ["submitted", "failed"]


@pytest.mark.api("POST /a2a/{assistant_id}", "200 gives an interrupt as a task that needs input, and takes the answer")
@pytest.mark.parametrize(("answer", "taken"), [(HI, "you"), (data(yes=True), {"yes": True})])
async def test_a_question_waits_for_its_answer(answer: dict[str, Any], taken: Any, http: httpx.AsyncClient) -> None:
    task = await send(http, "ask", message(data(n=1)))
    assert task["status"]["state"] == "input-required"
    question = task["artifacts"][0]["parts"]
    assert question[0]["data"]["value"] == {"question": 1}
    found = await send(http, "ask", {"id": task["id"], "contextId": task["contextId"]}, "tasks/get")
    assert (found["status"]["state"], found["artifacts"][0]["parts"]) == ("input-required", question)
    done = await send(http, "ask", message(answer, taskId=task["id"]))
    assert (done["id"], done["status"]["state"]) == (task["id"], "completed")
    assert json.loads(artifact_text(done)) == {"n": 2, "log": [taken, "add"]}
    assert (await send(http, "ask", {"id": task["id"]}, "tasks/get"))["status"]["state"] == "completed"
    refused = await ask(http, "ask", "message/send", message(answer, taskId=task["id"]))
    assert refused["error"] == {"code": -32004, "message": "A terminal task cannot accept another message"}


@pytest.mark.api("POST /a2a/{assistant_id}", "200 cancels a task that runs or waits")
async def test_a_task_is_canceled(http: httpx.AsyncClient) -> None:
    waiting = await send(http, "ask", message(data(n=1)))
    assert (await send(http, "ask", {"id": waiting["id"]}, "tasks/cancel"))["status"]["state"] == "canceled"
    assert (await send(http, "ask", {"id": waiting["id"]}, "tasks/get"))["status"]["state"] == "canceled"
    gate = str(uuid4())
    started = await send(http, "gated", {**message(data(n=1, gate=gate)), "configuration": {"blocking": False}})
    assert started["status"]["state"] == "submitted"
    await http.get(f"/gates/{gate}/reached")
    assert (await send(http, "gated", {"id": started["id"]}, "tasks/get"))["status"]["state"] == "working"
    assert (await send(http, "gated", {"id": started["id"]}, "tasks/cancel"))["status"]["state"] == "canceled"
    for method in ("tasks/cancel", "CancelTask"):
        assert await error_code(http, "gated", method, {"id": started["id"]}) == -32002


async def test_a_client_that_waits_for_a_task_gets_its_cancellation(http: httpx.AsyncClient) -> None:
    gate, context = str(uuid4()), str(uuid4())
    waiting = asyncio.create_task(send(http, "gated", message(data(n=1, gate=gate), contextId=context)))
    streaming = asyncio.create_task(stream(http, "gated", message(data(n=1, gate=gate))))
    await http.get(f"/gates/{gate}/reached")
    (run,) = (await http.get(f"/threads/{context}/runs")).json()
    await send(http, "gated", {"id": f"{context}:{run['run_id']}"}, "tasks/cancel")
    async with asyncio.timeout(BOUND_S):
        assert (await waiting)["status"]["state"] == "canceled"
        await http.post(f"/gates/{gate}/open")
        assert (await streaming)[-1]["status"]["state"] == "completed"


@pytest.mark.api("POST /a2a/{assistant_id}", "200 lists tasks by context, status and page")
async def test_tasks_are_listed(http: httpx.AsyncClient) -> None:
    first = await send(http, "talk", message(HI))
    second = await send(http, "talk", message(HI, contextId=first["contextId"]))
    listed = await send(http, "talk", {"contextId": first["contextId"]}, "ListTasks")
    assert [task["id"] for task in listed["tasks"]] == [second["id"], first["id"]]
    assert (listed["totalSize"], listed["pageSize"], listed["nextPageToken"]) == (2, 2, "")
    page = {"contextId": first["contextId"], "pageSize": 1}
    listed = await send(http, "talk", page, "ListTasks")
    assert ([task["id"] for task in listed["tasks"]], listed["nextPageToken"]) == ([second["id"]], "1")
    listed = await send(http, "talk", {**page, "pageToken": "1"}, "ListTasks")
    assert [task["id"] for task in listed["tasks"]] == [first["id"]]
    everywhere = await send(http, "talk", {"pageSize": 100}, "ListTasks")
    assert {first["id"], second["id"]} <= {task["id"] for task in everywhere["tasks"]}
    for context in ("nope", str(uuid4())):
        assert (await send(http, "talk", {"contextId": context}, "ListTasks"))["tasks"] == []
    working = {"contextId": first["contextId"], "status": "TASK_STATE_WORKING"}
    assert (await send(http, "talk", working, "ListTasks"))["totalSize"] == 0


@pytest.mark.api("POST /a2a/{assistant_id}", "200 with a JSON-RPC error for an invalid request")
@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("message/send", None, -32602),
        ("message/send", [], -32602),
        ("message/send", {"message": 5}, -32602),
        ("message/send", {"message": {"role": "user", "parts": [HI]}}, -32602),
        ("message/send", {"message": {"messageId": "m", "parts": [HI]}}, -32602),
        ("message/send", message(), -32602),
        ("message/send", message(parts="x"), -32602),
        ("message/send", message(parts=[5]), -32005),
        ("message/send", message({"kind": "text"}), -32005),
        ("message/send", message({"kind": "file", "file": {"uri": "http://x/y.png"}}), -32005),
        ("message/send", message({"kind": "data", "data": [1]}), -32005),
        ("message/send", message({"kind": "text", "text": 5}), -32602),
        ("message/send", message(HI, contextId=5), -32602),
        ("message/send", message(HI, contextId="no-uuid"), -32602),
        ("message/send", message(HI, taskId="nope"), -32001),
        ("message/send", message(HI, role={"x": 1}, taskId=f"{NOBODY}:{NOBODY}"), -32602),
        ("message/send", {**message(HI), "configuration": 5}, -32602),
        ("message/send", {**message(HI), "configuration": {"historyLength": -1}}, -32602),
        ("message/stream", {}, -32602),
        ("tasks/get", {}, -32602),
        ("tasks/get", {"id": 5}, -32602),
        ("tasks/get", {"id": "nope"}, -32001),
        ("tasks/get", {"id": f"{NOBODY}:{NOBODY}", "contextId": NOBODY}, -32001),
        ("tasks/cancel", {"id": "nope"}, -32001),
        ("ListTasks", {"pageSize": 0}, -32602),
        ("ListTasks", {"pageToken": "x"}, -32602),
        ("tasks/resubscribe", {}, -32601),
    ],
)
async def test_a_wrong_request_is_an_error(method: str, params: Any, code: int, http: httpx.AsyncClient) -> None:
    assert await error_code(http, "talk", method, params) == code


async def test_a_graph_without_messages_takes_no_text(http: httpx.AsyncClient) -> None:
    error = (await ask(http, "steps", "message/send", message(HI)))["error"]
    assert error["code"] == -32602
    assert "must include a 'messages' field" in error["message"]


async def test_a_task_belongs_to_its_assistant_and_its_context(http: httpx.AsyncClient) -> None:
    task = await send(http, "talk", message(HI))
    assert await error_code(http, "steps", "tasks/get", {"id": task["id"]}) == -32001
    elsewhere = {"id": task["id"], "contextId": str(uuid4())}
    assert await error_code(http, "talk", "tasks/get", elsewhere) == -32001
    waiting = await send(http, "ask", message(data(n=1)))
    wrong = message(data(x=1), taskId=waiting["id"], contextId=str(uuid4()))
    assert await error_code(http, "ask", "message/send", wrong) == -32602


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"[]", -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":null}', -32600),
        (b'{"id":1,"method":"message/send"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"message/send"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"message/send"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32601),
    ],
)
async def test_a_body_that_is_not_a_request_is_an_error(body: bytes, code: int, http: httpx.AsyncClient) -> None:
    answer = await http.post(await agent(http, "talk"), content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (200, code)


@pytest.mark.parametrize(
    ("assistant_id", "text"),
    [("talk", "Invalid assistant ID: must be a UUID"), (NOBODY, f"Assistant '{NOBODY}' not found")],
)
async def test_an_unknown_assistant_is_an_error(assistant_id: str, text: str, http: httpx.AsyncClient) -> None:
    answer = await http.post(f"/a2a/{assistant_id}", json=rpc("message/send", message(HI)))
    assert (answer.status_code, answer.json()["error"]) == (200, {"code": -32602, "message": text})


@pytest.mark.api("POST /a2a/{assistant_id}", "202 for answers nobody waits for")
@pytest.mark.api("POST /a2a/{assistant_id}", "400 for a stream that is not accepted")
async def test_responses_are_accepted_and_streams_need_an_accept_header(http: httpx.AsyncClient) -> None:
    path = await agent(http, "talk")
    assert (await http.post(path, json={"jsonrpc": "2.0", "id": 1, "result": {}})).status_code == 202
    body = rpc("message/stream", message(HI))
    answer = await http.post(path, json=body, headers={"accept": "application/json"})
    assert (answer.status_code, set(answer.json())) == (400, {"error"})


@pytest.mark.api("GET /.well-known/agent-card.json", "200 describes the assistant")
@pytest.mark.api("GET /a2a/{assistant_id}", "200 describes the assistant")
@pytest.mark.api("GET /a2a/{assistant_id}/.well-known/agent-card.json", "200 describes the assistant")
async def test_a_card_describes_the_assistant(http: httpx.AsyncClient) -> None:
    path = await agent(http, "talk")
    well_known = "/.well-known/agent-card.json"
    card = (await http.get(path)).json()
    assert (await http.get(f"{path}{well_known}")).json() == card
    assert (await http.get(well_known, params={"assistant_id": path.rpartition("/")[2]})).json() == card
    assert (card["name"], card["description"]) == ("talk", "talk assistant")
    assert card["url"] == card["supportedInterfaces"][0]["url"] == str(http.base_url.join(path))
    assert card["capabilities"]["streaming"] is True
    accepted = {"required": ["messages"], "properties": ["messages"], "supportsA2A": True}
    assert card["skills"][0]["metadata"]["inputSchema"] == accepted
    steps = (await http.get(await agent(http, "steps"))).json()
    assert steps["skills"][0]["metadata"]["inputSchema"]["supportsA2A"] is False


@pytest.mark.api("GET /.well-known/agent-card.json", "400 without an assistant, or for an unknown one")
@pytest.mark.api("GET /a2a/{assistant_id}", "400 for an unknown assistant")
@pytest.mark.api("GET /a2a/{assistant_id}/.well-known/agent-card.json", "400 for an unknown assistant")
async def test_a_card_needs_an_assistant(http: httpx.AsyncClient) -> None:
    card = "/.well-known/agent-card.json"
    for path, text in (
        (card, "Missing required query parameter: assistant_id"),
        (f"{card}?assistant_id=", "Missing required query parameter: assistant_id"),
        (f"{card}?assistant_id=talk", "Failed to get assistant 'talk': Invalid assistant ID: must be a UUID"),
        (f"{card}?assistant_id={NOBODY}", f"Assistant '{NOBODY}' not found"),
        (f"/a2a/{NOBODY}", f"Assistant '{NOBODY}' not found"),
        (f"/a2a/{NOBODY}{card}", f"Assistant '{NOBODY}' not found"),
    ):
        answer = await http.get(path)
        assert (answer.status_code, answer.json()) == (400, {"error": {"code": -32602, "message": text}})
