"""Schemas of threads and their states."""

from toolweave.api.langgraph.schemas.fields import (
    ANY,
    BOOLEAN,
    MAX_LIMIT,
    MAX_TTL_MINUTES,
    NULLABLE_OBJECT,
    NULLABLE_STRING,
    OBJECT,
    SQL_FILTER,
    STRING,
    TIMESTAMP,
    UUID,
    Schema,
    body,
    list_of,
    one_of,
    paging,
    ref,
)

THREAD_FIELDS = (
    "thread_id",
    "created_at",
    "updated_at",
    "state_updated_at",
    "metadata",
    "config",
    "status",
    "values",
    "interrupts",
)
MAX_EXTRACTS = 10
# SQLite takes 32 766 parameters in a statement.
MAX_IDS = 10_000
_MINUTES: Schema = {"type": "number", "minimum": 0, "maximum": MAX_TTL_MINUTES}
_STRATEGY = one_of("delete", "keep_latest")
_STATUS = one_of("idle", "busy", "interrupted", "error")
_FILTER: Schema = {"metadata": OBJECT, "values": OBJECT, "status": _STATUS}
_TTL: Schema = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"strategy": _STRATEGY, "ttl": _MINUTES},
        },
        _MINUTES,
    ],
    "description": "Minutes from the thread's last change until it is deleted, or until its history is.",
}
_BYTES: Schema = {"type": "integer", "minimum": 0}
_COUNTED: Schema = {
    "type": "object",
    "required": ["count", "bytes"],
    "properties": {"count": _BYTES, "bytes": _BYTES},
}
_STATE_VALUES: Schema = {"type": ["object", "array", "null"]}

THREADS: Schema = {
    "ThreadCreate": body(
        {
            "thread_id": {**STRING, "description": "A UUID; made by the server when absent."},
            "metadata": OBJECT,
            "if_exists": one_of("raise", "do_nothing"),
            "ttl": _TTL,
            "supersteps": list_of(
                {
                    "type": "object",
                    "required": ["updates"],
                    "properties": {"updates": list_of(ref("ThreadSuperstepUpdate"))},
                }
            ),
        },
        description="A new thread; `supersteps` are state updates to begin with.",
    ),
    "ThreadSuperstepUpdate": body(
        {"values": _STATE_VALUES, "command": NULLABLE_OBJECT, "as_node": STRING},
        required=("as_node",),
        description="One state update, as if `as_node` had made it.",
    ),
    "ThreadPatch": body(
        {"metadata": OBJECT, "ttl": _TTL}, description="Metadata to merge into the thread's, and its time to live."
    ),
    "ThreadSearchRequest": body(
        {
            "ids": {**list_of(UUID), "maxItems": MAX_IDS},
            **_FILTER,
            **paging("thread_id", "status", "created_at", "updated_at", "state_updated_at", select=THREAD_FIELDS),
            "extract": {"type": "object", "additionalProperties": STRING, "maxProperties": MAX_EXTRACTS},
        },
        description="Filter threads; `extract` maps names to paths such as `values.messages[-1]`.",
    ),
    "ThreadCountRequest": body(_FILTER, description="Filter the threads to count."),
    "ThreadPruneRequest": body(
        {"thread_ids": {**list_of(UUID), "maxItems": MAX_IDS}, "strategy": _STRATEGY},
        required=("thread_ids",),
        description="Threads to delete, or to keep only the newest state of (`keep_latest`; busy ones are left alone).",
    ),
    "ThreadsPruned": body({"pruned_count": _BYTES}, description="How many of the threads there were."),
    "ThreadStorage": body(
        {
            "thread_id": UUID,
            "total_bytes": _BYTES,
            "checkpoints": _COUNTED,
            "channel_values": {
                "type": "object",
                "required": ["count", "bytes", "by_channel"],
                "properties": {
                    **_COUNTED["properties"],
                    "by_channel": {
                        "type": "object",
                        "additionalProperties": {
                            "type": "object",
                            "required": ["versions", "bytes"],
                            "properties": {"versions": _BYTES, "bytes": _BYTES},
                        },
                    },
                },
            },
            "pending_writes": _COUNTED,
        },
        description="Bytes that a thread takes up: checkpoint rows without, and with, channel values; pending writes.",
    ),
    "CheckpointConfig": body(
        {"thread_id": STRING, "checkpoint_ns": STRING, "checkpoint_id": STRING, "checkpoint_map": OBJECT},
        description="Names a checkpoint; without `checkpoint_id` the newest of its namespace.",
    ),
    "ThreadStateUpdate": body(
        {
            "values": _STATE_VALUES,
            "checkpoint": ref("CheckpointConfig"),
            "checkpoint_id": STRING,
            "as_node": STRING,
        },
        description="Values to write into the state, as if `as_node` had returned them.",
    ),
    "ThreadStateUpdated": body(
        {"checkpoint": OBJECT, "configurable": OBJECT, "checkpoint_id": STRING},
        description="The checkpoint that an update made.",
    ),
    "ThreadStateCheckpointRequest": body(
        {"checkpoint": ref("CheckpointConfig"), "subgraphs": BOOLEAN, "select": list_of(STRING)},
        required=("checkpoint",),
        description="The checkpoint whose state is wanted.",
    ),
    "ThreadStateSearch": body(
        {
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 1},
            "before": {"anyOf": [STRING, OBJECT]},
            "metadata": SQL_FILTER,
            "checkpoint": ref("CheckpointConfig"),
            "select": list_of(STRING),
        },
        description="Which states of the history: those before a checkpoint, with this metadata, of this subgraph.",
    ),
    "Thread": body(
        {
            "thread_id": UUID,
            "created_at": TIMESTAMP,
            "updated_at": TIMESTAMP,
            "state_updated_at": TIMESTAMP,
            "metadata": OBJECT,
            "status": _STATUS,
            "config": OBJECT,
            "values": ANY,
            "error": NULLABLE_OBJECT,
            "interrupts": OBJECT,
            "ttl": {
                "type": "object",
                "properties": {"strategy": _STRATEGY, "ttl_minutes": _MINUTES, "expires_at": NULLABLE_STRING},
            },
            "extracted": OBJECT,
        },
        description="A conversation: its status and the values of its newest state.",
    ),
    "ThreadState": body(
        {
            "values": ANY,
            "next": list_of(STRING),
            "tasks": list_of(OBJECT),
            "metadata": NULLABLE_OBJECT,
            "created_at": NULLABLE_STRING,
            "checkpoint": NULLABLE_OBJECT,
            "parent_checkpoint": NULLABLE_OBJECT,
            "interrupts": list_of(OBJECT),
            "checkpoint_id": NULLABLE_STRING,
            "parent_checkpoint_id": NULLABLE_STRING,
        },
        description="The state of a thread at one checkpoint.",
    ),
}
