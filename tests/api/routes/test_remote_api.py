"""Where TOOLWEAVE_API_URL names the LangGraph API, requests to it carry the caller's credentials and no key of ours."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.api.routes.lifespans import configured, running

KNOWN = b"authorization: bearer anna"
OURS = "our-own-key"


@asynccontextmanager
async def api_that_knows_anna(requests: list[bytes]) -> AsyncIterator[str]:
    """Run an API that accepts Anna's token and our own key."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append((await reader.readuntil(b"\r\n\r\n")).lower())
        known = KNOWN in requests[-1] or OURS.encode() in requests[-1]
        status = b"404 Not Found" if known else b"401 Unauthorized"
        writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(("headers", "status"), [({}, 401), ({"authorization": "Bearer Anna"}, 200)])
async def test_our_own_key_admits_no_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], status: int
) -> None:
    for name in ("LANGGRAPH_API_KEY", "LANGSMITH_API_KEY"):
        monkeypatch.setenv(name, OURS)
    requests: list[bytes] = []
    async with api_that_knows_anna(requests) as url, running(configured(tmp_path, {}, api_url=url)) as (_, http):
        assert (await http.get("/servers", headers=headers)).status_code == status
    assert len(requests) == 1
    assert OURS.encode() not in requests[0]
