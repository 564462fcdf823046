"""Read a JSON Schema as a flat list of parameters, each with the role that its name and type suggest."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from toolweave.nodes.offline_model.language.words import words

Kind = Literal["string", "integer", "number", "boolean", "array", "object", "null", "any"]
Role = Literal[
    "id", "title", "query", "description", "date", "url", "path", "email", "limit", "cursor", "labels", "place",
    "language", "choice", "flag", "number", "text", "other",
]  # fmt: skip

_KINDS: tuple[Kind, ...] = ("string", "integer", "number", "boolean", "array", "object", "null")
_MAX_DEPTH = 12

_ROLES: tuple[tuple[Role, str], ...] = (
    ("url", "url uri link href website endpoint"),
    ("email", "email recipient recipients cc bcc mail"),
    ("path", "path file filename filepath directory folder dir source destination src dst"),
    ("cursor", "cursor offset token page continuation"),
    ("labels", "tag tags label labels category categories"),
    ("place", "city location place timezone tz country region room area town"),
    ("language", "language lang locale"),
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
    """One property of a tool's input: `schema` is resolved, `choices` leaves null out."""

    name: str
    schema: Mapping[str, Any]
    required: bool
    kind: Kind
    role: Role
    choices: tuple[Any, ...] = ()
    nullable: bool = False
    words: tuple[str, ...] = ()

    @property
    def bound(self) -> Literal["upper", "lower", "exact"]:
        """Say whether a date given here bounds a search from above, from below, or is the date itself."""
        here = set(self.words)
        return "upper" if here & _UPPER_WORDS else "lower" if here & _LOWER_WORDS else "exact"

    @property
    def description(self) -> str:
        """Give what the schema says about the parameter."""
        text = self.schema.get("description", "")
        return text if isinstance(text, str) else ""


def name_words(name: str) -> tuple[str, ...]:
    """Split a snake_case, kebab-case or camelCase name into words."""
    return tuple(words(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+", " ", name)))


def resolve(schema: object, root: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """Follow local references and pick the first alternative that is not null."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return {}
    found = dict(schema)
    reference = found.pop("$ref", None)
    if isinstance(reference, str):
        return {**resolve(_at(reference, root), root, depth + 1), **found}
    for keyword in ("anyOf", "oneOf", "allOf"):
        options = found.get(keyword)
        if isinstance(options, list) and options:
            resolved = [resolve(option, root, depth + 1) for option in options]
            solid = [option for option in resolved if option.get("type") != "null"]
            rest = {key: value for key, value in found.items() if key != keyword}
            nullable = len(solid) < len(resolved) or any(option.get("x-nullable") for option in solid)
            return {**(solid[0] if solid else {}), **rest, "x-nullable": nullable}
    return found


def _at(reference: str, root: Mapping[str, Any]) -> object:
    place: object = root
    if not reference.startswith("#"):
        return {}
    for step in reference.lstrip("#/").split("/"):
        if step:
            place = place.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(place, Mapping) else None
    return place


def read_parameters(schema: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """List the parameters of an object schema; whatever is malformed in it is skipped."""
    root = schema
    schema = resolve(schema, root)
    properties = schema.get("properties")
    required = schema.get("required")
    needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    if not isinstance(properties, Mapping):
        return ()
    return tuple(_parameter(str(name), resolve(one, root), str(name) in needed) for name, one in properties.items())


def _parameter(name: str, schema: dict[str, Any], required: bool) -> Parameter:
    types = schema.get("type")
    listed = [types] if isinstance(types, str) else [one for one in types or () if isinstance(one, str)]
    nullable = "null" in listed or bool(schema.get("x-nullable"))
    enum = (
        schema.get("enum") if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
    )
    choices = tuple(value for value in enum or () if value is not None)
    kind = next((one for one in _KINDS if one in listed and one != "null"), None) or _guess_kind(schema, choices)
    parts = name_words(name)
    return Parameter(name, schema, required, kind, _role(kind, parts, schema, choices), choices, nullable, parts)


def _guess_kind(schema: Mapping[str, Any], choices: tuple[Any, ...]) -> Kind:
    if choices and all(isinstance(choice, str) for choice in choices):
        return "string"
    return "object" if "properties" in schema else "array" if "items" in schema else "any"


def _role(kind: Kind, parts: tuple[str, ...], schema: Mapping[str, Any], choices: tuple[Any, ...]) -> Role:
    here = set(parts)
    if choices:
        return "choice"
    if kind == "boolean":
        return "flag"
    if kind in ("integer", "number"):
        return _number_role(kind, parts)
    if kind == "array":
        return "labels"
    if kind == "object":
        return "other"
    return _string_role(parts, here, schema)


def _number_role(kind: Kind, parts: tuple[str, ...]) -> Role:
    here = set(parts)
    if parts and parts[-1] in _ID_WORDS and kind == "integer":
        return "id"
    if here & {"cursor", "offset", "page"} and "size" not in here:
        return "cursor"
    return "limit" if here & _LIMIT_WORDS and kind == "integer" else "number"


def _string_role(parts: tuple[str, ...], here: set[str], schema: Mapping[str, Any]) -> Role:
    formats: dict[object, Role] = {"date": "date", "date-time": "date", "uri": "url", "url": "url", "email": "email"}
    stated = schema.get("format")
    if isinstance(stated, str) and stated in formats:
        return formats[stated]
    if here & _DATE_WORDS:
        return "date"
    if parts and parts[-1] in _ID_WORDS - {"key", "number", "no"}:
        return "id"
    if parts == ("to",):
        return "email"
    if here & {"currency", "branch", "ref", "commit", "version"}:
        return "other"
    for role, listed in _ROLE_WORDS:
        if here & listed:
            return role
    return "other"
