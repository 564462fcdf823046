"""Items, searches and namespaces over HTTP, in one store with the graphs (langgraph_api.md section 2.6)."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

LANGGRAPH_JSON = Path(__file__).parent / "store_app" / "langgraph.json"
ON_POSTGRESQL = True
ITEMS = "/store/items"


@pytest.fixture
def root() -> str:
    """A namespace of the test's own."""
    return f"r{uuid4().hex[:8]}"


async def keys(http: httpx.AsyncClient, **wanted: Any) -> list[str]:
    answer = await http.post(f"{ITEMS}/search", json=wanted)
    assert answer.status_code == 200
    return [item["key"] for item in answer.json()["items"]]


@pytest.mark.api("PUT /store/items", "204 stores or replaces an item")
@pytest.mark.api("GET /store/items", "200 gives an item, null when there is none")
@pytest.mark.api("DELETE /store/items", "204 whether the item was there or not")
async def test_an_item_is_put_got_replaced_and_deleted(sdk: LangGraphClient, root: str) -> None:
    place = [root, "ü%_*"]
    await sdk.store.put_item(place, "k", {"text": "one"})
    first = await sdk.store.get_item(place, "k")
    assert list(first) == ["namespace", "key", "value", "created_at", "updated_at"]
    assert (first["namespace"], first["key"], first["value"]) == (place, "k", {"text": "one"})
    await sdk.store.put_item(place, "k", {"text": "two"})
    second = await sdk.store.get_item(place, "k")
    assert second["value"] == {"text": "two"}
    assert second["created_at"] == first["created_at"] < second["updated_at"]
    assert str(second["created_at"]).endswith("+00:00")
    for _ in range(2):
        await sdk.store.delete_item(place, "k")
        assert await sdk.store.get_item(place, "k") is None


@pytest.mark.api("PUT /store/items", "400 for no namespace and for LangGraph's own")
async def test_a_client_cannot_write_to_langgraphs_namespace(http: httpx.AsyncClient) -> None:
    for namespace, detail in (
        ([], "Namespace cannot be empty."),
        (["langgraph"], "Root label for namespace cannot be \"langgraph\". Got: ('langgraph',)"),
    ):
        answer = await http.put(ITEMS, json={"namespace": namespace, "key": "k", "value": {}})
        assert (answer.status_code, answer.json()) == (400, {"detail": detail})


LABEL_ERROR = "Namespace label '{}' must be a non-empty string without periods"


@pytest.mark.api("PUT /store/items", "422 for a label that is not one, as plain text")
@pytest.mark.api("GET /store/items", "422 for a label that is not one, as plain text")
@pytest.mark.api("DELETE /store/items", "422 for a label that is not one, as plain text")
@pytest.mark.api("POST /store/items/search", "422 for a label that is not one, as plain text")
@pytest.mark.api("POST /store/namespaces", "422 for a label that is not one, as plain text")
@pytest.mark.parametrize("label", ["a.b", "", "a\0"])
async def test_an_invalid_label_is_refused_in_plain_text(label: str, http: httpx.AsyncClient) -> None:
    named = {"namespace": ["a", label], "key": "k"}
    answers = [
        await http.put(ITEMS, json={**named, "value": {}}),
        await http.request("DELETE", ITEMS, json=named),
        await http.post(f"{ITEMS}/search", json={"namespace_prefix": [label]}),
        await http.post("/store/namespaces", json={"prefix": ["a", label]}),
        await http.post("/store/namespaces", json={"suffix": [label]}),
    ]
    for answer in answers:
        assert (answer.status_code, answer.text) == (422, LABEL_ERROR.format(label))
        assert "content-type" not in answer.headers
    for query in ("", "?key=k", "?namespace=&key=k", "?namespace=a..b&key=k"):
        answer = await http.get(ITEMS + query)
        assert (answer.status_code, answer.text) == (422, LABEL_ERROR.format(""))


