"""Whatever writes a thread's checkpoints claims the thread first: no acknowledged write is lost (R-01)."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError

from tests.api.langgraph.steering import Thread

LANGGRAPH_JSON = Path(__file__).parent / "claims_app" / "langgraph.json"
pytestmark = pytest.mark.requirement("R-01")

PAIRS = 40
WORKERS = 4


async def updated(sdk: LangGraphClient, thread_id: str, marker: str) -> bool:
    """Write a marker into the state; says whether the server acknowledged it."""
    try:
        await sdk.threads.update_state(thread_id, {"log": [marker]}, as_node="two")
    except ConflictError:
        return False
    return True


async def log_of(sdk: LangGraphClient, thread_id: str) -> list[str]:
    values: Any = (await sdk.threads.get_state(thread_id))["values"]
    return list(values.get("log", []))


def logged(*markers: str) -> Any:
    """The input of a run that logs these."""
    return {"log": list(markers)}


async def wait_for_run(sdk: LangGraphClient, thread_id: str) -> None:
    await sdk.runs.wait(thread_id, "logging", input=logged("run"))


async def join_background_run(sdk: LangGraphClient, thread_id: str) -> None:
    run = await sdk.runs.create(thread_id, "logging", input=logged("run"))
    await sdk.runs.join(thread_id, run["run_id"])


@pytest.mark.parametrize("run_once", [wait_for_run, join_background_run])
async def test_an_update_beside_a_run_is_refused_or_in_the_final_state_and_so_is_the_run(
    sdk: LangGraphClient, run_once: Callable[[LangGraphClient, str], Awaitable[None]]
) -> None:
    wrong: list[tuple[bool, list[str]]] = []
    for number in range(PAIRS):
        thread_id = (await sdk.threads.create(graph_id="logging"))["thread_id"]
        update = asyncio.ensure_future(updated(sdk, thread_id, "update")) if number % 2 else None
        running = asyncio.ensure_future(run_once(sdk, thread_id))
        written = await (update or updated(sdk, thread_id, "update"))
        await running
        log = await log_of(sdk, thread_id)
        if sorted(log) != (["run", "update"] if written else ["run"]):
            wrong.append((written, log))
    assert wrong == []


async def test_updates_at_the_same_time_are_all_in_the_final_state(sdk: LangGraphClient) -> None:
    thread_id = (await sdk.threads.create(graph_id="logging"))["thread_id"]
    markers = [f"update {number}" for number in range(20)]
    assert all(await asyncio.gather(*(updated(sdk, thread_id, marker) for marker in markers)))
    assert sorted(await log_of(sdk, thread_id)) == sorted(markers)


@pytest.mark.api("POST /threads/{thread_id}/state", "409 a run is pending, delayed ones included")
async def test_an_update_is_refused_while_a_run_is_delayed(sdk: LangGraphClient, thread: Thread) -> None:
    run = await thread.create_run("logging", input=logged(), after_seconds=3600)
    with pytest.raises(ConflictError, match=f"has in-flight runs: {run['run_id']}. Wait for them to end"):
        await thread.update_state({"log": ["update"]}, as_node="two")
    await thread.cancel(run["run_id"])
    assert await updated(sdk, thread.id, "update")
    assert await log_of(sdk, thread.id) == ["update"]


@pytest.mark.api("DELETE /threads/{thread_id}/runs/{run_id}", "409 the run has ended and another one is in flight")
async def test_an_ended_run_is_not_deleted_while_a_later_one_is_pending(sdk: LangGraphClient, thread: Thread) -> None:
    ended = await thread.create_run("logging", input=logged("ended"))
    await thread.join(ended["run_id"])
    delayed = await thread.create_run("logging", input=logged(), after_seconds=3600)
    with pytest.raises(ConflictError, match=f"has in-flight runs: {delayed['run_id']}"):
        await sdk.runs.delete(thread.id, ended["run_id"])
    await sdk.runs.delete(thread.id, delayed["run_id"])
    await sdk.runs.delete(thread.id, ended["run_id"])
    assert await log_of(sdk, thread.id) == []


class Writers:
    """Requests of all kinds that write one thread's checkpoints; what the server has acknowledged is noted."""

    def __init__(self, sdk: LangGraphClient, http: httpx.AsyncClient, thread_id: str) -> None:
        self.sdk, self.http, self.thread_id = sdk, http, thread_id
        self.acknowledged: list[str] = []
        self.runs: dict[str, str] = {}

    async def update(self, marker: str) -> None:
        """Write by hand."""
        if await updated(self.sdk, self.thread_id, marker):
            self.acknowledged.append(marker)

    async def supersteps(self, marker: str) -> None:
        """Write two super-steps by hand."""
        steps = [{"updates": [{"values": {"log": [f"{marker}{part}"]}, "as_node": "two"}]} for part in ("a", "b")]
        body = {"thread_id": self.thread_id, "if_exists": "do_nothing", "supersteps": steps}
        if (await self.http.post("/threads", json=body)).status_code == 200:
            self.acknowledged += [f"{marker}a", f"{marker}b"]

    async def run(self, marker: str, strategy: Any = "enqueue") -> None:
        """Start a run, and wait for its end."""
        run = await self.sdk.runs.create(self.thread_id, "logging", input=logged(marker), multitask_strategy=strategy)
        self.runs[run["run_id"]] = marker
        await self.http.get(f"/threads/{self.thread_id}/runs/{run['run_id']}/join")

    async def interrupting_run(self, marker: str) -> None:
        """Start a run that interrupts the others."""
        await self.run(marker, "interrupt")

    async def rolling_back_run(self, marker: str) -> None:
        """Start a run that rolls the others back."""
        await self.run(marker, "rollback")

    async def roll_back(self, _marker: str) -> None:
        """Cancel the newest run so that nothing of it stays."""
        for run_id in list(self.runs)[-1:]:
            path = f"/threads/{self.thread_id}/runs/{run_id}/cancel"
            await self.http.post(path, params={"action": "rollback", "wait": "true"})

    async def prune(self, _marker: str) -> None:
        """Delete the history."""
        await self.sdk.threads.prune([self.thread_id], strategy="keep_latest")

    async def copy(self, _marker: str) -> None:
        """Copy the thread, busy or not; what had been acknowledged is in the copy."""
        before = list(self.acknowledged)
        copied = (await self.http.post(f"/threads/{self.thread_id}/copy")).raise_for_status().json()["thread_id"]
        assert set(before) <= set(await log_of(self.sdk, copied))

    async def check(self) -> None:
        """Hold what was acknowledged against the final state."""
        log = await log_of(self.sdk, self.thread_id)
        ended: dict[str, list[str]] = {}
        for run_id, marker in self.runs.items():
            try:
                status: str = (await self.sdk.runs.get(self.thread_id, run_id))["status"]
            except NotFoundError:
                status = "rolled back"
            ended.setdefault(status, []).append(marker)
        assert ended.keys() <= {"success", "interrupted", "rolled back"}
        expected = [*self.acknowledged, *ended.get("success", [])]
        assert [marker for marker in expected if log.count(marker) != 1] == []
        assert set(log).isdisjoint(ended.get("rolled back", []))


