"""The sign-in of a user, and the faults of the browser, the server and its authorization server."""

import asyncio
import socket
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.fixtures.mcp_server import free_port
from tests.servers.connections.oauth.guarded import (
    PATIENCE_S,
    Guarded,
    browse,
    file_place,
    listener,
    open_browser,
    signed_in,
    stored_grant,
)
from toolweave.config.mcp_entry import OAuth
from toolweave.outbound_policy import OutboundPolicy
from toolweave.servers.connections.oauth.exchange import MAX_BODY_BYTES, AuthorizationFault, Destinations, require_safe
from toolweave.servers.connections.oauth.login import open_callback, sign_in


async def refused(guarded: Guarded, folder: Path, auth: OAuth | None = None, **knobs: Any) -> str:
    """Sign in to a server that behaves like this; return the message of the fault."""
    await guarded.tell(set=knobs)
    place = file_place(folder)
    with pytest.raises(AuthorizationFault) as fault:
        await signed_in(guarded.config(auth), place)
    assert list(place.folder.glob("*.tokens")) == []
    return str(fault.value)


async def test_a_sign_in_registers_a_client_and_uses_pkce(guarded: Guarded, tmp_path: Path) -> None:
    shown: list[str] = []

    def show(url: str) -> None:
        shown.append(url)
        open_browser(url)

    await sign_in(guarded.config(), file_place(tmp_path), show, timeout_s=PATIENCE_S)
    query = {name: values[0] for name, values in parse_qs(urlsplit(shown[0]).query).items()}
    assert query["code_challenge_method"] == "S256"
    assert query["redirect_uri"].startswith("http://127.0.0.1:")
    assert (query["resource"], query["scope"]) == (guarded.server.url, "tools more")
    grant = stored_grant(guarded.config(), file_place(tmp_path))
    assert grant.tokens.refresh_token
    assert grant.client.client_id == query["client_id"]
    assert grant.server is not None
    assert str(grant.server.token_endpoint) == f"{guarded.login}/token"
    # A browser that follows the link a second time changes nothing.
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(browse, shown[0])


async def test_a_registered_client_is_redirected_to_its_own_port(guarded: Guarded, tmp_path: Path) -> None:
    port = free_port()
    auth = OAuth(client_id="fixed-client", redirect_port=port, scope="more")
    await signed_in(guarded.config(auth), file_place(tmp_path))
    form = (await guarded.recorded())["forms"][0]
    assert (form["client_id"], form["redirect_uri"]) == ("fixed-client", f"http://127.0.0.1:{port}/callback")
    assert await guarded.request_count("register") == 0


async def test_a_port_in_use_is_named(guarded: Guarded, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = await refused(guarded, tmp_path, OAuth(client_id="fixed-client", redirect_port=port))
    assert message == f"port {port} of 127.0.0.1 for the sign-in's redirect is in use"


async def test_a_sign_in_that_is_not_completed_ends_at_its_limit(guarded: Guarded, tmp_path: Path) -> None:
    with pytest.raises(AuthorizationFault, match=r"sign-in in the browser was not completed within 0\.05 s"):
        await sign_in(guarded.config(), file_place(tmp_path), lambda _: None, timeout_s=0.05)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"deny": True}, "the sign-in was refused (access_denied: not [31m you)"),
        ({"registers": False}, "client registration was refused (HTTP 403 Forbidden): set auth.client_id"),
        ({"token_status": 400, "token_body": '{"error": "invalid_target"}'}, "rejects the request: invalid_target"),
        ({"token_status": 400, "token_body": '{"error": "<script>"}'}, "rejects the request: HTTP 400 Bad Request"),
        ({"token_status": 500}, "server failed (HTTP 500 Internal Server Error)"),
        ({"token_status": 200, "token_body": "[]"}, "response is not a valid OAuthToken"),
        (
            {"token_status": 200, "token_body": '{"access_token": "a\\nb", "token_type": "bearer"}'},
            "not valid in a header",
        ),
        ({"token_status": 200, "token_body": f'{{"access_token": "a", "expires_in": {10**400}}}'}, "cannot be used"),
        ({"metadata": "<html>"}, "client registration was refused (HTTP 401 Unauthorized)"),
        ({"metadata": "[" * 100_000}, "client registration was refused (HTTP 401 Unauthorized)"),
        ({"metadata_status": 503}, "server failed (HTTP 503 Service Unavailable)"),
        ({"padding": MAX_BODY_BYTES}, f"sent a response of more than {MAX_BODY_BYTES} bytes"),
        ({"issuer": "https://login.example/"}, "issuer mismatch"),
        ({"iss": "https://other.example/"}, "the sign-in was answered by 'https://other.example/'"),
        ({"token_endpoint": "http://192.0.2.1/token"}, "only https is used"),
        ({"token_endpoint": "https://user@login.example/token"}, "only https is used"),
        ({"authorization_server": "http://192.0.2.1/"}, "only https is used"),
        ({"challenge": 'Bearer resource_metadata="http://192.0.2.1/x"'}, "only https is used"),
        ({"challenge": 'Bearer resource_metadata="http://[::bad/"'}, "its authorization cannot be used"),
        ({"challenge": 'Bearer resource_metadata="file:///etc/passwd"'}, "only https is used"),
    ],
)
async def test_a_sign_in_that_the_servers_refuse_or_spoil_ends_with_the_reason(
    guarded: Guarded, tmp_path: Path, knobs: dict[str, Any], message: str
) -> None:
    text = await refused(guarded, tmp_path, **knobs)
    assert message in text
    assert len(text) < 400


