"""Describe a bound tool the way the rules see it: what it does, to what, with which parameters."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from toolweave.nodes.offline_model.language.vocabulary import TOOL_VERBS, Action, noun_family
from toolweave.nodes.offline_model.language.words import STOP_WORDS, stem, words
from toolweave.nodes.offline_model.tools.parameters import Parameter, Role, name_words, read_parameters

_MAIN_ROLES: tuple[Role, ...] = ("title", "query", "text", "place", "description", "other", "language", "path", "url")


@dataclass(frozen=True)
class ToolSpec:
    """One tool: `nouns` are the things its name speaks of, without their synonyms."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(hash=False)
    parameters: tuple[Parameter, ...] = field(hash=False)
    action: Action | None
    verb: str
    nouns: tuple[str, ...]

    def parameter(self, *roles: Role, required: bool | None = None) -> Parameter | None:
        """Give the first parameter that has one of the roles, in the order of the roles."""
        for role in roles:
            for parameter in self.parameters:
                if parameter.role == role and required in (None, parameter.required):
                    return parameter
        return None

    @property
    def main(self) -> Parameter | None:
        """Give the string parameter that takes what the request is about."""
        strings = [one for one in self.parameters if one.kind in ("string", "any") and not one.choices]
        for required in (True, False):
            for role in _MAIN_ROLES:
                for parameter in strings:
                    if parameter.role == role and parameter.required is required:
                        return parameter
        return None

    @property
    def key(self) -> Parameter | None:
        """Give the required identifier of the thing the tool acts on."""
        return self.parameter("id", required=True)

    @property
    def noun(self) -> str:
        """Give the singular word for the thing the tool acts on."""
        if not self.nouns:
            return "result"
        last = self.nouns[-1]
        if last.endswith("ies"):
            return last[:-3] + "y"
        return last[:-1] if last.endswith("s") and not last.endswith(("ss", "us", "is")) and self.action else last

    @property
    def nouns_and_synonyms(self) -> frozenset[str]:
        """List the nouns with all their synonyms."""
        return frozenset(member for noun in self.nouns for member in noun_family(noun))

    def shares_noun(self, other: "ToolSpec") -> bool:
        """Tell whether both tools act on the same things."""
        return bool({stem(noun) for noun in self.nouns} & {stem(noun) for noun in other.nouns})


def as_openai_tool(tool: Mapping[str, Any] | type | Callable[..., Any] | BaseTool | object) -> dict[str, Any]:
    """Bring a tool into OpenAI's form: a BaseTool, a function, a class, a dict, or MCP's name and inputSchema."""
    if isinstance(tool, Mapping) and "name" in tool and "inputSchema" in tool:
        return _openai(tool["name"], tool.get("description"), tool["inputSchema"])
    if not isinstance(tool, type | BaseTool | Mapping) and hasattr(tool, "inputSchema") and hasattr(tool, "name"):
        return _openai(tool.name, getattr(tool, "description", None), tool.inputSchema)
    if isinstance(tool, Mapping) and "type" in tool and "function" not in tool and "properties" not in tool:
        return dict(tool)
    return convert_to_openai_tool(tool)  # type: ignore[arg-type]


def _openai(name: str, description: str | None, schema: object) -> dict[str, Any]:
    parameters = schema if isinstance(schema, Mapping) else {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": name, "description": description or "", "parameters": parameters}}


def read_tools(tools: Sequence[object]) -> tuple[ToolSpec, ...]:
    """Describe the function tools among bound tools; a provider's own tool types have nothing to fill."""
    specs = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if isinstance(function, Mapping) and isinstance(function.get("name"), str) and function["name"]:
            specs.append(_read(json.dumps(function, sort_keys=False, default=str)))
    return _without_prefixes(specs)


def _without_prefixes(specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Drop the first word that several tools share (their server's name), where other nouns remain."""
    firsts = Counter(name_words(spec.name)[:1] for spec in specs)
    shared = {first[0] for first, count in firsts.items() if count > 1 and first and first[0] not in TOOL_VERBS}
    return tuple(
        replace(spec, nouns=spec.nouns[1:])
        if len(spec.nouns) > 1 and spec.nouns[0] in shared and name_words(spec.name)[0] == spec.nouns[0]
        else spec
        for spec in specs
    )


def part_of_tool(tool: ToolSpec, name: str, schema: Mapping[str, Any]) -> ToolSpec:
    """Describe an object within a tool's input as if it were a tool of its own."""
    definitions = {key: tool.schema[key] for key in ("$defs", "definitions") if key in tool.schema}
    return _read(json.dumps({"name": name, "parameters": {**schema, **definitions}}, default=str))


@lru_cache(maxsize=512)
def _read(function_json: str) -> ToolSpec:
    function = json.loads(function_json)
    name, description = function["name"], function.get("description")
    schema = function.get("parameters")
    schema = schema if isinstance(schema, dict) else {}
    parts = name_words(name)
    verb = next((part for part in parts if part in TOOL_VERBS), "")
    nouns = tuple(dict.fromkeys(part for part in parts if part != verb and part not in STOP_WORDS and len(part) > 1))
    return ToolSpec(
        name=name,
        description=description if isinstance(description, str) else "",
        schema=schema,
        parameters=read_parameters(schema),
        action=TOOL_VERBS.get(verb) or _described_action(description),
        verb=verb,
        nouns=nouns,
    )


def _described_action(description: object) -> Action | None:
    first = words(description[:80])[:1] if isinstance(description, str) else []
    if not first:
        return None
    return TOOL_VERBS.get(first[0]) or TOOL_VERBS.get(first[0].removesuffix("s"))
