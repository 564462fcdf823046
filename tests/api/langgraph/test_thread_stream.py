"""Everything that happens on a thread is streamed, run after run (langgraph_api.md 2.2, 6.3)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.api.langgraph.steering import NOBODY, Thread
from tests.fixtures.app_server import AppServer
from tests.fixtures.event_frames import Frame, frames

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
BOUND_S = 60.0


class Follower:
    """A client of one thread's stream."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._frames = frames(response)

    async def next(self) -> Frame:
        """Give the next event; fails when none comes."""
        async with asyncio.timeout(BOUND_S):
            return await anext(self._frames)

    async def until_done(self, runs: int = 1) -> list[Frame]:
        """Give the events until as many runs have ended."""
        events: list[Frame] = []
        while ends(events) < runs:
            events.append(await self.next())
        return events

    async def ended(self) -> bool:
        """Say whether nothing follows."""
        async with asyncio.timeout(BOUND_S):
            return [frame async for frame in self._frames] == []


def ends(events: list[Frame]) -> int:
    return sum(event.event == "metadata" and event.data.get("status") == "run_done" for event in events)


Follow = Callable[..., Awaitable[Follower]]


@pytest.fixture
async def follow(http: httpx.AsyncClient) -> AsyncIterator[Follow]:
    """Give a function that follows a thread until the test ends; the server sends its events when it returns."""
    async with AsyncExitStack() as stack:

        async def follow(thread_id: str, last_id: str | None = None, **params: Any) -> Follower:
            headers = {} if last_id is None else {"Last-Event-ID": last_id}
            connecting = http.stream("GET", f"/threads/{thread_id}/stream", params=params, headers=headers)
            response = await stack.enter_async_context(connecting)
            assert response.status_code == 200
            return Follower(response)

        yield follow


async def run_resumable(thread: Thread, n: int) -> None:
    run = await thread.create_run("steps", input={"n": n}, stream_resumable=True)
    await thread.join(run["run_id"])


def names(events: list[Frame]) -> list[str]:
    return [event.event for event in events]


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 streams run after run, each from its metadata to run_done")
@pytest.mark.api("GET /threads/{thread_id}/stream", "200 gives every event an id of its own, rising over all runs")
async def test_runs_follow_each_other_in_one_stream_with_rising_ids(follow: Follow, thread: Thread) -> None:
    follower = await follow(thread.id)
    assert follower.response.headers["content-type"] == "text/event-stream; charset=utf-8"
    for n in (1, 5):
        await thread.wait("steps", input={"n": n})
    events = await follower.until_done(runs=2)
    first, second = (run["run_id"] for run in reversed(await thread.runs()))
    one_run = ["metadata", "values", "values", "values", "metadata"]
    assert names(events) == one_run * 2
    assert events[0].data == {"run_id": first, "attempt": 1}
    assert [event.data["n"] for event in events[1:4]] == [1, 2, 4]
    assert events[4].data == {"status": "run_done", "run_id": first}
    assert events[9].data == {"status": "run_done", "run_id": second}
    ids = [tuple(map(int, event.id.split("-"))) for event in events]
    assert ids == sorted(set(ids))


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 says run_done when the run has ended")
async def test_the_run_has_ended_when_run_done_arrives(follow: Follow, thread: Thread) -> None:
    follower = await follow(thread.id)
    await thread.create_run("broken", input={"n": 1})
    events = await follower.until_done()
    run = await thread.run(events[-1].data["run_id"])
    assert run["status"] == "error"
    assert (await thread.show())["status"] == "error"
    assert events[-2].event == "error"
    assert events[-2].data == {"error": "ValueError", "message": "cannot go on from 2"}


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 shows a run that is under way from now on")
async def test_a_late_subscriber_gets_the_later_events(http: httpx.AsyncClient, follow: Follow, thread: Thread) -> None:
    _, gate = await thread.run_at_gate()
    follower = await follow(thread.id)
    await http.post(f"/gates/{gate}/open")
    events = await follower.until_done()
    assert [event.data.get("log") for event in events] == [["add", "passed"], ["add", "passed", "double"], None]


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 shows nothing of a run that never began")
async def test_a_cancelled_run_has_its_end_and_one_that_never_began_no_event(follow: Follow, thread: Thread) -> None:
    follower = await follow(thread.id, stream_modes="lifecycle")
    running, _ = await thread.run_at_gate()
    queued = await thread.create_run("steps", input={"n": 1})
    await thread.cancel(queued["run_id"], wait=True)
    await thread.cancel(running, wait=True)
    events = await follower.until_done()
    assert [event.data["run_id"] for event in events] == [running, running]


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 shows the requested modes under both names")
@pytest.mark.parametrize(
    ("params", "shown"),
    [
        ({}, ["metadata", "values", "metadata"]),
        ({"stream_modes": "run_modes"}, ["metadata", "values", "metadata"]),
        ({"stream_mode": "lifecycle"}, ["metadata", "metadata"]),
        ({"stream_modes": "state_update"}, ["state_update"]),
        ({"stream_mode": ["lifecycle", "state_update"]}, ["metadata", "metadata", "state_update"]),
        ({"stream_modes": "run_modes,state_update"}, ["metadata", "values", "metadata", "state_update"]),
        ({"stream_mode": '["lifecycle","state_update"]'}, ["metadata", "metadata", "state_update"]),
    ],
)
async def test_a_stream_has_the_events_of_its_modes(
    follow: Follow, thread: Thread, params: dict[str, Any], shown: list[str]
) -> None:
    follower = await follow(thread.id, **params)
    run = await thread.create_run("made", input={"n": 1}, stream_mode=["updates"])
    await thread.join(run["run_id"])
    await thread.update_state({"n": 7})
    events = [await follower.next() for _ in shown]
    assert [event.replace("updates", "values") for event in names(events)] == shown
    await thread.delete()
    assert await follower.ended()


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 shows a state that was written by hand")
async def test_a_state_written_by_hand_is_shown_whole(sdk: LangGraphClient, follow: Follow) -> None:
    thread_id = (await sdk.threads.create(graph_id="steps"))["thread_id"]
    follower = await follow(thread_id, stream_modes="state_update")
    await sdk.threads.update_state(thread_id, {"n": 7}, as_node="add")
    event = await follower.next()
    assert event.data == {"state": await sdk.threads.get_state(thread_id), "thread_id": thread_id}


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 goes on after Last-Event-ID with the events of resumable runs")
async def test_a_reconnected_subscriber_misses_no_event_of_resumable_runs(
    http: httpx.AsyncClient, follow: Follow, thread: Thread
) -> None:
    follower = await follow(thread.id)
    await run_resumable(thread, n=1)
    await run_resumable(thread, n=2)
    _, gate = await thread.run_at_gate(stream_resumable=True)
    whole = [*await follower.until_done(runs=2), *[await follower.next() for _ in range(3)]]
    back = [await follow(thread.id, last_id=event.id) for event in whole]
    beginner = await follow(thread.id, last_id="-1")
    await http.post(f"/gates/{gate}/open")
    whole += await follower.until_done()
    assert [event[1:] for event in await beginner.until_done(runs=3)] == [event[1:] for event in whole]
    for missed, again in enumerate(back, start=1):
        events = await again.until_done(runs=ends(whole[missed:]))
        assert [event[1:] for event in events] == [event[1:] for event in whole[missed:]]
        ids = [tuple(map(int, event.id.split("-"))) for event in (whole[missed - 1], *events)]
        assert ids == sorted(set(ids))


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 keeps nothing of runs that are not resumable")
async def test_runs_that_are_not_resumable_are_only_live(follow: Follow, thread: Thread) -> None:
    await thread.wait("steps", input={"n": 1})
    resumed = await follow(thread.id, last_id="-1")
    await thread.wait("steps", input={"n": 2})
    assert (await resumed.next()).data["run_id"] == (await thread.runs())[0]["run_id"]


