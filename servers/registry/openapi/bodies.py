"""Turn the JSON body of an operation into input fields: its properties where that says the same, else one field."""

from dataclasses import dataclass, field
from typing import Any

from toolweave.servers.registry.openapi.fields import InputField
from toolweave.servers.registry.openapi.references import Document, Unusable, shown
from toolweave.servers.registry.openapi.schemas import LONGEST_TEXT, SchemaConversion

JSON = "application/json"
_MOST_LEVELS = 20
_TELLING = frozenset(
    (
        *("type", "properties", "required", "allOf", "additionalProperties", "title", "description", "example"),
        *("examples", "default", "deprecated", "externalDocs", "xml", "discriminator", "nullable"),
    )
)
"""What may stand beside properties that are laid out as fields; anything else says more than fields can."""


@dataclass
class BodyFields:
    """The fields that make a body, and the media type to send it as where that is not plain JSON."""

    fields: list[InputField] = field(default_factory=list)
    media_type: str | None = None


@dataclass
class ObjectShape:
    """The properties of an object, those of its `allOf` included, as they stand in the document."""

    properties: dict[str, Any] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)


def body_fields(document: Document, body: Any, schemas: SchemaConversion) -> BodyFields:
    """Make fields of a request body.

    Raises:
        Unusable: it has no form in JSON, or none that can be read.
    """
    raw = document.follow(body)
    media_type, schema = json_content(document, raw)
    if media_type is None:
        content = raw.get("content")
        if not content:
            return BodyFields()
        if not isinstance(content, dict):
            raise Unusable("the content of its body is no object")
        kinds = ", ".join(shown(kind) for kind in list(content)[:3])
        raise Unusable(f"its body is {kinds}, and only JSON is sent")
    required = raw.get("required") is True
    schema, required = _without_null(schema, required)
    sent_as = media_type if json_rank(media_type) == 1 else None
    shape = object_shape(document, schema, schemas)
    if shape is not None and (required or not shape.required):
        return BodyFields(_property_fields(shape, schemas), sent_as)
    whole = schemas.convert(schema)
    if isinstance(said := raw.get("description"), str) and "description" not in whole:
        whole["description"] = said[:LONGEST_TEXT]
    return BodyFields([InputField("body", "body", whole, required, whole_body=True)], sent_as)


def json_content(document: Document, part: dict[str, Any]) -> tuple[str | None, Any]:
    """Give the JSON media type of a body or response and its schema, plain JSON first; (None, {}) without any."""
    content = part.get("content")
    if not isinstance(content, dict):
        return None, {}
    document.look_through(content)
    kinds = {kind: rank for kind in content if (rank := json_rank(kind)) is not None}
    if not kinds:
        return None, {}
    chosen = min(kinds, key=lambda kind: kinds[kind])
    media = content[chosen]
    return chosen, media.get("schema", {}) if isinstance(media, dict) else {}


def object_shape(
    document: Document, raw: Any, schemas: SchemaConversion, levels: int = _MOST_LEVELS
) -> ObjectShape | None:
    """Give the properties of an object; None where the schema says more than that, or is no object.

    Raises:
        TooLarge: it has more parts than a schema may have.
        Unusable: a reference in it leads nowhere.
    """
    schemas.visit()
    if levels == 0 or not isinstance(raw, dict):
        return None
    schema = document.follow(raw)
    document.look_through(schema)
    telling = {keyword for keyword in schema if not keyword.startswith("x-")}
    others, parts = schema.get("additionalProperties", True), schema.get("allOf", [])
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if telling - _TELLING or schema.get("type", "object") != "object" or others not in (True, False, {}):
        return None
    if not isinstance(properties, dict) or not isinstance(parts, list) or not (properties or parts or others is False):
        return None
    document.look_through(properties)
    document.look_through(required if isinstance(required, list) else ())
    shape = ObjectShape(dict(properties), _names(required))
    for part in parts:
        inner = object_shape(document, part, schemas, levels - 1)
        if inner is None:
            return None
        document.look_through(inner.properties)
        for name, one in inner.properties.items():
            known = shape.properties.setdefault(name, one)
            if known is not one:
                document.look_into(one)
                shape.properties[name] = known if known == one else {"allOf": [known, one]}
        document.look_through(inner.required)
        shape.required |= inner.required
    return shape


def _names(required: Any) -> set[str]:
    return {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()


def json_rank(media_type: str) -> int | None:
    """Rank media types that JSON is sent as: plain JSON 0, others 1, any type 2; None for what is no JSON."""
    kind = media_type.partition(";")[0].strip().lower()
    if kind == JSON:
        return 0
    if kind.startswith("application/") and kind.endswith("+json"):
        return 1
    return 2 if kind in ("*/*", "application/*") else None


def _without_null(schema: Any, required: bool) -> tuple[Any, bool]:
    """Take a body that may be null for one that may be left out."""
    forms = schema.get("anyOf") if isinstance(schema, dict) else None
    if isinstance(forms, list) and len(forms) == 2 and {"type": "null"} in forms:
        return next(form for form in forms if form != {"type": "null"}), False
    return schema, required


def _property_fields(shape: ObjectShape, schemas: SchemaConversion) -> list[InputField]:
    left_out = {name for name, raw in shape.properties.items() if schemas.is_left_out(raw)}
    properties = {name: shape.properties.get(name, {}) for name in (*shape.properties, *sorted(shape.required))}
    return [
        InputField("body", name, schemas.convert(raw), name in shape.required)
        for name, raw in properties.items()
        if name not in left_out
    ]
