"""An event stream reports with which response a question of the server came, however its bytes arrive."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from toolweave.servers.connections.sessions.http import McpEventStream

QUESTION = {"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": {"message": "Sure?"}}


class Pieces(httpx.AsyncByteStream):
    """A body that comes in these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


async def test_an_event_without_its_end_is_limited_like_others() -> None:
    pieces = Pieces(b"data: " + json.dumps({"jsonrpc": "2.0", "id": 7, "result": [0] * 400_000}).encode())
    stream = McpEventStream(httpx.Response(200, stream=pieces), lambda _: None, 7, lambda *_: None)
    assert b"400000 values" in b"".join([chunk async for chunk in stream])


async def questions_in(*pieces: bytes) -> list[tuple[int | str, int | str]]:
    """Pass the pieces on; return the ids of questions and of the requests they came with."""
    found: list[tuple[int | str, int | str]] = []
    response = httpx.Response(200, stream=Pieces(*pieces))
    stream = McpEventStream(response, lambda _: None, 7, lambda *ids: found.append(ids))
    passed = b"".join([chunk async for chunk in stream])
    assert passed.startswith(b"".join(pieces))
    return found


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
async def test_a_question_is_recognised_wherever_its_event_is_cut(end: bytes) -> None:
    event = b"event: message" + end + b"data: " + json.dumps(QUESTION).encode() + end + end
    for cut in range(len(event) + 1):
        assert await questions_in(b": hello" + end + event[:cut], event[cut:]) == [("q-1", 7)], cut
