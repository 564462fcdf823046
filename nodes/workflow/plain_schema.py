"""Rewrite an input schema so that it stands on its own in a function schema, and every endpoint takes it.

References are replaced by what they lead to: definitions stand elsewhere, and some endpoints know no `$ref`. Only
keywords that all endpoints take are kept; the others are said in words. It tells the model what to write, no more:
what it writes is checked against the configuration's own schema (W-05).
"""

from collections.abc import Mapping
from typing import Any

from toolweave.nodes.workflow.descriptions import begun_json, local, one_line

MOST_PARTS = 400
"""Schemas inside one schema; what comes after so many is left open."""
DEEPEST = 8
LONGEST_DESCRIPTION = 500
LONGEST_CHOICE = 100
MOST_CHOICES = 200
MOST_JOINED = 50

_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_NUMBERS = frozenset({"minimum", "maximum"})
_SAID = ("format", "pattern", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "multipleOf")
_LONGEST_RULE = 120


def plain_schema(schema: Mapping[str, Any], *, wordless: bool = False) -> dict[str, Any]:
    """Return a schema of an object without references, of bounded size and depth; `wordless`: no descriptions."""
    return {**_Rewriting(schema, wordless=wordless).rewritten(dict(schema), 0), "type": "object"}


class _Rewriting:
    def __init__(self, root: Mapping[str, Any], *, wordless: bool) -> None:
        self._root = root
        self._words = (lambda _schema: {}) if wordless else _words
        self._left = MOST_PARTS

    def rewritten(self, schema: Any, depth: int) -> dict[str, Any]:
        self._left -= 1
        if self._left < 0 or depth > DEEPEST:
            return {}
        found = _merged(local(schema, self._root), self._root)
        branches = self._branches(found, depth)
        if len(branches) == 1:
            return {**branches[0], **self._words(found)}
        if branches:
            # Beside anyOf some endpoints take no other keyword.
            words = self._words(found)
            return {"anyOf": [branch if branch.get("type") == "null" else words | branch for branch in branches]}
        return {**self._of_type(found, depth), **self._words(found)}

    def _branches(self, found: dict[str, Any], depth: int) -> list[dict[str, Any]]:
        """Give the alternatives that the schema names, a list of types among them."""
        for word in ("anyOf", "oneOf"):
            if isinstance(found.get(word), list) and "properties" not in found:
                return [self.rewritten(branch, depth + 1) for branch in found[word]]
        kinds = found.get("type")
        if isinstance(kinds, list):
            return [self._of_type({**found, "type": kind}, depth) for kind in kinds]
        return []

    def _of_type(self, found: dict[str, Any], depth: int) -> dict[str, Any]:
        kind = found.get("type") or _implied(found)
        plain: dict[str, Any] = {"type": kind} if isinstance(kind, str) and kind in _TYPES else {}
        if kind == "object":
            return {**plain, **self._object(found, depth)}
        if kind == "array":
            return {**plain, "items": self.rewritten(found.get("items", {}), depth + 1) or {"type": "string"}}
        if kind in ("integer", "number"):
            return {**plain, **{rule: found[rule] for rule in _NUMBERS & found.keys() if _is_number(found[rule])}}
        if kind == "string" and (choices := _text_choices(found)):
            return {**plain, "enum": choices}
        return {**plain, "format": "date-time"} if found.get("format") == "date-time" else plain

    def _object(self, found: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = found.get("properties")
        fields = properties if isinstance(properties, dict) else {}
        required = found.get("required")
        needed = [name for name in required if name in fields] if isinstance(required, list) else []
        rewritten = {name: self.rewritten(field, depth + 1) for name, field in fields.items()}
        return {"properties": rewritten, **({"required": needed} if needed else {})}


def _merged(found: dict[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """Join what `allOf` says of the same value."""
    parts = found.get("allOf")
    if not isinstance(parts, list):
        return found
    whole = {name: item for name, item in found.items() if name != "allOf"}
    for part in (local(part, root) for part in parts[:MOST_JOINED]):
        properties = {**_object_in(whole, "properties"), **_object_in(part, "properties")}
        required = list(dict.fromkeys([*_list_in(whole, "required"), *_list_in(part, "required")]))
        whole = {**part, **whole}
        whole |= {"properties": properties} if properties else {}
        whole |= {"required": required} if required else {}
    return whole


def _object_in(schema: Mapping[str, Any], word: str) -> dict[str, Any]:
    value = schema.get(word)
    return value if isinstance(value, dict) else {}


def _list_in(schema: Mapping[str, Any], word: str) -> list[Any]:
    value = schema.get(word)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _implied(found: Mapping[str, Any]) -> str | None:
    if "properties" in found:
        return "object"
    if "items" in found:
        return "array"
    return "string" if _text_choices(found) else None


def _text_choices(found: Mapping[str, Any]) -> list[str]:
    """Give the choices where all of them are short texts; of the others only words can tell."""
    choices = [found["const"]] if "const" in found else found.get("enum")
    if not isinstance(choices, list) or len(choices) > MOST_CHOICES:
        return []
    given = [choice for choice in choices if choice is not None]
    fit = all(isinstance(choice, str) and 0 < len(choice) <= LONGEST_CHOICE for choice in given)
    return list(dict.fromkeys(given)) if fit else []


def _words(found: Mapping[str, Any]) -> dict[str, str]:
    """Keep the description, with the rules that only words can tell every endpoint."""
    said = [f"{rule}: {_short(found[rule])}" for rule in _SAID if rule in found and found[rule] != "date-time"]
    choices = [found["const"]] if "const" in found else found.get("enum")
    if isinstance(choices, list) and not _text_choices(found):
        said.append(f"one of {_short(choices)}")
    if "default" in found:
        said.append(f"default: {_short(found['default'])}")
    words = one_line(str(found.get("description") or found.get("title") or ""), LONGEST_DESCRIPTION)
    rules = f"({', '.join(said)})" if said else ""
    text = " ".join(part for part in (words, one_line(rules, LONGEST_DESCRIPTION)) if part)
    return {"description": text} if text else {}


def _short(value: Any) -> str:
    return begun_json(value, _LONGEST_RULE + 1).strip('"')[:_LONGEST_RULE]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
