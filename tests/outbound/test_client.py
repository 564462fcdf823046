"""The client connects to what was checked, follows redirects with care and takes no more than it should."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.gzipping import gzipped
from tests.outbound.peers import Names, Received, always, certificates, fetch, policy, serving, text
from toolweave.errors import OutboundFailed, OutboundRefused
from toolweave.outbound import OutboundRequest, open_outbound_client

pytestmark = pytest.mark.requirement("W-09")

HERE = [["127.0.0.1"]]


async def test_a_request_arrives_unchanged() -> None:
    async with (
        serving(always(text("201 Created", b"made", "X-Thing: 1", "x-thing: 2"))) as peer,
        open_outbound_client(policy(resolver=Names(api_example=HERE))) as client,
    ):
        url = f"http://API.example:{peer.port}/a%20b?c=d#e"
        answer = await client.send(OutboundRequest("POST", url, (("X-Key", "k"), ("Accept", "*/*")), b"body"))
    assert (answer.status, answer.body, answer.header_values("x-thing")) == (201, b"made", ["1", "2"])
    assert answer.url == f"http://api.example:{peer.port}/a%20b?c=d"
    (request,) = peer.requests
    assert (request.line, request.body) == ("POST /a%20b?c=d HTTP/1.1", b"body")
    assert request.header("host") == f"api.example:{peer.port}"
    assert (request.header("x-key"), request.header("content-length")) == ("k", "4")


async def test_tls_checks_the_name_of_the_url_though_the_connection_goes_to_an_address(tmp_path: Path) -> None:
    server, trust = certificates(tmp_path, "api.example", "127.0.0.1")
    names = Names(api_example=HERE, other_example=HERE)
    async with (
        serving(always(text(body=b"safe")), server) as peer,
        open_outbound_client(policy(resolver=names), trust=trust) as client,
    ):
        for host in ("api.example", "127.0.0.1"):
            answer = await client.send(OutboundRequest("GET", f"https://{host}:{peer.port}/"))
            assert answer.body == b"safe"
        with pytest.raises(OutboundFailed, match=r"other\.example") as raised:
            await client.send(OutboundRequest("GET", f"https://other.example:{peer.port}/"))
        assert raised.value.reason == "connect"
    async with serving(always(text(body=b"safe")), server) as peer:
        with pytest.raises(OutboundFailed, match="CERTIFICATE_VERIFY_FAILED"):
            await fetch(policy(), f"https://127.0.0.1:{peer.port}/")


async def test_every_request_resolves_and_checks_again() -> None:
    async with serving(always(text(body=b"first"))) as peer:
        names = Names(rebound_example=[["127.0.0.1"], ["10.0.0.1"]])
        async with open_outbound_client(policy(resolver=names)) as client:
            request = OutboundRequest("GET", f"http://rebound.example:{peer.port}/")
            assert (await client.send(request)).status == 200
            with pytest.raises(OutboundRefused, match="a private address"):
                await client.send(request)


async def test_the_next_address_is_tried_if_one_refuses() -> None:
    async with serving(always(text(body=b"second"))) as peer:
        names = Names(api_example=[["127.0.0.2", "127.0.0.1"]])
        answer = await fetch(policy(resolver=names), f"http://api.example:{peer.port}/")
        assert answer.body == b"second"


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(always(text(body=b"proxy"))) as proxy, serving(always(text(body=b"direct"))) as peer:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        answer = await fetch(policy(), f"http://127.0.0.1:{peer.port}/")
        assert (answer.body, proxy.requests) == (b"direct", [])


def redirect(location: str, status: str = "302 Found") -> bytes:
    return text(status, b"elsewhere", f"Location: {location}")


@pytest.mark.parametrize(
    "location",
    [
        *("http://127.0.0.1:{port}/", "//localhost:{port}/", "http://inside.example:{port}/", "http://[::1]:{port}/"),
        *("http://2130706433:{port}/", "http://0x7f.0x0.0x0.0x1:{port}/", "http://[::ffff:127.0.0.1]:{port}/"),
        *("http://api.example@127.0.0.1:{port}/", "http://127.0.0.1:{port}\\@api.example/", "http://[::1/"),
        *("http://１２７.0.0.1:{port}/", "https://127.0.0.1:{port}/", "file:///etc/passwd"),
    ],
)
async def test_a_redirect_to_a_place_that_requests_may_not_use_is_refused(location: str) -> None:
    async with serving(always(text(body=b"inside"))) as inside:
        header = location.format(port=inside.port).encode().decode("latin-1")
        async with serving(always(redirect(header))) as peer:
            names = Names(api_example=HERE, inside_example=HERE, localhost=HERE)
            chosen = policy(f"api.example:{peer.port}", resolver=names)
            with pytest.raises(OutboundRefused) as raised:
                await fetch(chosen, f"http://api.example:{peer.port}/")
            assert (len(peer.requests), raised.value.was_sent) == (1, True)
        assert inside.requests == []


async def test_a_name_that_is_rebound_between_a_request_and_its_redirect_is_checked_again() -> None:
    async with serving(always(redirect("/again", "307 Temporary Redirect"))) as peer:
        names = Names(rebound_example=[["127.0.0.1"], ["169.254.169.254"]])
        with pytest.raises(OutboundRefused, match="a link-local address") as raised:
            await fetch(policy(resolver=names), f"http://rebound.example:{peer.port}/")
        assert [request.line for request in peer.requests] == ["GET / HTTP/1.1"]
    assert raised.value.was_sent
    assert "169.254" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://nowhere.example/", OutboundFailed),
        ("http://127.0.0.1:1/", OutboundFailed),
        ("http://10.0.0.1/", OutboundRefused),
    ],
)
async def test_an_error_says_whether_a_server_received_the_request(url: str, error: type[Any]) -> None:
    with pytest.raises(error) as direct:
        await fetch(policy(resolver=Names()), url)
    async with serving(always(redirect(url))) as peer:
        with pytest.raises(error) as redirected:
            await fetch(policy(resolver=Names()), f"http://127.0.0.1:{peer.port}/")
    assert (direct.value.was_sent, redirected.value.was_sent) == (False, True)


async def test_a_redirect_to_another_host_leaves_the_tools_own() -> None:
    async with serving(always(redirect("http://other.example/"))) as peer:
        chosen = policy(only="api.example", resolver=Names(api_example=HERE, other_example=HERE))
        with pytest.raises(OutboundRefused, match="host is not the host"):
            await fetch(chosen, f"http://api.example:{peer.port}/")


async def test_a_redirect_from_https_to_http_is_refused(tmp_path: Path) -> None:
    server, trust = certificates(tmp_path, "api.example")
    async with (
        serving(always(redirect("http://api.example/")), server) as peer,
        open_outbound_client(policy(resolver=Names(api_example=HERE)), trust=trust) as client,
    ):
        with pytest.raises(OutboundRefused, match="from https to http"):
            await client.send(OutboundRequest("GET", f"https://api.example:{peer.port}/"))


async def test_redirects_are_followed_to_a_limit() -> None:
    async def count(request: Received, writer: asyncio.StreamWriter) -> None:
        left = int(request.line.split()[1][1:])
        writer.write(redirect(f"/{left - 1}") if left else text(body=b"there"))

    async with serving(count) as peer:
        answer = await fetch(policy(), f"http://127.0.0.1:{peer.port}/3")
        assert (answer.body, answer.url) == (b"there", f"http://127.0.0.1:{peer.port}/0")
        with pytest.raises(OutboundFailed, match="more than 3 times") as raised:
            await fetch(policy(), f"http://127.0.0.1:{peer.port}/4")
        assert (raised.value.reason, len(peer.requests)) == ("redirects", 4 + 4)
        unfollowed = await fetch(policy(max_redirects=0), f"http://127.0.0.1:{peer.port}/1")
        assert (unfollowed.status, unfollowed.header_values("location")) == (302, ["/0"])


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        ("301 Moved", "POST", ("GET", b"")),
        ("302 Found", "POST", ("GET", b"")),
        ("303 See Other", "PUT", ("GET", b"")),
        ("303 See Other", "HEAD", ("HEAD", b"")),
        ("307 Temporary", "POST", ("POST", b"body")),
        ("308 Permanent", "PUT", ("PUT", b"body")),
    ],
)
async def test_a_redirect_keeps_method_and_body_as_its_status_says(
    status: str, method: str, then: tuple[str, bytes]
) -> None:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(text() if "/next" in request.line else text(status, b"", "Location: /next"))

    async with serving(answer) as peer:
        await fetch(policy(), f"http://127.0.0.1:{peer.port}/", method, b"" if method == "HEAD" else b"body")
    _, last = peer.requests
    assert (last.line.split()[0], last.body) == then


async def test_another_host_gets_no_header_that_could_be_a_secret() -> None:
    headers = (("Authorization", "Bearer s"), ("X-Api-Key", "s"), ("Cookie", "s"), ("Accept", "a/b"))
    async with (
        serving(always(text())) as other,
        serving(always(redirect(f"http://other.example:{other.port}/", "307 Go"))) as peer,
        open_outbound_client(policy(resolver=Names(api_example=HERE, other_example=HERE))) as client,
    ):
        await client.send(OutboundRequest("GET", f"http://api.example:{peer.port}/", headers))
    (received,) = other.requests
    assert [received.header(name) for name in ("authorization", "x-api-key", "cookie")] == [None] * 3
    assert received.header("accept") == "a/b"
    assert peer.requests[0].header("x-api-key") == "s"


async def test_the_time_is_for_all_redirects_together() -> None:
    async with serving(always(redirect("/"))) as peer:
        with pytest.raises(OutboundFailed, match="within") as raised:
            await fetch(policy(total_timeout_s=0.3, max_redirects=1_000_000), f"http://127.0.0.1:{peer.port}/")
        assert raised.value.reason == "timeout"


async def test_cancelling_the_caller_cancels_the_request_and_closes_its_connection() -> None:
    requested, gone = asyncio.Event(), asyncio.Event()

    async def noticing(_request: Received, writer: asyncio.StreamWriter) -> None:
        requested.set()
        try:
            while True:
                writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
                await writer.drain()
                await asyncio.sleep(0.01)
        except OSError:
            gone.set()

    async with serving(noticing) as peer:
        task = asyncio.create_task(fetch(policy(), f"http://127.0.0.1:{peer.port}/"))
        await asyncio.wait_for(requested.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(gone.wait(), 60)


async def test_a_port_without_a_listener_is_a_failed_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    with pytest.raises(OutboundFailed, match=f"127.0.0.1:{port}") as raised:
        await fetch(policy(), f"http://127.0.0.1:{port}/")
    assert raised.value.reason == "connect"


async def test_a_host_that_accepts_no_connection_is_an_error_in_time() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.1", port))
            with pytest.raises(OutboundFailed, match="in time") as raised:
                await fetch(policy(connect_timeout_s=0.2), f"http://127.0.0.1:{port}/")
            assert raised.value.reason == "connect"
        finally:
            for filler in fillers:
                filler.close()


async def test_a_handshake_without_an_end_is_an_error_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        with pytest.raises(OutboundFailed, match="in time") as raised:
            await fetch(policy(connect_timeout_s=0.2), f"https://127.0.0.1:{port}/")
    assert raised.value.reason == "connect"


async def test_a_response_to_head_has_no_body_whatever_its_headers() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nContent-Encoding: gzip\r\n\r\n"
    async with serving(always(answer)) as peer:
        assert (await fetch(policy(), f"http://127.0.0.1:{peer.port}/", "HEAD")).body == b""


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" + gzipped(b"x"),
    ],
    ids=["nothing", "another protocol", "nonsense", "cut", "two lengths", "broken chunk", "packed transfer"],
)
async def test_a_response_that_is_not_http_is_a_failed_transfer(answer: bytes) -> None:
    async with serving(always(answer)) as peer:
        with pytest.raises(OutboundFailed) as raised:
            await fetch(policy(), f"http://127.0.0.1:{peer.port}/")
        assert raised.value.reason == "transfer"


@pytest.mark.parametrize(
    "request_",
    [
        OutboundRequest("GET", "http://127.0.0.1/", (("X-A", "1\r\nX-B: 2"),)),
        OutboundRequest("GET", "http://127.0.0.1/", (("X-A\r\nX-B", "1"),)),
        OutboundRequest("GET", "http://127.0.0.1/", (("X-A", "ä"),)),
        OutboundRequest("GET", "http://127.0.0.1/", (("Host", "inside"),)),
        OutboundRequest("GET", "http://127.0.0.1/", (("Transfer-Encoding", "chunked"),)),
        OutboundRequest("POST", "http://127.0.0.1/", (("Content-Length", "1"),), b"GET / HTTP/1.1"),
        OutboundRequest("GET / HTTP/1.1\r\nX: ", "http://127.0.0.1/"),
        OutboundRequest("CONNECT", "http://127.0.0.1/"),
        OutboundRequest("", "http://127.0.0.1/"),
        OutboundRequest("POST", "http://127.0.0.1/", (), b"x" * 1001),
    ],
    ids=repr,
)
async def test_a_request_that_could_be_taken_for_another_is_not_sent(request_: OutboundRequest) -> None:
    async with open_outbound_client(policy()) as client:
        with pytest.raises(OutboundRefused):
            await client.send(request_)
