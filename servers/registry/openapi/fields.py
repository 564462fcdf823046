"""Lay parameters and body properties out as the fields of one flat input, with the mappings that lead them back."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolweave.field_mappings import Part, Place, body_place
from toolweave.servers.registry.openapi.references import Unusable, shown
from toolweave.tool_config import WITHOUT_BODY, Method

MOST_FIELDS = 200
LONGEST_FIELD_NAME = 64
# Of longer names only the beginning is read; an expression holds the GIL to its end.
MOST_READ = 2_000

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_ORDER: dict[Part, int] = {"path": 0, "query": 1, "header": 2, "body": 3}


@dataclass(frozen=True)
class InputField:
    """A value of an operation: `target` is the name of its parameter or of its body's property."""

    part: Part
    target: str
    schema: dict[str, Any]
    required: bool = False
    whole_body: bool = False


@dataclass
class FlatInput:
    """The input schema of a tool without its `$defs`, and where its fields go."""

    schema: dict[str, Any]
    mappings: dict[str, str] = field(default_factory=dict)


def flat_input(fields: Iterable[InputField], method: Method) -> FlatInput:
    """Name the fields and map those that would not find their place by their name alone (W-01).

    Of values with one name the first of path, query, headers and body keeps it; others become `<name>_<place>`.

    Raises:
        Unusable: there are more than `MOST_FIELDS`, or one has a name that no body may hold.
    """
    ordered = sorted(fields, key=lambda one: _ORDER[one.part])
    if len(ordered) > MOST_FIELDS:
        raise Unusable(f"it takes more than {MOST_FIELDS} values")
    named: dict[str, InputField] = {}
    for one in ordered:
        named[_free_name(one, named)] = one
    required = [name for name, one in named.items() if one.required]
    schema: dict[str, Any] = {"type": "object", "properties": {name: one.schema for name, one in named.items()}}
    if required:
        schema["required"] = required
    return FlatInput(
        schema, {name: str(place) for name, one in named.items() if (place := _mapping(name, one, method))}
    )


def safe_name(text: str) -> str:
    """Give a name that models and JSON Schema tools take for a field."""
    name = _NOT_IN_NAMES.sub("_", text[:MOST_READ]).strip("_.-")[:LONGEST_FIELD_NAME]
    return name if name[:1].isalpha() else f"field_{name}"[:LONGEST_FIELD_NAME].rstrip("_")


def _free_name(one: InputField, taken: dict[str, InputField]) -> str:
    if one.whole_body:
        wanted = "body"
    elif one.part == "header":
        wanted = safe_name(one.target).lower().replace("-", "_")
    else:
        wanted = one.target if _IDENTIFIER.fullmatch(one.target) else safe_name(one.target)
    names: Sequence[str] = [wanted, f"{wanted[: LONGEST_FIELD_NAME - 7]}_{one.part}"]
    number = 1
    while names[0] in taken:
        number += 1
        names = names[1:] or [f"{wanted[: LONGEST_FIELD_NAME - 12]}_{one.part}_{number}"]
    return names[0]


def _mapping(name: str, one: InputField, method: Method) -> Place | None:
    if one.whole_body:
        return body_place()
    if one.part == "body":
        try:
            place: Place = body_place(one.target)
        except ValueError as error:
            raise Unusable(f"the property '{shown(one.target)}' of its body cannot be filled: {error}") from None
        return None if name == one.target and method not in WITHOUT_BODY else place
    by_name = name == one.target and (one.part == "path" or (one.part == "query" and method in WITHOUT_BODY))
    return None if by_name else Place(one.part, one.target)
