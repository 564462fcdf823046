"""Write what a webhook says of a run that has ended (langgraph_api.md 5.11)."""

from dataclasses import replace
from datetime import datetime

from toolweave.runtime.models import JsonObject, Outcome, Run
from toolweave.runtime.run_record import JOB_ERROR, run_json, timestamp
from toolweave.runtime.streaming.codec import dumps


def webhook_url(run: Run) -> str | None:
    """Give the URL that wants to hear of the run's end."""
    url = run.kwargs.get("webhook")
    return url if isinstance(url, str) and url else None


def webhook_payload(run: Run, outcome: Outcome, ended_at: datetime) -> bytes:
    """Give the JSON object without the time of sending; `run` is as its execution began, `updated_at` its start.

    A run whose thread goes with it has no values, and neither has one that was rolled back: its status is then
    `rollback`.
    """
    # The payload's own `error` says why the run failed, as the official server's does.
    told = {name: item for name, item in outcome.run_metadata.items() if name != JOB_ERROR}
    metadata = {**run.metadata, **told}
    shown = run_json(
        replace(run, status=outcome.status, metadata=metadata, updated_at=ended_at, kwargs=_shown_kwargs(run))
    )
    if outcome.rolled_back:
        shown["status"] = "rollback"
    shown["run_started_at"] = timestamp(run.updated_at)
    shown["run_ended_at"] = timestamp(ended_at)
    gone = outcome.rolled_back or bool(run.kwargs.get("temporary"))
    values = b"null" if gone or outcome.values_json is None else outcome.values_json
    error = outcome.error
    tail = b"" if error is None else b',"error":' + dumps(error)
    return dumps(shown)[:-1] + b',"values":' + values + tail + b"}"


def sent(payload: bytes, moment: datetime) -> bytes:
    """Add the time of sending to a payload."""
    return b'%b,"webhook_sent_at":"%b"}' % (payload[:-1], timestamp(moment).encode())


def _shown_kwargs(run: Run) -> JsonObject:
    """Add what the reference server's webhooks show beyond the run itself, so that payloads compare as equal."""
    config: JsonObject = run.kwargs.get("config") or {}
    configurable = {**(config.get("configurable") or {}), "__pregel_node_finished": None}
    return {**run.kwargs, "config": {**config, "configurable": configurable}}
