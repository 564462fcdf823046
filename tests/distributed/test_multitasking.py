"""Random operations on threads over several replicas and workers, compared with a model of the multitask strategies."""

import asyncio
import random
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError

from tests.distributed.cluster import Cluster, Step
from tests.fixtures.postgres import PostgresServer

SEED, THREADS, BOUND_S = 20261124, 10, 300.0
STEPS, PAUSE_S = 3, 0.03
OPERATIONS = {
    "enqueue": 20, "reject": 6, "interrupt": 8, "rollback": 8, "delayed": 4, "wait": 5, "stream": 5, "join": 6,
    "cancel interrupt": 6, "cancel rollback": 6, "delete run": 5, "update": 14, "delete thread": 1,
}  # fmt: skip
pytestmark = [pytest.mark.requirement("S-06"), pytest.mark.timeout(600)]


@dataclass
class Expected:
    """A created run, and how it may end: a run that was to be stopped may have succeeded before."""

    run_id: str
    name: str
    endings: set[str] = field(default_factory=lambda: {"success"})
    is_delayed: bool = False


@dataclass
class ModelledThread:
    """One thread whose operations follow each other, each at a random replica."""

    clients: list[LangGraphClient]
    dice: random.Random
    thread_id: str = ""
    runs: list[Expected] = field(default_factory=list)
    updates: dict[str, str] = field(default_factory=dict)
    follows: list["asyncio.Task[None]"] = field(default_factory=list)

    @property
    def sdk(self) -> LangGraphClient:
        return self.dice.choice(self.clients)

    async def start(self) -> None:
        self.thread_id = (await self.sdk.threads.create(graph_id="steps"))["thread_id"]
        self.runs, self.updates = [], {}

    async def operate(self) -> None:
        """Do one random operation."""
        name = self.dice.choices([*OPERATIONS], [*OPERATIONS.values()])[0]
        if name in ("enqueue", "reject", "interrupt", "rollback", "delayed", "wait", "stream"):
            await self.create(name)
        elif name == "update":
            await self.update()
        elif name == "delete thread":
            await self.sdk.threads.delete(self.thread_id)
            with pytest.raises(NotFoundError):
                await self.sdk.threads.get(self.thread_id)
            await self.start()
        elif self.runs:
            await self.stop_or_join(name, self.dice.choice(self.runs))

    async def create(self, kind: str) -> None:
        strategy: Any = kind if kind in ("reject", "interrupt", "rollback") else "enqueue"
        name = str(uuid4())
        values = {"name": name, "steps": STEPS, "pause": PAUSE_S}
        fields: Any = {"input": values, "multitask_strategy": strategy}
        if kind == "delayed":
            fields["after_seconds"] = 1
        created: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if kind in ("wait", "stream"):
            # The next operation comes when the run is created, not when it has ended.
            follow = self.wait if kind == "wait" else self.stream
            self.follows.append(asyncio.create_task(follow(fields, created)))
            run_id = await created
        else:
            try:
                run_id = (await self.sdk.runs.create(self.thread_id, "steps", **fields))["run_id"]
            except httpx.HTTPStatusError as error:
                if (strategy, error.response.status_code) != ("reject", 409):
                    raise
                return
        if strategy in ("interrupt", "rollback"):
            for earlier in self.runs:
                earlier.endings.add("interrupted" if strategy == "interrupt" else "gone")
        self.runs.append(Expected(run_id, name, is_delayed=kind == "delayed"))

    async def wait(self, fields: Any, created: "asyncio.Future[str]") -> None:
        def on_created(run: Any) -> None:
            created.set_result(run["run_id"])

        try:
            await self.sdk.runs.wait(self.thread_id, "steps", on_run_created=on_created, raise_error=False, **fields)
        except httpx.HTTPStatusError as error:
            # The run, or its thread, was deleted.
            if error.response.status_code != 404:
                raise

    async def stream(self, fields: Any, created: "asyncio.Future[str]") -> None:
        def on_created(run: Any) -> None:
            created.set_result(run["run_id"])

        async for _ in self.sdk.runs.stream(self.thread_id, "steps", on_run_created=on_created, **fields):
            pass

    async def update(self) -> None:
        name = str(uuid4())
        try:
            answer: Any = await self.sdk.threads.update_state(self.thread_id, {"log": [name]})
        except httpx.HTTPStatusError as error:
            if error.response.status_code != 409:
                raise
        else:
            self.updates[name] = answer["checkpoint"]["checkpoint_id"]

    async def stop_or_join(self, kind: str, run: Expected) -> None:
        try:
            if kind == "join":
                await self.sdk.runs.join(self.thread_id, run.run_id)
            elif kind == "delete run":
                await self.sdk.runs.delete(self.thread_id, run.run_id)
                run.endings = {"gone"}
            else:
                action: Any = kind.partition(" ")[2]
                run.endings.add("interrupted" if action == "interrupt" else "gone")
                await self.sdk.runs.cancel(self.thread_id, run.run_id, action=action, wait=self.dice.random() < 0.5)
        except httpx.HTTPStatusError as error:
            # The run has ended or is gone; the deletion of an ended run needs an idle thread.
            if error.response.status_code not in (404, 409):
                raise

    async def finish(self) -> dict[str, str]:
        """Wait for all runs; return how each ended, by id."""
        await asyncio.gather(*self.follows)
        endings: dict[str, str] = {}
        for run in self.runs:
            try:
                await self.sdk.runs.join(self.thread_id, run.run_id)
                endings[run.run_id] = (await self.sdk.runs.get(self.thread_id, run.run_id))["status"]
            except httpx.HTTPStatusError as error:
                if error.response.status_code != 404:
                    raise
                endings[run.run_id] = "gone"
        return endings

    async def check(self, steps: list[Step]) -> None:
        endings = await self.finish()
        log = (await self.sdk.threads.get_state(self.thread_id))["values"].get("log", [])  # type: ignore[union-attr]
        assert (await self.sdk.threads.get(self.thread_id))["status"] == "idle"
        for run in self.runs:
            assert endings[run.run_id] in run.endings, run
            marks = [mark for mark in log if mark.startswith(run.name)]
            if endings[run.run_id] == "success":
                assert marks == [f"{run.name}/{number}" for number in range(STEPS)]
        # Acknowledged updates are ancestors of the final state, in their order.
        assert [mark for mark in log if mark in self.updates] == [*self.updates]
        check_order(self.runs, [step for step in steps if step.thread_id == self.thread_id])


