"""What stands around the endpoints' rules is no way around them: bodies, listeners, ended streams, other protocols."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.fixtures.app_server import AppServer

pytestmark = pytest.mark.requirement("S-02")

LANGGRAPH_JSON = Path(__file__).parent / "apps" / "guarded" / "langgraph.json"
SECRET = "ada-only-7d41"
RPC = {"jsonrpc": "2.0", "id": 1}
ACCEPT = {"accept": "application/json, text/event-stream"}
Ids = Mapping[str, str]


def as_user(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


ADA, BOB = as_user("ada"), as_user("bob")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ids(http: httpx.AsyncClient) -> AsyncIterator[Ids]:
    """Let ada have a thread with a run."""
    thread = (await http.post("/threads", json={}, headers=ADA)).json()["thread_id"]
    body = {"assistant_id": "talk", "input": {"messages": []}}
    await http.post(f"/threads/{thread}/runs/wait", json=body, headers=ADA)
    run = (await http.get(f"/threads/{thread}/runs", headers=ADA)).json()[0]["run_id"]
    yield {"thread_id": thread, "run_id": run, "cron_id": str(UUID(int=3))}


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
async def test_a_body_of_the_wrong_form_is_refused_before_a_handler_stumbles_over_it(
    method: str, path: str, body: Any, http: httpx.AsyncClient, ids: Ids
) -> None:
    answer = await http.request(method, path.format(**ids), json=body, headers=ADA)
    assert (answer.status_code, "object" in answer.text or "array" in answer.text) == (422, True)


async def test_a_handlers_failed_assertion_is_a_refusal(http: httpx.AsyncClient) -> None:
    answer = await http.post("/assistants/search", json={}, headers=as_user("nosy"))
    assert (answer.status_code, answer.json()) == (403, {"detail": "not you"})


async def test_metadata_that_a_handler_takes_away_is_gone(http: httpx.AsyncClient) -> None:
    cron = {"assistant_id": "keep", "schedule": "0 0 1 1 *", "metadata": {"owner": "ada"}}
    made = await http.post("/runs/crons", json=cron, headers=as_user("plain"))
    assert (made.status_code, made.json()["metadata"]) == (200, {})


async def test_who_may_only_read_a_thread_does_not_talk_on_it_by_a2a(http: httpx.AsyncClient, ids: Ids) -> None:
    guest = as_user("guest")
    assistant = (await http.post("/assistants", json={"graph_id": "talk"}, headers=guest)).json()["assistant_id"]
    theirs = ids["thread_id"]
    assert (await http.get(f"/threads/{theirs}", headers=guest)).status_code == 200
    before = (await http.get(f"/threads/{theirs}/runs", headers=ADA)).json()
    talk = {"role": "user", "messageId": str(UUID(int=9)), "parts": [{"kind": "text", "text": "x"}]}
    for named in ({"contextId": theirs}, {"taskId": f"{theirs}:{ids['run_id']}"}):
        send = {**RPC, "method": "message/send", "params": {"message": {**talk, **named}}}
        answer = await http.post(f"/a2a/{assistant}", json=send, headers={**guest, **ACCEPT})
        assert answer.status_code == 404, answer.text
    assert (await http.get(f"/threads/{theirs}/runs", headers=ADA)).json() == before
    send = {**RPC, "method": "message/send", "params": {"message": talk}}
    answer = await http.post(f"/a2a/{assistant}", json=send, headers={**guest, **ACCEPT})
    assert answer.json()["result"]["status"]["state"] == "completed"


async def test_the_stream_of_a_run_that_is_gone_with_its_thread_stays_its_owners(http: httpx.AsyncClient) -> None:
    run = {"assistant_id": "keep", "input": {"said": SECRET}, "stream_resumable": True}
    told = await http.post("/runs/stream", json=run, headers=ADA)
    again = {"last-event-id": "-1"}
    assert SECRET in (await http.get(told.headers["location"], headers={**ADA, **again})).text
    others = await http.get(told.headers["location"], headers={**BOB, **again})
    assert (others.status_code, SECRET in others.text) == (404, False)


async def test_who_listens_before_a_thread_is_there_hears_nothing_of_somebody_elses(
    app_server: AppServer, http: httpx.AsyncClient
) -> None:
    thread, wanted = str(uuid4()), {"channels": ["values", "lifecycle"]}
    path = f"/threads/{thread}/stream/events"
    async with (
        http.stream("POST", path, json=wanted, headers=BOB) as his,
        http.stream("POST", path, json=wanted, headers=ADA) as hers_too,
        connect(f"{app_server.url.replace('http', 'ws')}{path}", additional_headers=BOB) as socket,
    ):
        await socket.send(json.dumps({"id": 1, "method": "subscription.subscribe", "params": wanted}))
        assert json.loads(await socket.recv())["type"] == "success"
        run = {"assistant_id": "keep", "input": {"said": SECRET}, "if_not_exists": "create"}
        await http.post(f"/threads/{thread}/runs/wait", json=run, headers=ADA)
        heard = ""
        async for text in hers_too.aiter_text():
            heard += text
            if SECRET in heard:
                break
        assert SECRET not in (await his.aread()).decode()
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4404


async def test_a_namespace_label_with_a_period_is_never_read_as_two(http: httpx.AsyncClient) -> None:
    item = {"namespace": ["x", "n"], "key": "k", "value": {"secret": SECRET}}
    assert (await http.put("/store/items", json=item, headers=as_user("hal"))).status_code == 204
    answer = await http.get("/store/items", params={"namespace": "n", "key": "k"}, headers=as_user("hal.x"))
    assert (answer.status_code, SECRET in answer.text) == (422, False)
