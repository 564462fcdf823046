"""Convert the schemas of OpenAPI 3.0 and 3.1 to standalone JSON Schemas (draft 2020-12).

References inside the document are inlined, so that models and people see one schema; recursive schemas, and those that
would grow too large, go to `$defs`. Nothing is fetched or opened. One `Budget` limits the work of an import; others
limit the size of its tools, because shared schemas are copied into every tool that needs them.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal
from urllib.parse import unquote

from jsonschema_rs import ValidationError, meta

from toolweave.schema import MAX_PARTS

MAX_REFERENCE_HOPS = 50
MAX_STEPS = 6_000_000
MAX_OPERATION_STEPS = 300_000
CHARS_PER_STEP = 50
_MAX_SHOWN_LENGTH = 100
NON_TEXT_LENGTH = 8
MAX_TOTAL_PARTS = 1_000_000
MAX_TOTAL_CHARS = 40_000_000
MAX_SCHEMA_CHARS = 200_000
MAX_INLINED_PARTS = 600
"""The maximum number of parts of a schema with inlined references; larger ones keep their references."""


class UnusablePart(ValueError):
    """A part of a document that cannot become part of a tool; the message is the reason."""


class ExternalReference(UnusablePart):
    """A reference points into another document."""


class StepsExhausted(Exception):
    """The import has used all its steps."""


def excerpt(text: Any) -> str:
    """Return a name or URL from a document for a message: shortened, with unprintable characters escaped."""
    text = f"a value of type {type(text).__name__}" if isinstance(text, dict | list) else str(text)
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[:_MAX_SHOWN_LENGTH])


class OversizedSchema(UnusablePart):
    """A schema has more parts, text or levels than a tool may have."""


@dataclass(slots=True)
class Budget:
    """A remaining amount, which is also deducted from the `parent`, and the error for an exhausted budget.

    A step is about a microsecond. With references, a few kilobytes can cause any amount of work: so all code that reads
    a part of a document to which a reference may point consumes steps for its size.
    """

    remaining: int
    make_error: Callable[[], Exception]
    parent: "Budget | None" = None

    def consume(self, amount: int = 1) -> None:
        """Deduct an amount; if less remains, deduct that and raise the error."""
        consumed = min(amount, self.remaining)
        self.remaining -= consumed
        if self.parent is not None:
            self.parent.consume(consumed)
        if consumed < amount:
            raise self.make_error()


_TOO_MANY_STEPS = partial(
    UnusablePart,
    f"reading it with all that it refers to takes more than {MAX_OPERATION_STEPS:,} steps;"
    " let it refer to less, or leave it out",
)
_TOO_LARGE = partial(
    OversizedSchema,
    f"its schema, with all that it refers to, has more than {MAX_PARTS} parts or {MAX_SCHEMA_CHARS} characters",
)
_TOO_LARGE_TOGETHER = partial(
    OversizedSchema, "the schemas of all operations together are too large; import fewer, by `operations` or `tags`"
)


def measure_size(value: Any, max_parts: int) -> tuple[int, int]:
    """Return the number of parts and characters of a value; stop counting after `max_parts` parts."""
    pending, parts, characters = [value], 0, 0
    while pending and parts + len(pending) <= max_parts:
        part = pending.pop()
        parts += 1
        characters += len(part) if isinstance(part, str) else NON_TEXT_LENGTH
        if isinstance(part, dict):
            characters += sum(map(len, part))
        if isinstance(part, dict | list):
            pending.extend(part.values() if isinstance(part, dict) else part)
    return parts + len(pending), characters


@dataclass(frozen=True, slots=True)
class OpenApiDocument:
    """An OpenAPI document of plain JSON values (`read_document`) with the budgets of its import.

    `steps` limits the reading; `parts` and `characters` limit the schemas of all tools together.
    """

    content: dict[str, Any]
    steps: Budget = field(default_factory=lambda: Budget(MAX_STEPS, StepsExhausted))
    parts: Budget = field(default_factory=lambda: Budget(MAX_TOTAL_PARTS, _TOO_LARGE_TOGETHER))
    characters: Budget = field(default_factory=lambda: Budget(MAX_TOTAL_CHARS, _TOO_LARGE_TOGETHER))

    def for_operation(self) -> "OpenApiDocument":
        """Return the same document with the steps of one operation."""
        return replace(self, steps=Budget(MAX_OPERATION_STEPS, _TOO_MANY_STEPS, self.steps))

    def charge_entries(self, values: Collection[Any]) -> None:
        """Consume the steps for reading the keys of an object or the items of a list, without their contents."""
        self.steps.consume(1 + len(values))
        self.steps.consume(sum(len(value) for value in values if isinstance(value, str)) // CHARS_PER_STEP)

    def resolve_pointer(self, pointer: str) -> Any:
        """Return the value at `#/…`.

        Raises:
            ExternalReference: the pointer points into another document.
            UnusablePart: there is no value.
        """
        self.steps.consume(1 + pointer.count("/") + len(pointer) // CHARS_PER_STEP)
        if not pointer.startswith("#"):
            raise ExternalReference(
                f"it refers to another document, {excerpt(pointer)}; only references inside it are followed"
            )
        found: Any = self.content
        for step in pointer[1:].split("/")[1:]:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal() and len(name) < 10 and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                raise UnusablePart(f"its reference {excerpt(pointer)} points to nothing")
        if "/" not in pointer and pointer != "#":
            raise UnusablePart(f"its reference {excerpt(pointer)} is not a path into the document")
        return found

    def resolve_object(self, value: Any) -> dict[str, Any]:
        """Return an object of the document, following its references.

        Raises:
            UnusablePart: a reference points to nothing, outside, in a circle, or to a value that is not an object.
        """
        for _ in range(MAX_REFERENCE_HOPS):
            self.steps.consume()
            if not isinstance(value, dict):
                raise UnusablePart("a part of it is not an object where the OpenAPI specification requires one")
            pointer = value.get("$ref")
            if not isinstance(pointer, str):
                return value
            value = self.resolve_pointer(pointer)
        raise UnusablePart(f"its reference {excerpt(pointer)} leads in a circle")


SINGLE_SCHEMA_KEYS = frozenset(
    (
        *("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"),
        *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
    )
)
SCHEMA_LIST_KEYS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
SCHEMA_MAP_KEYS = frozenset(("properties", "patternProperties", "dependentSchemas"))
ANNOTATION_KEYS = frozenset(("title", "description", "default", "examples", "deprecated"))
_VALUE_KEYS = frozenset(
    (
        *("type", "required", "dependentRequired", "multipleOf", "const", "default", "enum", "examples", "deprecated"),
        *("uniqueItems", "title", "description", "format", "pattern", "contentEncoding", "contentMediaType", "minimum"),
        *("maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"),
        *("minContains", "maxContains", "minProperties", "maxProperties"),
    )
)
KNOWN_KEYS = _VALUE_KEYS | SINGLE_SCHEMA_KEYS | SCHEMA_LIST_KEYS | SCHEMA_MAP_KEYS


MAX_TEXT_LENGTH = 2_000
MAX_EXAMPLE_LENGTH = 200
MAX_SCHEMA_DEPTH = 40
_UNSAFE_CHARS = re.compile(r"[^A-Za-z0-9_.-]+")
OmittedFlag = Literal["readOnly", "writeOnly"]
JsonSchema = dict[str, Any]


class SchemaConverter:
    """Convert the schemas of one tool's input or output, and the `definitions` that they share.

    Args:
        document: the document that contains the targets of references.
        omitted: fields with this flag are omitted: `readOnly` in an input, `writeOnly` in an output.
        inline: inline references that are not recursive.
    """

    def __init__(self, document: OpenApiDocument, omitted: OmittedFlag, *, inline: bool) -> None:
        self._document = document
        self._omitted: OmittedFlag = omitted
        self._inline = inline
        self._parts = Budget(MAX_INLINED_PARTS if inline else MAX_PARTS, _TOO_LARGE, document.parts)
        self._characters = Budget(MAX_SCHEMA_CHARS, _TOO_LARGE, document.characters)
        self._names: dict[str, str] = {}
        self._taken: dict[str, int] = {}
        self._pending: list[str] = []
        self._open: list[str] = []

    def convert(self, raw: Any) -> JsonSchema:
        """Convert one schema.

        Raises:
            OversizedSchema: it exceeds a budget.
            UnusablePart: it is not a schema, or a reference in it cannot be resolved.
        """
        return _check_well_formed(self._convert(raw, 0))

    def definitions(self) -> dict[str, JsonSchema]:
        """Convert the schemas that the converted ones refer to, for `$defs`; raises as `convert`."""
        found = {}
        while self._pending:
            pointer = self._pending.pop()
            self._open = [pointer]
            found[self._names[pointer]] = _check_well_formed(self._convert(self._document.resolve_pointer(pointer), 0))
        return dict(sorted(found.items()))

    def convert_body(self, raw: Any) -> JsonSchema:
        """Convert the schema of a request or response body, which is inlined even if it is a reference."""
        is_reference = isinstance(raw, dict) and raw.keys() == {"$ref"}
        return self.convert(self._document.resolve_object(raw) if is_reference and not self._inline else raw)

    def _charge(self, value: Any = None) -> None:
        """Deduct a value, with everything in it, from all budgets."""
        parts, characters = measure_size(value, self._parts.remaining)
        self._document.steps.consume(parts)
        self._parts.consume(parts)
        self._characters.consume(characters)

    def _convert(self, raw: Any, depth: int) -> JsonSchema:
        self._charge()
        if depth > MAX_SCHEMA_DEPTH:
            raise OversizedSchema("its schema is nested too deeply")
        if isinstance(raw, bool):
            return {} if raw else {"not": {}}
        if not isinstance(raw, dict):
            raise UnusablePart("one of its schemas is not an object")
        self._document.charge_entries(raw)
        if "$ref" in raw:
            return self._convert_reference(raw, depth)
        schema = {key: self._convert_keyword(key, raw[key], depth) for key in raw if key in KNOWN_KEYS}
        schema = modernize_keywords(schema, raw)
        return _allow_null(schema) if raw.get("nullable") is True else schema

    def _convert_keyword(self, keyword: str, value: Any, depth: int) -> Any:
        if keyword in SINGLE_SCHEMA_KEYS:
            return value if isinstance(value, bool) else self._convert(value, depth + 1)
        if keyword in SCHEMA_LIST_KEYS:
            if not isinstance(value, list):
                raise UnusablePart(f"the {keyword} of one of its schemas is not a list")
            return [self._convert(inner, depth + 1) for inner in value]
        if keyword in SCHEMA_MAP_KEYS:
            return self._convert_map(keyword, value, depth)
        if keyword in ("title", "description") and isinstance(value, str):
            value = value[:MAX_TEXT_LENGTH]
        self._charge(value)
        return str(value)[:MAX_TEXT_LENGTH] if keyword in ("title", "description") else value

    def _convert_map(self, keyword: str, value: Any, depth: int) -> dict[str, JsonSchema]:
        if not isinstance(value, dict):
            raise UnusablePart(f"the {keyword} of one of its schemas is not an object")
        for name in value:
            self._charge(name)
        return {
            name: self._convert(inner, depth + 1)
            for name, inner in value.items()
            if keyword != "properties" or not self._is_omitted(inner)
        }

    def _is_omitted(self, raw: Any) -> bool:
        return isinstance(raw, dict) and self._document.resolve_object(raw).get(self._omitted) is True

    def _convert_reference(self, raw: dict[str, Any], depth: int) -> JsonSchema:
        pointer = raw["$ref"]
        if not isinstance(pointer, str):
            raise UnusablePart("a `$ref` in one of its schemas is not text")
        beside = {keyword: value for keyword, value in raw.items() if keyword not in ("$ref", "nullable")}
        own = self._convert(beside, depth + 1)
        self._document.resolve_object(raw)  # raises for a circle that consists of references only
        target = self._convert_target(pointer, depth)
        is_one = "$ref" in target or own.keys() <= ANNOTATION_KEYS
        schema = {**target, **own} if is_one else {"allOf": [target, own]}
        return _allow_null(schema) if raw.get("nullable") is True else schema

    def _convert_target(self, pointer: str, depth: int) -> JsonSchema:
        if self._inline and pointer not in self._names and pointer not in self._open:
            self._open.append(pointer)
            inlined = self._convert(self._document.resolve_pointer(pointer), depth + 1)
            self._open.pop()
            return inlined
        if pointer not in self._names:
            self._names[pointer] = self._definition_name(pointer)
            self._pending.append(pointer)
        return {"$ref": f"#/$defs/{self._names[pointer]}"}

    def _definition_name(self, pointer: str) -> str:
        preferred = _UNSAFE_CHARS.sub("_", excerpt(pointer).rpartition("/")[2])[-60:] or "Schema"
        name, number = preferred, self._taken.get(preferred, 1)
        while name in self._taken:
            number += 1
            name = f"{preferred}_{number}"
        self._taken[preferred] = number
        self._taken.setdefault(name, 1)
        return name


def _check_well_formed(schema: JsonSchema) -> JsonSchema:
    """Return a valid schema unchanged; raise UnusablePart if the value of a keyword has an invalid form."""
    try:
        meta.validate(schema)
    except ValidationError as error:
        keyword = next((part for part in reversed(error.instance_path) if part in KNOWN_KEYS), "value")
        raise UnusablePart(f"the {keyword} of one of its schemas has an invalid form") from None
    return schema


def modernize_keywords(schema: JsonSchema, raw: dict[str, Any]) -> JsonSchema:
    """Replace OpenAPI 3.0's own keywords by those of JSON Schema: `example`, and boolean exclusive bounds."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and bound in schema:
            schema[exclusive] = schema.pop(bound)
    if isinstance(example := raw.get("example"), str | int | float) and len(str(example)) <= MAX_EXAMPLE_LENGTH:
        schema.setdefault("examples", [example])
    if not isinstance(schema.get("examples", []), list):
        del schema["examples"]
    if "required" in schema:
        schema["required"] = _required_names(schema, raw)
        if not schema["required"]:
            del schema["required"]
    return schema


