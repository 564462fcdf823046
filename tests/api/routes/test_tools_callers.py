"""Tools and the workflow are for callers that the LangGraph API knows, wherever the routes are mounted."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.routes.tool_bodies import config
from tests.fixtures.app_server import serve_in_thread
from tests.servers.core.test_auth import ACCEPT, HELLO

KEYS = """
import asyncio

from langgraph_sdk import Auth

auth = Auth()

@auth.authenticate
async def authenticate(authorization: str | None):
    if authorization == "Bearer late":
        await asyncio.Event().wait()
    if authorization == "Bearer broken":
        raise RuntimeError("the directory is down")
    if authorization == "Bearer busy":
        raise Auth.exceptions.HTTPException(503, "The directory is busy.")
    if authorization == "Bearer banned":
        raise Auth.exceptions.HTTPException(403, "Not you.")
    if authorization not in ("Bearer ann", "Bearer carl"):
        raise Auth.exceptions.HTTPException(401, "No valid key.")
    return {"identity": authorization.removeprefix("Bearer ")}

@auth.on.assistants.search
async def list_nothing_to_carl(ctx, value):
    return ctx.user.identity != "carl"

@auth.on.threads.create_run
async def run_nothing_for_carl(ctx, value):
    return ctx.user.identity != "carl"
"""
ANN = {"authorization": "Bearer ann"}
CARL = {"authorization": "Bearer carl"}
WORKFLOW = {"user_instructions": "Get the weather", "tool_ids": ["nobody"]}


@contextmanager
def serving(folder: Path, *, by_the_api: bool) -> Iterator[httpx.Client]:
    """Serve our routes; the API authenticates their callers, or the routes ask the API."""
    (folder / "keys.py").write_text(KEYS, encoding="utf-8")
    served = {
        "graphs": {"workflow": "toolweave.graphs.served:workflow"},
        "auth": {"path": "./keys.py:auth"},
        "http": {"app": "toolweave.api.app:app", "mount_prefix": "/api", "enable_custom_route_auth": by_the_api},
    }
    (folder / "langgraph.json").write_text(json.dumps(served), encoding="utf-8")
    env = {"TOOLWEAVE_MODEL": "offline"}
    with (
        serve_in_thread(folder / "langgraph.json", folder / "data", env) as server,
        httpx.Client(base_url=f"{server.url}/api", timeout=60) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with serving(tmp_path_factory.mktemp("ours"), by_the_api=False) as client:
        yield client


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with serving(tmp_path_factory.mktemp("theirs"), by_the_api=True) as client:
        yield client


@pytest.fixture(params=["ours", "theirs"])
def guarded(request: pytest.FixtureRequest) -> httpx.Client:
    client: httpx.Client = request.getfixturevalue(request.param)
    return client


def test_an_unknown_caller_is_refused_everywhere(guarded: httpx.Client) -> None:
    tool = guarded.post("/tools", json=config(), headers=ANN).json()
    path = f"/tools/{tool['tool_id']}"
    refused = [
        *(guarded.get(page) for page in ("/tools", path, "/tools/export")),
        *(guarded.post(page, json=config()) for page in ("/tools", "/tools/import", "/tools/import/openapi")),
        guarded.put(path, json=tool),
        guarded.delete(path),
        guarded.post("/workflow", json=WORKFLOW),
        guarded.post("/workflow", json=WORKFLOW, headers={"authorization": "Bearer bob"}),
    ]
    assert [answer.status_code for answer in refused] == [401] * len(refused)
    assert [answer.text for answer in refused if tool["tool_id"] in answer.text] == []
    assert guarded.get(path, headers=ANN).json() == tool


def test_a_known_caller_is_served_below_the_prefix(guarded: httpx.Client) -> None:
    created = guarded.post("/tools", json=config(), headers=ANN)
    assert created.headers["location"] == f"/api/tools/{created.json()['tool_id']}"
    answer = guarded.post("/workflow", json=WORKFLOW, headers=ANN)
    assert (answer.status_code, answer.json()["error_stage"]) == (200, "tool_retrieval")


@pytest.mark.parametrize(("caller", "status"), [("banned", 403), ("busy", 503), ("broken", 503), ("late", 503)])
def test_a_caller_that_the_api_cannot_judge_is_refused(ours: httpx.Client, caller: str, status: int) -> None:
    headers = {"authorization": f"Bearer {caller}"}
    assert ours.post("/tools", json=config(), headers=headers).status_code == status
    refused = ours.post("/ai/mcp", json=HELLO, headers={**ACCEPT, **headers})
    assert (refused.status_code, "error" in refused.json()) == (status, True)


def test_a_caller_that_may_not_run_graphs_is_known_but_may_not_run_the_workflow(guarded: httpx.Client) -> None:
    assert guarded.post("/workflow", json=WORKFLOW, headers=CARL).status_code == 403
    assert guarded.get("/tools", headers=CARL).status_code == 200


def test_a_session_with_the_core_tools_belongs_to_the_caller_that_opened_it(guarded: httpx.Client) -> None:
    unknown = guarded.post("/ai/mcp", json=HELLO, headers=ACCEPT)
    assert (unknown.status_code, unknown.headers.get("www-authenticate", "Bearer")) == (401, "Bearer")
    opened = guarded.post("/ai/mcp", json=HELLO, headers={**ACCEPT, **ANN})
    assert opened.status_code == 200
    session = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"]}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    assert guarded.post("/ai/mcp", json=ping, headers=session).status_code == 401
    for method in ("POST", "GET", "DELETE"):
        body: Any = ping if method == "POST" else None
        assert guarded.request(method, "/ai/mcp", json=body, headers={**session, **CARL}).status_code == 404
    assert guarded.post("/ai/mcp", json=ping, headers={**session, **ANN}).status_code == 200


HUGE = b"[" + b" " * (17 * 1024 * 1024) + b"]"
BODIES = (b"{", b'{"message": 5}', HUGE)
TAKING_BODIES = (
    *(("POST", path) for path in ("/chat/stream", "/workflow", "/tools", "/tools/import", "/tools/import/openapi")),
    *(("PUT", "/tools/some"), ("DELETE", "/tools/some"), ("POST", "/servers/some/reconnect"), ("POST", "/ai/mcp")),
)


@pytest.mark.parametrize(("method", "path"), TAKING_BODIES)
@pytest.mark.parametrize("body", BODIES, ids=["no JSON", "wrong types", "too large"])
def test_credentials_are_checked_before_the_body(guarded: httpx.Client, method: str, path: str, body: bytes) -> None:
    sent = {"content-type": "application/json", **ACCEPT}
    assert guarded.request(method, path, content=body, headers=sent).status_code == 401
    banned = {**sent, "authorization": "Bearer banned"}
    assert guarded.request(method, path, content=body, headers=banned).status_code == 403


def test_the_body_is_checked_once_the_caller_is_known(guarded: httpx.Client) -> None:
    headers = {"content-type": "application/json", **ANN}
    for path in ("/chat/stream", "/workflow", "/tools", "/tools/import"):
        assert guarded.post(path, content=b"{", headers=headers).status_code == 422
        assert guarded.post(path, content=HUGE, headers=headers).status_code == 413
