"""Give a run the JSON form that clients and webhooks see (langgraph_api.md section 4)."""

from datetime import datetime

from toolweave.runtime.models import CancelAction, JsonObject, Run

CANCELLED = "The run was cancelled."
# Where a failed job's metadata hold the text of its failure.
JOB_ERROR = "error"


def timestamp(moment: datetime) -> str:
    """Write a UTC moment as ISO-8601, always with microseconds and `+00:00`."""
    return moment.isoformat(timespec="microseconds")


def cancellation(action: CancelAction, why: str | None) -> JsonObject:
    """Describe a cancellation as the official server does in a thread's error and in webhooks."""
    return {"error": "UserRollback" if action == "rollback" else "UserInterrupt", "message": why or CANCELLED}


def run_json(run: Run) -> JsonObject:
    """Give a run's JSON form."""
    return {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "assistant_id": run.assistant_id,
        "metadata": run.metadata,
        "status": run.status,
        "kwargs": run.kwargs,
        "multitask_strategy": run.multitask_strategy,
        "created_at": timestamp(run.created_at),
        "updated_at": timestamp(run.updated_at),
        "langsmith_session_name": None,
    }
