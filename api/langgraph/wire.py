"""Give assistants, threads and runs their JSON form (langgraph_api.md section 4)."""

from datetime import datetime

from toolweave.runtime.models import Assistant, AssistantVersion, Cron, JsonObject, Thread, run_json, timestamp

__all__ = ["assistant_json", "assistant_version_json", "cron_json", "run_json", "thread_json", "timestamp"]


def assistant_json(assistant: Assistant) -> JsonObject:
    """Give an assistant's JSON form."""
    return {
        "assistant_id": assistant.assistant_id,
        "graph_id": assistant.graph_id,
        "config": assistant.config,
        "context": assistant.context,
        "metadata": assistant.metadata,
        "name": assistant.name,
        "created_at": timestamp(assistant.created_at),
        "updated_at": timestamp(assistant.updated_at),
        "version": assistant.version,
        "description": assistant.description,
    }


def assistant_version_json(version: AssistantVersion) -> JsonObject:
    """Give the JSON form of one version of an assistant."""
    return {
        "assistant_id": version.assistant_id,
        "version": version.version,
        "graph_id": version.graph_id,
        "config": version.config,
        "context": version.context,
        "metadata": version.metadata,
        "created_at": timestamp(version.created_at),
        "name": version.name,
        "description": version.description,
    }


def cron_json(cron: Cron) -> JsonObject:
    """Give a cron's JSON form."""
    return {
        "cron_id": cron.cron_id,
        "assistant_id": cron.assistant_id,
        "thread_id": cron.thread_id,
        "user_id": cron.user_id,
        "end_time": _whole(cron.end_time),
        "schedule": cron.schedule,
        "timezone": cron.timezone,
        "payload": cron.payload,
        "next_run_date": _whole(cron.next_run_at),
        "metadata": cron.metadata,
        "on_run_completed": cron.on_run_completed,
        "enabled": cron.enabled,
        "created_at": timestamp(cron.created_at),
        "updated_at": timestamp(cron.updated_at),
    }


def _whole(moment: datetime | None) -> str | None:
    """Write a moment that schedules and people name: without the microseconds it does not have."""
    return None if moment is None else moment.isoformat()


def thread_json(thread: Thread) -> JsonObject:
    """Give a thread's JSON form; `error` and `interrupts` appear with the end of its first run."""
    shown: JsonObject = {
        "thread_id": thread.thread_id,
        "created_at": timestamp(thread.created_at),
        "updated_at": timestamp(thread.updated_at),
        "state_updated_at": timestamp(thread.state_updated_at),
        "metadata": thread.metadata,
        "status": thread.status,
        "config": thread.config,
        "values": thread.values,
    }
    if thread.interrupts is not None:
        shown["error"] = thread.error
        shown["interrupts"] = thread.interrupts
    return shown
