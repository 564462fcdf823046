"""Make a server's words fit for a model: visible characters only, and of bounded length (T-12, D-2)."""

from collections.abc import Mapping
from typing import Any

from toolweave.visible import visible

LONGEST_ERROR_BYTES = 2_000
LONGEST_DESCRIPTION = 4_000
LONGEST_NOTE = 500
MOST_SCHEMA_CHARS = 100_000
DEEPEST_SCHEMA = 40
_DEFINITIONS = ("$defs", "definitions")
_OMITTED = "…"


class SchemaTooLarge(ValueError):
    """A schema has more text or depth than a model should get."""


def error_text(text: str) -> str:
    """Return a server's error for the model, at most 2 kB of UTF-8."""
    return in_bytes(visible(text[: 4 * LONGEST_ERROR_BYTES]).strip(), LONGEST_ERROR_BYTES)


def description_text(text: str | None) -> str:
    """Return a description for the model; empty where there is none that can be seen."""
    clean = visible((text or "")[: 2 * LONGEST_DESCRIPTION]).strip()
    return clean if len(clean) <= LONGEST_DESCRIPTION else clean[: LONGEST_DESCRIPTION - 1] + _OMITTED


def note(text: str) -> str:
    """Return a short message on one line."""
    clean = " ".join(visible(text[: 4 * LONGEST_NOTE]).split())
    return clean if len(clean) <= LONGEST_NOTE else clean[: LONGEST_NOTE - 1] + _OMITTED


def in_bytes(text: str, most: int) -> str:
    """Cut a text so that it is at most `most` bytes of UTF-8."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= most:
        return text
    return encoded[: most - len(_OMITTED.encode())].decode("utf-8", "ignore") + _OMITTED


def shown_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a tool's schema for the model, every text in it visible and every reference replaced.

    Clients of endpoints replace references, too, but fail with one that leads nowhere and never end with many that
    double each other. Here one that leads outside, nowhere or in a circle stands for anything.

    Raises:
        SchemaTooLarge: it has more than a model should get.
    """
    shown = {key: part for key, part in schema.items() if key not in _DEFINITIONS}
    return _Copier(schema).copy_mapping(shown, 1)


class _Copier:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._left = MOST_SCHEMA_CHARS
        self._following: list[str] = []

    def copy(self, value: Any, depth: int) -> Any:
        if depth > DEEPEST_SCHEMA:
            raise SchemaTooLarge(f"it is nested more than {DEEPEST_SCHEMA} levels deep")
        self._spend(2)
        if isinstance(value, str):
            self._spend(len(value))
            return visible(value)
        if isinstance(value, Mapping):
            return self.copy_mapping(value, depth)
        if isinstance(value, list | tuple):
            return [self.copy(inner, depth + 1) for inner in value]
        return value

    def copy_mapping(self, part: Mapping[str, Any], depth: int) -> dict[str, Any]:
        reference = part.get("$ref")
        if not isinstance(reference, str):
            return {self.copy(str(key), depth): self.copy(inner, depth + 1) for key, inner in part.items()}
        target = None if reference in self._following else self._target(reference)
        self._following.append(reference)
        found = self.copy_mapping(target, depth + 1) if isinstance(target, Mapping) else {}
        self._following.pop()
        return found | self.copy_mapping({key: inner for key, inner in part.items() if key != "$ref"}, depth)

    def _target(self, reference: str) -> Any:
        first, *steps = reference.split("/")
        part: Any = self._schema if first == "#" else None
        for step in steps:
            part = part.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(part, Mapping) else None
        return part

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise SchemaTooLarge(f"it has more than {MOST_SCHEMA_CHARS} characters")
