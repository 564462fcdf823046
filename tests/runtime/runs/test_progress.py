"""A run that publishes progress is a job: its metadata have the progress and, if it has failed, the error (A-05)."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from tests.fixtures.graphs import Gate
from tests.runtime.runs.conftest import Bench, open_bench, progress_event
from toolweave.runtime.codec import loads
from toolweave.runtime.models import NewRun, Run
from toolweave.runtime.runs.progress import MAX_ERROR_CHARS

BOUND_S = 60.0


class JobState(TypedDict, total=False):
    n: int
    seen: Any
    text: str


async def publish_half(state: JobState) -> JobState:
    write = get_stream_writer()
    write({"step": "unrelated"})
    write(progress_event(50, "Half way"))
    return {}


def publish_all(state: JobState) -> JobState:
    # On a thread of its own, and the last thing that the run does.
    get_stream_writer()(progress_event(100, "Done"))
    return {}


async def fail(state: JobState) -> JobState:
    raise ValueError(state.get("text", "boom"))


async def show_metadata(state: JobState, config: RunnableConfig) -> JobState:
    return {"seen": config["metadata"].get("progress")}


def chain(*nodes: Any) -> StateGraph[JobState]:
    graph = StateGraph(JobState)
    before = START
    for node in nodes:
        name = getattr(node, "__name__", "inner")
        graph.add_node(name, node).add_edge(before, name)
        before = name
    return graph


def wait_at(gate: Gate) -> Any:
    async def wait(state: JobState) -> JobState:
        await gate.pass_through()
        return {}

    return wait


def job_graphs(gate: Gate) -> dict[str, object]:
    inner = chain(publish_half, publish_all)
    return {
        "job": chain(publish_half, publish_all).compile(),
        "outer": chain(show_metadata, inner.compile()).compile(),
        "outermost": chain(show_metadata, chain(inner.compile()).compile()).compile(),
        "waiting": chain(publish_half, wait_at(gate), show_metadata).compile(),
        "failing_job": chain(publish_half, publish_all, fail).compile(),
        "failing": chain(fail).compile(),
        "silent": chain(show_metadata).compile(),
    }


@pytest.fixture(scope="module")
async def jobs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path_factory.mktemp("data"), {}, more=job_graphs(Gate())) as bench:
        yield bench


async def ended(bench: Bench, new: NewRun) -> Run:
    """Start a run and give it as it is stored at its end."""
    started = await bench.engine.start_run(new)
    await bench.engine.wait_for_run(started.run)
    return await bench.persistence.runs.get(new.thread_id, new.run_id)


@asynccontextmanager
async def open_job_at_gate(folder: Path, **fields: Any) -> AsyncIterator[tuple[Bench, Run, Gate]]:
    """Open an engine with a run that has published 50 % and waits at a gate."""
    gate = Gate()
    async with open_bench(folder, {}, more=job_graphs(gate)) as bench:
        run = (await bench.engine.start_run(bench.run("waiting", **fields))).run
        await wait_for_percent(bench, run, 50.0)
        await asyncio.wait_for(gate.reached.wait(), BOUND_S)
        yield bench, run, gate


async def wait_for_percent(bench: Bench, run: NewRun | Run, percent: float) -> Run:
    async with asyncio.timeout(BOUND_S):
        while (current := await bench.persistence.runs.get(run.thread_id, run.run_id)).metadata.get("progress", {}).get(
            "percent"
        ) != percent:
            pass
    return current


DONE = {"percent": 100.0, "message": "Done"}
MODES: list[Any] = [["values"], ["custom", "updates"], ["events"], ["messages-tuple"], ["lifecycle", "values"]]


@pytest.mark.parametrize("modes", MODES, ids=lambda modes: modes[0])
@pytest.mark.parametrize("graph_id", ["job", "outer", "outermost"])
async def test_the_last_published_progress_is_in_the_metadata_in_each_stream_mode(
    jobs: Bench, graph_id: str, modes: list[str]
) -> None:
    metadata = {"huge": 10**30, "half": "\ud83d", "job": {"id": 7}}
    run = await ended(jobs, jobs.run(graph_id, stream_mode=modes, metadata=metadata))
    assert run.status == "success"
    assert run.metadata == {"graph_id": graph_id, **metadata, "progress": DONE}


@pytest.mark.requirement("A-04")
async def test_a_running_run_shows_its_progress(tmp_path: Path) -> None:
    async with open_job_at_gate(tmp_path) as (bench, run, gate):
        running = await bench.persistence.runs.get(run.thread_id, run.run_id)
        assert (running.status, running.metadata["progress"]["message"]) == ("running", "Half way")
        assert [found.metadata for found in await bench.persistence.runs.list(run.thread_id)] == [running.metadata]
        gate.opened.set()
        await bench.engine.wait_for_run(run)
        assert (await wait_for_percent(bench, run, 50.0)).status == "success"


async def test_a_graph_that_publishes_no_progress_does_not_change_its_metadata(jobs: Bench) -> None:
    assert (await ended(jobs, jobs.run("silent", metadata={"progress": "mine"}))).metadata == {
        "graph_id": "silent",
        "progress": "mine",
    }


@pytest.mark.parametrize(
    ("modes", "subgraphs", "count"),
    [(["values"], True, 0), (["custom"], False, 0), (["custom"], True, 3), (["custom", "values"], True, 3)],
)
async def test_only_clients_that_requested_custom_events_get_them(
    jobs: Bench, modes: list[str], subgraphs: bool, count: int
) -> None:
    events = await jobs.events(jobs.run("outer", stream_mode=modes, subgraphs=subgraphs))
    published = [loads(event.data) for event in events if event.event.startswith("custom")]
    assert published == [{"step": "unrelated"}, progress_event(50, "Half way"), progress_event(100, "Done")][:count]


@pytest.mark.requirement("A-05")
@pytest.mark.parametrize(
    ("graph_id", "message", "added"),
    [
        ("failing_job", "The page is empty.", {"progress": DONE, "error": "The page is empty."}),
        ("failing_job", "x" * 100_000, {"progress": DONE, "error": "x" * (MAX_ERROR_CHARS - 1) + "…"}),
        ("failing", "boom", {}),
    ],
    ids=["with-progress", "with-a-long-error", "without-progress"],
)
async def test_a_failed_run_has_its_error_in_its_metadata_if_it_has_progress(
    jobs: Bench, graph_id: str, message: str, added: dict[str, Any]
) -> None:
    run = await ended(jobs, jobs.run(graph_id, input={"text": message}, metadata={"mine": 1}))
    thread = await jobs.persistence.threads.get(run.thread_id)
    assert (run.status, run.metadata) == ("error", {"graph_id": graph_id, "mine": 1, **added})
    assert thread.error == {"error": "ValueError", "message": message}
    assert "error" not in thread.metadata


async def test_a_cancelled_run_has_its_progress_and_no_error(tmp_path: Path) -> None:
    async with open_job_at_gate(tmp_path) as (bench, started, _):
        await bench.engine.cancel_run(started.thread_id, started.run_id, "interrupt", wait=True)
        run = await bench.persistence.runs.get(started.thread_id, started.run_id)
    assert run.status == "interrupted"
    assert run.metadata == {"graph_id": "waiting", "progress": {"percent": 50.0, "message": "Half way"}}


async def test_a_second_attempt_starts_with_the_progress_of_the_first_which_its_config_does_not_show(
    tmp_path: Path,
) -> None:
    async with open_job_at_gate(tmp_path, metadata={"mine": 1}) as (_, run, _):
        pass
    after = Gate()
    after.opened.set()
    async with open_bench(tmp_path, {}, more=job_graphs(after)) as bench:
        run = await bench.persistence.runs.get(run.thread_id, run.run_id)
        assert loads(await bench.engine.wait_for_run(run))["seen"] is None
        run = await bench.persistence.runs.get(run.thread_id, run.run_id)
    assert run.attempt == 2
    assert run.metadata["progress"] == {"percent": 50.0, "message": "Half way"}


async def test_only_the_attempt_that_executes_a_run_changes_its_metadata(tmp_path: Path) -> None:
    async with open_job_at_gate(tmp_path) as (bench, run, gate):
        runs = bench.persistence.runs
        assert not await runs.merge_metadata(run.run_id, 2, {"progress": "of another attempt"})
        assert await runs.merge_metadata(run.run_id, 1, {"more": 1})
        gate.opened.set()
        await bench.engine.wait_for_run(run)
        assert not await runs.merge_metadata(run.run_id, 1, {"progress": "too late"})
        metadata = (await runs.get(run.thread_id, run.run_id)).metadata
    assert (metadata["progress"]["percent"], metadata["more"]) == (50.0, 1)


async def test_a_database_that_another_process_has_locked_holds_up_no_run(tmp_path: Path) -> None:
    before, after = Gate(), Gate()
    nodes = [("before", wait_at(before)), ("publish", publish_half), ("after", wait_at(after))]
    locked = StateGraph(JobState).add_sequence(nodes).add_edge(START, "before").compile()
    async with open_bench(tmp_path, {}, more={"locked": locked}) as bench:
        new = bench.run("locked")
        started = await bench.engine.start_run(new)
        await asyncio.wait_for(before.reached.wait(), BOUND_S)
        with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            before.opened.set()
            await asyncio.wait_for(after.reached.wait(), BOUND_S)
            assert "progress" not in (await bench.persistence.runs.get(new.thread_id, new.run_id)).metadata
        await wait_for_percent(bench, new, 50.0)
        after.opened.set()
        await bench.engine.wait_for_run(started.run)


async def test_no_event_fails_its_run(tmp_path: Path) -> None:
    async def publish(state: JobState) -> JobState:
        odd: list[Any] = [float("nan"), 10**400, [], 12]
        for percent in odd:
            get_stream_writer()(progress_event(percent, "\x00\ud800"))
        return {}

    async with open_bench(tmp_path, {}, more={"odd": chain(publish).compile()}) as bench:
        run = await ended(bench, bench.run("odd"))
    assert (run.status, run.metadata["progress"]["percent"]) == ("success", 12.0)


async def test_a_second_attempt_that_fails_has_its_error_beside_the_progress_of_the_first(tmp_path: Path) -> None:
    async def wait(state: JobState) -> JobState:
        raise ValueError("boom")

    async with open_job_at_gate(tmp_path) as (_, run, _):
        pass
    async with open_bench(tmp_path, {}, more={"waiting": chain(publish_half, wait).compile()}) as bench:
        run = await bench.persistence.runs.get(run.thread_id, run.run_id)
        await bench.engine.wait_for_run(run)
        run = await bench.persistence.runs.get(run.thread_id, run.run_id)
    assert (run.attempt, run.status, run.metadata["error"]) == (2, "error", "boom")


async def test_a_webhook_carries_the_progress_in_its_metadata_and_the_error_beside_it(jobs: Bench) -> None:
    run = await ended(jobs, jobs.run("failing_job", webhook="https://hook.example"))
    body = "SELECT body FROM webhook_deliveries WHERE run_id = ?"
    read = jobs.persistence.app.read
    sent = loads(await read(lambda connection: connection.exec_driver_sql(body, (run.run_id,)).scalar_one()))
    assert sent["metadata"] == {"graph_id": "failing_job", "progress": DONE}
    assert run.metadata == {**sent["metadata"], "error": "boom"}
    assert sent["error"]["message"] == "boom"