def _required_names(schema: JsonSchema, raw: dict[str, Any]) -> list[str]:
    """Return the required names without omitted fields; ignore a `required` of another form."""
    declared, required = raw.get("properties"), schema["required"]
    omitted = declared.keys() - schema.get("properties", {}).keys() if isinstance(declared, dict) else ()
    names = required if isinstance(required, list) else ()
    return list(dict.fromkeys(name for name in names if isinstance(name, str) and name not in omitted))


def _allow_null(schema: JsonSchema) -> JsonSchema:
    kinds, choices = schema.get("type"), schema.get("enum")
    if kinds is None and not schema.keys() & {"$ref", "allOf", "anyOf", "oneOf", "not", "enum", "const"}:
        return schema
    if kinds is None or "const" in schema:
        outside: JsonSchema = {name: schema.pop(name) for name in ("title", "description", "default") if name in schema}
        return {**outside, "anyOf": [schema, {"type": "null"}]}
    also = kinds if isinstance(kinds, list) else [kinds]
    null = {"type": also if "null" in also else [*also, "null"]}
    if isinstance(choices, list) and None not in choices:
        null["enum"] = [*choices, None]
    return {**schema, **null}


def json_content(document: OpenApiDocument, part: dict[str, Any]) -> tuple[str | None, Any]:
    """Return the JSON media type of a body or response and its schema, plain JSON first; (None, {}) without any."""
    content = part.get("content")
    if not isinstance(content, dict):
        return None, {}
    document.charge_entries(content)
    kinds = {kind: rank for kind in content if (rank := json_media_rank(kind)) is not None}
    if not kinds:
        return None, {}
    chosen = min(kinds, key=lambda kind: kinds[kind])
    media = content[chosen]
    return chosen, media.get("schema", {}) if isinstance(media, dict) else {}


def json_media_rank(media_type: str) -> int | None:
    """Return the rank of a JSON media type: plain JSON 0, other JSON types 1, wildcards 2; None for other types."""
    kind = media_type.partition(";")[0].strip().lower()
    if kind == "application/json":
        return 0
    if kind.startswith("application/") and kind.endswith("+json"):
        return 1
    return 2 if kind in ("*/*", "application/*") else None
