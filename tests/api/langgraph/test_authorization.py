"""No other user reads, finds, counts, changes, streams or deletes what one user owns, through any endpoint."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.fixtures.app_server import AppServer
from toolweave.api.langgraph.app import ENDPOINTS
from toolweave.runtime.persistence.assistants import system_assistant_id

pytestmark = pytest.mark.requirement("S-02")

LANGGRAPH_JSON = Path(__file__).parent / "apps" / "guarded" / "langgraph.json"
SECRET = "ada-only-7d41"
YEAR = 365 * 24 * 3600
RPC = {"jsonrpc": "2.0", "id": 1}
ACCEPT = {"accept": "application/json, text/event-stream"}
Ids = Mapping[str, str]


def as_user(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


ADA, BOB, ADMIN = as_user("ada"), as_user("bob"), as_user("admin")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ids(http: httpx.AsyncClient) -> AsyncIterator[Ids]:
    """Create one of everything for ada, with her secret in it."""

    async def created(method: str, path: str, body: Any) -> Any:
        response = await http.request(method, path, json=body, headers=ADA)
        assert response.status_code < 300, response.text
        return response.json() if response.content else None

    metadata = {"secret": SECRET}
    thread = (await created("POST", "/threads", {"metadata": metadata}))["thread_id"]
    keep_run = {"assistant_id": "keep", "input": {"text": SECRET}}
    await created("POST", f"/threads/{thread}/runs/wait", {**keep_run, "stream_resumable": True})
    run = (await created("GET", f"/threads/{thread}/runs", None))[0]["run_id"]
    later = {**keep_run, "after_seconds": YEAR, "stream_resumable": True}
    waiting = (await created("POST", f"/threads/{thread}/runs", later))["run_id"]
    alone = (await created("POST", "/runs", {**later, "on_completion": "keep"}))["run_id"]
    assistant = await created(
        "POST",
        "/assistants",
        {"graph_id": "talk", "name": SECRET, "config": {"configurable": {"key": SECRET}}, "metadata": metadata},
    )
    schedule = {**keep_run, "schedule": "0 0 1 1 *", "metadata": metadata}
    cron = (await created("POST", "/runs/crons", schedule))["cron_id"]
    await created("POST", f"/threads/{thread}/runs/crons", schedule)
    await created("PUT", "/store/items", {"namespace": ["notes"], "key": "k", "value": {"secret": SECRET}})
    history = await created("POST", f"/threads/{thread}/history", {"limit": 10})
    yield {
        "thread_id": thread,
        "run_id": run,
        "waiting": waiting,
        "alone": alone,
        "assistant_id": assistant["assistant_id"],
        "cron_id": cron,
        "checkpoint_id": history[0]["checkpoint_id"],
        "namespace": "any",
    }


def bodies(ids: Ids) -> dict[str, list[Any]]:
    """Give, for every endpoint with a body, bodies that go for what is ada's."""
    thread, run, assistant = ids["thread_id"], ids["run_id"], ids["assistant_id"]
    secret = {"metadata": {"secret": SECRET}}
    start = {"assistant_id": assistant, "input": {"messages": []}}
    on_thread = {"assistant_id": "keep", "input": {"text": "mine now"}, "if_not_exists": "create"}
    talk = {"role": "user", "messageId": "m", "parts": [{"kind": "text", "text": "x"}], "contextId": thread}
    commands = [
        {"id": 1, "method": "run.start", "params": {**on_thread}},
        {"id": 2, "method": "input.respond", "params": {"response": "x"}},
        {"id": 3, "method": "agent.getTree", "params": {}},
        {"id": 4, "method": "subscription.subscribe", "params": {"channels": ["values"]}},
    ]
    return {
        "POST /assistants": [{"graph_id": "keep", "assistant_id": assistant, "if_exists": "do_nothing"}],
        "POST /assistants/search": [{}, secret, {"name": SECRET}, {"graph_id": "talk"}],
        "POST /assistants/count": [secret, {"name": SECRET}],
        "PATCH /assistants/{assistant_id}": [{"name": "mine now"}, {"metadata": {"owner": "bob"}}],
        "POST /assistants/{assistant_id}/versions": [{}],
        "POST /assistants/{assistant_id}/latest": [{"version": 1}],
        "POST /threads": [{"thread_id": thread, "if_exists": "do_nothing"}, {"thread_id": thread}],
        "POST /threads/search": [{}, secret, {"ids": [thread]}, {"values": {"text": SECRET}}, {"status": "busy"}],
        "POST /threads/count": [secret, {"values": {"text": SECRET}}],
        "POST /threads/prune": [{"thread_ids": [thread]}, {"thread_ids": [thread], "strategy": "keep_latest"}],
        "PATCH /threads/{thread_id}": [{"metadata": {"owner": "bob"}}],
        "POST /threads/{thread_id}/state": [{"values": {"text": "mine now"}}],
        "POST /threads/{thread_id}/state/checkpoint": [{"checkpoint": {"checkpoint_id": ids["checkpoint_id"]}}],
        "POST /threads/{thread_id}/history": [{"limit": 10}],
        "POST /threads/{thread_id}/commands": commands,
        "POST /threads/{thread_id}/stream/events": [{"channels": ["values", "messages"]}],
        "POST /threads/{thread_id}/runs": [on_thread],
        "POST /threads/{thread_id}/runs/stream": [on_thread],
        "POST /threads/{thread_id}/runs/wait": [on_thread],
        "POST /threads/{thread_id}/runs/crons": [{"assistant_id": "keep", "schedule": "0 0 1 1 *"}],
        "POST /runs": [start],
        "POST /runs/stream": [start],
        "POST /runs/wait": [start],
        "POST /runs/batch": [[start], [start, {"assistant_id": "keep", "input": {}}]],
        "POST /runs/cancel": [{"status": "all"}, {"thread_id": thread, "run_ids": [run, ids["waiting"]]}],
        "POST /runs/crons": [{"assistant_id": assistant, "schedule": "0 0 1 1 *"}],
        "POST /runs/crons/search": [{}, secret, {"thread_id": thread}, {"assistant_id": system_assistant_id("keep")}],
        "POST /runs/crons/count": [secret],
        "PATCH /runs/crons/{cron_id}": [{"enabled": False}, {"metadata": {"owner": "bob"}}],
        "PUT /store/items": [{"namespace": ["ada", "notes"], "key": "k", "value": {"mine": "now"}}],
        "DELETE /store/items": [{"namespace": ["ada", "notes"], "key": "k"}],
        "POST /store/items/search": [{"namespace_prefix": []}, {"namespace_prefix": ["ada"]}],
        "POST /store/namespaces": [{}, {"prefix": ["ada"]}, {"suffix": ["notes"]}],
        "POST /mcp": [
            {**RPC, "method": "tools/list"},
            {**RPC, "method": "tools/call", "params": {"name": SECRET, "arguments": {}}},
        ],
        "DELETE /mcp": [None],
        "POST /a2a/{assistant_id}": [
            {**RPC, "method": "message/send", "params": {"message": talk}},
            {**RPC, "method": "message/stream", "params": {"message": talk}},
            {**RPC, "method": "tasks/get", "params": {"id": run, "contextId": thread}},
            {**RPC, "method": "tasks/cancel", "params": {"id": ids["waiting"], "contextId": thread}},
            {**RPC, "method": "ListTasks", "params": {}},
        ],
    }


