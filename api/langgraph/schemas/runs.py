"""Schemas of runs; every field of RunCreate is checked (langgraph_api.md section 4.1)."""

from toolweave.api.langgraph.schemas.fields import (
    ANY,
    BOOLEAN,
    NULLABLE_OBJECT,
    NULLABLE_STRING,
    OBJECT,
    STRING,
    TIMESTAMP,
    UUID,
    Schema,
    body,
    list_of,
    nullable,
    one_of,
    ref,
)
from toolweave.runtime.models import RunStatus

STREAM_MODES = (
    "values",
    "messages",
    "messages-tuple",
    "tasks",
    "checkpoints",
    "updates",
    "events",
    "debug",
    "custom",
)
RUN_FIELDS = (
    "run_id",
    "thread_id",
    "assistant_id",
    "created_at",
    "updated_at",
    "status",
    "metadata",
    "kwargs",
    "multitask_strategy",
    "langsmith_session_name",
)
RUN_STATUSES: tuple[RunStatus, ...] = ("pending", "running", "error", "success", "timeout", "interrupted")
MAX_DELAY_SECONDS = 10 * 365 * 24 * 3600
MAX_BATCH = 1000

_MODE = one_of(*STREAM_MODES)
_NODES: Schema = {"anyOf": [one_of("*"), list_of(STRING)]}
_STRATEGY = one_of("reject", "rollback", "interrupt", "enqueue")

_COMMON: Schema = {
    "assistant_id": {**STRING, "description": "An assistant's UUID or the name of a graph."},
    "input": {**ANY, "description": "What the graph is given."},
    "command": nullable(ref("Command")),
    "metadata": OBJECT,
    "config": ref("Config"),
    "context": OBJECT,
    "webhook": {"type": "string", "minLength": 1, "maxLength": 65536},
    "interrupt_before": _NODES,
    "interrupt_after": _NODES,
    "stream_mode": {"anyOf": [list_of(_MODE), _MODE]},
    "stream_subgraphs": BOOLEAN,
    "stream_resumable": BOOLEAN,
    "feedback_keys": list_of(STRING),
    "multitask_strategy": _STRATEGY,
    "if_not_exists": one_of("create", "reject"),
    "after_seconds": {"type": "number", "maximum": MAX_DELAY_SECONDS},
    "on_disconnect": nullable(one_of("cancel", "continue")),
    "checkpoint_during": BOOLEAN,
    "durability": one_of("sync", "async", "exit"),
    "strict_resume": {
        "type": ["boolean", "null"],
        "description": "Fail, leaving the thread as it is, when the answer fits no question.",
    },
    "langsmith_tracer": NULLABLE_OBJECT,
}
# What means little without a thread may be null there, as in the official server.
_NULL_WITHOUT_A_THREAD = {
    name: nullable(_COMMON[name])
    for name in ("interrupt_before", "interrupt_after", "multitask_strategy", "if_not_exists")
}

RUNS: Schema = {
    "Send": body(
        {"node": STRING, "input": ANY},
        required=("node", "input"),
        description="A node to run next, with an input of its own.",
    ),
    "Command": body(
        {
            "update": {"type": ["object", "array", "null"]},
            "resume": ANY,
            "goto": {"anyOf": [STRING, ref("Send"), list_of({"anyOf": [STRING, ref("Send")]}), {"type": "null"}]},
        },
        description="Answers an interrupt, updates the state, says where to go on.",
    ),
    "Config": body(
        {
            "tags": list_of(STRING),
            "recursion_limit": {"type": "integer"},
            "run_name": STRING,
            "max_concurrency": {"type": "integer"},
            "configurable": OBJECT,
            "metadata": OBJECT,
        },
        description="How the graph is run.",
    ),
    "RunCreateStateful": body(
        {**_COMMON, "checkpoint": ref("CheckpointConfig"), "checkpoint_id": NULLABLE_STRING},
        required=("assistant_id",),
        description="A run on a thread.",
    ),
    "RunCreateStateless": body(
        {**_COMMON, **_NULL_WITHOUT_A_THREAD, "on_completion": nullable(one_of("delete", "keep"))},
        required=("assistant_id",),
        description="A run on a thread of its own, deleted afterwards unless `on_completion` is `keep`.",
    ),
    "RunBatchCreate": {
        **list_of(ref("RunCreateStateless")),
        "minItems": 1,
        "maxItems": MAX_BATCH,
        "description": "Runs, each on a thread of its own; none is created unless all are valid.",
    },
    "RunsCancel": {
        **body(
            {"status": one_of("pending", "running", "all"), "thread_id": UUID, "run_ids": list_of(UUID)},
            description="Which runs to cancel: some of a thread, or all of a status.",
        ),
        "oneOf": [{"required": ["status"]}, {"required": ["thread_id", "run_ids"]}],
    },
    "Run": body(
        {
            "run_id": UUID,
            "thread_id": UUID,
            "assistant_id": UUID,
            "metadata": OBJECT,
            "status": one_of(*RUN_STATUSES),
            "kwargs": OBJECT,
            "multitask_strategy": _STRATEGY,
            "created_at": TIMESTAMP,
            "updated_at": TIMESTAMP,
            "langsmith_session_name": NULLABLE_STRING,
        },
        description="One execution of an assistant's graph.",
    ),
}
