"""Kill the server in the middle of twenty streamed runs, start it again, and check the events of every client."""

import asyncio
import random
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import httpx

from tests.fixtures.app_server import AppProcess
from tests.fixtures.event_frames import Frame, read_until_cut

ALONE, PAIRS = 14, 3
STEPS, PER_STEP = 5, 6
TICKS = STEPS * PER_STEP
# Higher than any number of the first attempt, lower than any of the second: an id that was lost with its event.
NEVER_STORED = 99_999_999
RUN: dict[str, Any] = {
    "assistant_id": "ticking",
    "input": {"steps": STEPS, "per_step": PER_STEP, "pause": 0.005, "done": 0},
    "stream_mode": ["custom", "values", "updates", "tasks"],
    "stream_resumable": True,
}


@dataclass
class Watched:
    """One run, and the frames that its client has received."""

    thread_id: str
    run_id: str
    frames: list[Frame] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"/threads/{self.thread_id}/runs/{self.run_id}"


async def one_round(process: AppProcess, dice: random.Random, *, kills: int) -> None:
    """Start twenty runs, kill the server `kills` times while they run, and check how they end."""
    async with httpx.AsyncClient(base_url=process.url, timeout=60) as http:
        runs = await start_runs(http)
    for _ in range(kills):
        await listen_until_killed(process, runs, dice.randint(100, 600))
        await asyncio.to_thread(process.start)
    async with asyncio.timeout(60), httpx.AsyncClient(base_url=process.url, timeout=60) as http:
        await asyncio.gather(*(check_end(http, run) for run in runs))
        for run in runs:
            assert (await http.get(f"/threads/{run.thread_id}")).json()["status"] == "idle"


async def start_runs(http: httpx.AsyncClient) -> list[Watched]:
    threads = [(await http.post("/threads", json={})).json()["thread_id"] for _ in range(ALONE + PAIRS)]
    threads += threads[:PAIRS]
    created = await asyncio.gather(*(http.post(f"/threads/{thread_id}/runs", json=RUN) for thread_id in threads))
    return [Watched(answer.json()["thread_id"], answer.json()["run_id"]) for answer in created]


async def listen_until_killed(process: AppProcess, runs: list[Watched], frames_before: int) -> None:
    """Stream all runs, each from its last id, and kill the server when so many events have come, or all have ended."""
    before = sum(len(run.frames) for run in runs)
    async with httpx.AsyncClient(base_url=process.url, timeout=60) as http, asyncio.TaskGroup() as group:
        streams = [group.create_task(listen(http, run)) for run in runs]
        while sum(len(run.frames) for run in runs) < before + frames_before and not all(
            map(asyncio.Task.done, streams)
        ):
            await asyncio.wait(streams, timeout=0.005)
        await asyncio.to_thread(process.kill)


async def listen(http: httpx.AsyncClient, run: Watched) -> bool:
    last_id = run.frames[-1].id if run.frames else "-1"
    return await read_until_cut(http, f"{run.path}/stream", last_id, run.frames)


async def check_end(http: httpx.AsyncClient, run: Watched) -> None:
    """Check one run: ended well, and no client got wrong frames, wherever it was cut."""
    known = list(run.frames)
    assert await listen(http, run)
    assert (await http.get(run.path)).json()["status"] == "success"
    assert (await http.get(f"{run.path}/join")).json()["done"] == TICKS
    whole: list[Frame] = []
    assert await read_until_cut(http, f"{run.path}/stream", "-1", whole)
    last_known = known[-1].id if known else ""
    assert run.frames[len(known) :] == [frame for frame in whole if frame.id > last_known]
    by_id = {frame.id: frame for frame in whole}
    assert all(by_id.get(frame.id, frame) == frame for frame in known)
    for frames in (whole, run.frames):
        assert [frame.id for frame in frames] == sorted({frame.id for frame in frames})
        check_no_gap(frames)
    await check_lost_id(http, run, whole)


def check_no_gap(frames: list[Frame]) -> None:
    """Each attempt begins with metadata, goes on at or before where the one before stood, and leaves nothing out."""
    number_of_attempt, reached = 0, -1
    for attempt, of_attempt in groupby(
        frames, key=lambda frame: int(frame.id.rpartition("-")[2]) // (NEVER_STORED + 1)
    ):
        events = list(of_attempt)
        assert events[0].event == "metadata"
        assert events[0].data["attempt"] == attempt + 1
        assert attempt >= number_of_attempt
        number_of_attempt = attempt
        ticks = [frame.data["tick"] for frame in events if frame.event == "custom"]
        assert not ticks or ticks[0] <= reached + 1
        assert ticks == list(range(ticks[0], ticks[-1] + 1) if ticks else ())
        reached = max([reached, *ticks])
    assert reached == TICKS - 1
    # A run that was cut before its first checkpoint begins with values that are empty.
    assert [frame for frame in frames if frame.event == "values"][-1].data["done"] == TICKS


async def check_lost_id(http: httpx.AsyncClient, run: Watched, whole: list[Frame]) -> None:
    """An id that was given out, but lost in the crash with its event, is followed by all of the next attempts."""
    prefix = whole[0].id.rpartition("-")[0]
    frames: list[Frame] = []
    assert await read_until_cut(http, f"{run.path}/stream", f"{prefix}-{NEVER_STORED:010d}", frames)
    assert frames == [frame for frame in whole if int(frame.id.rpartition("-")[2]) > NEVER_STORED]
