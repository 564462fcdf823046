"""Turn the parameters of an operation into input fields, the way their values are written included."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from openapi_pydantic import Parameter

from toolweave.field_mappings import HEADER_NAME, Part
from toolweave.servers.registry.openapi.fields import InputField
from toolweave.servers.registry.openapi.parts import read_parameter
from toolweave.servers.registry.openapi.references import Document, Unusable, shown
from toolweave.servers.registry.openapi.schemas import LONGEST_TEXT, SchemaConversion
from toolweave.tool_config import is_connection_header

MOST_PARAMETERS = 500
_PARTS: dict[str, Part] = {"path": "path", "query": "query", "header": "header"}
_IGNORED_HEADERS = frozenset(("accept", "content-type", "authorization"))
"""The specification says to ignore parameters of these names: media types and security schemes describe them."""
_SEPARATORS = {"form": "commas", "simple": "commas", "spaceDelimited": "blanks", "pipeDelimited": "|"}
_SCALARS = frozenset(("string", "integer", "number", "boolean", "null"))

Warn = Callable[[str], None]


@dataclass(frozen=True)
class RawParameter:
    """A parameter with the object it was read from, which has its schema."""

    parameter: Parameter
    raw: dict[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        """Give what tells parameters of an operation apart: place and name; header names know no case."""
        place = self.parameter.param_in.value
        return place, self.parameter.name.lower() if place == "header" else self.parameter.name


def declared_parameters(document: Document, *levels: Any) -> list[RawParameter]:
    """Read the parameters of a path and then of its operation, which may declare one anew; raises Unusable."""
    found: dict[tuple[str, str], RawParameter] = {}
    for level in levels:
        if not isinstance(level, list | None) or len(level or ()) > MOST_PARAMETERS:
            raise Unusable(f"its parameters are no list, or more than {MOST_PARAMETERS}")
        for entry in level or ():
            raw = document.follow(entry)
            one = RawParameter(read_parameter(document, raw), raw)
            found[one.key] = one
    return list(found.values())


def parameter_fields(parameters: Iterable[RawParameter], schemas: SchemaConversion, warn: Warn) -> list[InputField]:
    """Make fields of parameters; those that cannot be sent are left out with a warning.

    Raises:
        Unusable: one that must be given cannot be sent.
    """
    fields = []
    for one in parameters:
        try:
            fields += _fields(one, schemas, warn)
        except _NotSent as reason:
            required = one.parameter.required and one.parameter.param_in.value != "cookie"
            if required:
                raise Unusable(f"its {_label(one.parameter)} must be given, and {reason}") from None
            warn(f"the {_label(one.parameter)} is left out: {reason}")
    return fields


class _NotSent(ValueError):
    """A parameter cannot be sent, for this reason."""


def _label(parameter: Parameter) -> str:
    return f"{parameter.param_in.value} parameter '{shown(parameter.name)}'"


def _fields(one: RawParameter, schemas: SchemaConversion, warn: Warn) -> list[InputField]:
    parameter = one.parameter
    part = _PARTS.get(parameter.param_in.value)
    if part is None:
        raise _NotSent("cookies are not sent")
    if part == "header" and not _may_be_header(parameter):
        return []
    if parameter.allowReserved:
        warn(f"the {_label(parameter)} asks for reserved characters as they are; they are percent-encoded")
    field = InputField(part, parameter.name, _schema(one, schemas), parameter.required)
    kinds = _kinds(field.schema)
    style = parameter.style or ("form" if part == "query" else "simple")
    exploded = parameter.explode if parameter.explode is not None else style == "form"
    if one.raw.get("content") or kinds <= _SCALARS:
        return _written_plainly(field, style)
    if "object" in kinds:
        return _spread(field, style, exploded)
    return [field] if style == "form" and exploded else [_joined(field, style)]


def _may_be_header(parameter: Parameter) -> bool:
    name = parameter.name.lower()
    if name in _IGNORED_HEADERS:
        return False
    if name == "cookie" or is_connection_header(name) or not HEADER_NAME.fullmatch(name):
        raise _NotSent("a caller cannot set a header of this name")
    return True


def _written_plainly(field: InputField, style: str) -> list[InputField]:
    if style in ("label", "matrix"):
        raise _NotSent(f"values of the style {style} are not written")
    return [field]


def _joined(field: InputField, style: str) -> InputField:
    """Make one text of a list that goes into one value: a configuration has no word for how to join it."""
    if style not in _SEPARATORS:
        raise _NotSent(f"lists of the style {shown(style)} are not written")
    items = field.schema.get("items")
    choices = items.get("enum") if isinstance(items, dict) else None
    listed = f" Choices: {', '.join(map(str, choices[:50]))}." if isinstance(choices, list) else ""
    said = f"{field.schema.get('description', '')} Several values are separated by {_SEPARATORS[style]}.{listed}"
    return replace(field, schema={"type": "string", "description": said.strip()[:LONGEST_TEXT]})


def _spread(field: InputField, style: str, exploded: bool) -> list[InputField]:
    """Make a field of each property of an object that a query writes as names of their own."""
    named = "{0}[{1}]" if style == "deepObject" else "{1}" if style == "form" and exploded else None
    properties = field.schema.get("properties")
    if named is None or field.part != "query" or not isinstance(properties, dict) or not properties:
        raise _NotSent(f"objects of the style {shown(style)} without named properties are not written")
    if not all(_kinds(inner) <= _SCALARS for inner in properties.values()):
        raise _NotSent("objects within objects are not written in a query")
    required = field.schema.get("required", ()) if field.required else ()
    return [
        InputField("query", named.format(field.target, name), inner, name in required)
        for name, inner in properties.items()
    ]


def _kinds(schema: dict[str, Any]) -> set[str]:
    """Name the types that a value may have; what says none is taken for a text."""
    kinds = schema.get("type")
    found = set(kinds) if isinstance(kinds, list) else {kinds} if isinstance(kinds, str) else set()
    for keyword in ("anyOf", "oneOf", "allOf"):
        inner = schema.get(keyword)
        found |= {kind for form in inner if isinstance(form, dict) for kind in _kinds(form)} if inner else set()
    if "properties" in schema or "$ref" in schema:
        found.add("object")
    return found or {"string"}


def _schema(one: RawParameter, schemas: SchemaConversion) -> dict[str, Any]:
    content = one.raw.get("content")
    if content:
        media = next(iter(content.values())) if isinstance(content, dict) else None
        inner = schemas.convert(media["schema"]) if isinstance(media, dict) and "schema" in media else {}
        schema: dict[str, Any] = {"type": "string", "contentMediaType": next(iter(content)), "contentSchema": inner}
    else:
        schema = without_null(schemas.convert(one.raw["schema"])) if "schema" in one.raw else {"type": "string"}
    if one.parameter.description:
        schema["description"] = one.parameter.description[:LONGEST_TEXT]
    if one.parameter.deprecated:
        schema["deprecated"] = True
    example = one.raw.get("example")
    if isinstance(example, str | int | float) and len(str(example)) <= 200:
        schema.setdefault("examples", [example])
    return schema


def without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave null out of what a parameter may be: it cannot be written, and leaving the parameter out says as much."""
    forms = schema.get("anyOf")
    others = [form for form in forms if form != {"type": "null"}] if isinstance(forms, list) else []
    if isinstance(forms, list) and 0 < len(others) < len(forms):
        around = {keyword: value for keyword, value in schema.items() if keyword != "anyOf"}
        schema = {**others[0], **around} if len(others) == 1 else {**around, "anyOf": others}
    kinds = schema.get("type")
    choices = schema.get("enum", [...])
    if isinstance(kinds, list) and "null" in kinds and len(kinds) > 1 and choices != [None]:
        others = [kind for kind in kinds if kind != "null"]
        schema = {**schema, "type": others[0] if len(others) == 1 else others}
        if "enum" in schema:
            schema["enum"] = [choice for choice in choices if choice is not None]
    if schema.get("default", ...) is None:
        schema = {keyword: value for keyword, value in schema.items() if keyword != "default"}
    return dict(schema)
