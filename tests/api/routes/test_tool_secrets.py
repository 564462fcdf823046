"""No response shows a secret of a tool, and no secret is sent to another host (W-01, W-08)."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.routes.tool_bodies import KEY, config, created, stored
from tests.fixtures.app_server import AppServer
from tests.fixtures.logged import logged

SERVER_ENV = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_TOOL_ENV": "TOOL_*,SHOP_*@api.example.org"}

FIELDS = {
    "password": {"type": "string", "default": "s3cret"},
    "nested": {"anyOf": [{"properties": {"apiKey": {"const": "s3cret", "description": "the key"}}}]},
    "city": {"type": "string", "default": "shown"},
    "token": {"type": "string"},
}
SECRETS: list[dict[str, Any]] = [
    {"auth": {"type": "bearer", "value": "Bearer s3cret"}},
    {"auth": {"type": "basic", "value": "ann:s3cret"}},
    {"auth": {"type": "basic", "value": "{env:TOOL_USER}:s3cret"}},
    {"auth": {**KEY, "value": "{env:TOOL_A:-s3cret}"}},
    {"auth": {**KEY, "location": "query", "value": "s3cret"}},
    {"headers": {"X-Api-Key": "s3cret", "Accept": "*/*"}},
    {"headers": {"X-Tenant": "s3cret-{env:TOOL_TENANT}"}},
    {"headers": {"authorization": "s3cret {env:TOOL_A}"}},
    {"input_schema": {"type": "object", "properties": FIELDS}},
]


@pytest.fixture
def log() -> Iterator[list[str]]:
    with logged("TRACE", serialize=True) as lines:
        yield lines


@pytest.mark.requirement("W-01")
@pytest.mark.parametrize("api", SECRETS)
async def test_a_secret_is_in_no_response_and_in_no_log_line(
    http: httpx.AsyncClient, api: dict[str, Any], log: list[str]
) -> None:
    body = config(**api)
    path = f"/tools/{body['tool_id']}"
    responses = [await http.post("/tools", json=body), await http.post("/tools", json=body)]
    responses += [await http.put(path, json=body), await http.get(path)]
    responses += [await http.get("/tools", params={"query": body["tool_id"]}), await http.get("/tools/export")]
    responses += [await http.put(path, json={**body, "s3": "s3cret"}), await http.put(path, json={**body, "name": 5})]
    responses += [await http.post("/tools/import", json={"tools": [body], "on_conflict": "replace"})]
    responses += [await http.delete(path)]
    assert [response.status_code for response in responses] == [201, 409, 200, 200, 200, 200, 422, 422, 201, 204]
    assert [response.text for response in responses if "s3cret" in response.text] == []
    assert all("***" in responses[index].text for index in (0, 2, 3, 5, 8))
    assert [line for line in log if "s3cret" in line] == []


@pytest.mark.parametrize("api", SECRETS)
async def test_a_masked_secret_in_a_request_does_not_change_the_stored_one(
    http: httpx.AsyncClient, app_server: AppServer, api: dict[str, Any]
) -> None:
    tool = await created(http, **api)
    before = await stored(app_server, tool["tool_id"])
    answer = await http.put(f"/tools/{tool['tool_id']}", json={**tool, "name": "Renamed"})
    assert (answer.status_code, answer.json()["name"]) == (200, "Renamed")
    assert await stored(app_server, tool["tool_id"]) == {**before, "name": "Renamed"}
    assert "s3cret" in json.dumps(before)


@pytest.mark.parametrize(
    "base_url",
    [
        "https://evil.example.net/v1",
        "http://api.example.org/v1",
        "https://api.example.org:8443/v1",
        "https://api.example.org.evil.net",
    ],
)
@pytest.mark.parametrize("api", SECRETS)
async def test_a_stored_secret_is_not_sent_to_another_host(
    http: httpx.AsyncClient, api: dict[str, Any], base_url: str
) -> None:
    tool = await created(http, **api)
    path = f"/tools/{tool['tool_id']}"
    moved = {**tool, "api": {**tool["api"], "base_url": base_url}}
    answer = await http.put(path, json=moved)
    assert answer.status_code == 422
    assert ["body", "api", "base_url"] in [problem["loc"] for problem in answer.json()["detail"]]
    assert (await http.get(path)).json() == tool
    imported = await http.post("/tools/import", json={"tools": [moved], "on_conflict": "replace"})
    assert imported.status_code == 422
    assert (await http.get(path)).json() == tool
    sent_again = json.loads(json.dumps({**config(**api), "tool_id": tool["tool_id"]}).replace("s3cret", "other"))
    sent_again["api"]["base_url"] = base_url
    assert (await http.put(path, json=sent_again)).status_code == 200, "a secret in the request may go to any host"


async def test_the_same_host_written_otherwise_is_the_same(http: httpx.AsyncClient) -> None:
    tool = await created(http, auth={"type": "bearer", "value": "s3cret"})
    for base_url in ("https://API.example.org:443/v2", "HTTPS://api.EXAMPLE.org./"):
        body = {**tool, "api": {**tool["api"], "base_url": base_url}}
        assert (await http.put(f"/tools/{tool['tool_id']}", json=body)).status_code == 200


async def test_a_masked_secret_without_a_stored_one_is_refused(http: httpx.AsyncClient) -> None:
    for api in ({"auth": {**KEY, "value": "***"}}, {"headers": {"X-Anything": "***"}}):
        answer = await http.post("/tools", json=config(**api))
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["loc"][:2] == ["body", "api"]
    tool = await created(http)
    hidden = {"auth": {"type": "bearer", "value": "***"}, "headers": {"X-New": "***"}}
    answer = await http.put(f"/tools/{tool['tool_id']}", json={**tool, "api": {**tool["api"], **hidden}})
    assert answer.status_code == 422
    places = [problem["loc"][2:] for problem in answer.json()["detail"]]
    assert places == [["auth", "value"], ["headers", "X-New"]]


@pytest.mark.requirement("W-01")
@pytest.mark.parametrize(
    ("api", "place", "names"),
    [
        ({"auth": {"type": "bearer", "value": "{env:HOME}"}}, ["api", "auth", "value"], ["HOME"]),
        ({"auth": {"type": "basic", "value": "{env:TOOL_A}:{env:PATH}"}}, ["api", "auth", "value"], ["PATH"]),
        ({"headers": {"X-A": "{env:AWS_SECRET_ACCESS_KEY:-x}"}}, ["api", "headers", "X-A"], ["AWS_SECRET_ACCESS_KEY"]),
        (
            {"base_url": "https://other.example.org", "headers": {"X-A": "{env:SHOP_A}{env:SHOP_B}"}},
            ["api", "headers", "X-A"],
            ["SHOP_A", "SHOP_B"],
        ),
        ({"headers": {"X-A": "{env:TOOL_A-B}"}}, ["api", "headers", "X-A"], ["{env:NAME}"]),
    ],
)
async def test_a_variable_that_may_not_go_to_the_host_is_named(
    http: httpx.AsyncClient, api: dict[str, Any], place: list[str], names: list[str]
) -> None:
    tool = await created(http)
    for answer in (
        await http.post("/tools", json=config(**api)),
        await http.put(f"/tools/{tool['tool_id']}", json={**config(**api), "tool_id": None}),
        await http.post("/tools/import", json={"tools": [config(**api)]}),
    ):
        assert answer.status_code == 422
        problems = answer.json()["detail"]
        assert [problem["loc"][-len(place) :] for problem in problems] == [place] * len(names)
        assert [name for name, problem in zip(names, problems, strict=True) if name not in problem["msg"]] == []


async def test_references_to_variables_and_values_that_are_no_secrets_are_shown(http: httpx.AsyncClient) -> None:
    headers = {"X-Token": "{env:SHOP_A}", "X-B": "${env:TOOL_B}", "Accept": "application/json", "X-Tenant": "acme"}
    for value in ("{env:TOOL_KEY}", "Bearer {env:TOOL_KEY}", "${env:TOOL_KEY}", "{env:TOOL_A}:{env:TOOL_B}"):
        tool = await created(http, headers=headers, auth={"type": "bearer", "value": value})
        assert (tool["api"]["headers"], tool["api"]["auth"]["value"]) == (headers, value)
    tool = await created(http, headers={"X-Shop": "sk-0123456789abcdef", "X-Mix": "a{env:TOOL_B}"})
    assert tool["api"]["headers"] == {"X-Shop": "***", "X-Mix": "***"}, "it looks like a secret"
    fields = (await created(http, input_schema={"type": "object", "properties": FIELDS}))["input_schema"]["properties"]
    nested = {"anyOf": [{"properties": {"apiKey": {"const": "***", "description": "the key"}}}]}
    assert fields == FIELDS | {"password": {"type": "string", "default": "***"}, "nested": nested}


async def test_an_import_does_not_restore_a_secret_that_was_changed_meanwhile(
    http: httpx.AsyncClient, app_server: AppServer
) -> None:
    tool = await created(http, auth={"type": "bearer", "value": "leaked"})
    path = f"/tools/{tool['tool_id']}"
    fresh = {**tool, "api": {**tool["api"], "auth": {"type": "bearer", "value": "fresh"}}}
    export = {"tools": [tool], "on_conflict": "replace"}
    imports = [asyncio.create_task(http.post("/tools/import", json=export)) for _ in range(8)]
    changed = await http.put(path, json=fresh)
    while changed.status_code == 412:
        changed = await http.put(path, json=fresh)
    assert changed.status_code == 200
    imports += [asyncio.create_task(http.post("/tools/import", json=export)) for _ in range(8)]
    answers = await asyncio.gather(*imports)
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert (await stored(app_server, tool["tool_id"]))["api"]["auth"]["value"] == "fresh"
