"""Checkpoints whose thread a crash has taken go at the next start, and no others (S-05)."""

import asyncio
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from toolweave.runtime.persistence.opening import Persistence
from toolweave.runtime.persistence.orphans import sweep_orphans, sweeping_orphans

BOUND_S = 20.0


async def leave_checkpoint(persistence: Persistence, thread_id: str) -> None:
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    written = await persistence.checkpointer.aput(config, empty_checkpoint(), {}, {})
    await persistence.checkpointer.aput_writes(written, [("log", "x")], "task")


async def threads_left(persistence: Persistence) -> list[str]:
    query = "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes ORDER BY thread_id"
    return [row[0] for row in await persistence.checkpointer.conn.execute_fetchall(query)]


@pytest.mark.requirement("S-05")
async def test_only_checkpoints_without_a_thread_go(persistence: Persistence) -> None:
    for number in range(7):
        await leave_checkpoint(persistence, f"thread {number}")
    for number in (1, 4, 6):
        await persistence.threads.create(f"thread {number}")
    assert await sweep_orphans(persistence, batch=2) == 4
    assert await threads_left(persistence) == ["thread 1", "thread 4", "thread 6"]
    assert await sweep_orphans(persistence) == 0


async def test_what_a_thread_of_the_same_id_writes_meanwhile_stays(persistence: Persistence) -> None:
    await leave_checkpoint(persistence, "t")
    found = await persistence.checkpointer.threads_after("", 10)
    await leave_checkpoint(persistence, "t")

    await persistence.checkpointer.delete_up_to(found)

    assert await threads_left(persistence) == ["t"]
    newest = await persistence.checkpointer.newest("t")
    assert newest[""] > found["t"]


async def test_the_sweep_runs_beside_the_server(persistence: Persistence) -> None:
    await leave_checkpoint(persistence, "t")
    async with asyncio.timeout(BOUND_S), sweeping_orphans(persistence):
        while await threads_left(persistence):
            pass
