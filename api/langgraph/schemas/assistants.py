"""Schemas of assistants and what describes their graphs."""

from toolweave.api.langgraph.schemas.fields import (
    ANY,
    NULLABLE_OBJECT,
    NULLABLE_STRING,
    OBJECT,
    STRING,
    TIMESTAMP,
    UUID,
    Schema,
    body,
    list_of,
    one_of,
    page_of,
    paging,
    ref,
)

ASSISTANT_FIELDS = (
    "assistant_id",
    "graph_id",
    "name",
    "description",
    "config",
    "context",
    "created_at",
    "updated_at",
    "metadata",
    "version",
)
_FILTER: Schema = {"metadata": OBJECT, "graph_id": STRING, "name": STRING}
_CONTENT: Schema = {
    "graph_id": STRING,
    "config": ref("Config"),
    "context": OBJECT,
    "metadata": OBJECT,
    "name": STRING,
    "description": STRING,
}
_SHOWN: Schema = {
    "assistant_id": UUID,
    "version": {"type": "integer"},
    "graph_id": STRING,
    "config": OBJECT,
    "context": OBJECT,
    "metadata": OBJECT,
    "created_at": TIMESTAMP,
    "name": STRING,
    "description": NULLABLE_STRING,
}

ASSISTANTS: Schema = {
    "AssistantCreate": body(
        {
            "assistant_id": {**STRING, "description": "A UUID; made by the server when absent."},
            **_CONTENT,
            "if_exists": one_of("raise", "do_nothing"),
        },
        required=("graph_id",),
        description="A new assistant; `context` and `config.configurable` are two names of the same values.",
    ),
    "AssistantPatch": body(
        _CONTENT,
        description="What a new version changes: metadata is merged, a new config or context replaces the old one.",
    ),
    "AssistantVersionsSearchRequest": body(
        {"metadata": OBJECT, **page_of()}, description="Filter an assistant's versions."
    ),
    "AssistantVersionChange": body({"version": {"type": "integer"}}, description="The version to make active."),
    "AssistantSearchRequest": body(
        {
            **_FILTER,
            **paging("assistant_id", "created_at", "updated_at", "name", "graph_id", select=ASSISTANT_FIELDS),
        },
        description="Filter assistants; `metadata` must be contained, `name` is a part of the name in any case.",
    ),
    "AssistantCountRequest": body(_FILTER, description="Filter the assistants to count."),
    "Assistant": body({**_SHOWN, "updated_at": TIMESTAMP}, description="A graph together with a configuration."),
    "AssistantVersion": body(_SHOWN, description="An assistant as one change left it."),
    "Graph": body(
        {"nodes": list_of(OBJECT), "edges": list_of(OBJECT)},
        required=("nodes", "edges"),
        description="The nodes and edges of a graph, for drawing.",
    ),
    "GraphSchema": body(
        {
            "graph_id": STRING,
            "input_schema": NULLABLE_OBJECT,
            "output_schema": NULLABLE_OBJECT,
            "state_schema": NULLABLE_OBJECT,
            "config_schema": NULLABLE_OBJECT,
            "context_schema": NULLABLE_OBJECT,
        },
        description="JSON Schemas of what a graph takes, gives and keeps; null where none can be made.",
    ),
    "Subgraphs": {
        "type": "object",
        "description": "Schemas of the subgraphs, by namespace.",
        "additionalProperties": ANY,
    },
}
