"""Check arguments against a tool's JSON Schema, whatever that schema is worth."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from json import dumps, loads
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, UnknownType, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

_NESTED_REPETITION = re.compile(r"\)[*+{]|\\[1-9]")
_MAX_PATTERN_TEXT = 300
_UNREADABLE = (
    *(SchemaError, UnknownType, Unresolvable, RecursionError, ArithmeticError),
    *(TypeError, ValueError, AttributeError, LookupError),
)


def _safe_pattern(_validator: Any, form: object, instance: object, _schema: object) -> Iterator[ValidationError]:
    # A schema comes from any server: an expression that is none, or can run for ever, is not run.
    if not isinstance(instance, str) or not isinstance(form, str) or _NESTED_REPETITION.search(form):
        return
    with suppress(re.error, OverflowError):
        if len(instance) <= _MAX_PATTERN_TEXT and not re.search(form, instance):
            yield ValidationError(f"does not match {form!r}")


def _not_judged(_validator: Any, _value: object, _instance: object, _schema: object) -> Iterator[ValidationError]:
    return iter(())


# Only declared parameters are ever filled, so the keywords about other ones (and their expressions) have nothing to do.
_KEYWORDS = {
    "pattern": _safe_pattern,
    **dict.fromkeys(
        ("patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"), _not_judged
    ),
}
_Validator: Any = extend(Draft202012Validator, _KEYWORDS)  # type: ignore[no-untyped-call]


@lru_cache(maxsize=256)
def _validator(schema_json: str) -> Any:
    # An empty registry: a reference to somewhere else is never fetched.
    return _Validator(loads(schema_json), registry=Registry())


def wrong_parameters(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> set[str]:
    """Name the given arguments that the schema refuses; a schema that cannot be read refuses nothing."""
    try:
        errors = list(_validator(dumps(schema, sort_keys=True, default=str)).iter_errors(dict(arguments)))
    except _UNREADABLE:
        return set()
    return {str(error.absolute_path[0]) for error in errors if error.absolute_path}
