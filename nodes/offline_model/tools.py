"""Parse bound tools into the form that the rules use: action, nouns, parameters."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property, lru_cache
from typing import Any, Literal

from toolweave.nodes.offline_model.english import (
    STOP_WORDS,
    TOOL_VERBS,
    Action,
    any_of_nouns,
    noun_synonyms,
    singular,
    stem,
    words,
)
from toolweave.schema import Schema

Kind = Literal["string", "integer", "number", "boolean", "array", "object", "null", "any"]
Role = Literal[
    "id", "title", "query", "description", "date", "url", "path", "email", "limit", "cursor", "labels", "choice",
    "number", "text", "other",
]  # fmt: skip
_KINDS: tuple[Kind, ...] = ("string", "integer", "number", "boolean", "array", "object", "null")
_MAX_DEPTH = 12
_ROLES: tuple[tuple[Role, str], ...] = (
    ("url", "url uri link href website endpoint"),
    ("email", "email recipient recipients cc bcc mail"),
    ("path", "path file filename filepath directory folder dir source destination src dst"),
    ("cursor", "cursor offset token page continuation"),
    ("labels", "tag tags label labels category categories"),
    ("query", "query q search keyword keywords term terms question pattern expression"),
    ("title", "title name subject summary headline task item label"),
    ("description", "description details detail body notes note comment content reason"),
    ("text", "text message input prompt sentence phrase"),
)
_ROLE_WORDS = tuple((role, frozenset(words(listed))) for role, listed in _ROLES)
_DATE_WORDS = frozenset(words("date due deadline day when before after until since"))
_LIMIT_WORDS = frozenset(words("limit count top max size first n num maximum"))
_ID_WORDS = frozenset(words("id uuid identifier key number no"))
_UPPER_WORDS = frozenset(words("before until to max end by"))
_LOWER_WORDS = frozenset(words("after since from min start"))


@dataclass(frozen=True)
class Parameter:
    """One property of a tool's input; `schema` has no references, `choices` has no null."""

    name: str
    schema: Mapping[str, Any]
    required: bool
    kind: Kind
    role: Role
    choices: tuple[Any, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def bound(self) -> Literal["upper", "lower", "exact"]:
        """Return whether a date in this parameter is an upper bound, a lower bound, or exact."""
        name_set = set(self.words)
        return "upper" if name_set & _UPPER_WORDS else "lower" if name_set & _LOWER_WORDS else "exact"

    @property
    def description(self) -> str:
        """Return the parameter's description in the schema."""
        text = self.schema.get("description", "")
        return text if isinstance(text, str) else ""


def name_words(name: str) -> tuple[str, ...]:
    """Split a snake_case, kebab-case or camelCase name into words."""
    return tuple(words(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+", " ", name)))


def resolve_schema(schema: object, root: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """Resolve local references; of alternatives, use the first that is not null."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return {}
    found = dict(schema)
    reference = found.pop("$ref", None)
    if isinstance(reference, str):
        return {**resolve_schema(_schema_at(reference, root), root, depth + 1), **found}
    for keyword in ("anyOf", "oneOf", "allOf"):
        options = found.get(keyword)
        if isinstance(options, list) and options:
            resolved = [resolve_schema(option, root, depth + 1) for option in options]
            solid = next((option for option in resolved if option.get("type") != "null"), {})
            return {**solid, **{key: value for key, value in found.items() if key != keyword}}
    return found


def _schema_at(reference: str, root: Mapping[str, Any]) -> object:
    place: object = root
    for step in reference.removeprefix("#/").split("/"):
        place = place.get(step) if isinstance(place, Mapping) else None
    return place


def parse_parameters(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> tuple[Parameter, ...]:
    """Return the parameters of an object schema within `root`; malformed parts are skipped."""
    root = root or schema
    schema = resolve_schema(schema, root)
    properties = schema.get("properties")
    required = schema.get("required")
    needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    if not isinstance(properties, Mapping):
        return ()
    return tuple(
        _parameter(str(name), resolve_schema(one, root), str(name) in needed) for name, one in properties.items()
    )


def _parameter(name: str, schema: dict[str, Any], required: bool) -> Parameter:
    types = schema.get("type")
    listed = [types] if isinstance(types, str) else [one for one in types or () if isinstance(one, str)]
    enum = schema.get("enum", [schema["const"]] if "const" in schema else [])
    choices = tuple(value for value in enum if value is not None) if isinstance(enum, list) else ()
    guessed: Kind = "object" if "properties" in schema else "array" if "items" in schema else "any"
    if choices and all(isinstance(choice, str) for choice in choices):
        guessed = "string"
    kind = next((one for one in _KINDS if one in listed and one != "null"), guessed)
    if kind == "boolean":
        choices = choices or (False, True)
    parts = name_words(name)
    return Parameter(name, schema, required, kind, _parameter_role(kind, parts, schema, choices), choices, parts)


_FORMAT_ROLES: dict[Any, Role] = {
    "date": "date", "date-time": "date", "uri": "url", "url": "url", "email": "email",
}  # fmt: skip


def _parameter_role(kind: Kind, parts: tuple[str, ...], schema: Mapping[str, Any], choices: tuple[Any, ...]) -> Role:
    name_set, last = set(parts), parts[-1] if parts else ""
    plain: dict[Kind, Role] = {"array": "labels", "object": "other"}
    if choices or kind in plain:
        return "choice" if choices else plain[kind]
    if kind in ("integer", "number"):
        if last in _ID_WORDS and kind == "integer":
            return "id"
        if name_set & {"cursor", "offset", "page"} and "size" not in name_set:
            return "cursor"
        return "limit" if name_set & _LIMIT_WORDS and kind == "integer" else "number"
    if str(schema.get("format")) in _FORMAT_ROLES:
        return _FORMAT_ROLES[schema["format"]]
    if name_set & _DATE_WORDS:
        return "date"
    if last in _ID_WORDS - {"key", "number", "no"}:
        return "id"
    if name_set & {"currency", "branch", "ref", "commit", "version"}:
        return "other"
    return next((role for role, listed in _ROLE_WORDS if name_set & listed), "email" if parts == ("to",) else "other")


_MAIN_ROLES: tuple[Role, ...] = ("title", "query", "text", "description", "other", "path", "url")


@dataclass(frozen=True)
class ToolSpec:
    """One tool; `nouns` are the nouns in its name, without synonyms."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(hash=False)
    parameters: tuple[Parameter, ...] = field(hash=False)
    action: Action | None
    verb: str
    nouns: tuple[str, ...]

    def parameter(self, role: Role) -> Parameter | None:
        """Return the first parameter that has a role."""
        return next((one for one in self.parameters if one.role == role), None)

    @property
    def main(self) -> Parameter | None:
        """Return the text parameter for the subject of the request."""
        texts = [one for one in self.parameters if one.kind in ("string", "any") and one.role in _MAIN_ROLES]
        return min(texts, key=lambda one: (not one.required, _MAIN_ROLES.index(one.role)), default=None)

    @property
    def key(self) -> Parameter | None:
        """Return the required identifier of the thing that the tool acts on."""
        return next((one for one in self.parameters if one.role == "id" and one.required), None)

    @property
    def noun(self) -> str:
        """Return the singular noun for the thing that the tool acts on."""
        if not self.nouns:
            return "result"
        return singular(self.nouns[-1]) if self.action else self.nouns[-1]

    @property
    def nouns_and_synonyms(self) -> frozenset[str]:
        """Return the nouns with all their synonyms."""
        return frozenset(member for noun in self.nouns for member in noun_synonyms(noun))

    @cached_property
    def any_noun(self) -> str:
        """Return a regular expression for the nouns and their synonyms."""
        return any_of_nouns(self.nouns_and_synonyms)

    def shares_noun(self, other: "ToolSpec") -> bool:
        """Return whether the names of both tools have a noun in common."""
        return bool({stem(noun) for noun in self.nouns} & {stem(noun) for noun in other.nouns})


def parse_tools(tools: Sequence[object]) -> tuple[ToolSpec, ...]:
    """Parse the function tools among bound tools; providers' own tool types have no arguments and are skipped."""
    specs = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if isinstance(function, Mapping) and isinstance(function.get("name"), str) and function["name"]:
            specs.append(parse_tool(function))
    return tuple(specs)


def parse_tool(function: Mapping[str, Any]) -> ToolSpec:
    """Parse one function in the OpenAI format."""
    name, declared = function["name"], function.get("parameters")
    description = about if isinstance(about := function.get("description"), str) else ""
    first = next(iter(words(description[:80])), "")
    schema = declared if isinstance(declared, Mapping) else {}
    parts = name_words(name)
    verb = next((part for part in parts if part in TOOL_VERBS), "")
    nouns = tuple(dict.fromkeys(part for part in parts if part != verb and part not in STOP_WORDS and len(part) > 1))
    return ToolSpec(
        name=name,
        description=description,
        schema=schema,
        parameters=parse_parameters(schema),
        action=TOOL_VERBS.get(verb) or TOOL_VERBS.get(first) or TOOL_VERBS.get(first.removesuffix("s")),
        verb=verb,
        nouns=nouns,
    )


@lru_cache(maxsize=64)
def all_nouns(tools: tuple[ToolSpec, ...]) -> str:
    """Return a regular expression for the nouns of all tools."""
    return any_of_nouns(noun for tool in tools for noun in tool.nouns_and_synonyms)


_MAX_CHARS = 10_000
_MAX_ITEMS = 20


def minimal_value(parameter: Parameter, root: Mapping[str, Any], text: str, today: date, depth: int = 0) -> Any:
    """Return a minimal valid value: the default, the first choice, zero, false, null, an empty list, or the text."""
    schema = parameter.schema
    if "default" in schema:
        return schema["default"]
    if parameter.choices:
        return parameter.choices[0]
    if parameter.kind in ("integer", "number"):
        return max(0, int(schema_limit(schema, "minimum", 0)), int(schema_limit(schema, "exclusiveMinimum", -1)) + 1)
    if parameter.kind in ("object", "array"):
        array = parameter.kind == "array"
        inner = {"properties": {"0": schema.get("items")}, "required": ["0"]} if array else schema
        parts = parse_parameters(inner, root) if depth < _MAX_DEPTH else ()
        made = {one.name: minimal_value(one, root, text, today, depth + 1) for one in parts if one.required}
        return list(made.values()) * min(int(schema_limit(schema, "minItems", 0)), _MAX_ITEMS) if array else made
    if parameter.kind == "null":
        return None
    if parameter.role == "date":
        return date_text(today, parameter)
    written = (" ".join(text.split()) or parameter.name)[: int(schema_limit(schema, "maxLength", _MAX_CHARS))]
    return written.ljust(min(int(schema_limit(schema, "minLength", 0)), _MAX_CHARS), ".")


def date_text(day: date, parameter: Parameter) -> str:
    """Return a day in the format of the parameter."""
    return f"{day.isoformat()}T00:00:00Z" if parameter.schema.get("format") == "date-time" else day.isoformat()


def schema_limit(schema: Mapping[str, Any], keyword: str, default: float) -> float:
    """Return the number that a schema has for a keyword, or `default`."""
    value = schema.get(keyword)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if usable else default  # type: ignore[return-value]


@lru_cache(maxsize=256)
def _compiled_schema(schema_json: str) -> Schema | None:
    with suppress(ValueError, RecursionError):
        return Schema(json.loads(schema_json))
    return None


def invalid_parameters(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> set[str]:
    """Return the names of the arguments that the schema refuses; an invalid schema refuses none."""
    optional = {key: value for key, value in schema.items() if key != "required"}
    checker = _compiled_schema(json.dumps(optional, sort_keys=True, default=str))
    return {name for name, value in arguments.items() if checker and checker.problems({name: value})}
