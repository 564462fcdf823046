"""Fill a tool that has to be called, structured output among them: what the text does not give is made up."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from toolweave.nodes.offline_model.filling.choose_tool import rank_tools
from toolweave.nodes.offline_model.filling.fill_other import fill_other
from toolweave.nodes.offline_model.language.cues import find_cue
from toolweave.nodes.offline_model.language.literals import hide_literals
from toolweave.nodes.offline_model.language.politeness import without_courtesy
from toolweave.nodes.offline_model.lookups import Call
from toolweave.nodes.offline_model.planning import TEXT_WINDOW, Reader, plan_message
from toolweave.nodes.offline_model.resolution import Focus, Scene, advance
from toolweave.nodes.offline_model.tools.made_up import made_up_value
from toolweave.nodes.offline_model.tools.parameters import Parameter, read_parameters, resolve
from toolweave.nodes.offline_model.tools.tool_nouns import all_nouns
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec, part_of_tool
from toolweave.nodes.offline_model.tools.validation import wrong_parameters

_MAX_DEPTH = 8
_MOST_MADE_UP_ITEMS = 20


def forced_call(
    text: str, tools: Sequence[ToolSpec], name: str | None, today: date
) -> tuple[str, dict[str, Any]] | None:
    """Give a call of the named tool, or of the one that fits best; None when there is no tool of that name."""
    offered = tuple(tool for tool in tools if name in (None, tool.name))
    if not offered:
        return None
    for intent in plan_message(text, Reader(offered, today)).intents:
        for step in advance(intent, Scene(offered, {}, Focus())):
            if isinstance(step, Call):
                return step.tool.name, dict(step.arguments)
    hidden, literals = hide_literals(text[:TEXT_WINDOW])
    cue = find_cue(without_courtesy(hidden), all_nouns(offered))
    tool = rank_tools(offered, cue, hidden, literals, today)[0][1]
    return tool.name, _filled(tool, text[:TEXT_WINDOW], today, 0)


def _filled(tool: ToolSpec, text: str, today: date, depth: int) -> dict[str, Any]:
    """Fill what the text gives, then every required parameter that is still without a value."""
    hidden, literals = hide_literals(text)
    arguments = dict(fill_other(tool, without_courtesy(hidden), literals, today).arguments)
    for parameter in tool.parameters:
        if parameter.required and parameter.name not in arguments:
            arguments[parameter.name] = _value(parameter, tool, text, today, depth)
            if parameter.nullable and parameter.name in wrong_parameters(tool.schema, arguments):
                arguments[parameter.name] = None
    return arguments


def _value(parameter: Parameter, tool: ToolSpec, text: str, today: date, depth: int) -> Any:
    """Fill an object from the same text, a list with as many items as it needs, and make up anything else."""
    if depth >= _MAX_DEPTH or "default" in parameter.schema or parameter.choices:
        return made_up_value(parameter, text, today)
    if parameter.kind == "object":
        return _filled(part_of_tool(tool, parameter.name, parameter.schema), text, today, depth + 1)
    if parameter.kind != "array":
        return made_up_value(parameter, text, today)
    item = _item_of(parameter, tool)
    least = parameter.schema.get("minItems")
    count = least if isinstance(least, int) else int(item is not None and item.kind == "object")
    if item is None or count <= 0:
        return []
    return [_value(item, tool, text, today, depth + 1)] * min(count, _MOST_MADE_UP_ITEMS)


def _item_of(parameter: Parameter, tool: ToolSpec) -> Parameter | None:
    items = resolve(parameter.schema.get("items"), tool.schema)
    found = read_parameters({"properties": {parameter.name: items}, "required": [parameter.name]})
    return found[0] if found and items else None
