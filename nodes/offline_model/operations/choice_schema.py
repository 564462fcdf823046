"""Recognise a structured output that is a choice among tools: an enumeration and the forms that it names."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolweave.nodes.offline_model.tools.parameters import resolve
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec, read_tools

_TOLD_RULES = re.compile(r"\((?P<rules>[A-Za-z]+: [^()]*)\)\s*$")
_RULE = re.compile(
    r"(?P<word>format|minLength|maxLength|exclusiveMinimum|exclusiveMaximum|multipleOf|default): "
    r"(?P<value>[^,()]{1,120})"
)
_REASON_NAMES = ("reason", "explanation", "message")


@dataclass(frozen=True)
class ToolChoiceForm:
    """A choice among `operations`: the names of the fields for the chosen one, its arguments, and why there is none."""

    which: str
    arguments: str
    reason: str | None
    fields: frozenset[str]
    operations: tuple[ToolSpec, ...]


def read_choice_form(tool: ToolSpec) -> ToolChoiceForm | None:
    """Read a tool as a choice among tools; None when it is an ordinary one."""
    properties = tool.schema.get("properties")
    if not isinstance(properties, Mapping):
        return None
    for which, chosen in properties.items():
        names = _enumerated(resolve(chosen, tool.schema))
        for arguments, form in properties.items():
            operations = _operations(form, tool.schema, names) if names and arguments != which else ()
            if operations:
                reason = next((name for name in _REASON_NAMES if name in properties), None)
                return ToolChoiceForm(which, arguments, reason, frozenset(properties), operations)
    return None


def _enumerated(schema: Mapping[str, Any]) -> list[str]:
    listed = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []


def _operations(form: object, root: Mapping[str, Any], names: list[str]) -> tuple[ToolSpec, ...]:
    """Describe each form as a tool: its title is the name."""
    if not isinstance(form, Mapping):
        return ()
    listed = form.get("anyOf", form.get("oneOf"))
    branches = [resolve(one, root) for one in (listed if isinstance(listed, list) else [form])]
    titled = [one for one in branches if one.get("title") in names]
    if not titled or len(titled) < len([one for one in branches if one.get("type") != "null"]):
        return ()
    shared = {key: root[key] for key in ("$defs", "definitions") if key in root}
    return read_tools(
        [
            {
                "function": {
                    "name": one["title"],
                    "description": str(one.get("description", "")),
                    "parameters": {**shared, **one, "properties": _with_told_rules(one.get("properties"))},
                }
            }
            for one in titled
        ]
    )


def _with_told_rules(properties: object) -> dict[str, Any]:
    """Read rules that stand in words behind a description, "(format: date, default: 20)", as the schema's own."""
    if not isinstance(properties, Mapping):
        return {}
    return {str(name): {**_told_rules(one), **one} for name, one in properties.items() if isinstance(one, Mapping)}


def _told_rules(schema: Mapping[str, Any]) -> dict[str, Any]:
    told = _TOLD_RULES.search(str(schema.get("description", "")))
    return {match["word"]: _value(match["value"]) for match in _RULE.finditer(told["rules"])} if told else {}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip('"')
