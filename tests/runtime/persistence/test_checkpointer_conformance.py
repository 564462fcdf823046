"""The checkpointer passes LangGraph's own conformance suite, on real files and on a real server."""

import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate

from tests.runtime.persistence.checkpoints import postgres_saver
from toolweave.runtime.persistence.data_folder import open_persistence


@checkpointer_test(name="SqliteRunSaver")
async def on_files() -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_persistence(Path(folder)) as persistence:
            yield persistence.checkpointer


async def test_every_capability_behaves_as_langgraph_expects() -> None:
    await require_conformance(on_files)


async def test_every_capability_behaves_so_on_postgresql(emptied_url: str) -> None:
    @checkpointer_test(name="PostgresRunSaver")
    async def on_postgres() -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
        async with postgres_saver(emptied_url) as saver:
            yield saver

    await require_conformance(on_postgres)


async def require_conformance(checkpointer: Any) -> None:
    report = await validate(checkpointer)
    failures = [failure for result in report.results.values() for failure in result.failures or []]
    assert failures == []
    assert report.passed_all_base()
