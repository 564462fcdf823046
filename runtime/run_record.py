"""Give a run the JSON form that clients and webhooks see (langgraph_api.md section 4)."""

from datetime import datetime

from toolweave.runtime.caller import USER
from toolweave.runtime.models import CancelAction, JsonObject, Run

# What an application knows of a user beside these, such as a token, is for the run alone.
SHOWN_OF_USER = ("identity", "display_name", "is_authenticated", "permissions")
CANCELLED = "The run was cancelled."


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
        "kwargs": _shown(run.kwargs),
        "multitask_strategy": run.multitask_strategy,
        "created_at": timestamp(run.created_at),
        "updated_at": timestamp(run.updated_at),
        "langsmith_session_name": None,
    }


def _shown(kwargs: JsonObject) -> JsonObject:
    config: JsonObject = kwargs.get("config") or {}
    configurable: JsonObject = config.get("configurable") or {}
    user = configurable.get(USER)
    if not isinstance(user, dict):
        return kwargs
    known = {name: user[name] for name in SHOWN_OF_USER if name in user}
    return {**kwargs, "config": {**config, "configurable": {**configurable, USER: known}}}
