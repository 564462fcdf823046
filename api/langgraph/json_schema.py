"""Check request bodies against the JSON Schemas that /openapi.json publishes.

The official server uses the same library, so messages have the same wording. Unknown properties are accepted, null
only if the schema lists it. Integers have at most 64 bits, as in databases; values that are stored as JSON have no type
in their schemas, so integers in them may have any size.
"""

from collections.abc import Mapping
from typing import Any

from jsonschema_rs import Draft202012Validator, ValidationError

from toolweave.errors import InvalidRequest
from toolweave.runtime.codec import is_large

Definition = Mapping[str, Any]
# The largest integer of a database column or a bound parameter.
MAX_INTEGER = 2**63 - 1
INT64_BOUNDS: Definition = {"minimum": -(2**63), "maximum": MAX_INTEGER}
MAX_MESSAGE_CHARS = 2000


class BodySchema:
    """The compiled schema of a request body."""

    def __init__(self, name: str, components: Mapping[str, Definition]) -> None:
        self.name = name
        properties = components[name].get("properties", {})
        self.field_names = frozenset(properties)
        self.integer_fields = frozenset(field for field, part in properties.items() if part.get("type") == "integer")
        bounded = _with_integer_bounds(components)
        root = {**bounded[name], "components": {"schemas": bounded}}
        self._validator = Draft202012Validator(root, validate_formats=False)

    def check(self, value: object) -> None:
        """Raise InvalidRequest, with place and reason, if a decoded body of limited depth does not match the schema.

        The library's error contains a copy of the invalid value: for 200 000 members that takes 0.9 s with the GIL
        held. So a large body gets a message without details (R-03).
        """
        if self._validator.is_valid(value):
            return
        problem = f"The request body does not fit the schema {self.name} of /openapi.json."
        if not is_large(value):
            try:
                self._validator.validate(value)
            except ValidationError as error:
                text = str(error)
                # The message begins with the value and ends with the rule that it breaks.
                problem = text if len(text) <= MAX_MESSAGE_CHARS else f"{problem} …{error.message[-200:]}"
        raise InvalidRequest(problem)


def _with_integer_bounds(schema: Any) -> Any:
    """Copy schemas, and add 64-bit bounds to integers without bounds."""
    if isinstance(schema, list):
        return [_with_integer_bounds(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    copy = {keyword: _with_integer_bounds(part) for keyword, part in schema.items()}
    return {**INT64_BOUNDS, **copy} if "integer" in copy.get("type", ()) else copy


Schema = dict[str, Any]
OBJECT: Schema = {"type": "object"}
STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
# For query parameters, whose absence means false.
FLAG: Schema = {"type": "boolean", "default": False}
ANY: Schema = {}
UUID: Schema = {"type": "string", "format": "uuid"}
TIMESTAMP: Schema = {"type": "string", "format": "date-time"}
NULLABLE_OBJECT: Schema = {"type": ["object", "null"]}
NULLABLE_STRING: Schema = {"type": ["string", "null"]}
MAX_LIMIT = 1000
# A hundred years.
MAX_TTL_MINUTES = 52_560_000
# Compared in the database with the stored values of the same names.
SQL_FILTER: Schema = {"type": "object", "additionalProperties": INT64_BOUNDS}


def one_of(*choices: str) -> Schema:
    """Return the schema of a string that is one of the choices."""
    return {"type": "string", "enum": list(choices)}


def list_of(item: Schema) -> Schema:
    """Return the schema of an array."""
    return {"type": "array", "items": item}


def nullable(schema: Schema) -> Schema:
    """Return the schema that also accepts null, for an absent value."""
    return {"anyOf": [schema, {"type": "null"}]}


def ref(name: str) -> Schema:
    """Return a reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def page_fields() -> Schema:
    """Return the properties `limit` and `offset` of a page of results."""
    return {
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 10},
        "offset": {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER, "default": 0},
    }


def search_fields(*sort_fields: str, select: tuple[str, ...]) -> Schema:
    """Return the properties that page, sort and select the results of a search."""
    return {
        **page_fields(),
        "sort_by": one_of(*sort_fields),
        "sort_order": one_of("asc", "desc"),
        "select": list_of(one_of(*select)),
    }


def object_of(properties: Schema, *, required: tuple[str, ...] = (), description: str) -> Schema:
    """Return the schema of a JSON object."""
    schema: Schema = {"type": "object", "description": description, "properties": properties}
    if required:
        schema["required"] = list(required)
    return schema
