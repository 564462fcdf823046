"""Schemas of the store's items and namespaces."""

from toolweave.api.langgraph.json_schema import MAX_INTEGER
from toolweave.api.langgraph.schemas.fields import (
    ANY,
    MAX_TTL_MINUTES,
    NULLABLE_STRING,
    OBJECT,
    STRING,
    TIMESTAMP,
    Schema,
    body,
    list_of,
    ref,
)

_LABELS = list_of(STRING)
_NUMBER: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}
_ITEM: Schema = {
    "namespace": _LABELS,
    "key": STRING,
    "value": OBJECT,
    "created_at": TIMESTAMP,
    "updated_at": TIMESTAMP,
}

STORE: Schema = {
    "StorePutRequest": body(
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
                "description": "Minutes after which the item is gone.",
            },
        },
        required=("namespace", "key", "value"),
        description="An item to store; it replaces the one with this key.",
    ),
    "StoreDeleteRequest": body(
        {"namespace": _LABELS, "key": STRING}, required=("key",), description="The item to delete."
    ),
    "StoreSearchRequest": body(
        {
            "namespace_prefix": {
                **_LABELS,
                "type": ["array", "null"],
                "description": "Where to search; everywhere when absent.",
            },
            "filter": {
                "type": ["object", "null"],
                "description": "Top-level fields and what they must be: a value, or operators ($eq, $ne, $gt, $gte, "
                "$lt, $lte). An item without the field fits no ordering.",
            },
            "limit": {**_NUMBER, "default": 10},
            "offset": {**_NUMBER, "default": 0},
            "query": {
                **NULLABLE_STRING,
                "description": "What to search for by meaning, where an embedding is configured.",
            },
            "refresh_ttl": {"type": ["boolean", "null"], "description": "Whether finding items prolongs their lives."},
        },
        description="Which items to find.",
    ),
    "StoreNamespacesRequest": body(
        {
            "prefix": {**_LABELS, "description": "How they begin; `*` stands for any label."},
            "suffix": {**_LABELS, "description": "How they end; `*` stands for any label."},
            "max_depth": {**_NUMBER, "description": "Cut namespaces to so many labels."},
            "limit": {**_NUMBER, "default": 100},
            "offset": {**_NUMBER, "default": 0},
        },
        description="Which namespaces to list.",
    ),
    "StoreItem": {
        **body(_ITEM, required=tuple(_ITEM), description="A stored item; null when there is none."),
        "type": ["object", "null"],
    },
    "StoreFoundItem": body(
        {**_ITEM, "score": {"type": ["number", "null"]}},
        required=tuple(_ITEM),
        description="A stored item and how near it is to what was searched for.",
    ),
    "StoreSearchResponse": body(
        {"items": list_of(ref("StoreFoundItem"))}, required=("items",), description="The items found."
    ),
    "StoreNamespaces": body(
        {"namespaces": list_of(_LABELS)}, required=("namespaces",), description="The namespaces found."
    ),
    "PlainError": body({"error": ANY}, required=("error",), description="What went wrong."),
}
