"""T-08: who may talk to the server; CORS headers in the reference server's form (langgraph_api.md 3.1)."""

from typing import Any

import httpx
import pytest

from toolweave.api.http_guard import AccessRules, HttpGuard
from toolweave.api.langgraph_client import StreamingAsgiTransport
from toolweave.config.langgraph_json import CorsRules
from toolweave.config.settings import Settings
from toolweave.origins import is_loopback

pytestmark = pytest.mark.requirement("T-08")

EVERYWHERE = "0.0.0.0"  # noqa: S104 - not bound
EXPOSED = {"x-pagination-total", "x-pagination-next", "content-location", "location", "x-ignored-fields", "etag"}
EXPOSED |= {"mcp-session-id", "www-authenticate", "x-request-id"}


async def answering(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-app", b"reached")]})
    await send({"type": "http.response.body", "body": b"fine"})


def client(base_url: str = "http://127.0.0.1:2024", **settings: Any) -> httpx.AsyncClient:
    guard = HttpGuard(answering, AccessRules.from_settings(Settings(**settings)))
    return httpx.AsyncClient(transport=StreamingAsgiTransport(guard), base_url=base_url)


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        *(({}, host) for host in ("127.0.0.1:2024", "LOCALHOST", "[::1]:2024", "127.8.9.1", "app.localhost:80")),
        ({"host": "localhost"}, "localhost:2024"),
        ({"host": EVERYWHERE, "allow_insecure_bind": True}, "agents.example"),
    ],
)
async def test_a_loopback_bind_answers_to_loopback_names_and_an_open_one_to_any(
    settings: dict[str, Any], host: str
) -> None:
    async with client(**settings) as http:
        assert (await http.get("/", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "", "127.0.0.1@evil.example"),
        *("evil.example/127.0.0.1", "10.0.0.5:2024", "[::2]", "[::1].evil.example", "127.0.0.1:x"),
    ],
)
async def test_a_loopback_bind_refuses_other_names(host: str) -> None:
    async with client() as http:
        answer = await http.get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "loopback names only" in answer.json()["detail"]
    assert "x-app" not in answer.headers


@pytest.mark.parametrize(
    "origin",
    [
        *("http://localhost:3000", "https://127.0.0.1", "http://[::1]:5173", "http://[0:0:0:0:0:0:0:1]"),
        *("http://[::FFFF:7F00:1]", "HTTP://LOCALHOST:3000", "http://app.localhost", "http://127.8.9.1:65535"),
        *("https://smith.langchain.com", "https://chat.example", "HTTPS://CHAT.EXAMPLE"),
    ],
)
async def test_a_trusted_page_gets_its_own_origin_back(origin: str) -> None:
    async with client(cors_origins="https://Chat.example/,https://other.example") as http:
        answer = await http.get("/", headers={"origin": origin})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == origin
    assert {name.strip() for name in answer.headers["access-control-expose-headers"].split(",")} == EXPOSED
    assert answer.headers["vary"] == "Origin"


@pytest.mark.parametrize(
    "origin",
    [
        *("https://evil.example", "null", "file://", "ftp://localhost", "https://smith.langchain.com.evil.example"),
        *("http://localhost@evil.example", "http://localhost.evil.example", "http://LOCALHOST.EVIL.EXAMPLE"),
        *("http://[::1].evil.example", "http://[::1]evil.example", "http://[::1]:80@evil.example", "http://[[::1]]"),
        *("http://[127.0.0.1]", "http://[::ffff:192.0.2.1]", "http://[::1%25lo].evil.example"),
        *("http://127.0.0.1:80.evil.example", "http://127.0.0.1:99999", "http://evil.example#localhost"),
        *("http://evil.example\\.localhost", "http://evil.example%2f.localhost", "http://evil.example/.localhost"),
        *("http://evil.example:80 .localhost", "http://.localhost", "http://localhost http://evil.example"),
    ],
)
async def test_another_page_is_refused_before_the_application_runs(origin: str) -> None:
    async with client() as http:
        answer = await http.post("/runs/wait", headers={"origin": origin}, content="{}")
        preflight = await http.options(
            "/threads/x", headers={"origin": origin, "access-control-request-method": "DELETE"}
        )
    assert (answer.status_code, preflight.status_code) == (403, 403)
    assert "TOOLWEAVE_CORS_ORIGINS" in answer.json()["detail"]
    assert "x-app" not in answer.headers
    assert "access-control-allow-origin" not in {*answer.headers, *preflight.headers}


