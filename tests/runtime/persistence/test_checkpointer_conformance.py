"""The checkpointer passes LangGraph's own conformance suite, on real files."""

import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate

from toolweave.runtime.persistence.data_folder import open_persistence


@checkpointer_test(name="RunAwareSaver")
async def ours() -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_persistence(Path(folder)) as persistence:
            yield persistence.checkpointer


async def test_every_capability_behaves_as_langgraph_expects() -> None:
    report = await validate(ours)
    failures = [failure for result in report.results.values() for failure in result.failures or []]
    assert failures == []
    assert report.passed_all_base()