QUERIES = {
    "DELETE /assistants/{assistant_id}": {"delete_threads": "true"},
    "GET /store/items": {"namespace": "ada.notes", "key": "k"},
    "GET /.well-known/agent-card.json": {"assistant_id": "{assistant_id}"},
    "GET /threads/{thread_id}/runs/{run_id}/join": {"cancel_on_disconnect": "true"},
    "GET /threads/{thread_id}/runs/{run_id}/stream": {"cancel_on_disconnect": "true"},
}
GUARDED = [
    pytest.param(f"{one.method} {one.path}", id=f"{one.method} {one.path}") for one in ENDPOINTS if one.rule is not None
]
# Whose path names nothing of ada's, and whose body neither: bob's own, and empty.
HIS_OWN = (
    *("POST /assistants/search", "POST /assistants/count", "POST /threads/search", "POST /threads/count"),
    *("POST /runs/crons/search", "POST /runs/crons/count", "POST /store/items/search", "POST /store/namespaces"),
    *("GET /store/items", "PUT /store/items", "DELETE /store/items", "POST /mcp"),
)


def socket_url(server: AppServer, thread_id: str) -> str:
    return f"{server.url.replace('http', 'ws')}/threads/{thread_id}/stream/events"


async def check_closed_as_not_found(socket: ClientConnection) -> None:
    with pytest.raises(ConnectionClosed) as closed:
        await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4404


