"""Fill a tool that has to be called, structured output among them: what the text does not give is made up."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from toolweave.nodes.offline_model.filling.choose_tool import rank_tools
from toolweave.nodes.offline_model.filling.fill_other import fill_other
from toolweave.nodes.offline_model.language.cues import find_cue
from toolweave.nodes.offline_model.language.literals import hide_literals
from toolweave.nodes.offline_model.language.politeness import without_courtesy
from toolweave.nodes.offline_model.planning import TEXT_WINDOW, Reader, plan_message
from toolweave.nodes.offline_model.resolution import Call, Focus, Scene, advance
from toolweave.nodes.offline_model.tools.schema_values import made_up_value, wrong_parameters
from toolweave.nodes.offline_model.tools.tool_nouns import all_nouns
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec


def forced_call(
    text: str, tools: Sequence[ToolSpec], name: str | None, today: date
) -> tuple[str, dict[str, Any]] | None:
    """Give a call of the named tool, or of the one that fits best; None when there is no tool of that name."""
    offered = tuple(tool for tool in tools if name in (None, tool.name))
    if not offered:
        return None
    planned = _planned(text, offered, today)
    if planned:
        return planned
    hidden, literals = hide_literals(text[:TEXT_WINDOW])
    hidden = without_courtesy(hidden)
    cue = find_cue(hidden, all_nouns(offered))
    tool = rank_tools(offered, cue, hidden, literals, today)[0][1]
    arguments = dict(fill_other(tool, hidden, literals, today).arguments)
    return tool.name, completed(tool, arguments, text[:TEXT_WINDOW], today)


def _planned(text: str, tools: tuple[ToolSpec, ...], today: date) -> tuple[str, dict[str, Any]] | None:
    """Use the plan that would be made anyway, when it comes to a call at once."""
    for intent in plan_message(text, Reader(tools, today)).intents:
        for step in advance(intent, Scene(tools, {}, Focus())):
            if isinstance(step, Call):
                return step.tool.name, dict(step.arguments)
    return None


def completed(tool: ToolSpec, arguments: dict[str, Any], text: str, today: date) -> dict[str, Any]:
    """Add the least value for every required parameter that is missing."""
    for parameter in tool.parameters:
        if parameter.required and parameter.name not in arguments:
            value = made_up_value(parameter, tool.schema, text, today)
            arguments[parameter.name] = value
            if parameter.name in wrong_parameters(tool.schema, arguments) and parameter.nullable:
                arguments[parameter.name] = None
    return arguments
