"""Everything that happens on a thread is streamed, run after run (langgraph_api.md 2.2, 6.3)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.api.langgraph.steering import NOBODY, run_at_gate
from tests.fixtures.app_server import AppServer
from toolweave.runtime.codec import loads

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
BOUND_S = 60.0


class Heard(NamedTuple):
    """One event as a client reads it."""

    event: str
    data: Any
    id: str


class Follower:
    """A client of one thread's stream."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self) -> Heard:
        """Give the next event; fails when none comes."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(BOUND_S):
            while line := await anext(self._lines):
                name, _, text = line.partition(": ")
                fields[name] = text
        # A heartbeat is a comment: a line without a name.
        return Heard(fields["event"], loads(fields["data"]), fields["id"]) if "event" in fields else await self.next()

    async def until_done(self, runs: int = 1) -> list[Heard]:
        """Give the events until as many runs have ended."""
        heard: list[Heard] = []
        while ends(heard) < runs:
            heard.append(await self.next())
        return heard

    async def ended(self) -> bool:
        """Say whether nothing follows."""
        async with asyncio.timeout(BOUND_S):
            return [line async for line in self._lines if line] == []


def ends(heard: list[Heard]) -> int:
    return sum(event.event == "metadata" and event.data.get("status") == "run_done" for event in heard)


class Followers:
    """Opens streams that the test's end closes."""

    def __init__(self, http: httpx.AsyncClient, stack: AsyncExitStack) -> None:
        self._http = http
        self._stack = stack

    async def follow(self, thread_id: str, last_id: str | None = None, **params: Any) -> Follower:
        """Follow a thread; the server hears it when this returns."""
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        connecting = self._http.stream("GET", f"/threads/{thread_id}/stream", params=params, headers=headers)
        response = await self._stack.enter_async_context(connecting)
        assert response.status_code == 200
        return Follower(response)


@pytest.fixture
async def followers(http: httpx.AsyncClient) -> AsyncIterator[Followers]:
    async with AsyncExitStack() as stack:
        yield Followers(http, stack)


async def run_resumable(sdk: LangGraphClient, thread_id: str, n: int) -> None:
    run = await sdk.runs.create(thread_id, "steps", input={"n": n}, stream_resumable=True)
    await sdk.runs.join(thread_id, run["run_id"])


def names(heard: list[Heard]) -> list[str]:
    return [event.event for event in heard]


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 streams run after run, each from its metadata to run_done")
@pytest.mark.api("GET /threads/{thread_id}/stream", "200 gives every event an id of its own, rising over all runs")
async def test_runs_follow_each_other_in_one_stream_with_rising_ids(
    sdk: LangGraphClient, followers: Followers, thread_id: str
) -> None:
    follower = await followers.follow(thread_id)
    assert follower.response.headers["content-type"] == "text/event-stream; charset=utf-8"
    for n in (1, 5):
        await sdk.runs.wait(thread_id, "steps", input={"n": n})
    heard = await follower.until_done(runs=2)
    first, second = (run["run_id"] for run in reversed(await sdk.runs.list(thread_id)))
    one_run = ["metadata", "values", "values", "values", "metadata"]
    assert names(heard) == one_run * 2
    assert heard[0].data == {"run_id": first, "attempt": 1}
    assert [event.data["n"] for event in heard[1:4]] == [1, 2, 4]
    assert heard[4].data == {"status": "run_done", "run_id": first}
    assert heard[9].data == {"status": "run_done", "run_id": second}
    ids = [tuple(map(int, event.id.split("-"))) for event in heard]
    assert ids == sorted(set(ids))


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 says run_done when the run has ended")
async def test_a_run_is_done_when_it_says_so(sdk: LangGraphClient, followers: Followers, thread_id: str) -> None:
    follower = await followers.follow(thread_id)
    await sdk.runs.create(thread_id, "broken", input={"n": 1})
    heard = await follower.until_done()
    run = await sdk.runs.get(thread_id, heard[-1].data["run_id"])
    assert run["status"] == "error"
    assert (await sdk.threads.get(thread_id))["status"] == "error"
    assert heard[-2].event == "error"
    assert heard[-2].data == {"error": "ValueError", "message": "cannot go on from 2"}


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 shows a run that is under way from now on")
async def test_who_comes_late_hears_the_rest(
    sdk: LangGraphClient, http: httpx.AsyncClient, followers: Followers, thread_id: str
) -> None:
    _, gate = await run_at_gate(sdk, http, thread_id)
    follower = await followers.follow(thread_id)
    await http.post(f"/gates/{gate}/open")
    heard = await follower.until_done()
    assert [event.data.get("log") for event in heard] == [["add", "passed"], ["add", "passed", "double"], None]


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 shows nothing of a run that never began")
async def test_cancelled_runs_end_and_those_that_never_began_are_not_there(
    sdk: LangGraphClient, http: httpx.AsyncClient, followers: Followers, thread_id: str
) -> None:
    follower = await followers.follow(thread_id, stream_modes="lifecycle")
    running, _ = await run_at_gate(sdk, http, thread_id)
    queued = await sdk.runs.create(thread_id, "steps", input={"n": 1})
    await sdk.runs.cancel(thread_id, queued["run_id"], wait=True)
    await sdk.runs.cancel(thread_id, running, wait=True)
    heard = await follower.until_done()
    assert [event.data["run_id"] for event in heard] == [running, running]


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 shows the modes asked for under both names")
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
async def test_the_modes_say_what_is_shown(
    sdk: LangGraphClient, followers: Followers, thread_id: str, params: dict[str, Any], shown: list[str]
) -> None:
    follower = await followers.follow(thread_id, **params)
    run = await sdk.runs.create(thread_id, "made", input={"n": 1}, stream_mode=["updates"])
    await sdk.runs.join(thread_id, run["run_id"])
    await sdk.threads.update_state(thread_id, {"n": 7})
    heard = [await follower.next() for _ in shown]
    assert [event.replace("updates", "values") for event in names(heard)] == shown
    await sdk.threads.delete(thread_id)
    assert await follower.ended()


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 shows a state that was written by hand")
async def test_a_state_written_by_hand_is_shown_whole(sdk: LangGraphClient, followers: Followers) -> None:
    thread_id = (await sdk.threads.create(graph_id="steps"))["thread_id"]
    follower = await followers.follow(thread_id, stream_modes="state_update")
    await sdk.threads.update_state(thread_id, {"n": 7}, as_node="add")
    event = await follower.next()
    assert event.data == {"state": await sdk.threads.get_state(thread_id), "thread_id": thread_id}


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 goes on after Last-Event-ID with the events of resumable runs")
async def test_who_comes_back_has_missed_nothing_of_resumable_runs(
    sdk: LangGraphClient, http: httpx.AsyncClient, followers: Followers, thread_id: str
) -> None:
    follower = await followers.follow(thread_id)
    await run_resumable(sdk, thread_id, n=1)
    await run_resumable(sdk, thread_id, n=2)
    _, gate = await run_at_gate(sdk, http, thread_id, stream_resumable=True)
    whole = [*await follower.until_done(runs=2), *[await follower.next() for _ in range(3)]]
    back = [await followers.follow(thread_id, last_id=event.id) for event in whole]
    beginner = await followers.follow(thread_id, last_id="-1")
    await http.post(f"/gates/{gate}/open")
    whole += await follower.until_done()
    assert [event[:2] for event in await beginner.until_done(runs=3)] == [event[:2] for event in whole]
    for missed, again in enumerate(back, start=1):
        heard = await again.until_done(runs=ends(whole[missed:]))
        assert [event[:2] for event in heard] == [event[:2] for event in whole[missed:]]
        ids = [tuple(map(int, event.id.split("-"))) for event in (whole[missed - 1], *heard)]
        assert ids == sorted(set(ids))


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 keeps nothing of runs that are not resumable")
async def test_runs_that_are_not_resumable_are_only_live(
    sdk: LangGraphClient, followers: Followers, thread_id: str
) -> None:
    await sdk.runs.wait(thread_id, "steps", input={"n": 1})
    resumed = await followers.follow(thread_id, last_id="-1")
    await sdk.runs.wait(thread_id, "steps", input={"n": 2})
    assert (await resumed.next()).data["run_id"] == (await sdk.runs.list(thread_id))[0]["run_id"]


