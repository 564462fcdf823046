"""A request arrives as its specification says, and its answer becomes what the workflow stores (W-06)."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.gzipping import gzipped
from tests.fixtures.loop_clock import pass_time
from tests.fixtures.shop_api import ShopApi
from tests.nodes.http_tools.hostile_api import calls, json_answer, operation, serving_operation
from tests.outbound.peers import Names, Received, certificates, text
from toolweave import __version__
from toolweave.config.settings import Settings
from toolweave.errors import ApiCallFailed
from toolweave.nodes.http_tools.api_calls import ApiCalls
from toolweave.nodes.http_tools.requests import HTTPRequestSpec

HERE = [["127.0.0.1"]]


@pytest.mark.requirement("W-06")
async def test_a_call_returns_the_response_of_a_loopback_api_only_if_the_setting_allows_it(shop: ShopApi) -> None:
    tool = operation(shop.url)
    request = HTTPRequestSpec(method="GET", url=f"{shop.url}/products", query={"category": "books"})
    with pytest.raises(ApiCallFailed, match=r"is a loopback address.*TOOLWEAVE_OUTBOUND_ALLOW"):
        await ApiCalls().call(tool, request)
    began = time.perf_counter()
    answer = await ApiCalls(Settings(outbound_allow="127.0.0.1").outbound_allow).call(tool, request)
    took = (time.perf_counter() - began) * 1000
    assert answer.status_code == 200
    assert {product["category"] for product in answer.body} == {"books"}
    assert answer.headers["content-type"] == "application/json"
    assert 0 < answer.execution_time_ms <= took
    assert [sent.query for sent in shop.requests] == [[("category", "books")]]


async def test_query_headers_and_body_are_sent_unchanged() -> None:
    async with serving_operation(json_answer({}), method="POST") as api:
        await api.call(
            headers={"X-Trace": "a b", "user-agent": "Mine"},
            query={"q": "a&b=c d/ä#?", "tags": ["x", "y"], "flag": True, "n": 5, "none": None, "empty": []},
            body={"name": "Zoë \U0001f600", "deep": [{"a": None}]},
        )
    (request,) = api.peer.requests
    assert request.line == ("POST /thing?q=a%26b%3Dc%20d%2F%C3%A4%23%3F&tags=x&tags=y&flag=true&n=5 HTTP/1.1")
    assert request.body == '{"name":"Zoë \U0001f600","deep":[{"a":null}]}'.encode()
    assert request.header("content-type") == "application/json"
    assert request.header("accept") == "application/json, */*"
    assert (request.header("x-trace"), request.header("user-agent")) == ("a b", "Mine")
    assert request.header("host") == f"127.0.0.1:{api.peer.port}"


@pytest.mark.parametrize(("body", "sent"), [(None, b""), ({}, b"{}"), (False, b"false"), ("", b'""')])
async def test_every_json_value_but_null_is_a_body(body: Any, sent: bytes) -> None:
    async with serving_operation(json_answer({}), method="PUT") as api:
        await api.call(body=body)
    (request,) = api.peer.requests
    assert (request.line, request.body) == ("PUT /thing HTTP/1.1", sent)
    assert request.header("content-type") == ("application/json" if sent else None)
    assert request.header("user-agent") == f"Toolweave/{__version__}"


async def test_a_body_that_json_cannot_hold_is_not_sent() -> None:
    async with serving_operation(json_answer({}), method="POST") as api:
        for body in ({"n": float("nan")}, [float("inf")], {"half": "\ud800"}):
            with pytest.raises(ApiCallFailed, match="was not sent") as raised:
                await api.call(body=body)
            assert not raised.value.executed
    assert api.peer.requests == []


@pytest.mark.requirement("W-06")
@pytest.mark.parametrize("status", ["400 Bad Request", "599 What"])
async def test_a_status_from_400_on_is_an_error_with_the_response(status: str) -> None:
    answer = json_answer({"detail": "no such thing"}, status, "X-Request-Id: 17")
    async with serving_operation(answer) as api:
        with pytest.raises(ApiCallFailed) as raised:
            await api.call(query={"q": "x", "access_token": "hunter2"})
    shown = str(raised.value)
    assert shown.startswith(f"GET http://127.0.0.1:{api.peer.port}/thing?q=x&access_token=*** answered {status[:3]}")
    assert 'no such thing"}' in shown
    assert "hunter2" not in shown
    assert raised.value.executed
    assert raised.value.response is not None
    assert raised.value.response["status_code"] == int(status[:3])
    assert raised.value.response["body"] == {"detail": "no such thing"}
    assert raised.value.response["headers"]["x-request-id"] == "17"
    assert set(raised.value.response) == {"status_code", "headers", "body", "execution_time_ms", "body_encoding"}


async def test_an_error_shows_the_beginning_of_a_long_answer_on_one_line() -> None:
    async with serving_operation(text("502 Bad Gateway", b"<html>\x1b[31m\r\n" + b"down " * 10_000)) as api:
        with pytest.raises(ApiCallFailed) as raised:
            await api.call()
    shown = str(raised.value)
    assert "answered 502 Bad Gateway: <html> [31m down down" in shown
    assert len(shown) < 700
    assert shown.isprintable()
    assert len(raised.value.response["body"]) > 50_000  # type: ignore[index]


@pytest.mark.parametrize("status", ["204 No Content", "302 Found"])
async def test_another_status_is_an_answer(status: str) -> None:
    async with serving_operation(text(status)) as api:
        answer = await api.call()
    assert (answer.status_code, answer.body, answer.body_encoding) == (int(status[:3]), None, None)


async def test_headers_are_in_lower_case_joined_and_without_credentials() -> None:
    headers = (
        *("X-Thing: 1", "x-thing: 2", "Set-Cookie: session=hunter2", "Set-Cookie: b=hunter3", "X-Ok: Zoë"),
        *("Authorization: Bearer hunter2hunter2", "X-Auth-Token: hunter2", "X-Info: Bearer hunter2hunter2"),
    )
    async with serving_operation(json_answer({}, "200 OK", *headers)) as api:
        answer = await api.call()
    assert answer.headers["x-thing"] == "1, 2"
    assert answer.headers["set-cookie"] == "***"
    assert answer.headers["x-ok"] == "Zoë"
    assert "hunter" not in str(answer.headers)


@pytest.mark.parametrize(
    ("base_url", "allow", "problem"),
    [
        ("http://127.0.0.1:1", "127.0.0.1", "^POST http://127.0.0.1:1/thing failed: No connection"),
        ("https://api.example", "127.0.0.1", r"api\.example cannot be resolved"),
        ("http://localhost", "", r"are refused: .*TOOLWEAVE_OUTBOUND_ALLOW"),
        ("http://169.254.169.254", "", r"are refused: .*TOOLWEAVE_OUTBOUND_ALLOW"),
    ],
)
async def test_a_call_that_reaches_no_server_was_not_executed(base_url: str, allow: str, problem: str) -> None:
    tool = operation(base_url, "POST")
    with pytest.raises(ApiCallFailed, match=problem) as raised:
        await calls(allow, resolver=Names(localhost=HERE)).call(
            tool, HTTPRequestSpec(method="POST", url=f"{base_url}/thing")
        )
    assert (raised.value.executed, raised.value.response) == (False, None)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "broke off"),
        (text("500 Oops", gzipped(gzipped(b"x")), "Content-Encoding: gzip, gzip"), "was not requested"),
        (text("500 Oops", gzipped(b"x" * 5_242_881), "Content-Encoding: gzip"), "larger than 5242880 bytes"),
    ],
    ids=["no answer", "gzip twice", "gzip bomb"],
)
async def test_a_call_whose_answer_cannot_be_read_may_have_been_executed(answer: bytes, problem: str) -> None:
    async with serving_operation(answer, method="POST") as api:
        with pytest.raises(ApiCallFailed, match=problem) as raised:
            await api.call()
    assert (raised.value.executed, raised.value.response) == (True, None)


@pytest.mark.requirement("W-06")
async def test_the_tools_timeout_is_for_the_whole_call() -> None:
    async def dripping(_request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0)
            pass_time(1)

    async with serving_operation(dripping, timeout_s=30) as api:
        with pytest.raises(ApiCallFailed, match=r"within 30 s") as raised:
            await api.call()
    assert raised.value.executed


async def test_an_answer_may_have_five_mebibytes() -> None:
    async with serving_operation(text("200 OK", gzipped(b"x" * 5_242_880), "Content-Encoding: gzip")) as api:
        assert len((await api.call()).body) == 5_242_880


@pytest.mark.parametrize(
    "url", ["http://other.example/thing", "http://127.0.0.1:1/thing", "https://127.0.0.1/thing", "http://127.0.0.2/"]
)
async def test_a_request_to_another_host_than_the_tools_is_not_sent(url: str) -> None:
    async with serving_operation(json_answer({})) as api:
        with pytest.raises(ApiCallFailed, match="not reach the tool's own host") as raised:
            await api.call(calls("127.0.0.0/8,other.example"), url=url)
    assert (raised.value.executed, api.peer.requests) == (False, [])


async def test_a_redirect_on_the_tools_host_is_followed() -> None:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(json_answer([1]) if "/next" in request.line else text("307 Go", b"", "Location: /next"))

    async with serving_operation(answer) as api:
        assert (await api.call()).body == [1]


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("http://other.example/", "host is not the host that this request belongs to"),
        ("file:///etc/passwd", "Only URLs that begin with http"),
        ("http://user:hunter2@127.0.0.1/", "holds credentials"),
    ],
)
async def test_a_redirect_elsewhere_is_refused_though_the_api_has_the_request(location: str, problem: str) -> None:
    async with serving_operation(text("302 Found", b"", f"Location: {location}"), method="POST") as api:
        with pytest.raises(ApiCallFailed, match=problem) as raised:
            await api.call(calls("127.0.0.0/8,other.example,169.254.0.0/16"))
    assert raised.value.executed
    assert "hunter2" not in str(raised.value)
    assert len(api.peer.requests) == 1


@pytest.mark.requirement("W-09")
async def test_a_name_that_turns_to_a_private_address_is_not_called() -> None:
    names = Names(api_example=[["127.0.0.1"], ["10.0.0.1"]])
    async with serving_operation(json_answer({}), host="api.example") as api:
        sending = calls("127.0.0.1", resolver=names)
        assert (await api.call(sending)).status_code == 200
        with pytest.raises(ApiCallFailed, match=r"api\.example stands for a private address") as raised:
            await api.call(sending)
    assert not raised.value.executed
    assert len(api.peer.requests) == 1


async def test_tls_is_checked_against_the_tools_host(tmp_path: Path) -> None:
    server, trust = certificates(tmp_path, "api.example")
    names = Names(api_example=HERE, other_example=HERE)
    async with serving_operation(json_answer({"safe": True}), host="api.example", tls=server) as api:
        answer = await api.call(calls(resolver=names, trust=trust))
        assert answer.body == {"safe": True}
        with pytest.raises(ApiCallFailed, match="CERTIFICATE_VERIFY_FAILED") as raised:
            await api.call(calls(resolver=names))
        assert not raised.value.executed
    async with serving_operation(json_answer({}), host="other.example", tls=server) as api:
        with pytest.raises(ApiCallFailed, match=r"No connection to other\.example"):
            await api.call(calls(resolver=names, trust=trust))
        assert api.peer.requests == []


async def test_certificates_are_read_once_and_only_for_https(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server, _ = certificates(tmp_path, "api.example")
    bundle = tmp_path / "server.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    sending = calls(resolver=Names(api_example=HERE))
    async with (
        serving_operation(json_answer([1])) as plain,
        serving_operation(json_answer([2]), host="api.example", tls=server) as api,
    ):
        assert (await plain.call(sending)).body == [1]
        assert [each.body for each in await asyncio.gather(*(api.call(sending) for _ in range(5)))] == [[2]] * 5
        bundle.unlink()
        assert (await api.call(sending)).body == [2]


@pytest.mark.parametrize("url", ["http://2130706433/", "http://user:hunter2@127.0.0.1/", "x"])
async def test_a_request_whose_url_could_be_read_in_two_ways_is_not_sent(url: str) -> None:
    with pytest.raises(ApiCallFailed) as raised:
        await calls("127.0.0.1").call(operation("http://127.0.0.1"), HTTPRequestSpec(method="GET", url=url))
    assert not raised.value.executed
    assert "hunter2" not in str(raised.value)
