"""Open a real runtime, SQLite files included, around graphs that tests steer."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.fixtures import graphs
from tests.fixtures.graphs import Gate
from toolweave.runtime.codec import loads
from toolweave.runtime.events.log import EventLog, ThreadLog
from toolweave.runtime.events.run_publisher import Publishers
from toolweave.runtime.graphs import GraphRegistry
from toolweave.runtime.models import NewRun, Run, StreamEvent
from toolweave.runtime.persistence.data_folder import Persistence, open_persistence
from toolweave.runtime.runs.embedded import EmbeddedEngine, open_engine
from toolweave.runtime.runs.execution import EngineRuntime

BOUND_S = 60.0


def progress_event(percent: Any, message: Any = "", **more: Any) -> dict[str, Any]:
    """Return the event by which a node publishes the progress of its run."""
    return {"type": "progress", "progress": percent, "message": message, **more}


@dataclass
class Bench:
    """An open engine, its persistence and the gates of its `gated` graphs."""

    engine: EmbeddedEngine
    persistence: Persistence
    gates: dict[str, Gate] = field(default_factory=dict)

    def run(self, graph_id: str, thread_id: str | None = None, **fields: Any) -> NewRun:
        """Describe a run of a graph; a thread is made up when none is named."""
        kwargs: dict[str, Any] = {"input": {"n": 1}, "stream_mode": ["values"], "config": {}, "temporary": False}
        own = {"multitask_strategy", "not_before", "temporary", "metadata"}
        kwargs.update({name: value for name, value in fields.items() if name not in own})
        kwargs["temporary"] = fields.get("temporary", False)
        return NewRun(
            run_id=str(uuid4()),
            thread_id=thread_id or str(uuid4()),
            assistant_id=str(uuid4()),
            graph_id=graph_id,
            metadata={"graph_id": graph_id, **fields.get("metadata", {})},
            kwargs=kwargs,
            multitask_strategy=fields.get("multitask_strategy", "enqueue"),
            if_not_exists="create",
            created_at=datetime.now(UTC),
            not_before=fields.get("not_before"),
            temporary=fields.get("temporary", False),
        )

    async def checkpoints(self, thread_id: str) -> int:
        """Count the checkpoints of a thread."""
        return (await self.persistence.checkpointer.measure_storage(thread_id)).checkpoints

    async def result(self, new: NewRun) -> Any:
        """Start a run, wait for its end and give the waiters' JSON."""
        started = await self.engine.start_run(new)
        return loads(await self.engine.wait_for_run(started.run))

    async def run_at_gate(self, gate: str = "gated", **fields: Any) -> Run:
        """Start a run of a `gated` graph and wait until its node is at the gate."""
        started = await self.engine.start_run(self.run(gate, **fields))
        await asyncio.wait_for(self.gates[gate].reached.wait(), BOUND_S)
        return started.run

    async def events(self, new: NewRun) -> list[StreamEvent]:
        """Start a run and give all its events."""
        started = await self.engine.start_run(new, listen=True)
        assert started.events is not None
        return [event async for batch in started.events.batches() for event in batch]


def ignore_cancellation(gate: Gate) -> asyncio.Event:
    """Make the node at a gate stay there when its run is cancelled; the event is set by a cancellation."""
    cancelled = asyncio.Event()

    async def stay() -> None:
        gate.reached.set()
        while not gate.opened.is_set():
            try:
                await gate.opened.wait()
            except asyncio.CancelledError:
                cancelled.set()

    gate.pass_through = stay  # type: ignore[method-assign]
    return cancelled


@asynccontextmanager
async def open_bench(
    folder: Path,
    gates: dict[str, Gate] | None = None,
    *,
    max_concurrent: int = 10,
    more: Mapping[str, object] | None = None,
) -> AsyncIterator[Bench]:
    """Open everything that a serving process opens, on a folder that may hold an earlier process's data.

    `more` are graphs of the test's own.
    """
    gates = gates if gates is not None else {name: Gate() for name in ("gated", "gated2", "gated3")}
    loaded: dict[str, object] = {
        "counter": graphs.counter().compile(),
        "asking": graphs.asking().compile(),
        "asking_twice": graphs.asking_twice().compile(),
        "failing": graphs.failing().compile(),
        "echo": graphs.echo().compile(),
        "nested": graphs.nested().compile(),
        "uncompiled": graphs.counter(),
        "factory": graphs.made_for_one_use,
        **{name: graphs.gated(gate).compile() for name, gate in gates.items()},
        **{f"asking_then_{name}": graphs.asking_then_gated(gate).compile() for name, gate in gates.items()},
        **(more or {}),
    }
    async with open_persistence(folder) as persistence:
        checkpointer, store, app = persistence.checkpointer, persistence.store, persistence.app
        registry = GraphRegistry(loaded, dict.fromkeys(loaded), checkpointer=checkpointer, store=store)
        runtime = EngineRuntime(persistence, registry, EventLog(app), Publishers(ThreadLog(app)))
        async with open_engine(runtime, max_concurrent=max_concurrent) as engine:
            await engine.recover()
            yield Bench(engine, persistence, gates)


@pytest.fixture(scope="module")
async def shared_bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """One engine for all tests of a module; each test uses threads of its own."""
    async with open_bench(tmp_path_factory.mktemp("data")) as bench:
        yield bench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """An engine of one's own, for tests that use the gates."""
    async with open_bench(tmp_path) as bench:
        yield bench
