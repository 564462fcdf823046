"""The application's own handler authenticates every request but those to the open endpoints."""

import asyncio
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from toolweave.api.langgraph.app import ENDPOINTS
from toolweave.api.langgraph.endpoints import Endpoint
from toolweave.api.langgraph.routes.protocol import sockets
from toolweave.api.langgraph.routes.system import unpublished
from toolweave.runtime.graphs import load_target

LANGGRAPH_JSON = Path(__file__).parent / "apps" / "guarded" / "langgraph.json"
ADA = {"authorization": "Bearer ada"}
BOB = {"authorization": "Bearer bob"}
SEEN_OF_ADA = {
    "identity": "ada",
    "team": "team of ada",
    "permissions": ["talk"],
    "id": "ada",
    "listed": ["talk"],
    "user_id": "ada",
}
BOUND_S = 60


def filled(endpoint: Endpoint) -> str:
    return re.sub(r"{\w+}", lambda _: str(uuid4()), endpoint.path)


OPEN = {"/", "/ok", "/info", "/docs", "/docs/swagger-ui.css", "/openapi.json", "/metrics"}
DOCUMENTATION = {"/docs", "/docs/swagger-ui.css", "/openapi.json"}
GUARDED = [
    pytest.param(endpoint, id=f"{endpoint.method} {endpoint.path}")
    for endpoint in (*ENDPOINTS, *unpublished)
    if endpoint.path not in OPEN
]


def test_every_endpoint_but_the_open_ones_has_a_rule() -> None:
    everything = (*ENDPOINTS, *unpublished, *sockets)
    assert {endpoint.path for endpoint in everything if endpoint.rule is None} == OPEN - DOCUMENTATION


@pytest.mark.parametrize("endpoint", GUARDED)
async def test_no_endpoint_answers_an_unknown_user(endpoint: Endpoint, http: httpx.AsyncClient) -> None:
    for headers in ({}, {"x-api-key": "key"}, {"x-auth-scheme": "langsmith"}, {"authorization": ""}):
        answer = await http.request(endpoint.method, filled(endpoint), json={}, headers=headers)
        assert (answer.status_code, answer.json()) == (401, {"detail": "Say who you are."})
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_unknown_paths_methods_and_slashes_are_401_without_credentials(http: httpx.AsyncClient) -> None:
    for method, path in (("GET", "/nope"), ("PUT", "/threads"), ("POST", "/threads/")):
        assert (await http.request(method, path)).status_code == 401
    assert (await http.get("/nope", headers=ADA)).status_code == 404
    assert (await http.put("/threads", headers=ADA)).status_code == 405


async def test_open_endpoints_routes_of_the_application_and_preflights_need_no_credentials(
    http: httpx.AsyncClient,
) -> None:
    for path in (*sorted(OPEN), "/hello"):
        assert (await http.get(path)).status_code == 200
    assert (await http.get("/hello", headers=ADA)).json()["user"] is None
    preflight = {"origin": "http://localhost:3000", "access-control-request-method": "POST"}
    assert (await http.options("/threads", headers=preflight)).status_code == 200


