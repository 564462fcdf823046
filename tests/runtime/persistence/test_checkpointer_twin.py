"""Our checkpointers and LangGraph's own give the same answers, whatever was saved."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from tests.runtime.persistence.checkpoints import postgres_saver
from toolweave.runtime.persistence.checkpoints.sqlite_saver import SqliteRunSaver
from toolweave.runtime.persistence.data_folder import open_persistence

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


async def apply(saver: BaseCheckpointSaver[str], action: str, seed: int, checkpoint_ids: list[str]) -> Any:
    """Do one thing, the same for the same seed; a new checkpoint's id is added to the list."""
    random = Random(seed)
    config: Any = config_of(random, checkpoint_ids)
    if action == "put":
        checkpoint = {**empty_checkpoint(), "id": f"{random.randrange(10**6):06}", "ts": "2026-11-21T12:00:00+00:00"}
        checkpoint["channel_values"] = {"log": random.choice(VALUES)}
        checkpoint["channel_versions"] = {"log": str(seed)}
        checkpoint_ids.append(str(checkpoint["id"]))
        return await saver.aput(config, checkpoint, {"source": "loop", "step": seed, "parents": {}}, {"log": str(seed)})  # type: ignore[arg-type]
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


async def everything(saver: BaseCheckpointSaver[str]) -> list[CheckpointTuple]:
    return [found async for found in saver.alist(None)]


def key_of(found: CheckpointTuple) -> str:
    return "|".join(str(found.config["configurable"][name]) for name in ("thread_id", "checkpoint_ns", "checkpoint_id"))


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


@pytest.mark.slow
@pytest.mark.requirement("S-05")
@given(script=st.lists(st.tuples(actions, st.integers(0, 2**16)), min_size=30, max_size=30))
@settings(max_examples=25, phases=[Phase.explicit, Phase.generate])
async def test_both_databases_give_the_same_answers(emptied_url: str, script: list[tuple[str, int]]) -> None:
    async with twins() as (on_files, _), postgres_saver(emptied_url) as on_server:
        ids: tuple[list[str], list[str]] = [], []
        for action, seed in script:
            answers = await apply(on_files, action, seed, ids[0]), await apply(on_server, action, seed, ids[1])
            # LangGraph's savers differ in what they repeat of the config that they were given.
            first, second = (answer._replace(config={}) if action == "get" and answer else answer for answer in answers)
            assert first == second
        stored = [sorted(await everything(saver), key=key_of) for saver in (on_files, on_server)]
        assert stored[0] == stored[1]
