"""Say which keywords of JSON Schema tools keep, and of which form their values must be (draft 2020-12).

The form is looked at here, keyword by keyword, because looking at a finished schema takes a hundred times as long.
"""

from collections.abc import Callable, Mapping
from typing import Any

ONE_SCHEMA = frozenset(
    (
        *("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"),
        *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
    )
)
LISTED_SCHEMAS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
NAMED_SCHEMAS = frozenset(("properties", "patternProperties", "dependentSchemas"))
ANNOTATIONS = frozenset(("title", "description", "default", "examples", "deprecated"))

_TYPES = frozenset(("string", "integer", "number", "boolean", "object", "array", "null"))


def _is_type(value: Any) -> bool:
    if isinstance(value, str):
        return value in _TYPES
    return _is_names(value) and bool(value) and set(value) <= _TYPES


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _is_lists_of_names(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_names(names) for names in value.values())


def _is_anything(_value: Any) -> bool:
    return True


VALUES: Mapping[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "enum": _is_list,
    "examples": _is_list,
    "required": _is_names,
    "dependentRequired": _is_lists_of_names,
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(("const", "default"), _is_anything),
    **dict.fromkeys(("deprecated", "uniqueItems"), _is_bool),
    **dict.fromkeys(("title", "description", "format", "pattern", "contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_count),
}
"""Keywords whose values are no schemas, each with what its value must be."""
KNOWN = frozenset(VALUES) | ONE_SCHEMA | LISTED_SCHEMAS | NAMED_SCHEMAS


def malformed_keyword(schema: Mapping[str, Any]) -> str | None:
    """Name a keyword whose value has a form that it cannot have."""
    for keyword, value in schema.items():
        if keyword in VALUES and not VALUES[keyword](value):
            return keyword
        if keyword in LISTED_SCHEMAS and not value:
            return keyword
    return None