def paths(endpoint: str, ids: Ids) -> list[str]:
    path = endpoint.partition(" ")[2]
    runs = [ids["run_id"], ids["waiting"], ids["alone"]] if "{run_id}" in path else [ids["run_id"]]
    return [path.format(**{**ids, "run_id": run}) for run in runs]


async def responses(http: httpx.AsyncClient, endpoint: str, ids: Ids, user: Mapping[str, str]) -> list[httpx.Response]:
    """Send each body to each path of an endpoint; streams are read to their end."""
    method = endpoint.partition(" ")[0]
    query = {name: value.format(**ids) for name, value in QUERIES.get(endpoint, {}).items()}
    headers = {**user, **ACCEPT, "last-event-id": "-1"}
    received = []
    for path in paths(endpoint, ids):
        for body in bodies(ids).get(endpoint, [None]):
            content = None if body is None else json.dumps(body)
            received.append(await http.request(method, path, params=query, headers=headers, content=content))
    return received


async def data_of_ada(http: httpx.AsyncClient, ids: Ids) -> list[Any]:
    """Return everything that ada has, as the API shows it to her."""
    thread = ids["thread_id"]
    looks: list[tuple[str, str, Any]] = [
        ("GET", f"/threads/{thread}", None),
        ("GET", f"/threads/{thread}/runs", None),
        ("POST", f"/threads/{thread}/history", {"limit": 100}),
        ("GET", f"/assistants/{ids['assistant_id']}", None),
        ("POST", f"/assistants/{ids['assistant_id']}/versions", {}),
        ("POST", "/runs/crons/search", {}),
        ("POST", "/store/items/search", {"namespace_prefix": []}),
        ("POST", "/threads/search", {"limit": 100}),
    ]
    answers = [await http.request(method, path, json=body, headers=ADA) for method, path, body in looks]
    assert [answer.status_code for answer in answers] == [200] * len(looks)
    return [answer.json() for answer in answers]


@pytest.mark.parametrize("endpoint", GUARDED)
async def test_an_endpoint_does_not_show_or_change_what_another_user_owns(
    endpoint: str, http: httpx.AsyncClient, ids: Ids
) -> None:
    before = await data_of_ada(http, ids)
    assert SECRET in json.dumps(before)
    for response in await responses(http, endpoint, ids, BOB):
        assert response.status_code < 500, response.text
        text = response.text.replace(f"Unknown tool: {SECRET}", "")
        assert SECRET not in text
        if endpoint not in HIS_OWN and "error" not in text:
            assert response.status_code in (404, 409), (response.status_code, text)
        if endpoint.endswith("/count"):
            assert response.json() == 0
    assert await data_of_ada(http, ids) == before


@pytest.mark.parametrize("endpoint", GUARDED)
async def test_a_user_without_permission_is_forbidden_everything_but_reading(
    endpoint: str, http: httpx.AsyncClient, ids: Ids
) -> None:
    for response in await responses(http, endpoint, ids, as_user("stranger")):
        # Store and crons have handlers of their own, which know no strangers.
        if "/store/" not in endpoint and endpoint not in ("DELETE /runs/crons/{cron_id}", "DELETE /mcp"):
            assert (response.status_code, response.json()) == (403, {"detail": "Forbidden"})
        assert SECRET not in response.text


