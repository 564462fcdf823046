"""Our checkpointer and LangGraph's own give the same answers, whatever was saved."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from toolweave.runtime.persistence.data_folder import open_persistence
from toolweave.runtime.persistence.sqlite_checkpointer import SqliteRunSaver

THREADS = ("t", "u\u00e9", "a'b")
NAMESPACES = ("", "child:1", "child:1|grandchild:2")
CHANNELS = ("log", "__error__", "__interrupt__", "__resume__", "__scheduled__", "branch:to:x")
VALUES = (None, 1, "text", ["list", {"deep": (1, 2)}], b"bytes", "\u0000")


def config_of(random: Random, checkpoint_ids: list[str]) -> dict[str, Any]:
    where = {"thread_id": random.choice(THREADS), "checkpoint_ns": random.choice(NAMESPACES)}
    if checkpoint_ids and random.random() < 0.7:
        where["checkpoint_id"] = random.choice(checkpoint_ids)
    if random.random() < 0.5:
        where["run_id"] = random.choice(("run-1", "run-2"))
    return {"configurable": where, "metadata": {"who": "me", "nul": "a\u0000b", "list": [1]}}


async def apply(saver: AsyncSqliteSaver, action: str, seed: int, checkpoint_ids: list[str]) -> Any:
    """Do one thing, the same for the same seed; a new checkpoint's id joins the list."""
    random = Random(seed)
    config: Any = config_of(random, checkpoint_ids)
    if action == "put":
        checkpoint = {**empty_checkpoint(), "id": f"{random.randrange(10**6):06}", "ts": "2026-11-21T12:00:00+00:00"}
        checkpoint["channel_values"] = {"log": random.choice(VALUES)}
        checkpoint_ids.append(str(checkpoint["id"]))
        return await saver.aput(config, checkpoint, {"source": "loop", "step": seed, "parents": {}}, {})  # type: ignore[arg-type]
    if action == "put_writes":
        config["configurable"].setdefault("checkpoint_id", "000000")
        channels = random.sample(CHANNELS, random.randint(1, 3))
        if random.random() < 0.5:
            channels = [channel for channel in channels if channel.startswith("__")] or ["__interrupt__"]
        writes = [(channel, random.choice(VALUES)) for channel in channels]
        path = random.choice(("", "~__pregel_pull, a", "~__pregel_push, 1"))
        return await saver.aput_writes(config, writes, random.choice(("task-1", "task-2")), path)
    if action == "delete":
        return await saver.adelete_thread(config["configurable"]["thread_id"])
    return await saver.aget_tuple(config)


async def everything(saver: AsyncSqliteSaver) -> list[CheckpointTuple]:
    return [found async for found in saver.alist(None)]


@asynccontextmanager
async def twins() -> AsyncIterator[tuple[AsyncSqliteSaver, AsyncSqliteSaver]]:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            open_persistence(Path(folder)) as persistence,
            AsyncSqliteSaver.from_conn_string(f"{folder}/langgraphs.db") as langgraphs,
        ):
            await langgraphs.setup()
            assert isinstance(persistence.checkpointer, SqliteRunSaver)
            yield persistence.checkpointer, langgraphs


actions = st.sampled_from(("put", "put", "put_writes", "put_writes", "put_writes", "get", "get", "delete"))


@pytest.mark.requirement("S-05")
@given(script=st.lists(st.tuples(actions, st.integers(0, 2**16)), min_size=30, max_size=30))
@settings(max_examples=12, phases=[Phase.explicit, Phase.generate])
async def test_both_savers_give_the_same_answers(script: list[tuple[str, int]]) -> None:
    async with twins() as (ours, langgraphs):
        our_ids: list[str] = []
        their_ids: list[str] = []
        for action, seed in script:
            assert await apply(ours, action, seed, our_ids) == await apply(langgraphs, action, seed, their_ids)
        assert await everything(ours) == await everything(langgraphs)