async def interleave(sdk: LangGraphClient, http: httpx.AsyncClient, seed: int, most: int) -> None:
    """Send drawn requests to one thread, some at a time, and check the state when all have ended."""
    chance = random.Random(seed)
    writers = Writers(sdk, http, (await sdk.threads.create(graph_id="logging"))["thread_id"])
    kinds = [
        *(writers.update, writers.update, writers.supersteps, writers.run, writers.run),
        *(writers.interrupting_run, writers.rolling_back_run, writers.roll_back, writers.prune, writers.copy),
    ]
    drawn = iter([(chance.choice(kinds), f"{number}") for number in range(most)])

    async def work() -> None:
        for send, marker in drawn:
            await send(marker)

    await asyncio.gather(*(work() for _ in range(WORKERS)))
    await writers.check()


@pytest.mark.parametrize("seed", range(4))
async def test_no_interleaving_of_writers_loses_an_acknowledged_write(
    sdk: LangGraphClient, http: httpx.AsyncClient, seed: int
) -> None:
    await interleave(sdk, http, seed, most=30)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_no_interleaving_of_many_writers_loses_an_acknowledged_write(
    sdk: LangGraphClient, http: httpx.AsyncClient
) -> None:
    for _ in range(60):
        seed = random.randrange(2**32)
        try:
            await interleave(sdk, http, seed, most=60)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
