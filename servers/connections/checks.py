"""Check a call's arguments against the schema its tool was listed with, before the call leaves (T-10).

Models send wrong types and forget fields; what the server would answer, if it looks at all, is rarely something a model
can act on. A server whose schemas cannot be used is asked without a check: it judges for itself.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jsonschema_rs import ReferencingError, RegexOptions, ValidationError, Validator, validator_for
from loguru import logger
from pydantic_core import to_json

from toolweave.schema import Schema, check_size
from toolweave.servers.connections.registry import ToolSpec
from toolweave.servers.connections.results import in_bytes
from toolweave.visible import visible

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
        """Say whether a value fits for certain; one that is too large, or no JSON, is left to the judge."""
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


LONGEST_TEXT = 1_900


class ArgumentChecks:
    """The compiled schemas of one server's tools, made when a tool is first called and kept while it stays the same."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._checks: dict[str, ArgumentCheck] = {}

    async def refusal(self, spec: ToolSpec, arguments: dict[str, Any]) -> str | None:
        """Write for the model what is wrong with a call's arguments; None when they fit or cannot be judged."""
        problems = (await self.of(spec)).problems(arguments)
        if not problems:
            return None
        text = f"The call of {spec.name!r} was not sent, its arguments do not fit: {'; '.join(problems)}."
        return f"{in_bytes(visible(text), LONGEST_TEXT)} Correct them and call the tool again."

    async def of(self, spec: ToolSpec) -> "ArgumentCheck":
        """Return the check for a tool as it is listed now."""
        check = self._checks.get(spec.name)
        if check is None or (check.spec is not spec and check.spec != spec):
            check = await asyncio.to_thread(ArgumentCheck, self._server, spec)
            self._checks[spec.name] = check
        check.spec = spec
        return check


class ArgumentCheck:
    """The compiled schema of one listed tool."""

    def __init__(self, server: str, spec: ToolSpec) -> None:
        self.spec = spec
        self._compiled: CompiledSchema | None = None
        try:
            self._compiled = CompiledSchema(spec.input_schema)
        except ValueError as error:
            logger.bind(server=server, tool=spec.name).warning(
                "the arguments of {}/{} are sent unchecked, its schema cannot be used: {}", server, spec.name, error
            )

    def problems(self, arguments: dict[str, Any]) -> list[str]:
        """Name what is wrong."""
        return self._compiled.problems(arguments) if self._compiled else []


class ResultChecks:
    """The output schemas of one session's tools, compiled when a tool first answers."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._schemas: dict[str, dict[str, Any]] = {}
        self._compiled: dict[str, CompiledSchema | None] = {}

    def take(self, specs: Iterable[ToolSpec]) -> None:
        """Take the tools that the server lists now."""
        self._schemas = {spec.name: spec.output_schema for spec in specs if spec.output_schema is not None}
        self._compiled = {}

    async def problems(self, tool: str, structured: dict[str, Any] | None) -> list[str]:
        """Name what is wrong with the structured content of a successful result; nothing where no schema is listed."""
        if tool not in self._schemas:
            return []
        if structured is None:
            return ["it has no structured content"]
        if tool not in self._compiled:
            self._compiled[tool] = await asyncio.to_thread(self._compile, tool, self._schemas[tool])
        check = self._compiled[tool]
        return check.problems(structured) if check else []

    def _compile(self, tool: str, schema: dict[str, Any]) -> CompiledSchema | None:
        try:
            return CompiledSchema(schema)
        except ValueError as error:
            logger.bind(server=self._server, tool=tool).warning(
                "the results of {}/{} are not checked, its output schema cannot be used: {}", self._server, tool, error
            )
            return None
