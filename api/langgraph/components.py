"""All JSON Schemas by the names that endpoints, /openapi.json and $refs use."""

from toolweave.api.langgraph.json_schema import (
    ANY,
    BOOLEAN,
    MAX_INTEGER,
    MAX_LIMIT,
    MAX_TTL_MINUTES,
    NULLABLE_OBJECT,
    NULLABLE_STRING,
    OBJECT,
    SQL_FILTER,
    STRING,
    TIMESTAMP,
    UUID,
    BodySchema,
    Schema,
    list_of,
    object_of,
    one_of,
    page_fields,
    ref,
    search_fields,
)
from toolweave.api.langgraph.run_schemas import CRONS, RUNS

_ASSISTANT_FILTER: Schema = {"metadata": OBJECT, "graph_id": STRING, "name": STRING}
_ASSISTANT_CONTENT: Schema = {
    **dict.fromkeys(("graph_id", "name", "description"), STRING),
    "config": ref("Config"),
    **dict.fromkeys(("context", "metadata"), OBJECT),
}
_ASSISTANT: Schema = {
    "assistant_id": UUID,
    **dict.fromkeys(("graph_id", "name"), STRING),
    "description": NULLABLE_STRING,
    **dict.fromkeys(("config", "context", "metadata"), OBJECT),
    **dict.fromkeys(("created_at", "updated_at"), TIMESTAMP),
    "version": {"type": "integer"},
}
ASSISTANTS: Schema = {
    "AssistantCreate": object_of(
        {
            "assistant_id": {**STRING, "description": "A UUID; made by the server when absent."},
            **_ASSISTANT_CONTENT,
            "if_exists": one_of("raise", "do_nothing"),
        },
        required=("graph_id",),
        description="A new assistant; `context` and `config.configurable` are two names of the same values.",
    ),
    "AssistantPatch": object_of(
        _ASSISTANT_CONTENT,
        description="The changes of a new version: metadata is merged, a new config or context replaces the old one.",
    ),
    "AssistantVersionsSearchRequest": object_of(
        {"metadata": OBJECT, **page_fields()}, description="Filter an assistant's versions."
    ),
    "AssistantVersionChange": object_of({"version": {"type": "integer"}}, description="The version to make active."),
    "AssistantSearchRequest": object_of(
        {
            **_ASSISTANT_FILTER,
            **search_fields("assistant_id", "created_at", "updated_at", "name", "graph_id", select=tuple(_ASSISTANT)),
        },
        description="Filter assistants; their metadata contains `metadata`, their name contains `name` in any case.",
    ),
    "AssistantCountRequest": object_of(_ASSISTANT_FILTER, description="Filter the assistants to count."),
    "Assistant": object_of(_ASSISTANT, description="A graph together with a configuration."),
    "AssistantVersion": object_of(
        {name: part for name, part in _ASSISTANT.items() if name != "updated_at"},
        description="A version of an assistant.",
    ),
    "Graph": object_of(
        {"nodes": list_of(OBJECT), "edges": list_of(OBJECT)},
        required=("nodes", "edges"),
        description="The nodes and edges of a graph, for drawing.",
    ),
    "GraphSchema": object_of(
        {
            "graph_id": STRING,
            **dict.fromkeys(
                ("input_schema", "output_schema", "state_schema", "config_schema", "context_schema"), NULLABLE_OBJECT
            ),
        },
        description="JSON Schemas of the graph's types; null for types that have none.",
    ),
    "Subgraphs": {
        "type": "object",
        "description": "Schemas of the subgraphs, by namespace.",
        "additionalProperties": ANY,
    },
}
_ID: Schema = {"type": ["string", "number", "null"]}
_LENGTH: Schema = {"type": ["integer", "null"], "minimum": 0}
JSON_RPC: Schema = {
    "JsonRpcMessage": object_of(
        {"jsonrpc": STRING, "id": _ID, "method": STRING, "params": OBJECT},
        required=("jsonrpc", "method"),
        description="A JSON-RPC 2.0 request, or a notification when it has no id.",
    ),
    "JsonRpcAnswer": object_of(
        {"jsonrpc": STRING, "id": _ID, "result": ANY, "error": OBJECT},
        required=("jsonrpc",),
        description="The result of a JSON-RPC 2.0 request, or the error.",
    ),
    "AgentCard": object_of(
        {
            **dict.fromkeys(("name", "description", "url", "version"), STRING),
            "supportedInterfaces": list_of(OBJECT),
            "capabilities": OBJECT,
            **dict.fromkeys(("defaultInputModes", "defaultOutputModes"), list_of(STRING)),
            "skills": list_of(OBJECT),
        },
        required=("name", "url", "version", "capabilities", "skills"),
        description="An assistant as an A2A agent.",
    ),
    "A2aMessageParams": object_of(
        {
            "message": object_of(
                {
                    **dict.fromkeys(("messageId", "role"), STRING),
                    "parts": {**list_of({"properties": {"text": STRING}}), "minItems": 1},
                    **dict.fromkeys(("contextId", "taskId"), NULLABLE_STRING),
                },
                required=("messageId", "role", "parts"),
                description="A message of text and data parts.",
            ),
            "configuration": {"type": ["object", "null"], "properties": {"historyLength": _LENGTH}},
        },
        required=("message",),
        description="Params of the A2A methods that send a message.",
    ),
    "A2aTaskParams": object_of(
        {"id": STRING, "contextId": NULLABLE_STRING, "historyLength": _LENGTH},
        required=("id",),
        description="Params of the A2A methods on one task.",
    ),
    "A2aTaskListParams": object_of(
        {
            **dict.fromkeys(("contextId", "status"), NULLABLE_STRING),
            "pageSize": {"type": "integer", "minimum": 1, "maximum": 100},
            "pageToken": {**NULLABLE_STRING, "pattern": "^[0-9]{0,9}$"},
            "historyLength": _LENGTH,
        },
        description="Params of the A2A method ListTasks.",
    ),
}
INTEGER: Schema = {"type": "integer"}
_CHANNELS: Schema = {
    "type": "array",
    "minItems": 1,
    "items": STRING,
    "description": "values, updates, messages, tools, custom, custom:<name>, lifecycle, input, tasks, checkpoints",
}
PROTOCOL: Schema = {
    "ProtocolCommand": object_of(
        {"id": INTEGER, "method": STRING, "params": OBJECT},
        required=("id", "method"),
        description="run.start, input.respond, agent.getTree, subscription.subscribe, subscription.unsubscribe.",
    ),
    "ProtocolAnswer": object_of(
        {
            "type": one_of("success", "error"),
            "id": INTEGER,
            **dict.fromkeys(("result", "meta"), OBJECT),
            **dict.fromkeys(("error", "message"), STRING),
        },
        required=("type", "id"),
        description="The result of a command, or the code and text of an error.",
    ),
    "ProtocolRefusal": object_of(
        {"type": one_of("error"), "id": ANY, "error": STRING, "message": STRING, "detail": STRING},
        description="The error of an invalid command; only `detail` if the message is not JSON.",
    ),
    "EventStreamRequest": object_of(
        {
            "channels": _CHANNELS,
            "namespaces": list_of(list_of(STRING)),
            "depth": {**INTEGER, "minimum": 0},
            "since": {**INTEGER, "minimum": 0},
        },
        required=("channels",),
        description="The events of a thread to send, and the event after which to start.",
    ),
}
_LABELS = list_of(STRING)
_NON_NEGATIVE: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}
_ITEM: Schema = {"namespace": _LABELS, "key": STRING, "value": OBJECT, "created_at": TIMESTAMP, "updated_at": TIMESTAMP}
STORE: Schema = {
    "StorePutRequest": object_of(
        {
            "namespace": {**_LABELS, "description": "Labels without periods; the first may not be `langgraph`."},
            "key": STRING,
            "value": OBJECT,
            "index": {
                "anyOf": [{"type": "boolean", "enum": [False]}, list_of(STRING), {"type": "null"}],
                "description": "Paths of the value to embed for semantic search, or false for none.",
            },
            "ttl": {
                "type": ["number", "null"],
                "minimum": 0,
                "maximum": MAX_TTL_MINUTES,
                "description": "Minutes until the item expires.",
            },
        },
        required=("namespace", "key", "value"),
        description="An item to store; it replaces the one with this key.",
    ),
    "StoreDeleteRequest": object_of(
        {"namespace": _LABELS, "key": STRING}, required=("key",), description="The item to delete."
    ),
    "StoreSearchRequest": object_of(
        {
            "namespace_prefix": {
                **_LABELS,
                "type": ["array", "null"],
                "description": "The namespace to search; all namespaces when absent.",
            },
            "filter": {
                "type": ["object", "null"],
                "description": "Conditions on top-level fields: a value, or operators ($eq, $ne, $gt, $gte, $lt, "
                "$lte). Ordering operators do not match items without the field.",
            },
            "limit": {**_NON_NEGATIVE, "default": 10},
            "offset": {**_NON_NEGATIVE, "default": 0},
            "query": {**NULLABLE_STRING, "description": "Text for semantic search, if an embedding is configured."},
            "refresh_ttl": {"type": ["boolean", "null"], "description": "Whether found items get their `ttl` renewed."},
        },
        description="The items to find.",
    ),
    "StoreNamespacesRequest": object_of(
        {
            "prefix": {**_LABELS, "description": "The first labels; `*` matches any label."},
            "suffix": {**_LABELS, "description": "The last labels; `*` matches any label."},
            "max_depth": {**_NON_NEGATIVE, "description": "The number of labels to which namespaces are cut."},
            "limit": {**_NON_NEGATIVE, "default": 100},
            "offset": {**_NON_NEGATIVE, "default": 0},
        },
        description="The namespaces to list.",
    ),
    "StoreItem": {
        **object_of(_ITEM, required=tuple(_ITEM), description="A stored item; null when there is none."),
        "type": ["object", "null"],
    },
    "StoreFoundItem": object_of(
        {**_ITEM, "score": {"type": ["number", "null"]}},
        required=tuple(_ITEM),
        description="A stored item, and its similarity to the query.",
    ),
    "StoreSearchResponse": object_of(
        {"items": list_of(ref("StoreFoundItem"))}, required=("items",), description="The items found."
    ),
    "StoreNamespaces": object_of(
        {"namespaces": list_of(_LABELS)}, required=("namespaces",), description="The namespaces found."
    ),
    "PlainError": object_of({"error": ANY}, required=("error",), description="The error."),
}
# Below the 32 766 parameters that SQLite accepts in a statement.
MAX_IDS = 10_000
_MINUTES: Schema = {"type": "number", "minimum": 0, "maximum": MAX_TTL_MINUTES}
_STRATEGY = one_of("delete", "keep_latest")
_STATUS = one_of("idle", "busy", "interrupted", "error")
_THREAD_FILTER: Schema = {"metadata": OBJECT, "values": OBJECT, "status": _STATUS}
_TTL: Schema = {
    "anyOf": [{"type": "object", "properties": {"strategy": _STRATEGY, "ttl": _MINUTES}}, _MINUTES],
    "description": "Minutes from the thread's last change until it is deleted, or until its history is.",
}
_BYTES: Schema = {"type": "integer", "minimum": 0}
_SIZE: Schema = {"type": "object", "required": ["count", "bytes"], "properties": {"count": _BYTES, "bytes": _BYTES}}
_STATE_VALUES: Schema = {"type": ["object", "array", "null"]}
_THREAD: Schema = {
    "thread_id": UUID,
    **dict.fromkeys(("created_at", "updated_at", "state_updated_at"), TIMESTAMP),
    **dict.fromkeys(("metadata", "config", "interrupts"), OBJECT),
    "status": _STATUS,
    "values": ANY,
}