async def test_the_published_document_says_how_to_authenticate(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    assert document["components"]["securitySchemes"] == {"Token": {"type": "http", "scheme": "bearer"}}
    assert document["security"] == [{"Token": []}]
    assert {"401", "403"} <= document["paths"]["/threads"]["post"]["responses"].keys()


async def test_a_handlers_refusal_is_sent_unchanged_and_a_broken_handler_refuses_everyone(
    http: httpx.AsyncClient,
) -> None:
    refusals = {"teapot": (418, "POST /threads/search"), "crash": (500, "Internal Server Error")}
    for name, (status, detail) in refusals.items():
        answer = await http.post("/threads/search", json={}, headers={"authorization": f"Bearer {name}"})
        assert (answer.status_code, answer.json()) == (status, {"detail": detail})


async def test_a_run_knows_its_user_and_the_configured_headers_but_no_credentials(http: httpx.AsyncClient) -> None:
    headers = {**ADA, "X-Tenant": "red", "x-extra-one": "1", "x-extra-secret": "2", "x-other": "3"}
    answer = await http.post("/runs/wait", json={"assistant_id": "keep", "input": {}}, headers=headers)
    assert answer.json()["seen"] == {**SEEN_OF_ADA, "x-tenant": "red", "x-extra-one": "1"}


@pytest.mark.api("POST /runs/crons", "200 starts runs on behalf of the user who created the cron")
async def test_a_run_of_a_cron_knows_the_user_who_created_it(http: httpx.AsyncClient) -> None:
    thread_id = (await http.post("/threads", json={}, headers=ADA)).json()["thread_id"]
    body = {"assistant_id": "keep", "schedule": "* * * * * *", "input": {"text": "now"}}
    async with (
        asyncio.timeout(BOUND_S),
        http.stream("GET", f"/threads/{thread_id}/stream?stream_modes=lifecycle", headers=ADA) as stream,
    ):
        cron = (await http.post(f"/threads/{thread_id}/runs/crons", json=body, headers=ADA)).json()
        async for line in stream.aiter_lines():
            if "run_done" in line:
                break
    assert cron["user_id"] == "ada"
    assert (await http.get(f"/runs/crons/{cron['cron_id']}", headers=BOB)).status_code == 404
    await http.delete(f"/runs/crons/{cron['cron_id']}", headers=ADA)
    thread: Any = (await http.get(f"/threads/{thread_id}", headers=ADA)).json()
    assert thread["values"]["seen"] == SEEN_OF_ADA
    (run, *_) = (await http.get(f"/threads/{thread_id}/runs", headers=ADA)).json()
    assert run["metadata"]["owner"] == "ada"


async def test_the_json_of_a_run_names_its_user_without_fields_that_only_the_run_needs(http: httpx.AsyncClient) -> None:
    made = await http.post("/runs", json={"assistant_id": "keep", "input": {}, "after_seconds": 3600}, headers=ADA)
    shown = made.json()["kwargs"]["config"]["configurable"]
    who = {"identity": "ada", "display_name": "ada", "is_authenticated": True, "permissions": ["talk"]}
    assert (shown["langgraph_auth_user"], shown["langgraph_auth_user_id"]) == (who, "ada")
    assert "team of ada" not in made.text


async def test_a_request_cannot_configure_another_user(http: httpx.AsyncClient) -> None:
    false = {"langgraph_auth_user": {"identity": "bob"}, "langgraph_auth_user_id": "bob", "user_id": "bob"}
    assistant = {"graph_id": "keep", "config": {"configurable": false}}
    assistant_id = (await http.post("/assistants", json=assistant, headers=ADA)).json()["assistant_id"]
    for fields in ({"config": {"configurable": false}}, {"context": false}, {"assistant_id": assistant_id}):
        body = {"assistant_id": "keep", "input": {}, **fields}
        seen = (await http.post("/runs/wait", json=body, headers=ADA)).json()["seen"]
        assert (seen["identity"], seen["id"], seen["user_id"]) == ("ada", "ada", "ada")


@pytest.mark.databases("sqlite", reason="looks into the process")
async def test_a_graph_factory_gets_the_user_in_every_context(http: httpx.AsyncClient) -> None:
    thread = (await http.post("/threads", json={}, headers=ADA)).json()["thread_id"]
    run = await http.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "who", "input": {}}, headers=ADA)
    assert run.json() == {"text": "threads.create_run for ada"}
    assert (await http.get(f"/threads/{thread}/state", headers=ADA)).json()["values"] == run.json()
    updated = await http.post(f"/threads/{thread}/state", json={"values": {"text": "x"}}, headers=ADA)
    assert updated.status_code == 200
    assert (await http.get("/assistants/who/graph", headers={"authorization": "Bearer admin"})).status_code == 200
    opened = load_target("guarded_graphs.py:OPENED", LANGGRAPH_JSON.parent)
    assert opened == [
        "threads.create_run for ada",
        "threads.read for ada",
        "threads.update for ada",
        "assistants.read for admin",
    ]