LOOKING = [
    "GET /assistants/{assistant_id}",
    "GET /assistants/{assistant_id}/graph",
    "GET /assistants/{assistant_id}/schemas",
    "GET /assistants/{assistant_id}/subgraphs",
    "POST /assistants/search",
    "POST /assistants/{assistant_id}/versions",
    "GET /threads/{thread_id}",
    "GET /threads/{thread_id}/state",
    "GET /threads/{thread_id}/state/{checkpoint_id}",
    "POST /threads/{thread_id}/state/checkpoint",
    "GET /threads/{thread_id}/history",
    "POST /threads/{thread_id}/history",
    "GET /threads/{thread_id}/storage",
    "POST /threads/search",
    "GET /threads/{thread_id}/runs",
    "GET /runs/crons/{cron_id}",
    "POST /runs/crons/search",
    "POST /runs/wait",
    "GET /a2a/{assistant_id}",
]


@pytest.mark.parametrize("endpoint", LOOKING)
async def test_the_owner_and_an_admin_are_allowed(endpoint: str, http: httpx.AsyncClient, ids: Ids) -> None:
    one_run = {**ids, "waiting": ids["run_id"], "alone": ids["run_id"]}
    for user in (ADA, ADMIN):
        assert {each.status_code for each in await responses(http, endpoint, one_run, user)} == {200}


async def test_a_reader_may_read_threads_and_listen_on_them_but_change_and_start_nothing(
    app_server: AppServer, http: httpx.AsyncClient, ids: Ids
) -> None:
    thread, reader = f"/threads/{ids['thread_id']}", as_user("reader")
    assert (await http.get(f"{thread}/state", headers=reader)).status_code == 200
    assert (await http.patch(thread, json={"metadata": {}}, headers=reader)).status_code == 403
    assert (await http.delete(thread, headers=reader)).status_code == 403
    async with connect(socket_url(app_server, ids["thread_id"]), additional_headers=reader) as socket:
        start = {"id": 1, "method": "run.start", "params": {"assistant_id": "keep", "input": {}}}
        await socket.send(json.dumps(start))
        answer = json.loads(await socket.recv())
    assert (answer["type"], answer["id"]) == ("error", 1)


async def test_the_metadata_that_a_handler_writes_is_stored(http: httpx.AsyncClient, ids: Ids) -> None:
    thread = (await http.post("/threads", json={"metadata": {"a": 1, "owner": "bob"}}, headers=ADA)).json()
    assert thread["metadata"] == {"a": 1, "owner": "ada"}
    body = {"assistant_id": "keep", "input": {}, "metadata": {"owner": "bob"}, "on_completion": "keep"}
    run = (await http.post("/runs", json=body, headers=ADA)).json()
    thread_of_run = (await http.get(f"/threads/{run['thread_id']}", headers=ADA)).json()
    assistant = (await http.post("/assistants", json={"graph_id": "keep"}, headers=ADA)).json()
    assert [each["metadata"]["owner"] for each in (run, thread_of_run, assistant)] == ["ada"] * 3


async def test_a_run_uses_the_input_that_a_handler_sets(http: httpx.AsyncClient) -> None:
    body = {"assistant_id": "keep", "input": {"text": "by the user"}}
    response = await http.post("/runs/wait", json=body, headers=as_user("limited"))
    assert response.json()["text"] == "by the handler"


async def test_searches_count_and_page_over_what_may_be_seen(http: httpx.AsyncClient, ids: Ids) -> None:
    eve = as_user("eve")
    for number in range(3):
        await http.post("/threads", json={"metadata": {"number": number}}, headers=eve)
    page = await http.post("/threads/search", json={"limit": 2}, headers=eve)
    assert [thread["metadata"]["owner"] for thread in page.json()] == ["eve", "eve"]
    assert page.headers["x-pagination-next"] == "2"
    assert (await http.post("/threads/count", json={}, headers=eve)).json() == 3
    assert (await http.post("/threads/count", json={}, headers=ADMIN)).json() > 3
    assert (await http.post("/threads/search", json={"metadata": {"owner": "ada"}}, headers=eve)).json() == []


