"""Check request bodies against JSON Schemas, the very ones that /openapi.json publishes.

A schema is compiled once into plain closures (a request costs microseconds) and the messages have the wording
of the reference server. Understood: type, enum, required, properties, items, anyOf, oneOf, minimum, maximum, minItems,
maxItems, minLength, maxLength, maxProperties, additionalProperties and $ref into the given components; of oneOf,
branches that each ask for other properties.
Unknown properties pass; null passes only where the schema lists it. An integer has 64 bits at most: databases hold no
larger ones. Values that are stored as JSON have no type in their schemas, and keep integers of any size.
"""

from collections.abc import Callable, Mapping
from typing import Any

from toolweave.errors import InvalidRequest
from toolweave.runtime.streaming.codec import dumps

Schema = Mapping[str, Any]
Path = tuple[str | int, ...]
Check = Callable[[Any, Path], None]
REF = "#/components/schemas/"
# The integers that a database column or a bound parameter holds.
MAX_INTEGER = 2**63 - 1
OF_64_BITS: Schema = {"minimum": -(2**63), "maximum": MAX_INTEGER}
SHOWN_BYTES = 1000
SHOWN_CHOICES = 2


class MismatchError(Exception):
    """A value does not fit its schema."""

    def __init__(self, problem: str, keyword: str, where: Path, value: object, path: Path) -> None:
        super().__init__(problem)
        self.problem, self.keyword, self.where, self.value, self.path = problem, keyword, where, value, path

    def __str__(self) -> str:
        """Say what is wrong, which rule says so, and which part of the request it is about."""
        return (
            f'{self.problem}\n\nFailed validating "{self.keyword}" in schema{_steps(self.where)}'
            f"\n\nOn instance{_steps(self.path)}:\n    {_shown(self.value)}"
        )


class BodySchema:
    """One request body's schema, compiled."""

    def __init__(self, name: str, components: Mapping[str, Schema]) -> None:
        self.name = name
        properties = components[name].get("properties", {})
        self.known = frozenset(properties)
        self.integers = frozenset(field for field, part in properties.items() if part.get("type") == "integer")
        self._check = _compile(components[name], (), components)

    def check(self, value: object) -> None:
        """Accept a decoded body. Raises InvalidRequest, which says where and what."""
        try:
            self._check(value, ())
        except MismatchError as mismatch:
            raise InvalidRequest(str(mismatch)) from None


def _compile(schema: Schema, where: Path, components: Mapping[str, Schema]) -> Check:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REF)
        return _compile(components[name], ("components", "schemas", name), components)
    if "integer" in schema.get("type", ()):
        schema = {**OF_64_BITS, **schema}
    checks = [make(schema, where, components) for keyword, make in _KEYWORDS.items() if keyword in schema]
    null_allowed = isinstance(schema.get("type"), list) and "null" in schema["type"]

    def check(value: Any, path: Path) -> None:
        if value is None and null_allowed:
            return
        for one in checks:
            one(value, path)

    return checks[0] if len(checks) == 1 else check


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_IS: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        # 5.0 is an integer to JSON Schema.
        or (isinstance(value, float) and value.is_integer())
    ),
    "number": _is_number,
}


def _type(schema: Schema, where: Path, _components: Mapping[str, Schema]) -> Check:
    names = [schema["type"]] if isinstance(schema["type"], str) else list(schema["type"])
    tests = [_IS[name] for name in names]
    listed = ", ".join(f'"{name}"' for name in names)
    wanted = f"type {listed}" if len(names) == 1 else f"types {listed}"

    def check(value: Any, path: Path) -> None:
        if not any(test(value) for test in tests):
            raise MismatchError(f"{_shown(value)} is not of {wanted}", "type", where, value, path)

    return check


def _enum(schema: Schema, where: Path, _components: Mapping[str, Schema]) -> Check:
    allowed = list(schema["enum"])
    listed = _choices(allowed)

    def check(value: Any, path: Path) -> None:
        if value not in allowed:
            raise MismatchError(f"{_shown(value)} is not {listed}", "enum", where, value, path)

    return check


def _bound(keyword: str, fails: Callable[[Any, Any], bool], wording: str) -> Callable[..., Check]:
    def make(schema: Schema, where: Path, _components: Mapping[str, Schema]) -> Check:
        limit = schema[keyword]

        def check(value: Any, path: Path) -> None:
            if fails(value, limit):
                plural = "" if limit == 1 else "s"
                text = wording.format(limit=limit, plural=plural, ies="y" if limit == 1 else "ies")
                raise MismatchError(f"{_shown(value)} {text}", keyword, where, value, path)

        return check

    return make


