"""Who calls is found out by the application's own handler, for everything but what is open to all."""

import re
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.fixtures.app_server import AppServer
from toolweave.api.langgraph.app import ENDPOINTS
from toolweave.api.langgraph.endpoints import Endpoint
from toolweave.api.langgraph.routes.protocol import sockets
from toolweave.api.langgraph.routes.system import unpublished
from toolweave.runtime.graphs import load_target

LANGGRAPH_JSON = Path(__file__).parent / "apps" / "guarded" / "langgraph.json"
ADA = {"authorization": "Bearer ada"}


def filled(endpoint: Endpoint) -> str:
    return re.sub(r"{\w+}", lambda _: str(uuid4()), endpoint.path)


OPEN = {"/", "/ok", "/info", "/docs", "/openapi.json", "/metrics"}
GUARDED = [
    pytest.param(endpoint, id=f"{endpoint.method} {endpoint.path}")
    for endpoint in (*ENDPOINTS, *unpublished)
    if endpoint.path not in OPEN
]


def test_every_endpoint_but_the_open_ones_has_a_rule() -> None:
    everything = (*ENDPOINTS, *unpublished, *sockets)
    assert {endpoint.path for endpoint in everything if endpoint.rule is None} == OPEN - {"/docs", "/openapi.json"}


@pytest.mark.parametrize("endpoint", GUARDED)
async def test_no_endpoint_answers_somebody_unknown(endpoint: Endpoint, http: httpx.AsyncClient) -> None:
    for headers in ({}, {"x-api-key": "key"}, {"x-auth-scheme": "langsmith"}, {"authorization": ""}):
        answer = await http.request(endpoint.method, filled(endpoint), json={}, headers=headers)
        assert (answer.status_code, answer.json()) == (401, {"detail": "Say who you are."})
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_unknown_paths_methods_and_slashes_tell_strangers_nothing(http: httpx.AsyncClient) -> None:
    for method, path in (("GET", "/nope"), ("PUT", "/threads"), ("POST", "/threads/")):
        assert (await http.request(method, path)).status_code == 401
    assert (await http.get("/nope", headers=ADA)).status_code == 404
    assert (await http.put("/threads", headers=ADA)).status_code == 405


async def test_what_is_open_to_all_is_open(http: httpx.AsyncClient) -> None:
    for path in sorted(OPEN):
        assert (await http.get(path)).status_code == 200


async def test_the_published_document_says_how_to_authenticate(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    assert document["components"]["securitySchemes"] == {"Token": {"type": "http", "scheme": "bearer"}}
    assert document["security"] == [{"Token": []}]
    assert {"401", "403"} <= document["paths"]["/threads"]["post"]["responses"].keys()


async def test_a_handlers_refusal_is_sent_as_it_is_and_a_broken_handler_lets_nobody_in(http: httpx.AsyncClient) -> None:
    answer = await http.post("/threads/search", json={}, headers={"authorization": "Bearer teapot"})
    assert (answer.status_code, answer.json()) == (418, {"detail": "POST /threads/search"})
    answer = await http.post("/threads/search", json={}, headers={"authorization": "Bearer crash"})
    assert (answer.status_code, answer.json()) == (500, {"detail": "Internal Server Error"})


async def test_a_run_knows_its_user(http: httpx.AsyncClient) -> None:
    body = {"assistant_id": "keep", "input": {"said": "x"}}
    seen = (await http.post("/runs/wait", json=body, headers=ADA)).json()["seen"]
    assert seen == {
        "identity": "ada",
        "team": "team of ada",
        "permissions": ["talk"],
        "id": "ada",
        "listed": ["talk"],
        "user_id": "ada",
    }


async def test_a_runs_json_shows_who_its_user_is_and_nothing_that_only_the_run_needs(http: httpx.AsyncClient) -> None:
    made = await http.post("/runs", json={"assistant_id": "keep", "input": {}, "after_seconds": 3600}, headers=ADA)
    shown = made.json()["kwargs"]["config"]["configurable"]
    who = {"identity": "ada", "display_name": "ada", "is_authenticated": True, "permissions": ["talk"]}
    assert (shown["langgraph_auth_user"], shown["langgraph_auth_user_id"]) == (who, "ada")
    assert "team of ada" not in made.text


async def test_nobody_configures_to_be_somebody_else(http: httpx.AsyncClient) -> None:
    false = {"langgraph_auth_user": {"identity": "bob"}, "langgraph_auth_user_id": "bob", "user_id": "bob"}
    for body in ({"config": {"configurable": false}}, {"context": false}):
        wanted = {"assistant_id": "keep", "input": {}, **body}
        seen = (await http.post("/runs/wait", json=wanted, headers=ADA)).json()["seen"]
        assert (seen["identity"], seen["id"], seen["user_id"]) == ("ada", "ada", "ada")
    made = {"graph_id": "keep", "config": {"configurable": false}}
    assistant = (await http.post("/assistants", json=made, headers=ADA)).json()["assistant_id"]
    seen = (await http.post("/runs/wait", json={"assistant_id": assistant, "input": {}}, headers=ADA)).json()["seen"]
    assert (seen["identity"], seen["user_id"]) == ("ada", "ada")


async def test_a_graph_factory_is_told_the_user_in_every_context(http: httpx.AsyncClient) -> None:
    thread = (await http.post("/threads", json={}, headers=ADA)).json()["thread_id"]
    run = await http.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "who", "input": {}}, headers=ADA)
    assert run.json() == {"said": "threads.create_run for ada"}
    assert (await http.get(f"/threads/{thread}/state", headers=ADA)).json()["values"] == run.json()
    updated = await http.post(f"/threads/{thread}/state", json={"values": {"said": "x"}}, headers=ADA)
    assert updated.status_code == 200
    assert (await http.get("/assistants/who/graph", headers={"authorization": "Bearer admin"})).status_code == 200
    opened = load_target("guarded_graphs.py:OPENED", LANGGRAPH_JSON.parent)
    assert opened == [
        "threads.create_run for ada",
        "threads.read for ada",
        "threads.update for ada",
        "assistants.read for admin",
    ]


async def test_chosen_headers_reach_the_run_and_credentials_never_do(http: httpx.AsyncClient) -> None:
    headers = {**ADA, "X-Tenant": "red", "x-extra-one": "1", "x-extra-secret": "2", "x-other": "3"}
    answer = await http.post("/runs/wait", json={"assistant_id": "keep", "input": {}}, headers=headers)
    seen = answer.json()["seen"]
    assert {name: item for name, item in seen.items() if name.startswith(("x-", "auth"))} == {
        "x-tenant": "red",
        "x-extra-one": "1",
    }


async def test_routes_of_the_application_are_open_unless_it_wants_otherwise(
    http: httpx.AsyncClient, app_server: AppServer
) -> None:
    assert (await http.get("/hello")).json()["user"] is None
    assert (await http.get("/hello", headers=ADA)).json()["user"] is None


async def test_preflights_need_no_credentials(http: httpx.AsyncClient) -> None:
    headers = {"origin": "http://localhost:3000", "access-control-request-method": "POST"}
    assert (await http.options("/threads", headers=headers)).status_code == 200
