"""The core server refuses callers without a valid token and never logs a token."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from tests.fixtures.logged import logged
from tests.servers.core.tokens import (
    AUDIENCE,
    ISSUER,
    claims,
    ec_key,
    jwk,
    private_pem,
    public_pem,
    rsa_key,
    signed,
    signed_with_text,
    unsigned,
)
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError
from toolweave.runtime.codec import dumps
from toolweave.servers.core import loading
from toolweave.servers.core.credentials import read_core_credentials

TOKEN = "a-token-of-the-operators-own"
KEY = rsa_key()
OTHER_KEY = rsa_key()
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
ACCEPT = {"accept": "application/json, text/event-stream"}
SIGNED: dict[str, Any] = {"core_jwt_issuer": ISSUER, "core_jwt_audience": AUDIENCE}


class Guarded:
    """A core server behind its authentication."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def hello(self, token: str | None, **headers: str) -> httpx.Response:
        """Open a session with a token."""
        shown = {} if token is None else {"authorization": f"Bearer {token}"}
        sent = [(name.encode(), value.encode()) for name, value in {**ACCEPT, **shown, **headers}.items()]
        return await self._http.post("/mcp", json=HELLO, headers=sent)

    async def ping(self, token: str, session: str) -> httpx.Response:
        """Send a request of a session."""
        headers = {**ACCEPT, "authorization": f"Bearer {token}", "mcp-session-id": session}
        return await self._http.post("/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "ping"}, headers=headers)


@asynccontextmanager
async def guarded(**settings: Any) -> AsyncIterator[Guarded]:
    loading.import_core_server()
    async with (
        loading.open_http_app(Settings(**settings), "/mcp") as app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http,
    ):
        yield Guarded(http)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key.pem"
    path.write_text(public_pem(KEY), encoding="ascii")
    return path


@contextmanager
def published(answer: Any, *, status: int = 200) -> Iterator[str]:
    """Serve a JSON value as the set of keys."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = dumps(answer)
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/keys"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_only_the_operators_token_is_accepted() -> None:
    async with guarded(core_token=TOKEN) as server:
        assert (await server.hello(TOKEN)).status_code == 200
        for wrong in (TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "", "ü" * 20, "a.b.c"):
            refused = await server.hello(wrong)
            assert refused.status_code == 401, wrong
            assert refused.headers["www-authenticate"].startswith('Bearer error="invalid_token"')
        assert (await server.hello(None, authorization=f"Basic {TOKEN}")).status_code == 401
        without = await server.hello(None)
        assert (without.status_code, without.headers["www-authenticate"]) == (401, "Bearer")


async def test_a_token_signed_for_this_server_is_accepted(key_file: Path) -> None:
    async with guarded(core_jwt_public_key=key_file, **SIGNED) as server:
        for content in (claims(), claims(aud=["others", AUDIENCE]), claims(nbf=time.time() + 30)):
            assert (await server.hello(signed(KEY, content))).status_code == 200


WRONG = {
    "another key's": signed(OTHER_KEY, claims()),
    "without a signature": unsigned(claims()),
    "signed with the public key as if it were a secret": signed_with_text(public_pem(KEY), claims()),
    "of another kind of key": signed(ec_key(), claims()),
    "of another issuer": signed(KEY, claims(iss="https://evil.example.org")),
    "of no issuer": signed(KEY, claims(iss=None)),
    "for somebody else": signed(KEY, claims(aud="others")),
    "without an audience": signed(KEY, claims(aud=None)),
    "over": signed(KEY, claims(exp=int(time.time()) - 1)),
    "without an end": signed(KEY, claims(exp=None)),
    "with an end that is none": signed(KEY, claims(exp=True)),
    "not begun": signed(KEY, claims(nbf=time.time() + 3600)),
    "with a demand nobody knows": signed(KEY, claims(), crit=["mystery"], mystery=1),
    "huge": signed(KEY, claims(extra="x" * 20_000)),
    "with a header that is no object": "W10.e30.eA",
    "with another algorithm of the same key": signed(KEY, claims(), alg="RS512"),
}


@pytest.mark.parametrize("kind", WRONG)
async def test_a_token_is_refused_that_is(kind: str, key_file: Path) -> None:
    with logged("TRACE", format="{message} {exception}") as lines:
        async with guarded(core_jwt_public_key=key_file, core_token=TOKEN, **SIGNED) as server:
            refused = await server.hello(WRONG[kind])
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer ")
    assert WRONG[kind] not in "".join(lines) + refused.text


async def test_a_key_of_an_elliptic_curve_is_accepted(tmp_path: Path) -> None:
    key, path = ec_key(), tmp_path / "key.pem"
    path.write_text(public_pem(key), encoding="ascii")
    async with guarded(core_jwt_public_key=path, **SIGNED) as server:
        assert (await server.hello(signed(key, claims()))).status_code == 200
        assert (await server.hello(signed(KEY, claims()))).status_code == 401


async def test_published_keys_are_fetched_and_the_token_names_which() -> None:
    with published({"keys": [jwk(KEY, "new"), jwk(OTHER_KEY, "old"), {"kty": "OKP", "kid": "exotic"}]}) as url:
        async with guarded(core_jwks_url=url, **SIGNED) as server:
            assert (await server.hello(signed(KEY, claims(), kid="new"))).status_code == 200
            assert (await server.hello(signed(OTHER_KEY, claims(), kid="old"))).status_code == 200
            assert (await server.hello(signed(KEY, claims(), kid="old"))).status_code == 401
            assert (await server.hello(signed(KEY, claims(), kid="unknown"))).status_code == 401


@pytest.mark.parametrize(("answer", "status"), [({"keys": []}, 503), ([1, 2], 200), ({"keys": "none"}, 200)])
async def test_keys_that_cannot_be_fetched_are_logged_and_the_other_token_is_accepted(answer: Any, status: int) -> None:
    with logged("ERROR") as lines, published(answer, status=status) as url:
        async with guarded(core_jwks_url=url, core_token=TOKEN, **SIGNED) as server:
            assert (await server.hello(signed(KEY, claims(), kid="new"))).status_code == 401
            assert (await server.hello(TOKEN)).status_code == 200
    assert any("TOOLWEAVE_CORE_JWKS_URL" in line for line in lines)


async def test_a_session_ends_with_its_token_and_belongs_to_its_caller(key_file: Path) -> None:
    async with guarded(core_jwt_public_key=key_file, core_token=TOKEN, **SIGNED) as server:
        adas = signed(KEY, claims())
        session = (await server.hello(adas)).headers["mcp-session-id"]
        assert (await server.ping(adas, session)).status_code == 200
        assert (await server.ping(signed(KEY, claims(exp=int(time.time()) + 5)), session)).status_code == 200
        over = await server.ping(signed(KEY, claims(exp=int(time.time()) - 1)), session)
        assert (over.status_code, "www-authenticate" in over.headers) == (401, True)
        for stranger in (signed(KEY, claims(sub="bob")), signed(KEY, claims(client_id="ada", sub="bob")), TOKEN):
            assert (await server.ping(stranger, session)).status_code == 404


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"core_token": "too-short"}, "TOOLWEAVE_CORE_TOKEN must have at least 16 characters"),
        ({"core_token": "with a space in the middle"}, "TOOLWEAVE_CORE_TOKEN"),
        ({"core_jwks_url": "https://issuer.example.org/keys"}, "TOOLWEAVE_CORE_JWT_ISSUER and TOOLWEAVE_CORE_JWT_AUD"),
        ({"core_jwks_url": "https://x.example.org", "core_jwt_issuer": ISSUER}, "need TOOLWEAVE_CORE_JWT_AUDIENCE"),
        (SIGNED, "need TOOLWEAVE_CORE_JWKS_URL or"),
        ({"core_jwt_public_key": "/nowhere/key.pem", **SIGNED}, "cannot be read: No such file"),
    ],
)
def test_settings_that_admit_too_many_callers_or_none_are_refused(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_core_credentials(Settings(**settings))
    assert expected in str(refused.value)
    assert "too-short" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (private_pem(rsa_key()), "without a public key"),
        (public_pem(rsa_key(1024)), "a kind that is not supported"),
        ("ключ", "without a public key"),
    ],
)
def test_a_file_without_a_usable_public_key_is_refused(text: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        read_core_credentials(Settings(core_jwt_public_key=path, **SIGNED))
    assert expected in str(refused.value)
    assert text not in str(refused.value)


def test_credentials_do_not_show_what_is_secret() -> None:
    assert TOKEN not in repr(read_core_credentials(Settings(core_token=TOKEN)))
