"""JSON Schemas of runs and crons; all fields of RunCreate are checked (langgraph_api.md section 4.1)."""

from toolweave.api.langgraph.json_schema import (
    ANY,
    BOOLEAN,
    NULLABLE_OBJECT,
    NULLABLE_STRING,
    OBJECT,
    STRING,
    TIMESTAMP,
    UUID,
    Schema,
    list_of,
    nullable,
    object_of,
    one_of,
    ref,
    search_fields,
)
from toolweave.runtime.models import RunStatus

STREAM_MODES = ("values", "messages", "messages-tuple", "tasks", "checkpoints", "updates", "events", "debug", "custom")
RUN_STATUSES: tuple[RunStatus, ...] = ("pending", "running", "error", "success", "timeout", "interrupted")
MAX_DELAY_SECONDS = 10 * 365 * 24 * 3600
MAX_BATCH = 1000
_MODE = one_of(*STREAM_MODES)
_NODES: Schema = {"anyOf": [one_of("*"), list_of(STRING)]}
_STRATEGY = one_of("reject", "rollback", "interrupt", "enqueue")
_COMMON: Schema = {
    "assistant_id": {**STRING, "description": "An assistant's UUID or the name of a graph."},
    "input": {**ANY, "description": "The input of the graph."},
    "command": nullable(ref("Command")),
    "metadata": OBJECT,
    "config": ref("Config"),
    "context": OBJECT,
    "webhook": {"type": "string", "minLength": 1, "maxLength": 65536},
    **dict.fromkeys(("interrupt_before", "interrupt_after"), _NODES),
    "stream_mode": {"anyOf": [list_of(_MODE), _MODE]},
    **dict.fromkeys(("stream_subgraphs", "stream_resumable"), BOOLEAN),
    "feedback_keys": list_of(STRING),
    "multitask_strategy": _STRATEGY,
    "if_not_exists": one_of("create", "reject"),
    "after_seconds": {"type": "number", "maximum": MAX_DELAY_SECONDS},
    "on_disconnect": nullable(one_of("cancel", "continue")),
    "checkpoint_during": BOOLEAN,
    "durability": one_of("sync", "async", "exit"),
    "strict_resume": {
        "type": ["boolean", "null"],
        "description": "Fail without a change to the thread if the resume value matches no pending interrupt.",
    },
    "langsmith_tracer": NULLABLE_OBJECT,
}
# Stateless runs accept null in fields that concern threads, as in the official server.
_STATELESS_NULLABLE = {
    name: nullable(_COMMON[name])
    for name in ("interrupt_before", "interrupt_after", "multitask_strategy", "if_not_exists")
}
_RUN: Schema = {
    **dict.fromkeys(("run_id", "thread_id", "assistant_id"), UUID),
    **dict.fromkeys(("created_at", "updated_at"), TIMESTAMP),
    "status": one_of(*RUN_STATUSES),
    **dict.fromkeys(("metadata", "kwargs"), OBJECT),
    "multitask_strategy": _STRATEGY,
    "langsmith_session_name": NULLABLE_STRING,
}
RUN_FIELDS = tuple(_RUN)