THREADS: Schema = {
    "ThreadCreate": object_of(
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
        description="A new thread; `supersteps` are its first state updates.",
    ),
    "ThreadSuperstepUpdate": object_of(
        {"values": _STATE_VALUES, "command": NULLABLE_OBJECT, "as_node": STRING},
        required=("as_node",),
        description="A state update, applied as if node `as_node` had returned it.",
    ),
    "ThreadPatch": object_of(
        {"metadata": OBJECT, "ttl": _TTL}, description="Metadata to merge into the thread's, and its time to live."
    ),
    "ThreadSearchRequest": object_of(
        {
            "ids": {**list_of(UUID), "maxItems": MAX_IDS},
            **_THREAD_FILTER,
            **search_fields(
                "thread_id", "status", "created_at", "updated_at", "state_updated_at", select=tuple(_THREAD)
            ),
            "extract": {
                "type": "object",
                "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
                "additionalProperties": {**STRING, "pattern": r"^(values|metadata|config|interrupts)([.\[]|$)"},
                "maxProperties": 10,
            },
        },
        description="Filter threads; `extract` maps names to paths such as `values.messages[-1]`.",
    ),
    "ThreadCountRequest": object_of(_THREAD_FILTER, description="Filter the threads to count."),
    "ThreadPruneRequest": object_of(
        {"thread_ids": {**list_of(UUID), "maxItems": MAX_IDS}, "strategy": _STRATEGY},
        required=("thread_ids",),
        description="Threads to delete, or to reduce to their newest state (`keep_latest`, which skips busy threads).",
    ),
    "ThreadsPruned": object_of({"pruned_count": _BYTES}, description="The number of threads that were pruned."),
    "ThreadStorage": object_of(
        {
            "thread_id": UUID,
            "total_bytes": _BYTES,
            "checkpoints": _SIZE,
            "channel_values": {
                "type": "object",
                "required": ["count", "bytes", "by_channel"],
                "properties": {
                    **_SIZE["properties"],
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
            "pending_writes": _SIZE,
        },
        description="Bytes that a thread occupies; those of `checkpoints` do not include `channel_values`.",
    ),
    "CheckpointConfig": object_of(
        {"thread_id": STRING, "checkpoint_ns": STRING, "checkpoint_id": STRING, "checkpoint_map": OBJECT},
        description="A checkpoint; without `checkpoint_id` the newest of its namespace.",
    ),
    "ThreadStateUpdate": object_of(
        {"values": _STATE_VALUES, "checkpoint": ref("CheckpointConfig"), "checkpoint_id": STRING, "as_node": STRING},
        description="Values to write into the state, as if node `as_node` had returned them.",
    ),
    "ThreadStateUpdated": object_of(
        {"checkpoint": OBJECT, "configurable": OBJECT, "checkpoint_id": STRING},
        description="The checkpoint that an update created.",
    ),
    "ThreadStateCheckpointRequest": object_of(
        {"checkpoint": ref("CheckpointConfig"), "subgraphs": BOOLEAN, "select": list_of(STRING)},
        required=("checkpoint",),
        description="The checkpoint whose state to return.",
    ),
    "ThreadStateSearch": object_of(
        {
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 1},
            "before": {"anyOf": [STRING, OBJECT]},
            "metadata": SQL_FILTER,
            "checkpoint": ref("CheckpointConfig"),
            "select": list_of(STRING),
        },
        description="Filter the states of the history: before a checkpoint, with this metadata, of this subgraph.",
    ),
    "Thread": object_of(
        {
            **_THREAD,
            "error": NULLABLE_OBJECT,
            "ttl": {
                "type": "object",
                "properties": {"strategy": _STRATEGY, "ttl_minutes": _MINUTES, "expires_at": NULLABLE_STRING},
            },
            "extracted": OBJECT,
        },
        description="A conversation: its status and the values of its newest state.",
    ),
    "ThreadState": object_of(
        {
            "values": ANY,
            "next": list_of(STRING),
            "tasks": list_of(OBJECT),
            "metadata": NULLABLE_OBJECT,
            **dict.fromkeys(("created_at", "checkpoint_id", "parent_checkpoint_id"), NULLABLE_STRING),
            **dict.fromkeys(("checkpoint", "parent_checkpoint"), NULLABLE_OBJECT),
            "interrupts": list_of(OBJECT),
        },
        description="The state of a thread at one checkpoint.",
    ),
}
COMPONENTS: Schema = {
    **ASSISTANTS,
    **THREADS,
    **RUNS,
    **PROTOCOL,
    **CRONS,
    **STORE,
    **JSON_RPC,
    "Any": {**ANY, "description": "Any JSON: the values of a run, or {__error__: {error, message}}."},
    "Count": {"type": "integer", "minimum": 0},
    "Ok": object_of({"ok": BOOLEAN, "services": OBJECT}, description="The server is up."),
    "Info": object_of(
        {"version": STRING, "langgraph_py_version": STRING, "flags": OBJECT, "host": OBJECT},
        description="Version and features of the server.",
    ),
    "Metrics": object_of(
        {"queue": OBJECT, "api": OBJECT, "workers": OBJECT}, description="Figures of runs, requests and workers."
    ),
    "ErrorResponse": object_of({"detail": STRING}, required=("detail",), description="The error."),
}


def body_schema(name: str) -> BodySchema:
    """Compile the schema of a request body."""
    return BodySchema(name, COMPONENTS)
