"""No more of a body is taken than the limit says, packed or not."""

import asyncio
import tracemalloc
import zlib

import pytest

from tests.fixtures.gzipping import gzipped
from tests.outbound.peers import Received, always, fetch, policy, serving, text
from toolweave.errors import OutboundFailed
from toolweave.outbound import OutboundRequest, open_outbound_client

pytestmark = pytest.mark.requirement("W-09")


async def test_a_body_up_to_the_limit_is_read_and_one_byte_more_is_refused() -> None:
    for size, taken in ((1000, True), (1001, False)):
        async with serving(always(text(body=b"x" * size))) as peer:
            if taken:
                assert len((await fetch(policy(), f"http://127.0.0.1:{peer.port}/")).body) == size
                continue
            with pytest.raises(OutboundFailed, match="larger than 1000 bytes") as raised:
                await fetch(policy(), f"http://127.0.0.1:{peer.port}/")
            assert raised.value.reason == "too_large"


async def test_a_body_without_end_is_refused_at_the_limit() -> None:
    gone = asyncio.Event()

    async def endless(_request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
                await writer.drain()
        finally:
            gone.set()

    async with serving(endless) as peer:
        with pytest.raises(OutboundFailed, match="larger than"):
            await fetch(policy(), f"http://127.0.0.1:{peer.port}/")
        await asyncio.wait_for(gone.wait(), 60)


async def test_a_packed_body_is_unpacked() -> None:
    packed = gzipped(b"a" * 400)
    async with serving(always(text("200 OK", packed, "Content-Encoding: GZIP"))) as peer:
        answer = await fetch(policy(), f"http://127.0.0.1:{peer.port}/")
    assert answer.body == b"a" * 400
    assert peer.requests[0].header("accept-encoding") == "gzip"


BOMB = b"\0" * 6_000_000


@pytest.mark.parametrize(
    ("body", "codings", "reason"),
    [
        (gzipped(BOMB), ["gzip"], "too_large"),
        (gzipped(BOMB), ["X-GZIP"], "too_large"),
        (gzipped(gzipped(BOMB)), ["gzip, gzip"], "transfer"),
        (gzipped(gzipped(b"x")), ["gzip", "gzip"], "transfer"),
        (gzipped(BOMB[:1000]) * 50, ["gzip"], "transfer"),
        (gzipped(b"whole")[:-4], ["gzip"], "transfer"),
        (gzipped(b"x") + b"more", ["gzip"], "transfer"),
        (zlib.compress(BOMB), ["gzip"], "transfer"),
        (zlib.compress(BOMB), ["deflate"], "transfer"),
        (b"x", ["identity, br"], "transfer"),
        (b"x", ["\xe4"], "transfer"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
async def test_a_bomb_or_a_broken_packing_is_an_error_and_takes_no_more_memory_than_the_limit(
    body: bytes, codings: list[str], reason: str
) -> None:
    headers = [f"Content-Encoding: {coding}" for coding in codings]
    async with serving(always(text("200 OK", body, *headers))) as peer:
        tracemalloc.start()
        try:
            with pytest.raises(OutboundFailed) as raised:
                await fetch(policy(max_response_bytes=20_000), f"http://127.0.0.1:{peer.port}/")
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert raised.value.reason == reason
    assert most < 4_000_000


async def test_a_large_body_does_not_matter_if_only_the_status_is_needed() -> None:
    async with serving(always(text("202 Accepted", b"x" * 5000))) as peer, open_outbound_client(policy()) as client:
        answer = await client.send(OutboundRequest("POST", f"http://127.0.0.1:{peer.port}/"), needs_body=False)
    assert (answer.status, answer.body) == (202, b"")