def check_order(runs: list[Expected], steps: list[Step]) -> None:
    """Check that runs do not overlap, and start in the order of their creation."""
    order = list(dict.fromkeys(step.run_id for step in steps))
    for earlier, later in pairwise(order):
        last = max(index for index, step in enumerate(steps) if step.run_id == earlier)
        first = min(index for index, step in enumerate(steps) if step.run_id == later)
        assert last < first, f"{earlier} and {later} overlap: {steps}"
    undelayed = [run.run_id for run in runs if not run.is_delayed and run.run_id in order]
    assert [run_id for run_id in order if run_id in undelayed] == undelayed


@pytest.mark.parametrize(
    ("operations", "workers"),
    [
        pytest.param(60, 1, marks=pytest.mark.slow, id="60 operations"),
        pytest.param(500, 3, marks=pytest.mark.slow, id="500 operations"),
    ],
)
async def test_threads_follow_their_multitask_strategies(
    operations: int, workers: int, postgres: PostgresServer, tmp_path: Path
) -> None:
    dice = random.Random(SEED)
    with Cluster(postgres, tmp_path, workers=workers) as cluster:
        clients = [cluster.client(0), cluster.client(1)]
        threads = [ModelledThread(clients, random.Random(dice.random())) for _ in range(THREADS)]

        async def work(thread: ModelledThread) -> None:
            await thread.start()
            for _ in range(operations // THREADS):
                await thread.operate()
            await thread.finish()

        async with asyncio.timeout(BOUND_S):
            await asyncio.gather(*(work(thread) for thread in threads))
        steps = cluster.steps()
        for thread in threads:
            await thread.check(steps)
        unfinished = "SELECT count(*) FROM runs WHERE status IN ('pending', 'running')"
        assert cluster.query(unfinished) == [(0,)]
        for client in clients:
            await client.aclose()