def _required(schema: Schema, where: Path, _components: Mapping[str, Schema]) -> Check:
    names = tuple(schema["required"])

    def check(value: Any, path: Path) -> None:
        for name in names:
            if name not in value:
                raise MismatchError(f'"{name}" is a required property', "required", where, value, path)

    return check


def _properties(schema: Schema, where: Path, components: Mapping[str, Schema]) -> Check:
    checks = {
        name: _compile(part, (*where, "properties", name), components) for name, part in schema["properties"].items()
    }

    def check(value: Any, path: Path) -> None:
        for name, item in value.items():
            one = checks.get(name)
            if one is not None:
                one(item, (*path, name))

    return check


def _additional(schema: Schema, where: Path, components: Mapping[str, Schema]) -> Check:
    known = frozenset(schema.get("properties", ()))
    part = _compile(schema["additionalProperties"], (*where, "additionalProperties"), components)

    def check(value: Any, path: Path) -> None:
        for name, item in value.items():
            if name not in known:
                part(item, (*path, name))

    return check


def _items(schema: Schema, where: Path, components: Mapping[str, Schema]) -> Check:
    part = _compile(schema["items"], (*where, "items"), components)

    def check(value: Any, path: Path) -> None:
        for index, item in enumerate(value):
            part(item, (*path, index))

    return check


def _any_of(schema: Schema, where: Path, components: Mapping[str, Schema]) -> Check:
    parts = [_compile(part, (*where, "anyOf", index), components) for index, part in enumerate(schema["anyOf"])]

    def check(value: Any, path: Path) -> None:
        for part in parts:
            try:
                part(value, path)
            except MismatchError:
                continue
            return
        problem = f"{_shown(value)} is not valid under any of the schemas listed in the 'anyOf' keyword"
        raise MismatchError(problem, "anyOf", where, value, path)

    return check


def _one_of(schema: Schema, where: Path, components: Mapping[str, Schema]) -> Check:
    parts = [_compile(part, (*where, "oneOf", index), components) for index, part in enumerate(schema["oneOf"])]

    def fits(part: Check, value: Any, path: Path) -> bool:
        try:
            part(value, path)
        except MismatchError:
            return False
        return True

    def check(value: Any, path: Path) -> None:
        fitting = sum(fits(part, value, path) for part in parts)
        if fitting != 1:
            how = "under more than one" if fitting else "under any"
            valid = "is valid" if fitting else "is not valid"
            problem = f"{_shown(value)} {valid} {how} of the schemas listed in the 'oneOf' keyword"
            raise MismatchError(problem, "oneOf", where, value, path)

    return check


# In the order in which they are checked: the type first, so that the others may rely on it.
_KEYWORDS: Mapping[str, Callable[[Schema, Path, Mapping[str, Schema]], Check]] = {
    "type": _type,
    "anyOf": _any_of,
    "enum": _enum,
    "minimum": _bound(
        "minimum", lambda value, limit: _is_number(value) and value < limit, "is less than the minimum of {limit}"
    ),
    "maximum": _bound(
        "maximum", lambda value, limit: _is_number(value) and value > limit, "is greater than the maximum of {limit}"
    ),
    "minItems": _bound("minItems", lambda value, limit: len(value) < limit, "has less than {limit} item{plural}"),
    "maxItems": _bound("maxItems", lambda value, limit: len(value) > limit, "has more than {limit} item{plural}"),
    "minLength": _bound(
        "minLength", lambda value, limit: len(value) < limit, "is shorter than {limit} character{plural}"
    ),
    "maxLength": _bound(
        "maxLength", lambda value, limit: len(value) > limit, "is longer than {limit} character{plural}"
    ),
    "maxProperties": _bound(
        "maxProperties", lambda value, limit: len(value) > limit, "has more than {limit} propert{ies}"
    ),
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
    "oneOf": _one_of,
}


def _choices(allowed: list[Any]) -> str:
    shown = [_shown(choice) for choice in allowed]
    if len(shown) == 1:
        return shown[0]
    if len(shown) <= SHOWN_CHOICES + 1:
        return f"one of {', '.join(shown[:-1])} or {shown[-1]}"
    return f"one of {', '.join(shown[:SHOWN_CHOICES])} or {len(shown) - SHOWN_CHOICES} other candidates"


def _steps(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f'["{step[:SHOWN_BYTES]}"]' for step in path)


def _shown(value: object) -> str:
    text = dumps(value)
    if len(text) <= SHOWN_BYTES:
        return text.decode()
    return text[:SHOWN_BYTES].decode("utf-8", "ignore") + "…"
