"""Streams and slow answers: keep-alives while nothing happens, and an end when the client goes (sections 5.2, 6)."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from toolweave.api.langgraph.answers import (
    CHUNK_BYTES,
    HEARTBEAT,
    EventStream,
    KeepAliveJson,
    KeepAliveResponse,
    run_filter,
    sse_frame,
)
from toolweave.runtime.models import StreamEvent


class QuickStream(EventStream):
    keep_alive_interval_s = 0.01


class QuickJson(KeepAliveJson):
    keep_alive_interval_s = 0.01


class Client:
    """The other end of a response: collects what is sent, and leaves when the test sets `leaves`."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.leaves = asyncio.Event()
        self.two_beats = asyncio.Event()

    async def receive(self) -> Any:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.messages.append(message)
        if self.bodies.count(HEARTBEAT) >= 2 or self.bodies.count(b"\n") >= 2:
            self.two_beats.set()

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.messages if "body" in message]

    async def read(self, answer: KeepAliveResponse) -> None:
        async with asyncio.timeout(60):
            await answer({"type": "http"}, self.receive, self.send)


async def test_a_large_backlog_is_sent_in_small_pieces() -> None:
    client = Client()
    one = StreamEvent(1, "values", b"1" * 1000, None)

    async def backlog() -> AsyncGenerator[Sequence[StreamEvent]]:
        yield [one] * 1000

    await client.read(EventStream(backlog(), {}))
    assert b"".join(client.bodies) == sse_frame(one.event, one.data) * 1000
    assert max(map(len, client.bodies)) <= CHUNK_BYTES + len(sse_frame(one.event, one.data))
    assert len(client.bodies) < 100


@pytest.mark.parametrize(
    ("modes", "shown"),
    [
        ({"values"}, ["values", "values|inner:1"]),
        ({"messages"}, ["messages", "messages/partial"]),
        ({"messages-tuple"}, ["messages"]),
        ({"updates", "custom"}, ["updates"]),
    ],
)
async def test_a_stream_shows_the_requested_modes(modes: set[str], shown: list[str]) -> None:
    client = Client()

    async def events() -> AsyncGenerator[Sequence[StreamEvent]]:
        for name in ("metadata", "values", "updates", "values|inner:1", "messages", "messages/partial"):
            yield [StreamEvent(1, name, b"{}", None)]

    await client.read(EventStream(events(), {}, only=run_filter(modes)))
    assert [body.split(b"\r\n")[0].decode() for body in client.bodies[:-1]] == [f"event: {name}" for name in shown]


async def test_heartbeats_come_while_nothing_happens() -> None:
    client = Client()

    async def slow() -> AsyncGenerator[Sequence[StreamEvent]]:
        await client.two_beats.wait()
        yield [StreamEvent(1, "values", b"{}", None)]

    await client.read(QuickStream(slow(), {}))
    last_beat = len(client.bodies) - 1 - client.bodies[::-1].index(HEARTBEAT)
    assert client.bodies.count(HEARTBEAT) >= 2
    assert client.bodies[-2:] == [b"event: values\r\ndata: {}\r\n\r\n", b""]
    assert last_beat < len(client.bodies) - 1


async def test_line_breaks_keep_a_slow_response_alive() -> None:
    client = Client()

    async def slow() -> bytes:
        await client.two_beats.wait()
        return b'{"n":4}'

    await client.read(QuickJson(slow(), {"location": "/x/join"}))
    assert dict(client.messages[0]["headers"]) == {b"content-type": b"application/json", b"location": b"/x/join"}
    assert set(client.bodies[:-1]) == {b"\n"}
    assert client.messages[-1] == {"type": "http.response.body", "body": b'{"n":4}', "more_body": False}


async def test_a_disconnect_ends_the_stream_and_is_reported() -> None:
    client = Client()
    disconnects: list[str] = []
    closed = asyncio.Event()

    async def endless() -> AsyncGenerator[Sequence[StreamEvent]]:
        try:
            yield [StreamEvent(1, "metadata", b"{}", None)]
            client.leaves.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def gone() -> None:
        disconnects.append("gone")

    await client.read(EventStream(endless(), {}, on_disconnect=gone))
    assert disconnects == ["gone"]
    assert closed.is_set()
    assert client.bodies == [b"event: metadata\r\ndata: {}\r\n\r\n"]


async def test_an_error_in_the_middle_ends_the_response_incomplete() -> None:
    client = Client()

    async def failing() -> AsyncGenerator[Sequence[StreamEvent]]:
        yield [StreamEvent(1, "metadata", b"{}", None)]
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        await client.read(EventStream(failing(), {}))
    assert all(message.get("more_body", True) for message in client.messages)
