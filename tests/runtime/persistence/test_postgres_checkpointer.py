"""PostgreSQL refuses checkpoints of a run's earlier attempt, whichever process writes them and whenever (R-01)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint

from tests.fixtures.postgres import PostgresServer
from tests.runtime.persistence.checkpoints import fetch, postgres_pool, postgres_saver, restarted
from toolweave.errors import ClaimLost
from toolweave.runtime.persistence.checkpoints.postgres_saver import PostgresRunSaver
from toolweave.runtime.persistence.checkpoints.saver import CLAIM_KEY
from toolweave.runtime.persistence.threads import ThreadClaim

START_RUN = """
WITH thread AS (
    INSERT INTO threads (thread_id, status, settled, metadata, config, created_at, updated_at, state_updated_at)
    VALUES ('t', 'busy', 'idle', '{}', '{}', 0, 0, 0)
)
INSERT INTO runs (run_id, thread_id, assistant_id, graph_id, status, metadata, kwargs, multitask_strategy, temporary,
    attempt, created_at, updated_at)
VALUES ('run', 't', 'a', 'g', 'running', '{}', '{}', 'enqueue', 0, 1, 0, 0)
"""
NEXT_ATTEMPT = "UPDATE runs SET attempt = attempt + 1 WHERE run_id = 'run'"
CLAIM_THREAD = "UPDATE threads SET claim = 'delete:now' WHERE thread_id = 't'"
WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%fence%'"
COPYING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INTO checkpoint_blobs%'"
Write = Callable[[PostgresRunSaver, int], Awaitable[object]]


@pytest.fixture
async def saver(emptied_url: str) -> AsyncIterator[PostgresRunSaver]:
    """A checkpointer on a server where the first attempt of a run executes."""
    async with postgres_saver(emptied_url) as opened:
        await fetch(opened, START_RUN)
        yield opened


def config_of(attempt: int) -> RunnableConfig:
    return {"configurable": {"thread_id": "t", "checkpoint_ns": "", CLAIM_KEY: ThreadClaim("t", f"run:{attempt}")}}


async def put(saver: PostgresRunSaver, attempt: int, value: object = "value", **metadata: object) -> RunnableConfig:
    checkpoint = {**empty_checkpoint(), "channel_values": {"log": value}, "channel_versions": {"log": "1"}}
    described: Any = {"source": "loop", "step": 1, "parents": {}, **metadata}
    return await saver.aput(config_of(attempt), checkpoint, described, {"log": "1"})  # type: ignore[arg-type]


async def put_writes(saver: PostgresRunSaver, attempt: int) -> None:
    config = config_of(attempt)
    config["configurable"]["checkpoint_id"] = "1"
    await saver.aput_writes(config, [("log", ["value"])], "task")


async def stored(saver: PostgresRunSaver) -> list[int]:
    tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
    return [(await fetch(saver, f"SELECT COUNT(*) FROM {table}"))[0][0] for table in tables]  # noqa: S608


@pytest.mark.requirement("R-01")
@pytest.mark.parametrize("write", [put, put_writes])
async def test_an_earlier_attempt_of_a_run_writes_nothing(saver: PostgresRunSaver, write: Write) -> None:
    await write(saver, 1)
    before = await stored(saver)
    await fetch(saver, NEXT_ATTEMPT)

    with pytest.raises(ClaimLost, match="Nothing was written"):
        await write(saver, 1)

    assert await stored(saver) == before
    await write(saver, 2)


@pytest.mark.requirement("R-01")
@pytest.mark.parametrize("change", [NEXT_ATTEMPT, CLAIM_THREAD])
@pytest.mark.parametrize("write", [put, put_writes])
async def test_a_write_that_races_with_the_loss_of_its_claim_writes_nothing(
    saver: PostgresRunSaver, postgres: PostgresServer, emptied_url: str, write: Write, change: str
) -> None:
    with postgres.connect(emptied_url) as other:
        other.execute("BEGIN")
        other.execute(change.encode())
        late = asyncio.ensure_future(write(saver, 1))
        await asyncio.to_thread(postgres.wait_for, WAITING)
        other.execute("COMMIT")

    with pytest.raises(ClaimLost):
        await late
    assert await stored(saver) == [0, 0, 0]


@pytest.mark.parametrize("table", ["runs", "threads"])
async def test_a_write_waits_for_a_change_that_leaves_its_claim(
    saver: PostgresRunSaver, postgres: PostgresServer, emptied_url: str, table: str
) -> None:
    with postgres.connect(emptied_url) as other:
        other.execute("BEGIN")
        other.execute(f"UPDATE {table} SET updated_at = updated_at + 1".encode())  # noqa: S608 - a test's own words
        waiting = asyncio.ensure_future(put(saver, 1))
        await asyncio.to_thread(postgres.wait_for, WAITING)
        other.execute("COMMIT")

    await waiting
    assert await stored(saver) == [1, 0, 0]


@pytest.mark.requirement("R-01")
async def test_deletions_under_a_lost_claim_delete_nothing(saver: PostgresRunSaver) -> None:
    written = await put(saver, 1, ["value"])
    await fetch(saver, NEXT_ATTEMPT)
    lost = ThreadClaim("t", "run:1")
    before = await stored(saver)

    for refused in (
        saver.roll_back_run(lost, "run"),
        saver.fail_task(lost, written, "task", ValueError()),
        saver.delete_checkpoint(lost, written),
        saver.adelete_thread("t", lost),
        saver.prune_older("t", lost),
        saver.acopy_thread("other", "t", lost),
        saver.require_claim(lost),
    ):
        with pytest.raises(ClaimLost):
            await refused
    assert await stored(saver) == before


@pytest.mark.requirement("R-01")
async def test_a_copy_of_a_thread_that_is_pruned_meanwhile_has_its_values(
    saver: PostgresRunSaver, postgres: PostgresServer, emptied_url: str
) -> None:
    await put(saver, 1, ["old"])
    with postgres.connect(emptied_url) as other:
        other.execute("BEGIN; LOCK TABLE checkpoint_blobs IN ACCESS EXCLUSIVE MODE")
        copying = asyncio.ensure_future(saver.acopy_thread("t", "copy"))
        await asyncio.to_thread(postgres.wait_for, COPYING)
        # What another process does that prunes the thread after the next update.
        other.execute(
            "UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{channel_versions,log}', '\"2\"')"
            " WHERE thread_id = 't'"
        )
        other.execute("UPDATE checkpoint_blobs SET version = '2'; COMMIT")
    await copying

    found = await saver.aget_tuple({"configurable": {"thread_id": "copy", "checkpoint_ns": ""}})
    assert found is not None
    assert found.checkpoint["channel_values"] == {"log": ["old"]}


async def test_a_thread_with_a_running_run_refuses_writes_without_its_claim(saver: PostgresRunSaver) -> None:
    config = config_of(1)
    del config["configurable"][CLAIM_KEY]

    with pytest.raises(ClaimLost):
        await saver.aput(config, empty_checkpoint(), {}, {})
    assert await stored(saver) == [0, 0, 0]


async def test_a_run_that_another_process_continues_backs_up_earlier_writes_once(saver: PostgresRunSaver) -> None:
    written = await put(saver, 1)
    at: Any = {"configurable": {**config_of(1)["configurable"], **written["configurable"]}}
    await saver.aput_writes(at, [("__interrupt__", "may I?")], "asked")
    second: Any = {"configurable": {**at["configurable"], "run_id": "second"}}
    for process in (saver, restarted(saver)):
        await process.aget_tuple(second)
        await asyncio.gather(
            *(process.aput_writes(second, [("log", [task])], task) for task in ("one", "two", "three", "asked"))
        )

    kept = await fetch(saver, "SELECT run_id, task_id FROM kept_writes ORDER BY task_id")
    assert kept == [("second", "asked"), ("second", None)]
    await saver.roll_back_run(ThreadClaim("t", "run:1"), "second")
    found = await saver.aget_tuple(written)
    assert found is not None
    assert found.pending_writes == [("asked", "__interrupt__", "may I?")]


@pytest.mark.parametrize("value", ["a\u0000b", ["\u0000"], "line\nline", "\ud800", 1e16, float("inf"), True, None, 7])
async def test_values_that_json_cannot_hold_are_stored(saver: PostgresRunSaver, value: object) -> None:
    written = await put(saver, 1, value, tags=["a\u0000b", "\ud800c", "\\u0000"])

    found = await saver.aget_tuple(written)

    assert found is not None
    log = found.checkpoint["channel_values"]["log"]
    assert (log, type(log)) == ("?" if value == "\ud800" else value, type(value))
    assert found.metadata["tags"] == ["ab", "c", "\\u0000"]  # type: ignore[typeddict-item]


@pytest.mark.parametrize("checkpoint_id", ["\u0000", "\ud800", "unknown"])
async def test_a_checkpoint_id_that_no_checkpoint_has_finds_none(saver: PostgresRunSaver, checkpoint_id: str) -> None:
    await put(saver, 1)
    assert await saver.aget_tuple({"configurable": {"thread_id": "t", "checkpoint_id": checkpoint_id}}) is None


async def test_storage_counts_each_version_of_a_value_once(saver: PostgresRunSaver) -> None:
    await put(saver, 1, ["value"])
    await put(saver, 1, ["value"])
    await put_writes(saver, 1)

    size = await saver.measure_storage("t")

    assert (size.checkpoints, size.writes, size.channel_versions["log"]) == (2, 1, {("", "1")})
    assert 0 < size.channel_bytes["log"] == size.write_bytes < size.checkpoint_bytes
    assert await saver.thread_ids() == {"t"}


async def test_several_processes_create_the_tables_at_the_same_time(postgres: PostgresServer) -> None:
    with postgres.fresh_database() as url:
        async with AsyncExitStack() as stack:
            pools = [await stack.enter_async_context(postgres_pool(url)) for _ in range(4)]
            await asyncio.gather(*(PostgresRunSaver(pool).setup() for pool in pools))
            assert await PostgresRunSaver(pools[0]).thread_ids() == set()
