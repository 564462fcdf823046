"""Tools and the workflow are for callers that the LangGraph API knows, wherever the routes are mounted."""

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.api.routes.tool_bodies import config
from tests.fixtures.app_server import serve_in_thread

KEYS = """
from langgraph_sdk import Auth

auth = Auth()

@auth.authenticate
async def authenticate(authorization: str | None):
    if authorization != "Bearer ann":
        raise Auth.exceptions.HTTPException(401, "Say who you are.")
    return {"identity": "ann"}
"""
ANN = {"authorization": "Bearer ann"}
WORKFLOW = {"user_instructions": "Get the weather", "tool_ids": ["nobody"]}


@pytest.fixture(scope="module", params=[False, True], ids=["our own guard", "the API's guard"])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "keys.py").write_text(KEYS, encoding="utf-8")
    served = {
        "graphs": {"workflow": "toolweave.graphs.served:workflow"},
        "auth": {"path": "./keys.py:auth"},
        "http": {"app": "toolweave.api.app:app", "mount_prefix": "/api", "enable_custom_route_auth": request.param},
    }
    (folder / "langgraph.json").write_text(json.dumps(served), encoding="utf-8")
    env = {"TOOLWEAVE_MODEL": "offline"}
    with (
        serve_in_thread(folder / "langgraph.json", folder / "data", env) as server,
        httpx.Client(base_url=f"{server.url}/api", timeout=30) as client,
    ):
        yield client


def test_whom_the_api_does_not_know_gets_nowhere(guarded: httpx.Client) -> None:
    tool = guarded.post("/tools", json=config(), headers=ANN).json()
    path = f"/tools/{tool['tool_id']}"
    refused = [
        *(guarded.get(page) for page in ("/tools", path, "/tools/export", "/tools/export/openapi")),
        *(guarded.post(page, json=config()) for page in ("/tools", "/tools/import", "/tools/import/openapi")),
        guarded.put(path, json=tool),
        guarded.delete(path),
        guarded.post("/workflow", json=WORKFLOW),
        guarded.post("/workflow", json=WORKFLOW, headers={"authorization": "Bearer bob"}),
    ]
    assert [answer.status_code for answer in refused] == [401] * len(refused)
    assert [answer.text for answer in refused if tool["tool_id"] in answer.text] == []
    assert guarded.get(path, headers=ANN).json() == tool


def test_whom_it_knows_is_served_below_the_prefix(guarded: httpx.Client) -> None:
    created = guarded.post("/tools", json=config(), headers=ANN)
    assert created.headers["location"] == f"/api/tools/{created.json()['tool_id']}"
    answer = guarded.post("/workflow", json=WORKFLOW, headers=ANN)
    assert (answer.status_code, answer.json()["error_stage"]) == (200, "tool_retrieval")
