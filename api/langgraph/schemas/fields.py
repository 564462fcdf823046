"""Name the property schemas that several bodies share."""

from typing import Any

from toolweave.api.langgraph.json_schema import MAX_INTEGER, OF_64_BITS

Schema = dict[str, Any]

OBJECT: Schema = {"type": "object"}
STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
ANY: Schema = {}
UUID: Schema = {"type": "string", "format": "uuid"}
TIMESTAMP: Schema = {"type": "string", "format": "date-time"}
NULLABLE_OBJECT: Schema = {"type": ["object", "null"]}
NULLABLE_STRING: Schema = {"type": ["string", "null"]}

MAX_LIMIT = 1000
# A hundred years.
MAX_TTL_MINUTES = 52_560_000

# Matched in the database with what is stored under the same name.
SQL_FILTER: Schema = {"type": "object", "additionalProperties": OF_64_BITS}


def one_of(*choices: str) -> Schema:
    """Describe a string out of a closed set."""
    return {"type": "string", "enum": list(choices)}


def list_of(item: Schema) -> Schema:
    """Describe an array."""
    return {"type": "array", "items": item}


def nullable(schema: Schema) -> Schema:
    """Let null stand for "not given"."""
    return {"anyOf": [schema, {"type": "null"}]}


def ref(name: str) -> Schema:
    """Point at a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def page_of() -> Schema:
    """Describe the properties that choose one page of results."""
    return {
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 10},
        "offset": {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER, "default": 0},
    }


def paging(*sort_fields: str, select: tuple[str, ...]) -> Schema:
    """Describe the properties that page, sort and trim the results of a search."""
    return {
        **page_of(),
        "sort_by": one_of(*sort_fields),
        "sort_order": one_of("asc", "desc"),
        "select": list_of(one_of(*select)),
    }


def body(properties: Schema, *, required: tuple[str, ...] = (), description: str) -> Schema:
    """Describe a JSON object."""
    schema: Schema = {"type": "object", "description": description, "properties": properties}
    if required:
        schema["required"] = list(required)
    return schema
