"""The server describes itself; the application beside the API is merged in (langgraph_api.md 2.7)."""

from pathlib import Path
from typing import Any

import httpx
import pytest

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"


async def test_the_server_is_up_and_so_is_its_database(http: httpx.AsyncClient) -> None:
    for path in ("/ok", "/", "/ok?check_db=1"):
        answer = await http.get(path)
        assert (answer.status_code, answer.content) == (200, b'{"ok":true,"services":{}}')
    assert (await http.head("/ok")).status_code == 200


async def test_the_applications_routes_win(http: httpx.AsyncClient) -> None:
    assert (await http.get("/info")).json() == {"version": "the application's own"}


async def test_the_applications_lifespan_state_and_environment_reach_its_routes(http: httpx.AsyncClient) -> None:
    answer = await http.get("/greeting")
    assert answer.json() == {"lifespan": "from the lifespan", "environment": "from langgraph.json"}


async def test_the_applications_middleware_goes_around_every_route(http: httpx.AsyncClient) -> None:
    assert (await http.get("/greeting")).headers["x-signed"] == "by the application"
    assert (await http.get("/ok")).headers["x-signed"] == "by the application"
    assert (await http.get("/nope")).headers["x-signed"] == "by the application"


async def test_the_application_calls_the_api_without_a_socket(http: httpx.AsyncClient) -> None:
    assert (await http.get("/steps/4")).json() == {"n": 10, "log": ["add", "double"]}


async def test_a_wrong_method_on_an_applications_route_is_405(http: httpx.AsyncClient) -> None:
    answer = await http.post("/greeting")
    assert (answer.status_code, answer.headers["x-signed"]) == (405, "by the application")


async def test_one_openapi_document_describes_both(http: httpx.AsyncClient) -> None:
    answer = await http.get("/openapi.json")
    document = answer.json()
    assert document["openapi"] == "3.1.0"
    assert document["info"] == {"title": "Steered", "version": "7.0"}
    expected = {"/assistants/search", "/threads", "/threads/{thread_id}/runs/stream", "/runs/wait", "/greeting"}
    assert expected <= set(document["paths"])
    operation = document["paths"]["/threads/{thread_id}/runs/wait"]["post"]
    assert operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("RunCreateStateful")
    assert set(operation["responses"]) == {"200", "400", "404", "409", "413", "422"}
    metadata = document["components"]["schemas"]["ThreadCreate"]["properties"]["metadata"]
    assert metadata == {"type": ["object", "null"]}


async def test_every_reference_in_the_document_leads_somewhere(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    refs: list[str] = []

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            refs.extend([node["$ref"]] if isinstance(node.get("$ref"), str) else [])
            for child in node.values():
                collect(child)
        elif isinstance(node, list):
            for child in node:
                collect(child)

    collect(document)
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert refs
    assert set(refs) <= known


async def test_the_documentation_page_needs_nothing_from_elsewhere(http: httpx.AsyncClient) -> None:
    page = await http.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<code>/threads/{thread_id}/runs/wait</code>" in page.text
    assert "/greeting" in page.text
    assert "//" not in page.text.replace("<!doctype html>", "")


@pytest.mark.requirement("T-08")
async def test_the_guard_stands_before_api_and_application(http: httpx.AsyncClient) -> None:
    for path in ("/ok", "/greeting", "/nope"):
        assert (await http.get(path, headers={"host": "evil.example"})).status_code == 421
        assert (await http.get(path, headers={"origin": "https://evil.example"})).status_code == 403
        friend = await http.get(path, headers={"origin": "http://localhost:3000"})
        assert friend.headers["access-control-allow-origin"] == "http://localhost:3000"


async def test_a_body_too_large_is_refused(http: httpx.AsyncClient) -> None:
    answer = await http.post("/threads", content=b" " * (33 * 1024 * 1024))
    assert (answer.status_code, answer.json()) == (413, {"detail": "The request body is larger than 32 MiB"})
