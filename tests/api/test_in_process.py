"""The in-process transport streams, tells the application when the client leaves, and reports what went wrong."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.fixtures.loop_clock import pass_time
from toolweave.api.langgraph_client import StreamingAsgiTransport


def client(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=StreamingAsgiTransport(app), base_url="http://127.0.0.1")


async def start(send: Any, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"x-a", b"1")]})


async def test_a_request_arrives_whole_and_its_response_is_returned() -> None:
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope=scope, message=await receive())
        await start(send, 201)
        await send({"type": "http.response.body", "body": b"done"})

    async with client(app) as http:
        answer = await http.post("/a%20b?q=1", json={"x": 1}, headers={"X-Two": "2"})
    assert (answer.status_code, answer.text, answer.headers["x-a"]) == (201, "done", "1")
    assert seen["message"] == {"type": "http.request", "body": b'{"x":1}', "more_body": False}
    target = {"method": "POST", "path": "/a b", "raw_path": b"/a%20b", "query_string": b"q=1"}
    assert seen["scope"].items() >= target.items()
    assert (b"x-two", b"2") in seen["scope"]["headers"]


async def test_chunks_arrive_while_the_application_still_works() -> None:
    read_first = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await start(send)
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await read_first.wait()
        await send({"type": "http.response.body", "body": b"two", "more_body": False})

    async with asyncio.timeout(60), client(app) as http, http.stream("GET", "/") as answer:
        chunks = answer.aiter_bytes()
        assert await anext(chunks) == b"one"
        read_first.set()
        assert await anext(chunks) == b"two"


async def test_the_application_sees_that_the_client_leaves_early() -> None:
    left = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await start(send)
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        assert (await receive())["type"] == "http.disconnect"
        left.set()

    async with asyncio.timeout(60), client(app) as http:
        async with http.stream("GET", "/") as answer:
            assert await anext(answer.aiter_bytes()) == b"one"
        assert left.is_set()


@pytest.mark.parametrize(("has_started", "problem"), [(False, "without a response"), (True, "in the middle")])
async def test_an_application_that_ends_before_its_response_does_is_an_error(has_started: bool, problem: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if has_started:
            await start(send)
            await send({"type": "http.response.body", "body": b"half", "more_body": True})

    async with client(app) as http:
        with pytest.raises(httpx.RemoteProtocolError, match=problem):
            await http.get("/")


async def test_a_fast_application_waits_for_a_slow_reader() -> None:
    sent = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await start(send)
        for number in range(2000):
            await send({"type": "http.response.body", "body": b"x", "more_body": number < 1999})
            sent += 1

    async with asyncio.timeout(60), client(app) as http, http.stream("GET", "/") as answer:
        chunks = answer.aiter_bytes()
        await anext(chunks)
        assert sent < 2000
        total = 1 + sum([len(chunk) async for chunk in chunks])
    assert (total, sent) == (2000, 2000)


async def test_a_client_that_times_out_before_the_response_cancels_the_application() -> None:
    ended = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            pass_time(30)
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with client(app) as http:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await http.get("/")
        async with asyncio.timeout(60):
            await ended.wait()
