"""The http section of langgraph.json has its effect: prefix, switched-off parts, middleware, CORS, custom routes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import HTTPConnection

from tests.fixtures.app_server import serve_in_thread
from toolweave.api.langgraph.auth import authentication
from toolweave.config.langgraph_json import AuthCache
from toolweave.runtime.caller import User

pytestmark = pytest.mark.requirement("S-02")

FOLDER = Path(__file__).parent / "apps" / "surrounded"
GRAPHS = {"nothing": "./surrounded_graphs.py:nothing", "waiting": "./surrounded_graphs.py:waiting"}
APP = {"app": "./surrounded_web.py:app"}
AUTH = {"path": "./surrounded_auth.py:auth"}
ADA = {"x-api-key": "ada"}


@contextmanager
def serving(folder: Path, **config: Any) -> Iterator[httpx.Client]:
    """Serve the application with this langgraph.json."""
    for file in FOLDER.glob("*.py"):
        (folder / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    path = folder / "langgraph.json"
    path.write_text(json.dumps({"graphs": GRAPHS, **config}), encoding="utf-8")
    with serve_in_thread(path, folder / "data", {}) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


def test_a_prefix_stands_before_everything_and_locations_are_relative_to_it(tmp_path: Path) -> None:
    with serving(tmp_path, http={**APP, "mount_prefix": "/api/"}) as client:
        for path in ("/api/ok", "/ok", "/api/hello", "/api/docs"):
            assert (path, client.get(path).status_code) == (path, 200)
        assert client.post("/api/threads/search/", json={}, follow_redirects=True).status_code == 200
        for path in ("/hello", "/threads/search", "/apix/ok", "/docs"):
            assert (client.get(path).status_code, client.get(path).json()) == (404, {"detail": "Not Found"})
        body = {"assistant_id": "nothing", "input": {}}
        answer = client.post("/api/runs/wait", json=body)
        assert answer.json() == {"text": "nothing"}
        assert answer.headers["location"].startswith("/threads/")
        assert client.get("/api/mine").json() == 0
        document = client.get("/api/openapi.json").json()
        assert "/threads/{thread_id}" in document["paths"]
        assert document["servers"] == [{"url": "/api"}]
        assert client.get("/api/docs/swagger-ui.css").status_code == 200


OFF = {
    "disable_assistants": ("POST", "/assistants/search"),
    "disable_threads": ("POST", "/threads/search"),
    "disable_runs": ("POST", "/runs/wait"),
    "disable_store": ("POST", "/store/namespaces"),
    "disable_mcp": ("POST", "/mcp"),
    "disable_a2a": ("GET", "/.well-known/agent-card.json"),
    "disable_meta": ("GET", "/openapi.json"),
}


def switched_off(client: httpx.Client) -> list[str]:
    """Return the flags whose part of the API is not found."""
    return [flag for flag, (method, path) in OFF.items() if client.request(method, path, json={}).status_code == 404]


def test_parts_that_are_switched_off_are_not_found_and_the_others_are_served(tmp_path: Path) -> None:
    flags = ["disable_runs", "disable_store", "disable_meta"]
    with serving(tmp_path, http=dict.fromkeys(flags, True)) as client:
        assert switched_off(client) == flags
        assert [client.get(path).status_code for path in ("/info", "/metrics", "/docs")] == [404] * 3
        assert client.post("/runs/crons/search", json={}).status_code == 404
        thread = client.post("/threads", json={}).json()["thread_id"]
        assert client.get(f"/threads/{thread}").status_code == 200
        assert client.get(f"/threads/{thread}/runs").status_code == 404
        start = {"id": 1, "method": "run.start", "params": {"assistant_id": "nothing"}, "channels": ["values"]}
        for path in (f"/threads/{thread}/commands", f"/threads/{thread}/stream/events"):
            assert client.post(path, json=start).status_code == 404
        assert client.get("/ok").status_code == 200


def test_the_other_parts_can_be_switched_off_too(tmp_path: Path) -> None:
    flags = ["disable_assistants", "disable_threads", "disable_mcp", "disable_a2a"]
    with serving(tmp_path, http=dict.fromkeys(flags, True)) as client:
        assert switched_off(client) == flags
        assert client.post("/runs/wait", json={"assistant_id": "nothing", "input": {}}).json() == {"text": "nothing"}
        document = client.get("/openapi.json").json()
        assert not [path for path in document["paths"] if path.startswith(("/assistants", "/mcp", "/a2a"))]


def test_middleware_runs_before_authentication_and_a_route_calls_the_api_as_its_caller(tmp_path: Path) -> None:
    with serving(tmp_path, http=APP, auth=AUTH) as client:
        refused = client.post("/threads/search", json={})
        assert refused.status_code == 401
        assert refused.headers["x-seen"] == "from the application's state, user None"
        answer = client.post("/threads/search", json={}, headers=ADA)
        assert (answer.status_code, answer.headers["x-server"]) == (200, "Starlette")
        assert client.get("/hello").json() == {"user": None}
        for name in ("ada", "ada", "bob"):
            assert client.post("/threads", json={}, headers={"x-api-key": name}).status_code == 200
        assert client.get("/mine", headers=ADA).json() == 2
        assert client.get("/mine", headers={"x-api-key": "bob"}).json() == 1


def test_streams_pass_the_applications_middleware_and_a_disconnect_cancels_the_run(tmp_path: Path) -> None:
    with serving(tmp_path, http=APP) as client:
        body = {"assistant_id": "waiting", "input": {}, "on_disconnect": "cancel", "if_not_exists": "create"}
        thread = client.post("/threads", json={}).json()["thread_id"]
        with client.stream("POST", f"/threads/{thread}/runs/stream", json=body) as stream:
            assert stream.headers["x-seen"] == "from the application's state, user None"
            assert next(stream.iter_text()).startswith("event: metadata")
        run = client.get(f"/threads/{thread}/runs").json()[0]["run_id"]
        client.get(f"/threads/{thread}/runs/{run}/join")
        assert client.get(f"/threads/{thread}/runs/{run}").json()["status"] == "interrupted"


def test_authentication_first_shows_the_middleware_the_user(tmp_path: Path) -> None:
    http = {**APP, "middleware_order": "auth_first", "enable_custom_route_auth": True}
    with serving(tmp_path, http=http, auth=AUTH) as client:
        refused = client.post("/threads/search", json={})
        assert (refused.status_code, "x-seen" in refused.headers) == (401, False)
        answer = client.get("/ok")
        assert answer.headers["x-seen"] == "from the application's state, user None"
        answer = client.post("/threads/search", json={}, headers=ADA)
        assert answer.headers["x-seen"] == "from the application's state, user ada"
        assert client.get("/hello").status_code == 401
        assert client.get("/hello", headers=ADA).json() == {"user": "ada"}


def test_a_handler_reads_query_and_body_and_filters_may_be_combined(tmp_path: Path) -> None:
    with serving(tmp_path, auth=AUTH) as client:
        shared = {"metadata": {"shared": True}}
        own = client.post("/threads", params={"name": "ada"}, json=shared).json()
        assert own["metadata"] == {"owner": "ada"}
        assert client.post("/threads", json={"name": "bob", "metadata": {}}).json()["metadata"] == {"owner": "bob"}
        path = f"/threads/{own['thread_id']}"
        assert client.get(path, params={"name": "bob"}).status_code == 404
        assert client.patch(path, params={"name": "ada"}, json=shared).status_code == 200
        assert client.get(path, params={"name": "bob"}).status_code == 200
        assert client.post("/threads/count", params={"name": "bob"}, json={}).json() == 2
        assert client.post("/threads/count", params={"name": "cleo"}, json={}).json() == 1


def test_without_openapi_the_document_offers_the_usual_headers_of_credentials(tmp_path: Path) -> None:
    with serving(tmp_path, auth=AUTH) as client:
        document = client.get("/openapi.json").json()
    schemes = document["components"]["securitySchemes"].values()
    assert [(each["in"], each["name"]) for each in schemes] == [("header", "Authorization"), ("header", "X-Api-Key")]
    assert document["security"] == [{"Authorization": []}, {"X-Api-Key": []}]


def test_users_are_cached_by_the_headers_that_the_cache_names(tmp_path: Path) -> None:
    cache = {"cache_keys": ["x-api-key"], "ttl_seconds": 3600}
    with serving(tmp_path, auth={**AUTH, "cache": cache}) as client:
        for _ in range(3):
            assert client.post("/threads/count", json={}, headers=ADA).json() == 0
        assert client.post("/threads/count", json={}).status_code == 401
        assert client.post("/threads/count", json={}, params={"name": "eve"}).status_code == 200
        assert client.post("/threads/count", json={}).status_code == 401
        # The handler goes by the last value of a header that is there twice.
        twice = [("x-api-key", "fay"), ("x-api-key", "gus")]
        made = client.post("/threads", json={}, headers=twice).json()
        assert made["metadata"] == {"owner": "gus"}
        assert client.get(f"/threads/{made['thread_id']}", headers={"x-api-key": "fay"}).status_code == 404


def test_a_cached_user_is_dropped_after_its_time_and_when_the_cache_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(authentication, "monotonic", lambda: now)
    known = authentication.UserCache(AuthCache(cache_keys=("x-api-key",), ttl_seconds=10, max_size=2))
    ada, bob, cleo = (
        HTTPConnection({"type": "http", "headers": [(b"x-api-key", name)]}) for name in (b"ada", b"bob", b"cleo")
    )
    for connection in (ada, bob, ada, cleo):
        known.store(connection, User({"identity": "somebody"}))
    assert [known.find(each) is not None for each in (ada, bob, cleo)] == [True, False, True]
    now = 10.0
    assert [known.find(each) for each in (ada, bob, cleo)] == [None] * 3
    assert not known._users


CORS = {
    "allow_origins": ["https://app.example"],
    "allow_origin_regex": "https://[a-z]+[.]example[.]org",
    "allow_methods": ["GET"],
    "allow_headers": ["x-one"],
    "allow_credentials": True,
    "expose_headers": ["x-own"],
    "max_age": 5,
}


def test_configured_cors_origins_are_allowed_beside_the_default_ones(tmp_path: Path) -> None:
    with serving(tmp_path, http={"cors": CORS, **APP}) as client:
        wanted = {"access-control-request-method": "GET", "access-control-request-headers": "x-one"}
        allowed = {
            "access-control-allow-methods": "GET",
            "access-control-allow-headers": "Accept, Accept-Language, Content-Language, Content-Type, x-one",
            "access-control-allow-credentials": "true",
            "access-control-max-age": "5",
        }
        for origin in ("https://app.example", "https://sub.example.org", "http://localhost:3000"):
            preflight = client.options("/threads", headers={"origin": origin, **wanted})
            assert preflight.status_code == 200
            expected = {**allowed, "access-control-allow-origin": origin}
            assert {name: preflight.headers[name] for name in expected} == expected
            answer = client.get("/ok", headers={"origin": origin})
            assert answer.headers.get_list("access-control-allow-origin") == [origin]
            assert answer.headers["access-control-expose-headers"].endswith(", x-own")
        for origin in ("https://other.example", "https://x.example.org.evil", "null"):
            assert client.get("/ok", headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize("origins", [["*"], ["https://its-own.example"]])
def test_an_application_with_cors_middleware_of_its_own_sends_no_header_twice(
    origins: list[str], tmp_path: Path
) -> None:
    with serving(tmp_path, http={"cors": {"allow_origins": origins}, **APP}) as client:
        answer = client.get("/hello", headers={"origin": "https://its-own.example"})
        allowed = "*" if origins == ["*"] else "https://its-own.example"
        assert answer.headers.get_list("access-control-allow-origin") == [allowed]
