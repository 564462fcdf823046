"""Schemas of crons: what their runs are given, and when they fire."""

from toolweave.api.langgraph.schemas.fields import (
    BOOLEAN,
    NULLABLE_STRING,
    OBJECT,
    STRING,
    TIMESTAMP,
    UUID,
    Schema,
    body,
    list_of,
    one_of,
    paging,
)
from toolweave.api.langgraph.schemas.runs import RUNS

CRON_FIELDS = (
    "cron_id",
    "assistant_id",
    "thread_id",
    "on_run_completed",
    "end_time",
    "schedule",
    "timezone",
    "created_at",
    "updated_at",
    "user_id",
    "payload",
    "next_run_date",
    "metadata",
    "enabled",
)
# The fields of RunCreate that every firing's run is given as they are.
GIVEN_TO_RUNS = (
    "input",
    "config",
    "context",
    "webhook",
    "interrupt_before",
    "interrupt_after",
    "stream_mode",
    "stream_subgraphs",
    "stream_resumable",
    "multitask_strategy",
    "durability",
    "checkpoint_during",
)
_COMPLETION = one_of("delete", "keep")
_COMMON: Schema = {
    "schedule": {
        "type": "string",
        "maxLength": 256,
        "description": "Minute, hour, day of month, month, day of week; seconds may follow.",
    },
    "timezone": {**STRING, "maxLength": 256, "description": "An IANA time zone; UTC when absent."},
    "end_time": {"type": "string", "description": "ISO 8601; nothing fires after it."},
    "enabled": BOOLEAN,
    "metadata": OBJECT,
    **{name: RUNS["RunCreateStateful"]["properties"][name] for name in GIVEN_TO_RUNS},
    # Narrower than for runs, as in the official server.
    "input": {"anyOf": [list_of(OBJECT), OBJECT]},
}
_NEW: Schema = {"assistant_id": {**STRING, "description": "An assistant's UUID or the name of a graph."}, **_COMMON}
_FILTER: Schema = {"assistant_id": STRING, "thread_id": STRING, "metadata": OBJECT}

CRONS: Schema = {
    "CronCreate": body(
        {**_NEW, "on_run_completed": _COMPLETION},
        required=("assistant_id", "schedule"),
        description="Runs at set times, each on a thread of its own, deleted afterwards unless it is to be kept.",
    ),
    "ThreadCronCreate": body(
        _NEW, required=("assistant_id", "schedule"), description="Runs on one thread at set times."
    ),
    "CronPatch": body(
        {**_COMMON, "end_time": {**_COMMON["end_time"], "type": ["string", "null"]}, "on_run_completed": _COMPLETION},
        description="What to change; metadata is merged, everything else replaced. A null `end_time` clears it.",
    ),
    "CronSearch": body(
        {
            **_FILTER,
            "enabled": BOOLEAN,
            **paging(
                "cron_id",
                "assistant_id",
                "thread_id",
                "next_run_date",
                "end_time",
                "created_at",
                "updated_at",
                select=CRON_FIELDS,
            ),
        },
        description="Filter crons; `metadata` must be contained.",
    ),
    "CronCountRequest": body(_FILTER, description="Filter the crons to count."),
    "Cron": body(
        {
            "cron_id": UUID,
            "assistant_id": UUID,
            "thread_id": NULLABLE_STRING,
            "user_id": STRING,
            "end_time": NULLABLE_STRING,
            "schedule": STRING,
            "timezone": NULLABLE_STRING,
            "payload": OBJECT,
            "next_run_date": NULLABLE_STRING,
            "metadata": OBJECT,
            "on_run_completed": NULLABLE_STRING,
            "enabled": BOOLEAN,
            "created_at": TIMESTAMP,
            "updated_at": TIMESTAMP,
        },
        description="Runs at set times, and when the next is due.",
    ),
}
