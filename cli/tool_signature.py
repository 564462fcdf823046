"""Write what a tool takes on one line, from the JSON Schema of its parameters."""

from typing import Any

from toolweave.cli.terminal import compact, shortened


def signature(name: str, schema: dict[str, Any]) -> str:
    """Write a tool as name(parameter: type, optional?: type = default)."""
    properties = schema.get("properties")
    required = schema.get("required")
    wanted = required if isinstance(required, list) else []
    parameters = [
        f"{key}{'' if key in wanted else '?'}{_type(each)}{_default(each)}"
        for key, each in (properties.items() if isinstance(properties, dict) else ())
    ]
    return f"{name}({', '.join(parameters)})"


def _type(schema: Any) -> str:
    named = _type_name(schema)
    return f": {named}" if named else ""


def _type_name(schema: Any) -> str:
    if not isinstance(schema, dict):
        return ""
    if isinstance(values := schema.get("enum"), list):
        return shortened("|".join(map(str, values)), 60)
    if isinstance(choices := schema.get("anyOf", schema.get("oneOf")), list):
        return "|".join(dict.fromkeys(filter(None, map(_type_name, choices))))
    kind = schema.get("type", "")
    named = "|".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    inner = _type_name(schema.get("items")) if named == "array" else ""
    return f"{named}[{inner}]" if inner else named


def _default(schema: Any) -> str:
    has_one = isinstance(schema, dict) and schema.get("default") is not None
    return f" = {shortened(compact(schema['default']), 40)}" if has_one else ""
