"""Make the records that tests store."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from toolweave.runtime.models import Cron, NewRun, Outcome
from toolweave.runtime.persistence.data_folder import Persistence

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


async def store_cron(persistence: Persistence, **fields: Any) -> Cron:
    """Store a cron of the only assistant."""
    (assistant,) = await persistence.assistants.search()
    described: dict[str, Any] = {
        "cron_id": str(uuid4()),
        "assistant_id": assistant.assistant_id,
        "thread_id": None,
        "user_id": "",
        "schedule": "0 * * * *",
        "timezone": None,
        "end_time": None,
        "payload": {},
        "metadata": {},
        "on_run_completed": "delete",
        "enabled": True,
        "next_run_at": MOMENT,
        "created_at": MOMENT,
        "updated_at": MOMENT,
    }
    return await persistence.crons.create(Cron(**{**described, **fields}))
