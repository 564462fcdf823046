"""Check values of a call against the schemas its tool was listed with (T-10; MCP 2025-11-25, tools, output schema).

Models send wrong types and forget fields; what the server would answer, if it looks at all, is rarely something a model
can act on. Where a schema cannot be used nothing is checked: the server judges arguments for itself.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema_rs import ReferencingError, RegexOptions, ValidationError, Validator, validator_for
from loguru import logger
from pydantic_core import to_json

from toolweave.schema import Schema, check_size

# jsonschema-rs holds the GIL for a whole check. With these keywords, which refer to nothing and compare no large
# values, it takes at most 5 ns for each part of the schema and byte of the value: 100 ms.
MAX_WORK = 20_000_000
# To compile these takes up to a millisecond each.
MAX_PATTERNS = 50
MAX_PATTERN_BYTES = 100_000
# Any other draft would be fetched.
_DRAFTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-07/schema",
)
_LISTS_OF_SCHEMAS = frozenset({"anyOf", "allOf", "oneOf"})
_KEYWORDS = _LISTS_OF_SCHEMAS | {
    *("type", "enum", "required", "properties", "additionalProperties", "items", "pattern"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
    *("$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format"),
    *("$defs", "definitions"),
}


class SchemaChecks:
    """The compiled schemas of one server's tools, each made when it is first needed and kept while it stays the same.

    Args:
        server: the server's name.
        unusable: the warning about a schema that cannot be used, of the server, the tool and the reason.
    """

    def __init__(self, server: str, unusable: str) -> None:
        self._server = server
        self._unusable = unusable
        self._compiled: dict[str, tuple[dict[str, Any], CompiledSchema | None]] = {}

    async def problems(self, tool: str, schema: dict[str, Any], value: Any) -> list[str]:
        """Name what is wrong with a value of a tool; nothing where the schema cannot be used."""
        check = await self.of(tool, schema)
        return check.problems(value) if check else []

    async def of(self, tool: str, schema: dict[str, Any]) -> "CompiledSchema | None":
        """Return the compiled form of a tool's schema, None if it cannot be used."""
        known, check = self._compiled.get(tool, (None, None))
        if known is not schema and known != schema:
            check = await asyncio.to_thread(self._compile, tool, schema)
        self._compiled[tool] = schema, check
        return check

    def _compile(self, tool: str, schema: dict[str, Any]) -> "CompiledSchema | None":
        try:
            return CompiledSchema(schema)
        except ValueError as error:
            logger.bind(server=self._server, tool=tool).warning(self._unusable, self._server, tool, error)
            return None


class CompiledSchema:
    """A schema that accepts what fits in a microsecond and takes its time only to say what is wrong.

    A monstrous schema takes up to half a second to compile: make one on a thread.

    Raises:
        ValueError: it is too large, nested too deeply, or no schema.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._parts = check_size(schema)
        self._quick = _quick_validator(schema)
        # A schema that was compiled is well-formed; judging that by the draft's own schema takes milliseconds.
        self._judge = Schema(schema, well_formed=self._quick is not None)

    def problems(self, value: Any) -> list[str]:
        """Name what is wrong with `value`."""
        return [] if self._fits(value) else self._judge.problems(value)

    def _fits(self, value: Any) -> bool:
        """Return whether a value fits for certain; one that is too large, or no JSON, is left to the judge."""
        if self._quick is None:
            return False
        try:
            return len(to_json(value)) * self._parts <= MAX_WORK and self._quick.is_valid(value)
        except ValueError:
            return False


def _quick_validator(schema: dict[str, Any]) -> Validator | None:
    parts = list(_subschemas({keyword: rule for keyword, rule in schema.items() if keyword != "$schema"}))
    patterns = [part for part in parts if isinstance(part, Mapping) and "pattern" in part]
    if (
        schema.get("$schema", _DRAFTS[0]) not in _DRAFTS
        or len(patterns) > MAX_PATTERNS
        or not all(map(_is_usual, parts))
    ):
        return None
    options = RegexOptions(size_limit=MAX_PATTERN_BYTES)
    try:
        return validator_for(schema, validate_formats=False, pattern_options=options)
    except (ValidationError, ReferencingError):
        return None


def _subschemas(schema: Any) -> Iterator[Any]:
    yield schema
    for keyword, rule in schema.items() if isinstance(schema, Mapping) else ():
        if keyword == "properties" and isinstance(rule, Mapping):
            inner = list(rule.values())
        elif keyword in _LISTS_OF_SCHEMAS and isinstance(rule, list):
            inner = rule
        else:
            inner = [rule] if keyword in ("items", "additionalProperties") else []
        for part in inner:
            yield from _subschemas(part)


def _is_usual(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return isinstance(schema, bool)
    choices = schema.get("enum", [])
    return (
        all(keyword in _KEYWORDS or keyword.startswith("x-") for keyword in schema)
        and isinstance(choices, list)
        and all(isinstance(choice, str) or choice is None for choice in choices)
    )
