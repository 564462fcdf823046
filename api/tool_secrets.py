"""Show ToolConfigs without the secrets that are written into them, and put them back when they return (W-01, W-08).

A secret is shown as `***`. What refers to variables only, such as `{env:TOOL_KEY}`, holds none and is shown as it is.
"""

import re
from collections.abc import Iterator
from typing import Any

from toolweave.redact import HIDDEN, names_a_secret, names_a_secret_header, redact_text
from toolweave.tool_config import ToolConfig

Place = tuple[str | int, ...]
JsonObject = dict[str, Any]

_REFERENCE = re.compile(r"\$?\{env:[A-Za-z_][A-Za-z0-9_]*\}")
# What stands between references without being a secret: the name of a scheme, the colon of name:password.
_AROUND_REFERENCES = re.compile(r"(?:(?:basic|bearer|digest|token|apikey|key)\s)?[\s:]*", re.IGNORECASE)
_VALUES_IN_SCHEMAS = ("default", "const")


def plain(tool: ToolConfig) -> JsonObject:
    """Give a configuration as JSON values, secrets included: not to be shown."""
    return tool.model_dump(mode="json")


def shown(tool: ToolConfig) -> JsonObject:
    """Give a configuration as JSON values, its secrets hidden."""
    return hidden(plain(tool))


def hidden(config: JsonObject) -> JsonObject:
    """Give a configuration with `***` in the place of each secret: the same one if it has none."""
    places = secret_places(config)
    return _replaced(config, places, ()) if places else config


def left_hidden(config: JsonObject) -> list[Place]:
    """List the places where a configuration has `***` instead of a secret."""
    return [place for place in secret_places(config) if _at(config, place) == HIDDEN]


def put_back(config: JsonObject, stored: JsonObject) -> tuple[JsonObject, bool]:
    """Replace each `***` by the secret that `stored` has in the same place; say whether there was one."""
    places = frozenset(left_hidden(config)) & secret_places(stored)
    return _replaced(config, places, (), stored), bool(places)


def secret_places(config: JsonObject) -> frozenset[Place]:
    """Find where secrets are written in a configuration."""
    api = config["api"]
    found: list[Place] = [("api", "headers", name) for name, text in api["headers"].items() if _is_secret(name, text)]
    if (value := api["auth"]["value"]) is not None and not _refers_only(value):
        found.append(("api", "auth", "value"))
    for part in ("input_schema", "output_schema"):
        found += _in_schema(config[part], (part,))
    return frozenset(found)


def _is_secret(header: str, text: str) -> bool:
    if _refers_only(text):
        return False
    # A variable's name shows that there is a secret; what stands beside it may belong to it.
    return names_a_secret_header(header) or "{env:" in text or text == HIDDEN or redact_text(text) != text


def _refers_only(text: str) -> bool:
    others = _REFERENCE.sub("", text)
    return others != text and _AROUND_REFERENCES.fullmatch(others) is not None


def _in_schema(schema: Any, place: Place) -> Iterator[Place]:
    """Find the fixed values of fields whose names name secrets, at any depth."""
    if isinstance(schema, list):
        for position, item in enumerate(schema):
            yield from _in_schema(item, (*place, position))
    elif isinstance(schema, dict):
        for name, part in schema.items():
            if names_a_secret(name) and isinstance(part, dict):
                yield from (
                    (*place, name, keyword) for keyword in _VALUES_IN_SCHEMAS if isinstance(part.get(keyword), str)
                )
            yield from _in_schema(part, (*place, name))


def _at(value: Any, place: Place) -> Any:
    for step in place:
        value = value[step]
    return value


def _replaced(value: Any, places: frozenset[Place], here: Place, source: JsonObject | None = None) -> Any:
    if here in places:
        return HIDDEN if source is None else _at(source, here)
    if isinstance(value, dict):
        return {name: _replaced(item, places, (*here, name), source) for name, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, places, (*here, position), source) for position, item in enumerate(value)]
    return value