@pytest.mark.api("PUT /store/items", "422 for a body that is malformed")
@pytest.mark.api("DELETE /store/items", "422 for a body that is malformed")
@pytest.mark.api("POST /store/items/search", "422 for a body that is malformed")
@pytest.mark.api("POST /store/namespaces", "422 for a body that is malformed")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", ITEMS, {}),
        ("PUT", ITEMS, {"namespace": ["a"], "key": "k", "value": 1}),
        ("PUT", ITEMS, {"namespace": ["a"], "key": "k", "value": None}),
        ("PUT", ITEMS, {"namespace": ["a"], "key": "k", "value": {}, "ttl": -1}),
        ("PUT", ITEMS, {"namespace": ["a"], "key": "k", "value": {}, "index": True}),
        ("DELETE", ITEMS, {"namespace": ["a"]}),
        ("POST", f"{ITEMS}/search", {"filter": []}),
        ("POST", f"{ITEMS}/search", {"limit": -1}),
        ("POST", f"{ITEMS}/search", {"offset": 2**63}),
        ("POST", "/store/namespaces", {"max_depth": "x"}),
    ],
)
async def test_a_malformed_body_is_refused(method: str, path: str, body: Any, http: httpx.AsyncClient) -> None:
    answer = await http.request(method, path, json=body)
    assert answer.status_code == 422
    assert "Failed validating" in answer.json()["detail"]


@pytest.mark.api("GET /store/items", "400 without a key")
async def test_a_key_is_required(http: httpx.AsyncClient) -> None:
    for query in ("?namespace=a", "?namespace=a&key="):
        answer = await http.get(ITEMS + query)
        assert (answer.status_code, answer.json()) == (400, {"error": "Key is required"})
    assert (await http.get(f"{ITEMS}?namespace=a&key=k&refresh_ttl=perhaps")).status_code == 422


@pytest.mark.api("POST /store/items/search", "200 finds by namespace, filter and page; all without a prefix")
async def test_items_are_searched_by_namespace_filter_and_page(http: httpx.AsyncClient, root: str) -> None:
    for number in range(4):
        body = {"namespace": [root, f"n{number % 2}"], "key": f"k{number}", "value": {"n": number, "odd": number % 2}}
        await http.put(ITEMS, json=body)
    await http.put(ITEMS, json={"namespace": [root, "n0"], "key": "without", "value": {}})
    assert await keys(http, namespace_prefix=[root]) == ["k0", "k2", "without", "k1", "k3"]
    assert await keys(http, namespace_prefix=[root], limit=2, offset=1) == ["k2", "without"]
    assert await keys(http, namespace_prefix=[root, "n1"]) == ["k1", "k3"]
    assert await keys(http, namespace_prefix=[root], filter={"odd": 1}) == ["k1", "k3"]
    assert await keys(http, namespace_prefix=[root], filter={"n": {"$gte": 1, "$lt": 3}}) == ["k2", "k1"]
    assert await keys(http, namespace_prefix=[root], filter={"n') OR 1=1 --": 1}) == []
    assert set(await keys(http, limit=1000)) >= {"k0", "k1", "k2", "k3", "without"}
    assert set(await keys(http, namespace_prefix=None, limit=1000)) >= {"k0"}
    found = await http.post(f"{ITEMS}/search", json={"namespace_prefix": [root], "limit": 1, "lmit": 3})
    assert found.json()["items"][0]["score"] is None
    assert found.headers["x-ignored-fields"] == "lmit"


@pytest.mark.api("POST /store/items/search", "400 for an operator that does not exist")
async def test_an_unknown_operator_is_named(http: httpx.AsyncClient) -> None:
    answer = await http.post(f"{ITEMS}/search", json={"namespace_prefix": [], "filter": {"n": {"$near": 1}}})
    assert (answer.status_code, answer.json()) == (400, {"detail": "Unsupported operator: $near"})


@pytest.mark.api("POST /store/namespaces", "200 lists by beginning, end, depth and page")
async def test_namespaces_are_listed(sdk: LangGraphClient, root: str) -> None:
    for place in (["u", "1", "facts"], ["u", "2", "facts"], ["u", "2", "notes"]):
        await sdk.store.put_item([root, *place], "k", {})
    listed = await sdk.store.list_namespaces(prefix=[root])
    assert listed["namespaces"] == [[root, "u", "1", "facts"], [root, "u", "2", "facts"], [root, "u", "2", "notes"]]
    listed = await sdk.store.list_namespaces(prefix=[root, "*", "2"], suffix=["notes"])
    assert listed["namespaces"] == [[root, "u", "2", "notes"]]
    listed = await sdk.store.list_namespaces(prefix=[root], max_depth=3, limit=1, offset=1)
    assert listed["namespaces"] == [[root, "u", "2"]]