async def test_who_comes_back_to_a_run_that_was_taken_back_goes_on_after_it(
    sdk: LangGraphClient, http: httpx.AsyncClient, followers: Followers, thread_id: str
) -> None:
    follower = await followers.follow(thread_id)
    gone, _ = await run_at_gate(sdk, http, thread_id, stream_resumable=True)
    last = await follower.next()
    await sdk.runs.cancel(thread_id, gone, action="rollback", wait=True)
    await run_resumable(sdk, thread_id, n=1)
    back = await followers.follow(thread_id, last_id=last.id)
    assert {event.data["run_id"] for event in await back.until_done() if event.event == "metadata"} == {
        run["run_id"] for run in await sdk.runs.list(thread_id)
    }


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 ends when the thread is deleted")
async def test_the_stream_of_a_deleted_thread_ends(
    sdk: LangGraphClient, http: httpx.AsyncClient, followers: Followers, thread_id: str
) -> None:
    follower = await followers.follow(thread_id, stream_mode="state_update")
    await run_at_gate(sdk, http, thread_id)
    await sdk.threads.delete(thread_id)
    assert await follower.ended()


@pytest.mark.api("GET /threads/{thread_id}/stream", "404 unknown thread")
@pytest.mark.api("GET /threads/{thread_id}/stream", "422 bad thread id, mode or Last-Event-ID")
@pytest.mark.parametrize(
    ("thread_id", "params", "last_id", "status"),
    [
        (NOBODY, {}, None, 404),
        ("zz", {}, None, 422),
        (NOBODY, {"stream_modes": "zz"}, None, 422),
        (NOBODY, {"stream_mode": ["run_modes", "values"]}, None, 422),
        (NOBODY, {}, "garbage", 422),
        (NOBODY, {}, "9" * 50, 422),
        (NOBODY, {}, "0-0", 404),
    ],
)
async def test_what_cannot_be_followed_is_refused(
    http: httpx.AsyncClient, thread_id: str, params: dict[str, Any], last_id: str | None, status: int
) -> None:
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    answer = await http.get(f"/threads/{thread_id}/stream", params=params, headers=headers)
    assert answer.status_code == status
    assert isinstance(answer.json()["detail"], str)


@pytest.mark.api("GET /threads/{thread_id}/stream", "200 forgets clients that leave")
async def test_clients_that_leave_are_forgotten(
    sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str, app_server: AppServer
) -> None:
    _, gate = await run_at_gate(sdk, http, thread_id)
    hub = app_server.app.state.services.engine.runtime.thread_hub
    async with http.stream("GET", f"/threads/{thread_id}/stream"):
        await http.get("/ok")
        assert hub.has_followers(thread_id)
    async with asyncio.timeout(BOUND_S):
        while hub.has_followers(thread_id):
            await http.get("/ok")
    await http.post(f"/gates/{gate}/open")
