"""The server describes itself; the application beside the API is merged in (langgraph_api.md 2.7)."""

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from toolweave.api.langgraph.app import create_langgraph_app
from toolweave.config.langgraph_json import load_langgraph_json
from toolweave.config.settings import Settings

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"


@pytest.mark.api("GET /ok", "200 says that the server is up, with check_db that its database can be written")
@pytest.mark.api("GET /", "200 says that the server is up")
async def test_the_server_is_up_and_so_is_its_database(http: httpx.AsyncClient) -> None:
    for path in ("/ok", "/", "/ok?check_db=1"):
        answer = await http.get(path)
        assert (answer.status_code, answer.content) == (200, b'{"ok":true,"services":{}}')
    assert (await http.head("/ok")).status_code == 200


async def test_the_applications_routes_win_and_use_its_lifespan_and_the_api(http: httpx.AsyncClient) -> None:
    assert (await http.get("/info")).json() == {"version": "the application's own"}
    greeting = {"lifespan": "from the lifespan", "environment": "from langgraph.json"}
    assert (await http.get("/greeting")).json() == greeting
    # This route calls the API without a socket.
    assert (await http.get("/steps/4")).json() == {"n": 10, "log": ["add", "double"]}


async def test_the_applications_middleware_runs_for_every_route(http: httpx.AsyncClient) -> None:
    answers = [await http.get(path) for path in ("/greeting", "/ok", "/nope")]
    answers.append(await http.post("/greeting"))
    assert [answer.status_code for answer in answers] == [200, 200, 404, 405]
    assert {answer.headers["x-signed"] for answer in answers} == {"by the application"}


@pytest.mark.api("GET /openapi.json", "200 describes the API and the application beside it")
async def test_one_openapi_document_describes_both(http: httpx.AsyncClient) -> None:
    answer = await http.get("/openapi.json")
    document = answer.json()
    assert document["openapi"] == "3.1.0"
    assert document["info"] == {"title": "Steered", "version": "7.0"}
    expected = {
        *("/assistants/search", "/threads", "/threads/{thread_id}/runs/stream", "/runs/wait", "/runs/crons"),
        *("/store/items", "/metrics", "/greeting"),
    }
    assert expected <= set(document["paths"])
    operation = document["paths"]["/threads/{thread_id}/runs/wait"]["post"]
    assert operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("RunCreateStateful")
    assert set(operation["responses"]) == {"200", "400", "404", "409", "413", "422"}
    metadata = document["components"]["schemas"]["ThreadCreate"]["properties"]["metadata"]
    assert metadata == {"type": "object"}


async def test_every_reference_in_the_document_can_be_resolved(http: httpx.AsyncClient) -> None:
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


@pytest.mark.api("GET /docs", "200 lets a browser try requests, with files of this server only")
async def test_the_documentation_page_sends_requests_and_needs_nothing_from_elsewhere(http: httpx.AsyncClient) -> None:
    page = await http.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "//" not in page.text.replace("<!doctype html>", "")
    policy = dict(rule.split(" ", 1) for rule in page.headers["content-security-policy"].split("; "))
    assert (policy["default-src"], policy["connect-src"], policy["style-src"]) == ("'none'", "'self'", "'self'")
    [script] = re.findall(r"<script>(.*?)</script>", page.text)
    assert policy["script-src"] == f"'self' 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
    files = [url for url in re.findall(r'(?:href|src)="([^"]+)"', page.text) if url != "data:,"]
    answers = [await http.get(urljoin(str(page.url), url)) for url in files]
    kinds = [answer.headers["content-type"].split(";")[0] for answer in answers]
    assert kinds == ["text/css", "application/json", "text/javascript"]
    assert b"SwaggerUIBundle" in answers[2].content
    assert (await http.get("/docs/..%2f__init__.py")).status_code == 404


@pytest.mark.requirement("T-08")
async def test_the_guard_protects_api_and_application(http: httpx.AsyncClient) -> None:
    for path in ("/ok", "/greeting", "/nope"):
        assert (await http.get(path, headers={"host": "evil.example"})).status_code == 421
        assert (await http.get(path, headers={"origin": "https://evil.example"})).status_code == 403
        friend = await http.get(path, headers={"origin": "http://localhost:3000"})
        assert friend.headers["access-control-allow-origin"] == "http://localhost:3000"


async def test_a_body_too_large_is_refused(http: httpx.AsyncClient) -> None:
    # The connection can be closed while the body is sent, which another test on the same one would notice.
    async with httpx.AsyncClient(base_url=http.base_url) as client:
        answer = await client.post("/threads", content=b" " * (33 * 1024 * 1024))
    refusal = (
        "The request body is larger than 32 MiB. Send less at a time, or store the data elsewhere and send its address."
    )
    assert (answer.status_code, answer.json()) == (413, {"detail": refusal})


@pytest.mark.api("GET /ok", "422 refuses a check_db that is no boolean")
@pytest.mark.api("GET /", "422 refuses a check_db that is no boolean")
async def test_a_bad_flag_is_refused(http: httpx.AsyncClient) -> None:
    for path in ("/ok", "/"):
        refused = await http.get(path, params={"check_db": "perhaps"})
        text = 'Invalid check_db value: it is not of type "boolean"'
        assert (refused.status_code, refused.json()) == (422, {"detail": text})


@pytest.mark.api("POST /ui/{graph}", "404 says in plain text that a graph has no user interface")
@pytest.mark.api("POST /ui/{graph}", "422 refuses a body that is no JSON")
async def test_no_graph_has_a_user_interface(http: httpx.AsyncClient) -> None:
    answer = await http.post("/ui/steps", json={"name": "card"})
    assert (answer.status_code, answer.text) == (404, "UI not found for graph 'steps'")
    assert answer.headers["content-type"].startswith("text/plain")
    assert (await http.post("/ui/steps")).status_code == 422
    assert "/ui/{graph}" not in (await http.get("/openapi.json")).json()["paths"]


async def test_a_trailing_slash_is_redirected_with_method_and_body(http: httpx.AsyncClient) -> None:
    answer = await http.post("/threads/", json={})
    assert answer.status_code == 307
    assert answer.headers["location"] == f"{str(http.base_url).rstrip('/')}/threads"
    assert (await http.post("/threads/", json={}, follow_redirects=True)).json()["status"] == "idle"


@pytest.mark.api("GET /info", "200 names the version of the API and the parts that are there")
async def test_info_names_the_version_and_the_features(tmp_path: Path) -> None:
    (tmp_path / "langgraph.json").write_text('{"graphs": {"g": "./g.py:g"}}', encoding="utf-8")
    app = create_langgraph_app(load_langgraph_json(tmp_path / "langgraph.json"), Settings())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as api:
        shown = (await api.get("/info")).json()
    assert shown["flags"] == {
        "assistants": True,
        "crons": True,
        "langsmith": False,
        "langsmith_tracing_replicas": False,
        "langsmith_tracing_session_on_runs": False,
        "strict_resume": True,
        "stream_namespaces": True,
    }
    assert shown["version"] >= "0.16"
    assert shown["host"]["kind"] == "self-hosted"