@pytest.mark.api("POST /store/items/search", "200 finds by meaning where an embedding is configured")
@pytest.mark.api("PUT /store/items", "204 embeds the requested fields")
async def test_a_query_finds_by_meaning(sdk: LangGraphClient, root: str) -> None:
    await sdk.store.put_item([root], "cats", {"text": "cats drink milk"})
    await sdk.store.put_item([root], "dogs", {"text": "dogs bite"})
    await sdk.store.put_item([root], "hidden", {"text": "milk milk milk"}, index=False)
    await sdk.store.put_item([root], "title", {"title": "milk", "text": "dogs"}, index=["title"])
    found = (await sdk.store.search_items([root], query="milk"))["items"]
    assert [item["key"] for item in found] == ["title", "cats", "dogs", "hidden"]
    assert found[0]["score"] == pytest.approx(1.0)
    assert found[-1]["score"] is None


async def test_an_item_that_cannot_be_embedded_is_not_stored(http: httpx.AsyncClient, root: str) -> None:
    body = {"namespace": [root], "key": "bad", "value": {"text": "poison"}}
    assert (await http.put(ITEMS, json=body)).status_code == 500
    assert await keys(http, namespace_prefix=[root]) == []
    assert (await http.put(ITEMS, json={**body, "index": False})).status_code == 204


@pytest.mark.api("PUT /store/items", "204 with a time to live")
@pytest.mark.api("GET /store/items", "200 refreshes the time to live unless refresh_ttl is false")
async def test_an_item_is_stored_for_its_time_to_live(sdk: LangGraphClient, root: str) -> None:
    await sdk.store.put_item([root], "gone", {}, ttl=0)
    await sdk.store.put_item([root], "here", {}, ttl=5)
    assert await sdk.store.get_item([root], "gone") is None
    assert await sdk.store.get_item([root], "here", refresh_ttl=False) is not None
    assert await sdk.store.get_item([root], "here", refresh_ttl=True) is not None
    found = (await sdk.store.search_items([root], refresh_ttl=False))["items"]
    assert [item["key"] for item in found] == ["here"]


async def test_hostile_text_is_returned_unchanged(http: httpx.AsyncClient, root: str) -> None:
    deep: dict[str, Any] = {}
    for _ in range(190):
        deep = {"d": deep}
    value = {"text": "\0' OR 1=1; --", "long": "x" * 1_000_000, "deep": deep, "ключ": "\U0001f600"}
    key = "'; DROP TABLE store; -- \0%_"
    assert (await http.put(ITEMS, json={"namespace": [root], "key": key, "value": value})).status_code == 204
    answer = await http.get(ITEMS, params={"namespace": root, "key": key})
    assert (answer.json()["key"], answer.json()["value"]) == (key, value)


@pytest.mark.parametrize("assistant", ["remember", "remember_in_thread"])
async def test_graphs_and_clients_see_the_same_items(assistant: str, sdk: LangGraphClient) -> None:
    key = " ".join(uuid4().hex)  # many words: two single ones may have the same vector
    await sdk.store.put_item(["api", "notes"], key, {"text": "from the client"})
    result: Any = await sdk.runs.wait(None, assistant, input={"key": key, "text": f"from {key}"})
    assert result["found"] in ({"text": "from the client"}, key)
    item = await sdk.store.get_item(["graph", "notes"], key)
    assert item["value"] == {"text": f"from {key}"}


async def test_runs_and_clients_write_at_once_while_the_server_answers(
    sdk: LangGraphClient, http: httpx.AsyncClient, root: str
) -> None:
    runs = [sdk.runs.wait(None, "flood", input={"key": f"{root}{number}"}) for number in range(8)]
    puts = [sdk.store.put_item([root], str(number), {"text": "x" * 1000}) for number in range(100)]
    answers = [http.get("/ok") for _ in range(50)]
    results = await asyncio.gather(*runs, *puts, *answers)
    assert [result["found"] for result in results[:8]] == [50] * 8
    assert {answer.status_code for answer in results[108:]} == {200}
    assert len(await keys(http, namespace_prefix=[root], limit=1000)) == 100
