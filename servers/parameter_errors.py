"""Say which parameter of a tool call is wrong and what it must be, never what was given (C-07)."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from toolweave.servers.error_codes import INVALID_PARAMETER, MISSING_PARAMETER, UNKNOWN_PARAMETER, ErrorCode

Schema = Mapping[str, Any]

_MOST_NAMED = 5
_CODES = {"missing_argument": MISSING_PARAMETER, "unexpected_keyword_argument": UNKNOWN_PARAMETER}


def explain(error: ValidationError, schema: Schema) -> tuple[ErrorCode, str]:
    """Turn pydantic's findings into a code and one sentence per wrong parameter.

    `schema` is the tool's input schema: what a parameter must be is read from it.
    """
    first_of_each: dict[str, ErrorDetails] = {}
    for detail in error.errors(include_url=False, include_input=False):
        first_of_each.setdefault(str(detail["loc"][0]) if detail["loc"] else "", detail)
    details = list(first_of_each.values())[:_MOST_NAMED]
    return _CODES.get(details[0]["type"], INVALID_PARAMETER), " ".join(_sentence(detail, schema) for detail in details)


def expectation(schema: Schema) -> str:
    """Put a JSON Schema into words: "a whole number from 1 to 100", "one of low, medium, high"."""
    if "anyOf" in schema:
        return " or ".join(expectation(form) for form in schema["anyOf"] if form.get("type") != "null")
    if "enum" in schema:
        return f"one of {', '.join(str(value) for value in schema['enum'])}"
    match schema.get("type"):
        case "string":
            return f"text{_span(schema, 'minLength', 'maxLength', ' characters')}"
        case "integer":
            return f"a whole number{_span(schema, 'minimum', 'maximum')}"
        case "number":
            return f"a number{_span(schema, 'minimum', 'maximum')}"
        case "boolean":
            return "true or false"
        case "array":
            items = expectation(schema.get("items", {}))
            return f"a list{_span(schema, 'minItems', 'maxItems', ' entries')}, each {items}"
        case "object":
            return "an object"
    return "a valid value"


def _sentence(detail: ErrorDetails, schema: Schema) -> str:
    properties: Schema = schema.get("properties", {})
    name = str(detail["loc"][0]) if detail["loc"] else ""
    if detail["type"] == "unexpected_keyword_argument":
        return f"There is no parameter '{shown(name)}'; the tool takes {', '.join(properties)}."
    expected = expectation(properties.get(name, {}))
    if detail["type"] == "missing_argument":
        return f"Parameter '{name}' is required: {expected}."
    if detail["type"] == "value_error":
        expected = str(detail["ctx"]["error"])
    elif detail["type"] == "string_unicode":
        expected = "valid Unicode text, without lone surrogates"
    return f"Parameter '{name}' must be {expected}."


def shown(text: str) -> str:
    """Cut a name that came from outside to what an answer may repeat."""
    return "".join(character if character.isprintable() else "?" for character in text[:64])


def _span(schema: Schema, low: str, high: str, unit: str = "") -> str:
    least, most = schema.get(low), schema.get(high)
    match (least, most):
        case (None, None):
            return ""
        case (None, _):
            return f" of at most {most}{unit}"
        case (_, None):
            return f" of at least {least}{unit}"
    return f" of {least} to {most}{unit}" if unit else f" from {least} to {most}"
