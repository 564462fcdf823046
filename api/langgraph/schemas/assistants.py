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
    paging,
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

ASSISTANTS: Schema = {
    "AssistantSearchRequest": body(
        {
            **_FILTER,
            **paging("assistant_id", "created_at", "updated_at", "name", "graph_id", select=ASSISTANT_FIELDS),
        },
        description="Filter assistants; `metadata` must be contained, `name` is a part of the name in any case.",
    ),
    "AssistantCountRequest": body(_FILTER, description="Filter the assistants to count."),
    "Assistant": body(
        {
            "assistant_id": UUID,
            "graph_id": STRING,
            "config": OBJECT,
            "context": OBJECT,
            "metadata": OBJECT,
            "name": STRING,
            "created_at": TIMESTAMP,
            "updated_at": TIMESTAMP,
            "version": {"type": "integer"},
            "description": NULLABLE_STRING,
        },
        description="A graph together with a configuration.",
    ),
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