async def test_a_reconnection_after_a_rollback_gets_the_later_runs(follow: Follow, thread: Thread) -> None:
    follower = await follow(thread.id)
    gone, _ = await thread.run_at_gate(stream_resumable=True)
    last = await follower.next()
    await thread.cancel(gone, action="rollback", wait=True)
    await run_resumable(thread, n=1)
    back = await follow(thread.id, last_id=last.id)
    assert {event.data["run_id"] for event in await back.until_done() if event.event == "metadata"} == {
        run["run_id"] for run in await thread.runs()
    }


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 ends when the thread is deleted")
async def test_the_stream_of_a_deleted_thread_ends(follow: Follow, thread: Thread) -> None:
    follower = await follow(thread.id, stream_mode="state_update")
    await thread.run_at_gate()
    await thread.delete()
    assert await follower.ended()


@pytest.mark.databases("sqlite", "postgresql", reason="looks into the process")
@pytest.mark.api("GET /threads/{thread_id}/stream", "200 forgets clients that leave")
async def test_disconnected_clients_are_removed(http: httpx.AsyncClient, thread: Thread, app_server: AppServer) -> None:
    _, gate = await thread.run_at_gate()
    hub = app_server.app.state.services.engine.runtime.thread_hub
    async with http.stream("GET", f"/threads/{thread.id}/stream"):
        await http.get("/ok")
        assert hub.has_followers(thread.id)
    async with asyncio.timeout(BOUND_S):
        while hub.has_followers(thread.id):
            await http.get("/ok")
    await http.post(f"/gates/{gate}/open")


@pytest.mark.databases("postgresql", reason="looks into the process")
async def test_a_refused_run_is_forgotten(follow: Follow, thread: Thread, app_server: AppServer) -> None:
    stream = await follow(thread.id)
    run_id, gate = await thread.run_at_gate()
    await stream.next()
    body = {"assistant_id": "steps", "multitask_strategy": "reject"}
    assert (await thread.http.post(f"/threads/{thread.id}/runs/wait", json=body)).status_code == 409
    (follower,) = app_server.app.state.services.engine.runtime.thread_hub._followers[thread.id]
    assert [*follower.runs] == [*follower.run_created_at] == [run_id]
    await thread.http.post(f"/gates/{gate}/open")


@pytest.mark.parametrize(("last_id", "status"), [("garbage", 422), ("9" * 50, 422), ("0-0", 404)])
async def test_a_bad_last_event_id_is_refused(http: httpx.AsyncClient, last_id: str, status: int) -> None:
    answer = await http.get(f"/threads/{NOBODY}/stream", headers={"Last-Event-ID": last_id})
    assert answer.status_code == status
    assert isinstance(answer.json()["detail"], str)
