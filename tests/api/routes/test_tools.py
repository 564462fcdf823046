"""/tools keeps the operations of HTTP APIs (W-01)."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api.routes.tool_bodies import KEY, config, created

SERVER_ENV = {"TOOLWEAVE_MODEL": "offline"}


@pytest.mark.requirement("W-01")
async def test_a_tool_is_stored_and_returned_with_defaults(http: httpx.AsyncClient) -> None:
    answer = await http.post(
        "/tools", json=config(tool_id="get_weather", auth={"type": "bearer", "value": "{env:TOOL_A}"})
    )
    assert answer.status_code == 201
    assert answer.json() == {
        "tool_id": "get_weather",
        "name": "Get weather",
        "description": "Get the weather of a city.",
        "api": {
            "base_url": "https://api.example.org/v1",
            "path": "/weather/{city}",
            "method": "GET",
            "headers": {},
            "auth": {"type": "bearer", "location": "header", "name": None, "value": "{env:TOOL_A}"},
            "timeout_s": 30.0,
        },
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "output_schema": {},
        "field_mappings": {},
    }
    assert answer.headers["location"] == "/tools/get_weather"
    again = await http.get("/tools/get_weather")
    assert (again.status_code, again.json(), again.headers["etag"]) == (200, answer.json(), answer.headers["etag"])


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("Book a Tâble!", ["book_a_table", "book_a_table-2"]),
        ("Export", ["export-2", "export-3"]),
        ("x" * 100, ["x" * 64, "x" * 62 + "-2"]),
    ],
)
async def test_a_tool_without_an_id_gets_a_free_one_of_its_name(
    http: httpx.AsyncClient, name: str, ids: list[str]
) -> None:
    body = {**config(name=name), "tool_id": None}
    first = await http.post("/tools", json=body)
    del body["tool_id"]
    second = await http.post("/tools", json=body)
    assert [first.json()["tool_id"], second.json()["tool_id"]] == ids
    assert second.headers["location"] == f"/tools/{ids[1]}"


async def test_many_tools_of_one_name_at_once_get_an_id_each(http: httpx.AsyncClient) -> None:
    body = {**config(name="Made at once"), "tool_id": None}
    answers = await asyncio.gather(*(http.post("/tools", json=body) for _ in range(20)))
    assert [answer.status_code for answer in answers] == [201] * 20
    assert len({answer.json()["tool_id"] for answer in answers}) == 20


async def test_a_tool_whose_name_has_no_letter_for_an_id_gets_one(http: httpx.AsyncClient) -> None:
    tool = (await http.post("/tools", json={**config(name="天気"), "tool_id": None})).json()
    assert tool["tool_id"].startswith("tool_")
    assert (await http.get(f"/tools/{tool['tool_id']}")).json() == tool


async def test_of_many_requests_that_create_one_tool_one_succeeds_and_the_others_are_409(
    http: httpx.AsyncClient,
) -> None:
    body = config()
    responses = await asyncio.gather(*(http.post("/tools", json=body | {"name": str(n)}) for n in range(20)))
    assert sorted(response.status_code for response in responses) == [201] + [409] * 19
    assert all(body["tool_id"] in response.text for response in responses)
    stored = next(response.json() for response in responses if response.status_code == 201)
    assert (await http.get(f"/tools/{body['tool_id']}")).json() == stored


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("tool_id", ["nobody", "..%2F..%2Fetc", "%00", "%F0%9F%92%A5"])
async def test_an_unknown_tool_is_404_and_the_response_names_no_other(
    http: httpx.AsyncClient, method: str, tool_id: str
) -> None:
    there = await created(http)
    body: dict[str, Any] = {"json": {**config(), "tool_id": None}} if method == "PUT" else {}
    answer = await http.request(method, f"/tools/{tool_id}", **body)
    assert answer.status_code == 404
    assert there["tool_id"] not in answer.text


@pytest.mark.requirement("W-01")
async def test_a_tool_is_replaced_and_gets_another_etag(http: httpx.AsyncClient) -> None:
    tool = await created(http)
    path = f"/tools/{tool['tool_id']}"
    first = (await http.get(path)).headers["etag"]
    changed = config(tool_id=tool["tool_id"], name="Other", path="/w/{city}")
    answer = await http.put(path, json=changed)
    assert (answer.status_code, answer.json()["name"], answer.json()["api"]["path"]) == (200, "Other", "/w/{city}")
    assert answer.headers["etag"] != first
    shown = await http.get(path)
    assert (shown.json(), shown.headers["etag"]) == (answer.json(), answer.headers["etag"])


async def test_a_response_can_be_sent_back_but_not_to_another_tool(http: httpx.AsyncClient) -> None:
    tool = await created(http, auth={**KEY, "value": "s3cret"}, field_mappings={"request": {"city": "path.city"}})
    path = f"/tools/{tool['tool_id']}"
    for body in (tool, {name: value for name, value in tool.items() if name != "tool_id"}):
        answer = await http.put(path, json=body)
        assert (answer.status_code, answer.json()) == (200, tool)
    refused = await http.put(path, json=config(tool_id="another"))
    assert (refused.status_code, refused.json()["detail"][0]["loc"]) == (422, ["body", "tool_id"])


async def test_with_if_match_only_the_named_revision_is_changed(http: httpx.AsyncClient) -> None:
    tool = await created(http)
    path = f"/tools/{tool['tool_id']}"
    old = (await http.get(path)).headers["etag"]
    new = (await http.put(path, json={**tool, "name": "New"}, headers={"if-match": old})).headers["etag"]
    for request in (http.put(path, json=tool, headers={"if-match": old}), http.delete(path, headers={"if-match": old})):
        assert (await request).status_code == 412
    assert (await http.get(path)).json()["name"] == "New"
    assert (await http.put(path, json=tool, headers={"if-match": f'"x", {new}'})).status_code == 200
    assert (await http.put(path, json=tool, headers={"if-match": f"W/{new}"})).status_code == 412
    assert (await http.delete(path, headers={"if-match": "*"})).status_code == 204


async def test_of_many_requests_that_change_one_revision_one_succeeds(http: httpx.AsyncClient) -> None:
    tool = await created(http)
    path = f"/tools/{tool['tool_id']}"
    seen = {"if-match": (await http.get(path)).headers["etag"]}
    answers = await asyncio.gather(
        *(http.put(path, json={**tool, "name": f"Number {number}"}, headers=seen) for number in range(20))
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 19
    winner = next(answer for answer in answers if answer.status_code == 200)
    assert (await http.get(path)).json() == winner.json()


@pytest.mark.requirement("W-01")
async def test_a_deleted_tool_is_gone_and_its_id_is_free(http: httpx.AsyncClient) -> None:
    tool = await created(http)
    path = f"/tools/{tool['tool_id']}"
    answer = await http.delete(path)
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await http.get(path)).status_code == 404
    assert (await http.delete(path)).status_code == 404
    assert (await http.post("/tools", json=tool)).status_code == 201


async def test_tools_are_listed_page_by_page_and_found_by_words(http: httpx.AsyncClient) -> None:
    word = f"zebra{uuid4().hex[:8]}"
    names = {(await created(http, name=f"{word} {number}"))["tool_id"] for number in range(5)}
    whole = await http.get("/tools", params={"query": word})
    assert {tool["tool_id"] for tool in whole.json()} == names
    assert whole.headers["x-pagination-total"] == "5"
    pages = [await http.get("/tools", params={"query": word, "limit": 2, "offset": start}) for start in (0, 2, 4, 6)]
    assert [len(page.json()) for page in pages] == [2, 2, 1, 0]
    assert [tool for page in pages for tool in page.json()] == whole.json()
    everything = await http.get("/tools", params={"limit": 1000})
    assert everything.headers["x-pagination-total"] == str(len(everything.json()))
    assert names < {tool["tool_id"] for tool in everything.json()}
    assert (await http.get("/tools", params={"query": f"no{word}"})).json() == []


@pytest.mark.parametrize("query", ['"', "*", "a AND", "NEAR(", "'; DROP TABLE tools; --", "\x00", "x" * 500])
async def test_any_words_can_be_searched_for(http: httpx.AsyncClient, query: str) -> None:
    answer = await http.get("/tools", params={"query": query})
    assert (answer.status_code, isinstance(answer.json(), list)) == (200, True)


@pytest.mark.parametrize(
    "params", [{"limit": 0}, {"limit": 1001}, {"limit": "x"}, {"offset": -1}, {"query": "x" * 501}]
)
async def test_an_invalid_page_is_422(http: httpx.AsyncClient, params: dict[str, Any]) -> None:
    assert (await http.get("/tools", params=params)).status_code == 422


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"tool_id": "a/b"}, ["tool_id"]),
    ({"tool_id": "export"}, ["tool_id"]),
    ({"name": ""}, ["name"]),
    ({"name": "x" * 10_001}, ["name"]),
    ({"base_url": "ftp://s3cret.example"}, ["api", "base_url"]),
    ({"base_url": "https://ann:s3cret@example.org"}, ["api", "base_url"]),
    ({"base_url": "https://example.org/?key=s3cret"}, ["api", "base_url"]),
    ({"path": "/../s3cret"}, ["api", "path"]),
    ({"path": "/a\r\nHost: s3cret"}, ["api", "path"]),
    ({"method": "s3cret"}, ["api", "method"]),
    ({"timeout_s": 1e9}, ["api", "timeout_s"]),
    ({"auth": {"type": "s3cret"}}, ["api", "auth", "type"]),
    ({"auth": {"type": "bearer"}}, ["api", "auth"]),
    ({"headers": {"X": "s3cret\r\nY: z"}}, ["api", "headers"]),
    ({"input_schema": {"type": "s3cret"}}, ["input_schema"]),
    ({"field_mappings": {"request": {"city": "s3cret"}}}, ["field_mappings", "request", "city"]),
    ({"field_mappings": {"response": {"x": "$[?("}}}, ["field_mappings", "response", "x"]),
    ({"unknown": "s3cret"}, ["api", "unknown"]),
]


@pytest.mark.parametrize(("wrong", "place"), WRONG)
async def test_a_wrong_field_is_named_and_its_value_not_repeated(
    http: httpx.AsyncClient, wrong: dict[str, Any], place: list[str]
) -> None:
    answer = await http.post("/tools", json=config(**wrong))
    assert answer.status_code == 422, answer.text
    problems = answer.json()["detail"]
    assert place in [problem["loc"][1 : len(place) + 1] for problem in problems], problems
    assert "s3cret" not in answer.text


async def test_all_wrong_fields_are_named_at_once(http: httpx.AsyncClient) -> None:
    answer = await http.post("/tools", json=config(method="FLY", timeout_s=-1, name=""))
    assert len(answer.json()["detail"]) == 3


DEEP: Any = {}
for _ in range(90):
    DEEP = {"items": DEEP}


@pytest.mark.parametrize(
    "body",
    [
        b'{"name":' * 500 + b"1" + b"}" * 500,
        b'{"name": "\xff"}',
        json.dumps(config()).encode()[:-1] + b', "name": "twice"}',
        json.dumps(config(input_schema=DEEP)).encode(),
        json.dumps(config(input_schema={"enum": list(range(20_000))})).encode(),
        json.dumps(config(input_schema={"$schema": {}})).encode(),
        json.dumps(config(headers={"X" * 500_000: "v"})).encode(),
    ],
    ids=["nested", "not UTF-8", "a name twice", "a deep schema", "a wide schema", "no schema", "a long header"],
)
async def test_a_hostile_body_is_refused(http: httpx.AsyncClient, body: bytes) -> None:
    tool = await created(http)
    for method, path in (("POST", "/tools"), ("PUT", f"/tools/{tool['tool_id']}")):
        answer = await http.request(method, path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 422, answer.text[:300]
        assert answer.json()["detail"]
        assert len(answer.content) < 100_000
    assert (await http.get(f"/tools/{tool['tool_id']}")).json() == tool


async def test_odd_texts_are_returned_unchanged(http: httpx.AsyncClient) -> None:
    fields = {"a b": {"type": "string", "description": "\u0000 \u202e 💥 </script> {env:HOME}"}, "n": {"const": 1e300}}
    schema = {"type": "object", "properties": fields}
    tool = await created(http, path="/", name="💥\u0000", input_schema=schema)
    assert (tool["input_schema"], tool["name"]) == (schema, "💥\u0000")
    assert (await http.get(f"/tools/{tool['tool_id']}")).json() == tool