async def test_every_user_has_a_store_of_their_own(http: httpx.AsyncClient, ids: Ids) -> None:
    for name in ("fay", "gus"):
        item = {"namespace": ["n"], "key": "k", "value": {"of": name}}
        assert (await http.put("/store/items", json=item, headers=as_user(name))).status_code == 204
    for name in ("fay", "gus"):
        found = (await http.get("/store/items", params={"namespace": "n", "key": "k"}, headers=as_user(name))).json()
        assert (found["namespace"], found["value"]) == ([name, "n"], {"of": name})
        listed = await http.post("/store/namespaces", json={}, headers=as_user(name))
        assert listed.json() == {"namespaces": [[name, "n"]]}


async def test_every_user_may_run_a_graphs_own_assistant_but_see_only_their_own(
    http: httpx.AsyncClient, ids: Ids
) -> None:
    for assistant in ("keep", system_assistant_id("keep")):
        answer = await http.post("/runs/wait", json={"assistant_id": assistant, "input": {"text": "x"}}, headers=BOB)
        assert answer.json()["text"] == "x"
    assert (await http.get(f"/assistants/{system_assistant_id('keep')}", headers=BOB)).status_code == 404
    assert (await http.get(f"/assistants/{system_assistant_id('keep')}", headers=ADMIN)).status_code == 200


async def test_an_mcp_and_an_a2a_run_belong_to_their_caller(http: httpx.AsyncClient, ids: Ids) -> None:
    call = {**RPC, "method": "tools/call", "params": {"name": SECRET, "arguments": {"messages": "hi"}}}
    answer = (await http.post("/mcp", json=call, headers={**ADA, **ACCEPT})).json()
    assert "received" in answer["result"]["content"][0]["text"]
    talk = {"role": "user", "messageId": "m", "parts": [{"kind": "text", "text": "x"}]}
    send = {**RPC, "method": "message/send", "params": {"message": talk}}
    task = (await http.post(f"/a2a/{ids['assistant_id']}", json=send, headers={**ADA, **ACCEPT})).json()["result"]
    assert task["status"]["state"] == "completed"
    thread = (await http.get(f"/threads/{task['contextId']}", headers=ADA)).json()
    assert thread["metadata"]["owner"] == "ada"
    assert (await http.get(f"/threads/{task['contextId']}", headers=BOB)).status_code == 404


async def test_a_websocket_is_guarded_as_the_endpoints_are(app_server: AppServer, ids: Ids) -> None:
    url = socket_url(app_server, ids["thread_id"])
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url):
            pass
    assert refused.value.response.status_code in (401, 403)
    async with connect(url, additional_headers=BOB) as socket:
        await check_closed_as_not_found(socket)
    async with connect(url, additional_headers=ADA) as socket:
        await socket.send(json.dumps({"id": 1, "method": "agent.getTree", "params": {}}))
        assert json.loads(await socket.recv())["id"] == 1


@pytest.mark.parametrize(
    ("path", "name"),
    [
        *((f"/threads/{{}}{part}", "thread_id") for part in ("", "/state", "/history")),
        *(("/assistants/{}", "assistant_id"), ("/runs/crons/{}", "cron_id")),
    ],
)
async def test_an_id_of_another_user_gives_the_error_of_an_unknown_id(
    path: str, name: str, http: httpx.AsyncClient, ids: Ids
) -> None:
    unknown = str(UUID(int=7))
    foreign = await http.get(path.format(ids[name]), headers=BOB)
    absent = await http.get(path.format(unknown), headers=BOB)
    assert foreign.status_code == absent.status_code == 404
    assert foreign.text.replace(ids[name], unknown) == absent.text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/threads", {"metadata": "x"}),
        ("POST", "/assistants/search", {"metadata": [1]}),
        ("POST", "/runs/batch", [{"assistant_id": "keep", "metadata": 5}]),
        ("POST", "/runs/crons/search", {"metadata": "x"}),
        ("PATCH", "/runs/crons/{cron_id}", {"metadata": "x"}),
        ("POST", "/store/items/search", {"namespace_prefix": 5}),
        ("POST", "/threads/{thread_id}/commands", {"id": 1, "method": "run.start", "params": {"metadata": "x"}}),
    ],
)
async def test_a_body_of_the_wrong_form_is_refused_before_the_authorization_handler_runs(
    method: str, path: str, body: Any, http: httpx.AsyncClient, ids: Ids
) -> None:
    answer = await http.request(method, path.format(**ids), json=body, headers=ADA)
    assert (answer.status_code, "object" in answer.text or "array" in answer.text) == (422, True)


