"""Declare the parameters of query_database: what a model reads about them (C-02)."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from toolweave.servers.core.query.filters import (
    DEEPEST,
    LONGEST_NAME,
    LONGEST_TEXT,
    MOST_CONDITIONS,
    MOST_ORDERINGS,
    MOST_VALUES,
    OPERATORS,
)

MOST_COLUMNS = 200
MOST_ROWS = 100_000
DEFAULT_LIMIT = 100

_SCALARS: list[dict[str, Any]] = [
    {"type": "string", "maxLength": LONGEST_TEXT},
    {"type": "number"},
    {"type": "boolean"},
]
# Written out: some models take no schema that refers to itself, and a filter may hold filters.
_CONDITION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "column": {"type": "string", "description": "The column to compare.", "maxLength": LONGEST_NAME},
        "op": {
            "type": "string",
            "enum": list(OPERATORS),
            "default": "eq",
            "description": "eq, ne, lt, le, gt, ge compare; in takes a list of values; like takes a pattern with % for "
            "any characters and _ for one, whatever the case; is_null takes true or false.",
        },
        "value": {
            "anyOf": [
                *_SCALARS,
                {"type": "array", "items": {"anyOf": _SCALARS}, "minItems": 1, "maxItems": MOST_VALUES},
            ],
            "description": "What to compare with: dates and times as ISO 8601 text, bytes in base64.",
        },
        "and": {
            "type": "array",
            "items": {"type": "object"},
            "minItems": 1,
            "description": "Instead of column, op and value: conditions that must all hold.",
        },
        "or": {
            "type": "array",
            "items": {"type": "object"},
            "minItems": 1,
            "description": "Instead of column, op and value: conditions of which one must hold.",
        },
    },
}


def _whole_number(value: object) -> object:
    # JSON has one kind of number: 3.0 is the whole number 3. Texts and booleans are not.
    return int(value) if isinstance(value, float) and value.is_integer() else value


TableName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=2 * LONGEST_NAME,
        description="The table to read, as the operator allows it; an error names those that there are.",
        examples=["todos"],
    ),
]
Filters = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [{"type": "array", "items": _CONDITION, "maxItems": MOST_CONDITIONS}, {"type": "object"}],
            "description": "Which rows to return: a list of conditions that must all hold, each {column, op, value} or "
            'a group {"and": […]} or {"or": […]} of such; or, for equality, an object {column: value}. '
            f"At most {MOST_CONDITIONS} conditions, nested at most {DEEPEST} deep. A comparison with a row's missing "
            "value does not hold; ask for such rows with is_null.",
            "examples": [
                {"status": "active"},
                [{"column": "due_date", "op": "lt", "value": "2026-12-24"}],
                [
                    {
                        "or": [
                            {"column": "priority", "op": "eq", "value": "high"},
                            {"column": "title", "op": "like", "value": "%milk%"},
                        ]
                    }
                ],
            ],
        }
    ),
]
Columns = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]],
    Field(
        min_length=1,
        max_length=MOST_COLUMNS,
        description="The columns to return; all that may be read if left out.",
        examples=[["id", "title"]],
    ),
]
OrderBy = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "maxLength": LONGEST_NAME},
                {"type": "array", "items": {"type": "string", "maxLength": LONGEST_NAME}, "maxItems": MOST_ORDERINGS},
            ],
            "description": 'What to order the rows by: "column" for ascending, "-column" or "column desc" for '
            "descending order, or a list of such; rows without a value come last.",
            "examples": ["-created_at", ["priority", "due_date desc"]],
        }
    ),
]
Limit = Annotated[
    int,
    Field(strict=True, ge=1, le=MOST_ROWS),
    BeforeValidator(_whole_number),
    Field(description="How many rows to return at most; the operator may allow fewer, usually 1000.", examples=[20]),
]
