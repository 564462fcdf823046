"""A client whose connection is cut again and again receives every event of a resumable run once (section 6.2)."""

import asyncio
import random
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from tests.fixtures.app_server import AppServer
from tests.fixtures.cutting_proxy import open_cutting_proxy
from tests.fixtures.event_frames import Frame, read_until_cut

LANGGRAPH_JSON = Path(__file__).parent / "runs_app" / "langgraph.json"
SEED, AT_ONCE = 20261122, 4
STEPS, PER_STEP, STREAMS = 3, 60, 10
TICKS, DONE = STEPS * PER_STEP, [PER_STEP * (number + 1) for number in range(STEPS)]
RUN: dict[str, Any] = {
    "assistant_id": "ticking",
    "input": {"steps": STEPS, "per_step": PER_STEP, "pause": 0.001},
    "stream_mode": ["values", "custom", "updates"],
}
EACH_ITS_OWN = httpx.Limits(max_keepalive_connections=0)
# A POST that is cut before its first id cannot be resumed (section 12).
FIRST_ID = 1200


async def read_whole(http: httpx.AsyncClient, path: str) -> list[Frame]:
    """Read a stream from its beginning, coming back after each cut with the last id."""
    frames: list[Frame] = []
    while not await read_until_cut(http, path, frames[-1].id if frames else "-1", frames):
        pass
    return frames


def check_whole(frames: list[Frame]) -> None:
    """Check that every event is there, once, in its order."""
    assert frames[0].event == "metadata"
    assert [frame.data["tick"] for frame in frames if frame.event == "custom"] == list(range(TICKS))
    assert [frame.data["done"] for frame in frames if frame.event == "values" and "done" in frame.data] == DONE
    ids = [frame.id for frame in frames]
    assert ids == sorted(set(ids))


@pytest.mark.api("GET /threads/{thread_id}/runs/{run_id}/stream", "200 loses and repeats nothing over cut connections")
@pytest.mark.parametrize("cuts", [5, pytest.param(200, marks=pytest.mark.slow)])
async def test_nothing_is_lost_or_repeated_over_cut_connections(
    app_server: AppServer, sdk: LangGraphClient, http: httpx.AsyncClient, cuts: int
) -> None:
    dice = random.Random(SEED)

    async def one_run(proxied: httpx.AsyncClient) -> None:
        thread_id = (await sdk.threads.create())["thread_id"]
        run = await sdk.runs.create(thread_id, **RUN, stream_resumable=True)
        path = f"/threads/{thread_id}/runs/{run['run_id']}/stream"
        frames = await read_whole(proxied, path)
        assert (await sdk.runs.get(thread_id, run["run_id"]))["status"] == "success"
        check_whole(frames)
        assert frames == await read_whole(http, path)

    async with (
        asyncio.timeout(60),
        open_cutting_proxy(app_server.url, lambda _: dice.randint(0, 1500)) as proxy,
        httpx.AsyncClient(base_url=proxy.url, limits=EACH_ITS_OWN, timeout=60) as proxied,
    ):
        while proxy.cuts < cuts:
            await asyncio.gather(*(one_run(proxied) for _ in range(AT_ONCE)))


@pytest.mark.api("POST /threads/{thread_id}/runs/stream", "200 is resumed by the Python SDK where it was cut")
@pytest.mark.api("POST /runs/stream", "200 is resumed by the Python SDK where it was cut, also when the run is gone")
@pytest.mark.parametrize("stateless", [False, True])
async def test_the_sdk_resumes_a_cut_stream(app_server: AppServer, sdk: LangGraphClient, stateless: bool) -> None:
    dice = random.Random(SEED)
    cut_once: set[str] = set()

    def budget(request: bytes) -> int | None:
        if request.startswith(b"POST") and b"/runs/stream" in request:
            return dice.randint(FIRST_ID, 12_000)
        # The first way back is cut as well, wherever it is.
        line = request.split(b"\r\n", 1)[0].decode()
        if not line.split()[1].endswith("/stream") or line in cut_once:
            return None
        cut_once.add(line)
        return dice.randint(0, 4000)

    async def one_stream(client: LangGraphClient) -> list[Frame]:
        thread_id = None if stateless else (await sdk.threads.create())["thread_id"]
        stream = client.runs.stream(thread_id, **RUN, stream_resumable=True)
        return [Frame(part.id or "", part.event, part.data) async for part in stream]

    async with (
        asyncio.timeout(60),
        open_cutting_proxy(app_server.url, budget) as proxy,
        get_client(url=proxy.url, api_key=None) as client,
    ):
        for frames in await asyncio.gather(*(one_stream(client) for _ in range(STREAMS))):
            check_whole(frames)
    assert proxy.cuts >= STREAMS