async def test_a_handlers_failed_assertion_is_a_refusal(http: httpx.AsyncClient) -> None:
    answer = await http.post("/assistants/search", json={}, headers=as_user("nosy"))
    assert (answer.status_code, answer.json()) == (403, {"detail": "not you"})


async def test_metadata_that_a_handler_removes_is_not_stored(http: httpx.AsyncClient) -> None:
    cron = {"assistant_id": "keep", "schedule": "0 0 1 1 *", "metadata": {"owner": "ada"}}
    made = await http.post("/runs/crons", json=cron, headers=as_user("plain"))
    assert (made.status_code, made.json()["metadata"]) == (200, {})


async def test_a_user_who_may_only_read_a_thread_sends_no_a2a_message_to_it(http: httpx.AsyncClient, ids: Ids) -> None:
    guest = as_user("guest")
    assistant = (await http.post("/assistants", json={"graph_id": "talk"}, headers=guest)).json()["assistant_id"]
    theirs = ids["thread_id"]
    assert (await http.get(f"/threads/{theirs}", headers=guest)).status_code == 200
    before = (await http.get(f"/threads/{theirs}/runs", headers=ADA)).json()
    talk = {"role": "user", "messageId": str(UUID(int=9)), "parts": [{"kind": "text", "text": "x"}]}

    async def send(**fields: str) -> httpx.Response:
        body = {**RPC, "method": "message/send", "params": {"message": {**talk, **fields}}}
        return await http.post(f"/a2a/{assistant}", json=body, headers={**guest, **ACCEPT})

    assert (await send(contextId=theirs)).status_code == 404
    assert (await send(taskId=f"{theirs}:{ids['run_id']}")).status_code == 404
    assert (await http.get(f"/threads/{theirs}/runs", headers=ADA)).json() == before
    assert (await send()).json()["result"]["status"]["state"] == "completed"


async def test_the_stream_of_a_run_that_is_gone_with_its_thread_stays_its_owners(http: httpx.AsyncClient) -> None:
    run = {"assistant_id": "keep", "input": {"text": SECRET}, "stream_resumable": True}
    location = (await http.post("/runs/stream", json=run, headers=ADA)).headers["location"]
    again = {"last-event-id": "-1"}
    assert SECRET in (await http.get(location, headers={**ADA, **again})).text
    others = await http.get(location, headers={**BOB, **again})
    assert (others.status_code, SECRET in others.text) == (404, False)


async def test_a_listener_from_before_a_thread_exists_receives_nothing_of_another_users_thread(
    app_server: AppServer, http: httpx.AsyncClient
) -> None:
    thread, wanted = str(uuid4()), {"channels": ["values", "lifecycle"]}
    path = f"/threads/{thread}/stream/events"
    async with (
        http.stream("POST", path, json=wanted, headers=BOB) as his,
        http.stream("POST", path, json=wanted, headers=ADA) as hers,
        connect(socket_url(app_server, thread), additional_headers=BOB) as socket,
    ):
        await socket.send(json.dumps({"id": 1, "method": "subscription.subscribe", "params": wanted}))
        assert json.loads(await socket.recv())["type"] == "success"
        run = {"assistant_id": "keep", "input": {"text": SECRET}, "if_not_exists": "create"}
        await http.post(f"/threads/{thread}/runs/wait", json=run, headers=ADA)
        received = ""
        async for text in hers.aiter_text():
            received += text
            if SECRET in received:
                break
        assert SECRET not in (await his.aread()).decode()
        await check_closed_as_not_found(socket)


async def test_a_namespace_label_with_a_period_is_never_read_as_two(http: httpx.AsyncClient) -> None:
    item = {"namespace": ["x", "n"], "key": "k", "value": {"secret": SECRET}}
    assert (await http.put("/store/items", json=item, headers=as_user("hal"))).status_code == 204
    answer = await http.get("/store/items", params={"namespace": "n", "key": "k"}, headers=as_user("hal.x"))
    assert (answer.status_code, SECRET in answer.text) == (422, False)
