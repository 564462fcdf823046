"""Assistants are found, and describe their graphs (langgraph_api.md 2.1)."""

from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError, UnprocessableEntityError

from tests.api.langgraph.steering import NOBODY

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
NAMES = ["steps", "talk", "ask", "gated", "broken", "nested", "made"]


def id_of(graph_id: str) -> str:
    return str(uuid5(UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8"), graph_id))


@pytest.mark.api("POST /assistants/search", "200 finds the system assistant of every graph")
async def test_every_graph_has_a_system_assistant_with_the_reference_servers_id(sdk: LangGraphClient) -> None:
    found = await sdk.assistants.search(metadata={"created_by": "system"}, limit=50)
    assert {assistant["graph_id"]: assistant["assistant_id"] for assistant in found} == {
        name: id_of(name) for name in NAMES
    }


@pytest.mark.api("GET /assistants/{assistant_id}", "200 gives an assistant with all its fields")
async def test_an_assistant_has_the_fields_of_the_api(http: httpx.AsyncClient) -> None:
    answer = await http.get(f"/assistants/{id_of('steps')}")
    shown = answer.json()
    assert shown == {
        "assistant_id": id_of("steps"),
        "graph_id": "steps",
        "config": {},
        "context": {},
        "metadata": {"created_by": "system"},
        "name": "steps",
        "created_at": shown["created_at"],
        "updated_at": shown["updated_at"],
        "version": 1,
        "description": "Adds one, then doubles",
    }
    assert shown["created_at"].endswith("+00:00")


@pytest.mark.api("POST /assistants/search", "200 pages, sorts and selects, and says where the next page is")
async def test_a_search_pages_and_says_where_the_next_page_is(http: httpx.AsyncClient) -> None:
    body = {"limit": 2, "offset": 1, "sort_by": "name", "sort_order": "asc", "select": ["name"]}
    answer = await http.post("/assistants/search", json=body)
    assert answer.json() == [{"name": "broken"}, {"name": "gated"}]
    assert (answer.headers["x-pagination-total"], answer.headers["x-pagination-next"]) == ("4", "3")


async def test_the_newest_assistant_comes_first(sdk: LangGraphClient) -> None:
    assert [assistant["name"] for assistant in await sdk.assistants.search(limit=50)] == NAMES[::-1]


@pytest.mark.api("POST /assistants/search", "200 filters by graph and by part of the name in any case")
@pytest.mark.api("POST /assistants/count", "200 counts what a search would find")
async def test_a_search_filters_by_graph_and_by_part_of_the_name(sdk: LangGraphClient) -> None:
    by_graph = await sdk.assistants.search(graph_id="ask")
    by_name = await sdk.assistants.search(name="TEP")
    assert [assistant["graph_id"] for assistant in (*by_graph, *by_name)] == ["ask", "steps"]
    assert await sdk.assistants.count(name="E") == 5


@pytest.mark.api("POST /assistants/search", "404 refuses a graph that is not served")
@pytest.mark.api("POST /assistants/count", "404 refuses a graph that is not served")
async def test_a_graph_that_is_not_served_is_not_found(http: httpx.AsyncClient) -> None:
    for question in ("search", "count"):
        answer = await http.post(f"/assistants/{question}", json={"graph_id": "nope"})
        assert answer.status_code == 404
        assert answer.json()["detail"] == f"Graph 'nope' not found. Expected one of: {sorted(NAMES)}"


@pytest.mark.api("POST /assistants/search", "200 takes JSON of any content type")
async def test_the_content_type_of_a_request_does_not_matter(http: httpx.AsyncClient) -> None:
    headers = {"content-type": "text/plain;charset=UTF-8"}
    answer = await http.post("/assistants/search", content='{"graph_id":"steps"}', headers=headers)
    assert [assistant["graph_id"] for assistant in answer.json()] == ["steps"]


@pytest.mark.api("GET /assistants/{assistant_id}", "404 refuses an unknown id")
@pytest.mark.api("GET /assistants/{assistant_id}", "422 refuses an id that is no UUID, a graph's name included")
async def test_an_assistant_is_found_by_uuid_only(sdk: LangGraphClient) -> None:
    with pytest.raises(NotFoundError):
        await sdk.assistants.get(NOBODY)
    with pytest.raises(UnprocessableEntityError, match="Invalid assistant ID: must be a UUID"):
        await sdk.assistants.get("steps")


@pytest.mark.api("GET /assistants/{assistant_id}/graph", "200 draws a graph by its assistant's id or its own name")
async def test_a_graph_is_drawn_without_python_classes(http: httpx.AsyncClient) -> None:
    by_id = (await http.get(f"/assistants/{id_of('nested')}/graph")).json()
    assert by_id == (await http.get("/assistants/nested/graph")).json()
    names = ("__start__", "add", "inner", "__end__")
    nodes = [{"id": name, "type": "runnable", "data": {"name": name}} for name in names[:-1]]
    edges = [{"source": source, "target": target} for source, target in pairwise(names)]
    assert by_id == {"nodes": [*nodes, {"id": "__end__"}], "edges": edges}


@pytest.mark.api("GET /assistants/{assistant_id}/graph", "200 opens subgraphs with xray")
async def test_xray_opens_subgraphs(http: httpx.AsyncClient) -> None:
    for xray in ("True", "01", "3"):
        drawn = (await http.get("/assistants/nested/graph", params={"xray": xray})).json()
        assert "inner:double" in [node["id"] for node in drawn["nodes"]], xray


@pytest.mark.api("GET /assistants/{assistant_id}/graph", "422 refuses a bad xray")
@pytest.mark.parametrize("xray", ["abc", "0", "-1", "", "yes", "1.5", "99999999999999999999"])
async def test_a_bad_xray_is_refused(http: httpx.AsyncClient, xray: str) -> None:
    answer = await http.get("/assistants/nested/graph", params={"xray": xray})
    assert (answer.status_code, answer.json()) == (422, {"detail": "Invalid xray value"})


@pytest.mark.api("GET /assistants/{assistant_id}/graph", "404 refuses an unknown id or name")
async def test_an_unknown_graph_cannot_be_drawn(http: httpx.AsyncClient) -> None:
    for name in ("nope", NOBODY):
        assert (await http.get(f"/assistants/{name}/graph")).status_code == 404


@pytest.mark.api("GET /assistants/{assistant_id}/schemas", "200 describes input, output, state and context")
async def test_schemas_describe_state_input_and_context(sdk: LangGraphClient) -> None:
    steps: Any = await sdk.assistants.get_schemas(id_of("steps"))
    assert steps["graph_id"] == "steps"
    assert list(steps["input_schema"]["properties"]) == ["n", "gate", "log"]
    assert steps["state_schema"]["title"] == "steps_state"
    assert steps["state_schema"]["properties"]["n"] == {"default": None, "title": "N", "type": "integer"}
    assert (steps["config_schema"], steps["context_schema"]) == ({}, None)
    talk: Any = await sdk.assistants.get_schemas(id_of("talk"))
    assert talk["context_schema"]["properties"] == {"greeting": {"title": "Greeting", "type": "string"}}
    assert talk["config_schema"] == talk["context_schema"]


@pytest.mark.api("GET /assistants/{assistant_id}/subgraphs", "200 describes subgraphs by namespace")
@pytest.mark.api(
    "GET /assistants/{assistant_id}/subgraphs/{namespace}",
    "200 describes one subgraph, or nothing for an unknown namespace",
)
async def test_subgraphs_are_described_by_namespace(http: httpx.AsyncClient) -> None:
    path = f"/assistants/{id_of('nested')}/subgraphs"
    everything = (await http.get(path)).json()
    assert list(everything) == ["inner"]
    assert "graph_id" not in everything["inner"]
    assert (await http.get(f"{path}/inner", params={"recurse": "true"})).json() == everything
    assert (await http.get(f"{path}/none")).json() == {}
    assert (await http.get(f"/assistants/{id_of('steps')}/subgraphs")).json() == {}


@pytest.mark.api("POST /assistants/search", "422 refuses a bad page, sorting or selection, and a body that is no JSON")
@pytest.mark.api("POST /assistants/count", "422 refuses a body that is no JSON or of wrong types")
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{bad", b"[]", b'{"limit":0}', b'{"limit":1001}', b'{"offset":-1}', b'{"select":["nope"]}'),
        *(b'{"sort_by":"nope"}', b'{"sort_order":"ASC"}', b'{"name":1}', b'{"metadata":[]}'),
    ],
)
async def test_a_bad_search_is_refused(http: httpx.AsyncClient, body: bytes) -> None:
    assert (await http.post("/assistants/search", content=body)).status_code == 422
    counts = b"limit" in body or b"offset" in body or b"sort" in body or b"select" in body
    assert (await http.post("/assistants/count", content=body)).status_code == (200 if counts else 422)


async def test_an_empty_selection_selects_everything(http: httpx.AsyncClient) -> None:
    (found,) = (await http.post("/assistants/search", json={"graph_id": "ask", "select": []})).json()
    assert found["graph_id"] == "ask"
    assert len(found) == 10


@pytest.mark.api("GET /assistants/{assistant_id}/schemas", "404 refuses an unknown id")
@pytest.mark.api("GET /assistants/{assistant_id}/schemas", "422 refuses an id that is no UUID")
@pytest.mark.api("GET /assistants/{assistant_id}/subgraphs", "404 refuses an unknown id")
@pytest.mark.api("GET /assistants/{assistant_id}/subgraphs", "422 refuses an id that is no UUID and a bad recurse")
@pytest.mark.api("GET /assistants/{assistant_id}/subgraphs/{namespace}", "404 refuses an unknown id")
@pytest.mark.api("GET /assistants/{assistant_id}/subgraphs/{namespace}", "422 refuses an id that is no UUID")
@pytest.mark.parametrize("what", ["schemas", "subgraphs", "subgraphs/inner"])
async def test_an_unknown_assistant_is_not_described(http: httpx.AsyncClient, what: str) -> None:
    assert (await http.get(f"/assistants/{NOBODY}/{what}")).status_code == 404
    assert (await http.get(f"/assistants/nested/{what}")).status_code == 422
    assert (await http.get(f"/assistants/{id_of('nested')}/subgraphs?recurse=maybe")).status_code == 422
