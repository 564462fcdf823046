"""Check request bodies against JSON Schemas, the very ones that /openapi.json publishes.

The reference server checks with the same library, so the messages have its wording. Unknown properties pass; null
passes only where the schema lists it. An integer has 64 bits at most: databases hold no larger ones. Values that are
stored as JSON have no type in their schemas, and keep integers of any size.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jsonschema_rs import Draft202012Validator, ValidationError

from toolweave.errors import InvalidRequest
from toolweave.runtime.codec import dumps, is_large

Definition = Mapping[str, Any]
Path = tuple[str | int, ...]
REF = "#/components/schemas/"
# The integers that a database column or a bound parameter holds.
MAX_INTEGER = 2**63 - 1
OF_64_BITS: Definition = {"minimum": -(2**63), "maximum": MAX_INTEGER}
SHOWN_BYTES = 1000
# Stands in the library's messages for the value, which may be large.
VALUE = "\0"
_PARTS = ("properties", "additionalProperties", "items")


class BodySchema:
    """One request body's schema, compiled."""

    def __init__(self, name: str, components: Mapping[str, Definition]) -> None:
        self.name = name
        properties = components[name].get("properties", {})
        self.known = frozenset(properties)
        self.integers = frozenset(field for field, part in properties.items() if part.get("type") == "integer")
        self._components = _bounded(components)
        self._validator = self._compile(self._components[name])

    def check(self, value: object) -> None:
        """Accept a decoded body, whose depth is bounded. Raises InvalidRequest, which says where and what."""
        if not self._validator.is_valid(value):
            raise InvalidRequest(self._problem(self._components[self.name], value, (), ()))

    def _compile(self, schema: Definition) -> Draft202012Validator:
        root = {**schema, "components": {"schemas": self._components}}
        return Draft202012Validator(root, mask=VALUE, validate_formats=False)

    def _problem(self, schema: Definition, value: Any, where: Path, path: Path) -> str:
        """Describe the first fault.

        The library's error holds a copy of the value that it is about: it takes 0.9 s for 200 000 members, with the
        GIL held. Inside a large value only parts that are not large get one (R-03).
        """
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(REF)
            schema, where = self._components[name], ("components", "schemas", name)
        if is_large(value):
            return self._problem_of_large(schema, value, where, path)
        try:
            self._compile(schema).validate(value)
        except ValidationError as error:
            *inner, keyword = error.schema_path
            where = tuple(inner) if "components" in inner[:1] else (*where, *inner)
            for step in error.instance_path:
                value, path = value[step], (*path, step)
            return _text(error.message, str(keyword), where, value, path)
        raise AssertionError("a value that does not fit its schema has a fault")

    def _problem_of_large(self, schema: Definition, value: Any, where: Path, path: Path) -> str:
        for inner, part, items in _parts(schema, value):
            fits = self._compile(part).is_valid
            for step, item in items:
                if not fits(item):
                    return self._problem(part, item, (*where, *inner), (*path, step))
        rules = {keyword: rule for keyword, rule in schema.items() if keyword not in _PARTS}
        keyword = next(name for name in rules if not self._compile({name: rules[name]}).is_valid(value))
        return _text(f"{VALUE} does not satisfy {_shown({keyword: rules[keyword]})}", keyword, where, value, path)


def _bounded(schema: Any) -> Any:
    """Copy schemas, with the bounds of integers that name none."""
    if isinstance(schema, list):
        return [_bounded(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    copy = {keyword: _bounded(part) for keyword, part in schema.items()}
    return {**OF_64_BITS, **copy} if "integer" in copy.get("type", ()) else copy


def _parts(schema: Definition, value: Any) -> Iterator[tuple[Path, Definition, Iterable[tuple[str | int, Any]]]]:
    """List the parts of a value for which the schema has a schema: its path, the schema, and the parts by name."""
    if isinstance(value, list) and "items" in schema:
        yield ("items",), schema["items"], enumerate(value)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        yield from ((("properties", name), known[name], [(name, value[name])]) for name in known if name in value)
        if "additionalProperties" in schema:
            others = ((name, item) for name, item in value.items() if name not in known)
            yield ("additionalProperties",), schema["additionalProperties"], others


def _text(problem: str, keyword: str, where: Path, value: object, path: Path) -> str:
    shown = _shown(value)
    return (
        f'{problem.replace(VALUE, shown)}\n\nFailed validating "{keyword}" in schema{_steps(where)}'
        f"\n\nOn instance{_steps(path)}:\n    {shown}"
    )


def _steps(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f'["{step[:SHOWN_BYTES]}"]' for step in path)


def _shown(value: object) -> str:
    text = dumps(value)
    if len(text) <= SHOWN_BYTES:
        return text.decode()
    return text[:SHOWN_BYTES].decode("utf-8", "ignore") + "…"


Schema = dict[str, Any]
OBJECT: Schema = {"type": "object"}
STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
ANY: Schema = {}
UUID: Schema = {"type": "string", "format": "uuid"}
TIMESTAMP: Schema = {"type": "string", "format": "date-time"}
NULLABLE_OBJECT: Schema = {"type": ["object", "null"]}
NULLABLE_STRING: Schema = {"type": ["string", "null"]}
MAX_LIMIT = 1000
# A hundred years.
MAX_TTL_MINUTES = 52_560_000
# Matched in the database with what is stored under the same name.
SQL_FILTER: Schema = {"type": "object", "additionalProperties": OF_64_BITS}


def one_of(*choices: str) -> Schema:
    """Describe a string out of a closed set."""
    return {"type": "string", "enum": list(choices)}


def list_of(item: Schema) -> Schema:
    """Describe an array."""
    return {"type": "array", "items": item}


def nullable(schema: Schema) -> Schema:
    """Let null stand for "not given"."""
    return {"anyOf": [schema, {"type": "null"}]}


def ref(name: str) -> Schema:
    """Point at a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def page_of() -> Schema:
    """Describe the properties that choose one page of results."""
    return {
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 10},
        "offset": {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER, "default": 0},
    }


def paging(*sort_fields: str, select: tuple[str, ...]) -> Schema:
    """Describe the properties that page, sort and trim the results of a search."""
    return {
        **page_of(),
        "sort_by": one_of(*sort_fields),
        "sort_order": one_of("asc", "desc"),
        "select": list_of(one_of(*select)),
    }


def body(properties: Schema, *, required: tuple[str, ...] = (), description: str) -> Schema:
    """Describe a JSON object."""
    schema: Schema = {"type": "object", "description": description, "properties": properties}
    if required:
        schema["required"] = list(required)
    return schema