RUNS: Schema = {
    "Send": object_of(
        {"node": STRING, "input": ANY},
        required=("node", "input"),
        description="A node to run next, with its own input.",
    ),
    "Command": object_of(
        {
            "update": {"type": ["object", "array", "null"]},
            "resume": ANY,
            "goto": {"anyOf": [STRING, ref("Send"), list_of({"anyOf": [STRING, ref("Send")]}), {"type": "null"}]},
        },
        description="Resumes an interrupt, updates the state, or selects the next nodes.",
    ),
    "Config": object_of(
        {
            "tags": list_of(STRING),
            "recursion_limit": {"type": "integer"},
            "run_name": STRING,
            "max_concurrency": {"type": "integer"},
            **dict.fromkeys(("configurable", "metadata"), OBJECT),
        },
        description="The config of the graph's run.",
    ),
    "RunCreateStateful": object_of(
        {**_COMMON, "checkpoint": ref("CheckpointConfig"), "checkpoint_id": NULLABLE_STRING},
        required=("assistant_id",),
        description="A run on a thread.",
    ),
    "RunCreateStateless": object_of(
        {**_COMMON, **_STATELESS_NULLABLE, "on_completion": nullable(one_of("delete", "keep"))},
        required=("assistant_id",),
        description="A run on its own thread, which is deleted afterwards unless `on_completion` is `keep`.",
    ),
    "RunBatchCreate": {
        **list_of(ref("RunCreateStateless")),
        "minItems": 1,
        "maxItems": MAX_BATCH,
        "description": "Runs, each on its own thread; none is created unless all are valid.",
    },
    "RunsCancel": {
        **object_of(
            {"status": one_of("pending", "running", "all"), "thread_id": UUID, "run_ids": list_of(UUID)},
            description="The runs to cancel: some of a thread, or all with a status.",
        ),
        "oneOf": [
            {"required": ["status"], "properties": {"thread_id": False, "run_ids": False}},
            {"required": ["thread_id", "run_ids"], "properties": {"status": False}},
        ],
    },
    "Run": object_of(_RUN, description="One execution of an assistant's graph."),
}
# The fields of RunCreate that each run of a cron gets unchanged.
CRON_RUN_FIELDS = (
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
_CRON: Schema = {
    "schedule": {
        "type": "string",
        "maxLength": 256,
        "description": "Minute, hour, day of month, month, day of week; seconds may follow.",
    },
    "timezone": {**STRING, "maxLength": 256, "description": "An IANA time zone; UTC when absent."},
    "end_time": {"type": "string", "description": "ISO 8601; the cron starts no runs after it."},
    "enabled": BOOLEAN,
    "metadata": OBJECT,
    **{name: RUNS["RunCreateStateful"]["properties"][name] for name in CRON_RUN_FIELDS},
    # Fewer types than for runs, as in the official server.
    "input": {"anyOf": [list_of(OBJECT), OBJECT]},
}
_NEW_CRON: Schema = {"assistant_id": {**STRING, "description": "An assistant's UUID or the name of a graph."}, **_CRON}
_CRON_FILTER: Schema = {"assistant_id": STRING, "thread_id": STRING, "metadata": OBJECT}
_CRON_ROW: Schema = {
    **dict.fromkeys(("cron_id", "assistant_id"), UUID),
    **dict.fromkeys(("thread_id", "on_run_completed", "end_time", "timezone", "next_run_date"), NULLABLE_STRING),
    **dict.fromkeys(("schedule", "user_id"), STRING),
    **dict.fromkeys(("created_at", "updated_at"), TIMESTAMP),
    **dict.fromkeys(("payload", "metadata"), OBJECT),
    "enabled": BOOLEAN,
}

CRONS: Schema = {
    "CronCreate": object_of(
        {**_NEW_CRON, "on_run_completed": _COMPLETION},
        required=("assistant_id", "schedule"),
        description="Runs at scheduled times, each on its own thread, deleted unless `on_run_completed` is `keep`.",
    ),
    "ThreadCronCreate": object_of(
        _NEW_CRON, required=("assistant_id", "schedule"), description="Runs on one thread at scheduled times."
    ),
    "CronPatch": object_of(
        {**_CRON, "end_time": {**_CRON["end_time"], "type": ["string", "null"]}, "on_run_completed": _COMPLETION},
        description="Fields to change: metadata is merged, others are replaced, a null `end_time` removes it.",
    ),
    "CronSearch": object_of(
        {
            **_CRON_FILTER,
            "enabled": BOOLEAN,
            **search_fields(
                "cron_id",
                "assistant_id",
                "thread_id",
                "next_run_date",
                "end_time",
                "created_at",
                "updated_at",
                select=tuple(_CRON_ROW),
            ),
        },
        description="Filter crons; `metadata` matches crons whose metadata contains it.",
    ),
    "CronCountRequest": object_of(_CRON_FILTER, description="Filter the crons to count."),
    "Cron": object_of(_CRON_ROW, description="A schedule of runs, and the time of the next one."),
}
