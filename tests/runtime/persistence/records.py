"""Make the records that tests store."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from toolweave.runtime.models import NewRun, Outcome

MOMENT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SUCCESS = Outcome("success", "idle", b'{"n":1}')


def new_run(thread_id: str, **fields: Any) -> NewRun:
    """Describe a run that creates its thread."""
    described: dict[str, Any] = {
        "run_id": str(uuid4()),
        "thread_id": thread_id,
        "assistant_id": "assistant",
        "graph_id": "graph",
        "metadata": {"who": "me"},
        "kwargs": {"input": {"n": 1}},
        "multitask_strategy": "enqueue",
        "if_not_exists": "create",
        "created_at": MOMENT,
    }
    return NewRun(**{**described, **fields})
