"""A request body that is too large is refused before it fills the memory."""

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from toolweave.api.langgraph_client import StreamingAsgiTransport
from toolweave.api.request_bodies import MIB, BodyLimit, BodyLimiter


async def length(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


LIMITS = {re.compile(""): BodyLimit(MIB)}


def client() -> httpx.AsyncClient:
    app: Any = BodyLimiter(Starlette(routes=[Route("/", length, methods=["POST"])]), LIMITS)
    return httpx.AsyncClient(transport=StreamingAsgiTransport(app), base_url="http://127.0.0.1")


async def pieces(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x" * (MIB // 4)


async def test_bodies_up_to_the_limit_arrive_whole() -> None:
    async with client() as http:
        for size in (0, 1, MIB):
            assert (await http.post("/", content=b"x" * size)).text == str(size)
        assert (await http.post("/", content=pieces(4))).text == str(MIB)


async def test_a_larger_body_is_413_whether_announced_or_not() -> None:
    async with client() as http:
        for content in (b"x" * (MIB + 1), pieces(5)):
            answer = await http.post("/", content=content)
            assert (answer.status_code, "larger than 1 MiB" in answer.json()["detail"]) == (413, True)


async def test_a_body_in_very_many_pieces_costs_no_more_than_one_in_few() -> None:
    calls = 0

    async def receive() -> Any:
        nonlocal calls
        calls += 1
        return {"type": "http.request", "body": b"x", "more_body": calls < MIB // 4}

    async def send(message: Any) -> None:
        sent.append(message)

    sent: list[Any] = []
    app: Any = BodyLimiter(Starlette(routes=[Route("/", length, methods=["POST"])]), LIMITS)
    await app({"type": "http", "method": "POST", "path": "/", "headers": []}, receive, send)
    assert sent[-1]["body"] == str(MIB // 4).encode()


@pytest.mark.parametrize(
    ("headers", "received", "statuses"),
    [
        ([(b"content-length", b"99999999999")], "http.request", [413]),
        ([(b"content-length", b"9" * 5000)], "http.request", [413]),
        ([], "http.disconnect", []),
    ],
)
async def test_an_announced_length_is_refused_unread_and_a_client_that_leaves_gets_no_response(
    headers: list[tuple[bytes, bytes]], received: str, statuses: list[int]
) -> None:
    messages: list[Any] = []

    async def receive() -> Any:
        assert statuses == [], "the body was read"
        return {"type": received}

    async def send(message: Any) -> None:
        messages.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    await BodyLimiter(Starlette(), LIMITS)(scope, receive, send)
    assert [message["status"] for message in messages if "status" in message] == statuses


async def test_each_path_has_its_own_limit_and_other_paths_have_none() -> None:
    routes = [Route(path, length, methods=["POST"]) for path in ("/large", "/small/{name}", "/free")]
    large, small, _ = (route.path_regex for route in routes)
    app: Any = BodyLimiter(Starlette(routes=routes), {large: BodyLimit(2 * MIB), small: BodyLimit(MIB)})
    async with httpx.AsyncClient(transport=StreamingAsgiTransport(app), base_url="http://127.0.0.1") as http:
        for path, limit in (("/large", 2), ("/small/a", 1)):
            assert (await http.post(path, content=b"x" * limit * MIB)).text == str(limit * MIB)
            refused = await http.post(path, content=b"x" * (limit * MIB + 1))
            assert (refused.status_code, f"larger than {limit} MiB" in refused.json()["detail"]) == (413, True)
        assert (await http.post("/free", content=b"x" * (2 * MIB + 1))).text == str(2 * MIB + 1)
