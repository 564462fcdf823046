"""Data of threads that a crash deleted halfway are deleted at the next start (S-05)."""

from typing import Any
from uuid import uuid4

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from tests.runtime.persistence.checkpoints import fetch
from toolweave.runtime.persistence.data_folder import Persistence
from toolweave.runtime.runs.cleanup import delete_orphans


async def leave_checkpoint(persistence: Persistence, thread_id: str) -> None:
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    written = await persistence.checkpointer.aput(config, empty_checkpoint(), {}, {})
    await persistence.checkpointer.aput_writes(written, [("log", "x")], "task")


async def threads_left(persistence: Persistence) -> list[str]:
    query = "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes ORDER BY thread_id"
    return [row[0] for row in await fetch(persistence.checkpointer, query)]


@pytest.mark.requirement("S-05")
async def test_only_checkpoints_without_a_thread_are_deleted(persistence: Persistence) -> None:
    for number in range(7):
        await leave_checkpoint(persistence, f"thread {number}")
    for number in (1, 4, 6):
        await persistence.threads.create(f"thread {number}")
    assert await delete_orphans(persistence) == 4
    assert await threads_left(persistence) == ["thread 1", "thread 4", "thread 6"]
    assert await delete_orphans(persistence) == 0


async def test_only_tool_results_without_a_thread_are_deleted(persistence: Persistence) -> None:
    ids = sorted(str(uuid4()) for _ in range(7))
    for number, thread_id in enumerate(ids):
        await persistence.store.aput(("threads", thread_id, "tool_results"), "call", {"text": "long"})
        if number in (1, 4, 6):
            await persistence.threads.create(thread_id)
    await persistence.store.aput(("threads", "an", "application's", "tool_results"), "own", {})
    assert await delete_orphans(persistence) == 4
    left = [item.namespace[1] for item in await persistence.store.asearch(("threads",))]
    assert sorted(left) == sorted([ids[1], ids[4], ids[6], "an"])
    assert await delete_orphans(persistence) == 0
