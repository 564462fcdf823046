"""A response that drips or never ends costs a bounded time, and other tasks go on."""

import asyncio

import pytest

from tests.fixtures.gzipping import gzipped
from tests.fixtures.loop_clock import pass_time
from tests.outbound.peers import Received, always, fetch, policy, serving
from toolweave.errors import OutboundFailed
from toolweave.outbound import MAX_CHUNKS, MAX_READ_BYTES

pytestmark = pytest.mark.requirement("W-09")

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def drip(writer: asyncio.StreamWriter, first: bytes, again: bytes) -> None:
    """Write a piece each second of the loop's clock: no single wait is long."""
    writer.write(first)
    while True:
        await asyncio.sleep(0)
        pass_time(1)
        writer.write(again)
        await writer.drain()


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", b"x"),
        (CHUNKED, b"1\r\nx\r\n"),
        (CHUNKED + b"1;", b"x"),
        (CHUNKED + b"0\r\n", b"X-Trailer: 1\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n"),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
        (b"H", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzipped(b"x")[:10], b""),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["body", "chunks", "chunk extension", "trailers", "headers", "a header", "status", "gzip", "interim"],
)
async def test_a_dripping_response_ends_at_the_total_timeout(first: bytes, again: bytes) -> None:
    gone = asyncio.Event()

    async def dripping(_request: Received, writer: asyncio.StreamWriter) -> None:
        try:
            await drip(writer, first, again)
        finally:
            gone.set()

    async with serving(dripping) as peer:
        with pytest.raises(OutboundFailed) as raised:
            await fetch(policy(total_timeout_s=30, max_response_bytes=1_000_000), f"http://127.0.0.1:{peer.port}/")
        assert (raised.value.reason, "within 30 s" in str(raised.value)) == ("timeout", True)
        if again:
            # The connection is closed, not only forgotten.
            await asyncio.wait_for(gone.wait(), 60)


@pytest.mark.parametrize(
    ("start", "block"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x" * 10_000),
        (CHUNKED + b"1;", b"x" * 10_000),
        (CHUNKED + b"0\r\n", b"X-Trailer: 1\r\n" * 1000),
        (b"", b"x" * 10_000),
    ],
    ids=["headers", "a header", "chunk extension", "trailers", "status"],
)
async def test_endless_headers_are_refused_before_the_total_timeout(start: bytes, block: bytes) -> None:
    async def flooding(_request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(block)
            await writer.drain()

    async with serving(flooding) as peer:
        with pytest.raises(OutboundFailed) as raised:
            await fetch(policy(total_timeout_s=30), f"http://127.0.0.1:{peer.port}/")
    assert raised.value.reason == "transfer"


@pytest.mark.slow
async def test_a_small_body_of_very_many_pieces_is_refused() -> None:
    pieces = b"1\r\nx\r\n" * (MAX_CHUNKS + 1)
    async with serving(always(CHUNKED + pieces + b"0\r\n\r\n")) as peer:
        with pytest.raises(OutboundFailed, match="too many pieces") as raised:
            await fetch(policy(max_response_bytes=10 * MAX_CHUNKS), f"http://127.0.0.1:{peer.port}/")
    assert raised.value.reason == "too_large"


async def test_a_flood_of_tiny_pieces_does_not_block_other_tasks() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    pieces = MAX_READ_BYTES * 4 // len(b"1\r\nx\r\n")
    body = CHUNKED + b"1\r\nx\r\n" * pieces + b"0\r\n\r\n"
    async with serving(always(body)) as peer:
        running = asyncio.create_task(others())
        answer = await fetch(policy(max_response_bytes=pieces), f"http://127.0.0.1:{peer.port}/")
        running.cancel()
    assert len(answer.body) == pieces
    # One turn every fifty pieces at the least; without them, one for each read.
    assert turns > pieces / 50
