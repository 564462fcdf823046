"""Turn the schemas of OpenAPI 3.0 and 3.1 into JSON Schemas that stand on their own (draft 2020-12).

References are written out, so that models and people see one schema; what refers to itself, and what would grow too
large, goes to `$defs`.
"""

import re
from typing import Any, Literal

from toolweave.servers.registry.openapi.budget import Budget, TooLarge
from toolweave.servers.registry.openapi.keywords import (
    ANNOTATIONS,
    KNOWN,
    LISTED_SCHEMAS,
    NAMED_SCHEMAS,
    ONE_SCHEMA,
    malformed_keyword,
)
from toolweave.servers.registry.openapi.references import Document, Unusable, shown

LONGEST_TEXT = 2_000
LONGEST_EXAMPLE = 200
DEEPEST_SCHEMA = 40

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")

LeftOut = Literal["readOnly", "writeOnly"]
JsonSchema = dict[str, Any]


class SchemaConversion:
    """The schemas of one tool's input or output, with the `definitions` that they share.

    Args:
        document: where references lead.
        left_out: fields marked like this are left out: `readOnly` for an input, `writeOnly` for an output.
        budget: what the schemas may cost together.
        write_out: write references out where they do not lead into themselves.
    """

    def __init__(self, document: Document, left_out: LeftOut, budget: Budget, *, write_out: bool = True) -> None:
        self._document = document
        self._left_out: LeftOut = left_out
        self._budget = budget
        self._write_out = write_out
        self._names: dict[str, str] = {}
        self._taken: dict[str, int] = {}
        self._pending: list[str] = []
        self._open: list[str] = []

    def convert(self, raw: Any) -> JsonSchema:
        """Convert one schema.

        Raises:
            TooLarge: it costs too much.
            Unusable: it is no schema, or a reference in it cannot be followed.
        """
        return self._of(raw, 0)

    def definitions(self) -> dict[str, JsonSchema]:
        """Convert what the schemas so far refer to, for their `$defs`; raises like `convert`."""
        found = {}
        while self._pending:
            pointer = self._pending.pop()
            self._open = [pointer]
            found[self._names[pointer]] = self._of(self._document.part(pointer), 0)
        return dict(sorted(found.items()))

    def is_left_out(self, raw: Any) -> bool:
        """Say whether a property is not for this direction."""
        return self._document.follow(raw).get(self._left_out) is True if isinstance(raw, dict) else False

    def visit(self) -> None:
        """Spend what it costs to look at one schema; raises TooLarge."""
        self._budget.spend()

    def _of(self, raw: Any, depth: int) -> JsonSchema:
        self.visit()
        if depth > DEEPEST_SCHEMA:
            raise TooLarge("its schema is nested too deeply")
        if isinstance(raw, bool):
            return {} if raw else {"not": {}}
        if not isinstance(raw, dict):
            raise Unusable("one of its schemas is no object")
        self._document.look_through(raw)
        if "$ref" in raw:
            return self._reference(raw, depth)
        schema = {keyword: self._keyword(keyword, raw[keyword], depth) for keyword in raw if keyword in KNOWN}
        schema = in_present_form(schema, raw)
        if keyword := malformed_keyword(schema):
            raise Unusable(f"the {keyword} of one of its schemas has a form that it cannot have")
        return _or_null(schema) if raw.get("nullable") is True else schema

    def _keyword(self, keyword: str, value: Any, depth: int) -> Any:
        if keyword in ONE_SCHEMA:
            return value if isinstance(value, bool) else self._of(value, depth + 1)
        if keyword in LISTED_SCHEMAS:
            if not isinstance(value, list):
                raise Unusable(f"the {keyword} of one of its schemas is no list")
            return [self._of(inner, depth + 1) for inner in value]
        if keyword in NAMED_SCHEMAS:
            return self._named(keyword, value, depth)
        if keyword in ("title", "description") and isinstance(value, str):
            value = value[:LONGEST_TEXT]
        self._budget.spend(value)
        return str(value)[:LONGEST_TEXT] if keyword in ("title", "description") else value

    def _named(self, keyword: str, value: Any, depth: int) -> dict[str, JsonSchema]:
        if not isinstance(value, dict):
            raise Unusable(f"the {keyword} of one of its schemas are no object")
        for name in value:
            self._budget.spend(name)
        return {
            name: self._of(inner, depth + 1)
            for name, inner in value.items()
            if keyword != "properties" or not self.is_left_out(inner)
        }

    def _reference(self, raw: dict[str, Any], depth: int) -> JsonSchema:
        pointer = raw["$ref"]
        if not isinstance(pointer, str):
            raise Unusable("a `$ref` in one of its schemas is no text")
        beside = {keyword: value for keyword, value in raw.items() if keyword not in ("$ref", "nullable")}
        own = self._of(beside, depth + 1)
        self._document.follow(raw)  # refuses circles of references alone
        target = self._target(pointer, depth)
        is_one = "$ref" in target or own.keys() <= ANNOTATIONS
        schema = {**target, **own} if is_one else {"allOf": [target, own]}
        return _or_null(schema) if raw.get("nullable") is True else schema

    def _target(self, pointer: str, depth: int) -> JsonSchema:
        if self._write_out and pointer not in self._names and pointer not in self._open:
            self._open.append(pointer)
            written = self._of(self._document.part(pointer), depth + 1)
            self._open.pop()
            return written
        if pointer not in self._names:
            self._names[pointer] = self._name(pointer)
            self._pending.append(pointer)
        return {"$ref": f"#/$defs/{self._names[pointer]}"}

    def _name(self, pointer: str) -> str:
        wanted = _UNSAFE.sub("_", shown(pointer).rpartition("/")[2])[-60:] or "Schema"
        name, number = wanted, self._taken.get(wanted, 1)
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken[wanted] = number
        self._taken.setdefault(name, 1)
        return name


def in_present_form(schema: JsonSchema, raw: dict[str, Any]) -> JsonSchema:
    """Say in today's keywords what OpenAPI 3.0 says in its own: `example`, and booleans beside bounds."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and bound in schema:
            schema[exclusive] = schema.pop(bound)
    if isinstance(example := raw.get("example"), str | int | float) and len(str(example)) <= LONGEST_EXAMPLE:
        schema.setdefault("examples", [example])
    if not isinstance(schema.get("examples", []), list):
        del schema["examples"]
    if "required" in schema:
        schema["required"] = _required(schema, raw)
        if not schema["required"]:
            del schema["required"]
    return schema


def _required(schema: JsonSchema, raw: dict[str, Any]) -> list[str]:
    """Give what is required without what was left out; a `required` of another form says nothing."""
    declared, required = raw.get("properties"), schema["required"]
    gone = declared.keys() - schema.get("properties", {}).keys() if isinstance(declared, dict) else ()
    names = required if isinstance(required, list) else ()
    return list(dict.fromkeys(name for name in names if isinstance(name, str) and name not in gone))


def _or_null(schema: JsonSchema) -> JsonSchema:
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
