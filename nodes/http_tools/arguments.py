"""Check what a model gives as arguments of a tool before any of it becomes part of a request (W-05)."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolweave.schema import well_formed_schema
from toolweave.tool_config import ToolConfig

MOST_VALUES = 20_000
MOST_CHARACTERS = 1_000_000
DEEPEST = 32
LONGEST_NAME = 60
SMALLEST_INTEGER, LARGEST_INTEGER = -(1 << 63), (1 << 64) - 1
"""What other programs can read as an integer."""

_HALF_CHARACTER = re.compile(r"[\ud800-\udfff]")


class WrongArguments(ValueError):
    """Arguments that no request of the tool can be made from; `problems` says what is wrong in words to repair it."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


def told_name(name: Any) -> str:
    """Give a name that a model has made up as it can stand in a text: not long, and without half characters."""
    return str(name)[:LONGEST_NAME].encode(errors="replace").decode()


def checked_arguments(tool: ToolConfig, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that the tool's input_schema allows.

    A placeholder that is not given takes its schema's default. Null for an optional field that cannot be null means
    that it is not given; nothing else is changed or invented. Fields that input_schema does not name are refused
    whatever its additionalProperties say, because the configuration does not say where they go.

    Raises:
        WrongArguments: they do not fit, or hold what no request can carry.
    """
    if not isinstance(arguments, Mapping):
        raise WrongArguments(["the arguments must be an object"])
    if problems := _unsendable(arguments) or _unknown(tool, arguments):
        raise WrongArguments(problems)
    given = _defaults(tool) | dict(arguments)
    schema = well_formed_schema(tool.input_schema)
    if problems := schema.problems(given):
        stated = {name: value for name, value in given.items() if value is not None or name in tool.required_fields}
        if len(stated) < len(given):
            given, problems = stated, schema.problems(stated)
    if problems:
        raise WrongArguments(problems)
    return given


def _defaults(tool: ToolConfig) -> dict[str, Any]:
    found = {name: tool.input_fields[name] for name, place in tool.places.items() if place.part == "path"}
    return {name: form["default"] for name, form in found.items() if isinstance(form, dict) and "default" in form}


def _unknown(tool: ToolConfig, arguments: Mapping[str, Any]) -> list[str]:
    known = ", ".join(tool.input_fields) or "none"
    names = [told_name(name) for name in arguments if name not in tool.input_fields]
    return [f"{', '.join(names[:3])} is not a known field; known: {known[:300]}"] if names else []


def _unsendable(arguments: Mapping[str, Any]) -> list[str]:
    """Say what is too large, too deep or no JSON; one problem is enough."""
    characters = 0
    for values, (name, value, depth) in enumerate(_parts(arguments), start=1):
        if isinstance(value, str):
            characters += len(value)
        if values > MOST_VALUES or characters > MOST_CHARACTERS or depth > DEEPEST:
            return [f"{name} is too large: a request has {MOST_VALUES} values and {MOST_CHARACTERS} characters at most"]
        if problem := _no_json(value):
            return [f"{name} {problem}"]
    return []


def _parts(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Give every value and every key with the name of the field it is in, and how deep it lies."""
    left = [(told_name(name), value, 1) for name, value in arguments.items()]
    while left:
        name, value, depth = left.pop()
        yield name, value, depth
        if depth > DEEPEST:
            continue
        if isinstance(value, Mapping):
            yield from ((name, key, depth) for key in value)
            left += [(name, inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list | tuple):
            left += [(name, inner, depth + 1) for inner in value]


def _no_json(value: Any) -> str | None:
    match value:
        case str() if _HALF_CHARACTER.search(value):
            return "holds half of a character (a lone surrogate)"
        case float() if not math.isfinite(value):
            return "must be a finite number"
        case int() if not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
            return f"must be an integer from {SMALLEST_INTEGER} to {LARGEST_INTEGER}, or a text if it may be one"
        case None | str() | bool() | int() | float() | Mapping() | list() | tuple():
            return None
        case _:
            return f"must be JSON, not {type(value).__name__}"
