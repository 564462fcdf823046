"""Check arguments against the tool's schema, and make up the least value for a parameter that must be there."""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from functools import lru_cache
from json import dumps, loads
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, UnknownType, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from toolweave.nodes.offline_model.tools.parameters import Parameter, read_parameters, resolve

_MAX_DEPTH = 8
_NESTED_REPETITION = re.compile(r"\)[*+{]|\\[1-9]")
_MAX_PATTERN_TEXT = 300


def _safe_pattern(_validator: Any, form: object, instance: object, _schema: object) -> Iterator[ValidationError]:
    # A schema comes from any server: an expression that can run for ever, or is none, is not run.
    if not isinstance(instance, str) or not isinstance(form, str) or _NESTED_REPETITION.search(form):
        return
    try:
        if len(instance) <= _MAX_PATTERN_TEXT and not re.search(form, instance):
            yield ValidationError(f"does not match {form!r}")
    except (re.error, OverflowError, RecursionError):
        return


_KEYWORDS = {"pattern": _safe_pattern, "patternProperties": None}
_Validator: Any = extend(Draft202012Validator, _KEYWORDS)  # type: ignore[no-untyped-call]


@lru_cache(maxsize=256)
def _validator(schema_json: str) -> Any:
    # An empty registry: a reference to somewhere else is never fetched.
    return _Validator(loads(schema_json), registry=Registry())


def wrong_parameters(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> set[str]:
    """Name the given arguments that the schema refuses; a schema that cannot be read refuses nothing."""
    try:
        errors = list(_validator(dumps(schema, sort_keys=True, default=str)).iter_errors(dict(arguments)))
    except (SchemaError, UnknownType, Unresolvable, RecursionError, TypeError, ValueError, AttributeError, KeyError):
        return set()
    return {str(error.absolute_path[0]) for error in errors if error.absolute_path}


def made_up_value(parameter: Parameter, root: Mapping[str, Any], text: str, today: date, depth: int = 0) -> Any:
    """Give the least value the schema allows, for a call that has to be made; texts repeat what was said."""
    schema = parameter.schema
    if "default" in schema:
        return schema["default"]
    if parameter.choices:
        return parameter.choices[0]
    if parameter.nullable and depth:
        return None
    if parameter.kind == "object":
        inner = read_parameters({**schema, **{key: root[key] for key in ("$defs", "definitions") if key in root}})
        if depth >= _MAX_DEPTH:
            return {}
        return {one.name: made_up_value(one, root, text, today, depth + 1) for one in inner if one.required}
    if parameter.kind == "array":
        return _made_up_list(schema, root, text, today, depth)
    if parameter.kind in ("integer", "number"):
        return _least_number(schema, parameter.kind)
    return {"boolean": False, "null": None}.get(parameter.kind, _made_up_text(parameter, text, today))


def _made_up_list(schema: Mapping[str, Any], root: Mapping[str, Any], text: str, today: date, depth: int) -> list[Any]:
    least = schema.get("minItems")
    count = least if isinstance(least, int) and not isinstance(least, bool) else 0
    if not count or depth >= _MAX_DEPTH:
        return []
    item = {"type": "object", "properties": {"item": resolve(schema.get("items"), root)}, "required": ["item"]}
    (parameter,) = read_parameters({**item, **{key: root[key] for key in ("$defs", "definitions") if key in root}})
    return [made_up_value(parameter, root, text, today, depth + 1)] * min(count, 20)


def _least_number(schema: Mapping[str, Any], kind: str) -> int | float:
    def number(keyword: str) -> float | None:
        value = schema.get(keyword)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    least, above, most = number("minimum"), number("exclusiveMinimum"), number("maximum")
    value = least if least is not None else above + 1 if above is not None else min(0, most) if most is not None else 0
    return -int(-value // 1) if kind == "integer" else value


def _made_up_text(parameter: Parameter, text: str, today: date) -> str:
    if parameter.role == "date":
        return f"{today.isoformat()}T00:00:00Z" if parameter.schema.get("format") == "date-time" else today.isoformat()
    fitting = " ".join(text.split()) or parameter.name
    most, least = parameter.schema.get("maxLength"), parameter.schema.get("minLength")
    if isinstance(most, int):
        fitting = fitting[:most]
    return fitting.ljust(least, ".") if isinstance(least, int) and least < 10_000 else fitting