async def test_a_page_that_the_server_itself_serves_may_call_it() -> None:
    async with client(host=EVERYWHERE, allow_insecure_bind=True) as http:
        headers = {"host": "agents.example:2024", "origin": "http://agents.example:2024"}
        assert (await http.get("/", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("origins", "origin", "with_credentials"),
    [
        ([], "https://anyone.example", False),
        ([], "http://localhost:3000", True),
        (["https://app.example"], "https://app.example", True),
        (["https://app.example"], "https://anyone.example", False),
        (["*"], "https://anyone.example", True),
    ],
)
async def test_the_star_setting_lets_no_page_use_credentials_that_only_langgraph_json_allows(
    origins: list[str], origin: str, with_credentials: bool
) -> None:
    rules = CorsRules(allow_origins=tuple(origins), allow_credentials=True)
    guard = HttpGuard(answering, AccessRules.from_settings(Settings(cors_origins=("*",)), rules))
    async with httpx.AsyncClient(transport=StreamingAsgiTransport(guard), base_url="http://127.0.0.1:2024") as http:
        headers = {"origin": origin, "access-control-request-method": "POST"}
        for answer in (await http.get("/", headers=headers), await http.options("/", headers=headers)):
            assert answer.headers["access-control-allow-origin"] == (origin if with_credentials else "*")
            assert ("access-control-allow-credentials" in answer.headers) is with_credentials


async def test_without_an_origin_there_is_only_vary() -> None:
    async with client() as http:
        answer = await http.get("/")
    assert answer.headers["vary"] == "Origin"
    assert "access-control-allow-origin" not in answer.headers


async def test_a_preflight_is_answered_for_private_networks_too() -> None:
    headers = {
        "origin": "https://smith.langchain.com",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,x-api-key",
        "access-control-request-private-network": "true",
    }
    async with client() as http:
        answer = await http.options("/threads", headers=headers)
    assert (answer.status_code, answer.text) == (200, "OK")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["access-control-allow-origin"] == "https://smith.langchain.com"
    assert answer.headers["access-control-allow-methods"] == "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, QUERY"
    assert answer.headers["access-control-allow-headers"] == "content-type,x-api-key"
    assert answer.headers["access-control-allow-private-network"] == "true"
    assert answer.headers["access-control-max-age"] == "600"
    assert "x-app" not in answer.headers


async def test_an_options_request_that_is_no_preflight_reaches_the_application() -> None:
    async with client() as http:
        assert (await http.options("/", headers={"origin": "http://localhost"})).headers["x-app"] == "reached"


@pytest.mark.parametrize(
    "headers", [[(b"host", b"evil.example")], [(b"host", b"localhost"), (b"origin", b"https://evil.example")]]
)
async def test_a_websocket_of_another_page_is_closed_before_it_opens(headers: list[tuple[bytes, bytes]]) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    guard = HttpGuard(answering, AccessRules.from_settings(Settings()))
    await guard({"type": "websocket", "headers": headers}, receive, send)
    assert (sent[0]["type"], sent[0]["status"] in (403, 421)) == ("websocket.http.response.start", True)


@pytest.mark.parametrize(
    ("name", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("[::1]", True), ("::ffff:127.0.0.1", True), (EVERYWHERE, False), ("", False)],
)
def test_loopback_is_recognised_without_dns(name: str, loopback: bool) -> None:
    assert is_loopback(name) is loopback