async def test_a_token_request_does_not_follow_to_another_origin(guarded: Guarded, tmp_path: Path) -> None:
    async with listener() as (origin, received):
        message = await refused(guarded, tmp_path, redirect_token=f"{origin}/token")
        assert message == "its authorization cannot be used: OAuthTokenError"
        assert received == []


async def test_only_the_configured_issuer_is_signed_in_to(guarded: Guarded, tmp_path: Path) -> None:
    message = await refused(guarded, tmp_path, OAuth(issuer="https://login.example"))
    assert f"the server names {guarded.login}/ as its authorization server" in message
    assert await guarded.request_count("register") == 0


async def test_a_server_that_cannot_be_reached_is_reported(guarded: Guarded, tmp_path: Path) -> None:
    gone = f"http://127.0.0.1:{free_port()}/mcp"
    with pytest.raises(AuthorizationFault, match=r"the server cannot be reached \(ConnectError\)"):
        await signed_in(guarded.config(url=gone), file_place(tmp_path))


@pytest.mark.parametrize(
    ("url", "resource", "allowed"),
    [
        ("https://login.example/token", "https://mcp.example/mcp", True),
        ("http://login.example/token", "https://mcp.example/mcp", False),
        ("http://127.0.0.1:6379/", "https://mcp.example/mcp", False),
        ("https://localhost/", "https://mcp.example/mcp", False),
        ("https://[::1]/", "https://mcp.example/mcp", False),
        ("http://127.0.0.1:9000/token", "http://localhost:8000/mcp", True),
        ("https://a:b@login.example/token", "https://mcp.example/mcp", False),
        ("ftp://login.example/token", "https://mcp.example/mcp", False),
    ],
)
def test_secrets_go_over_https_or_stay_on_this_machine(url: str, resource: str, allowed: bool) -> None:
    with nullcontext() if allowed else pytest.raises(AuthorizationFault):
        require_safe(httpx.URL(url), httpx.URL(resource))


NAMES = {"mcp.example": "93.184.215.14", "login.example": "93.184.215.15", "inward.example": "10.0.0.7"}


async def looked_up(host: str, _: int) -> list[str]:
    if host not in NAMES:
        raise OSError("there is no such name")
    return [NAMES[host]]


@pytest.mark.parametrize(
    ("url", "resource", "issuer", "allowed"),
    [
        ("https://login.example/token", "https://mcp.example/mcp", None, True),
        ("https://inward.example/token", "https://mcp.example/mcp", None, False),
        ("https://10.0.0.7/token", "https://mcp.example/mcp", None, False),
        ("https://169.254.169.254/latest", "https://mcp.example/mcp", None, False),
        ("https://inward.example/token", "https://mcp.example/mcp", "https://inward.example/", True),
        ("https://10.0.0.8/token", "https://inward.example/mcp", None, True),
        ("https://known-to-a-proxy.example/token", "https://mcp.example/mcp", None, True),
    ],
)
async def test_a_public_server_cannot_send_requests_into_a_private_network(
    url: str, resource: str, issuer: str | None, allowed: bool
) -> None:
    destinations = Destinations(resource, issuer, OutboundPolicy(resolver=looked_up))
    with nullcontext() if allowed else pytest.raises(AuthorizationFault, match="in a private network"):
        await destinations.check_url(httpx.URL(url))


async def page(uri: str, request: bytes) -> bytes:
    """Send raw bytes to a listener and return its response."""
    address = urlsplit(uri)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(request)
    writer.write_eof()
    response = await reader.read()
    writer.close()
    return response


async def test_only_a_callback_with_the_expected_state_completes_the_sign_in() -> None:
    async with open_callback(None) as callback:
        early = await page(callback.redirect_uri, b"GET /callback?code=x&state= HTTP/1.1\r\n\r\n")
        assert early.startswith(b"HTTP/1.1 400")
        callback.expect_state("https://login.example/authorize?state=right", None)
        waiting = asyncio.create_task(callback.wait_for_code(PATIENCE_S))
        for request, status in (
            (b"GET /callback?code=evil&state=wrong HTTP/1.1\r\n\r\n", b"400"),
            (b"GET /callback?code=evil&state=right&state=wrong HTTP/1.1\r\n\r\n", b"400"),
            (b"GET /callback?error=denied&state=wrong HTTP/1.1\r\n\r\n", b"400"),
            (b"GET /callback?code=evil HTTP/1.1\r\n\r\n", b"400"),
            (b"POST /callback?code=evil&state=right HTTP/1.1\r\n\r\n", b"404"),
            (b"GET /?code=evil&state=right HTTP/1.1\r\n\r\n", b"404"),
            (b"GET http://[ HTTP/1.1\r\n\r\n", b"404"),
            (b"GET //[/callback HTTP/1.1\r\n\r\n", b"404"),
            (b"\xff\xfe\r\n\r\n", b"404"),
        ):
            assert (await page(callback.redirect_uri, request)).startswith(b"HTTP/1.1 " + status), request
        assert await page(callback.redirect_uri, b"GET /callback?code=x&state=right") == b""
        assert await page(callback.redirect_uri, b"GET /" + b"x" * 100_000 + b"\r\n\r\n") == b""
        assert not waiting.done()
        done = await page(callback.redirect_uri, b"GET /callback?code=good&state=right HTTP/1.1\r\n\r\n")
        assert b"You are signed in" in done
        assert await waiting == ("good", "right")
        again = await page(callback.redirect_uri, b"GET /callback?code=late&state=right HTTP/1.1\r\n\r\n")
        assert again.startswith(b"HTTP/1.1 400")
