"""Answer a call that must be made: the workflow's choice of a request, or a function filled from the text."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from toolweave.nodes.offline_model.choose_tool import TEXT_WINDOW, Reader, plan_message, rank_tools, unused_words
from toolweave.nodes.offline_model.english import hide_literals, without_courtesy
from toolweave.nodes.offline_model.fill import Intent, fill_other
from toolweave.nodes.offline_model.phrases import find_cue
from toolweave.nodes.offline_model.results import NOTICE, Turn, call_key, label
from toolweave.nodes.offline_model.tools import (
    Parameter,
    ToolSpec,
    all_nouns,
    made_up_value,
    part_of_tool,
    read_parameters,
    read_tools,
    resolve,
    wrong_parameters,
)

_NOTHING_FITS = "None of the offered tools does what these words ask for."
_NO_OTHER_READING = "I can read these words in no other way, and what I chose was refused."
_MAX_DEPTH = 8
_MOST_ITEMS = 20

NamedCall = tuple[str, dict[str, Any]]


def structured_call(
    turns: Sequence[Turn], tools: Sequence[ToolSpec], name: str | None, today: date
) -> NamedCall | None:
    """Return the call of the named tool, or of the one that fits best; None when it was made already."""
    offered = tuple(tool for tool in tools if name in (None, tool.name))
    if not offered:
        return None
    if candidates := _candidates(offered[0]):
        return offered[0].name, _choose(turns, candidates, today)
    call = _forced_call(turns[-1].text, offered, today)
    return None if call_key(*call) in turns[-1].results else call


def _candidates(tool: ToolSpec) -> tuple[ToolSpec, ...]:
    """Describe the tools that the workflow's function chooses among: each form of `arguments` has an id as title."""
    properties = tool.schema.get("properties")
    form = properties.get("arguments") if isinstance(properties, Mapping) and "tool_id" in properties else None
    if not isinstance(form, Mapping):
        return ()
    listed = form.get("anyOf", [form])
    branches = [resolve(one, tool.schema) for one in (listed if isinstance(listed, list) else ())]
    functions = (
        # The workflow's descriptions begin with the tool's name: "Get product: Get one product …".
        {"name": one.get("title"), "description": about.partition(": ")[2] or about, "parameters": one}
        for one in branches
        if isinstance(about := one.get("description", ""), str)
    )
    return read_tools([{"function": function} for function in functions])


def _choose(turns: Sequence[Turn], candidates: tuple[ToolSpec, ...], today: date) -> dict[str, Any]:
    """Choose for the words that the conversation began with: what follows a choice only says what is wrong with it."""
    text, refused = turns[-1].text, list[Any]()
    for turn in reversed(turns[:-1]):
        try:
            refused.append(json.loads(turn.answer))
        except (ValueError, RecursionError):
            break
        text = turn.text
    intents = plan_message(text, Reader(candidates, today)).intents
    problem = _problem(intents, text, today)
    if problem is None:
        intent = intents[0]
        key = {intent.tool.key.name: intent.target.ids[0]} if intent.tool.key and intent.target else {}
        arguments = {**key, **intent.arguments}
        chosen = {"tool_id": intent.tool.name, "arguments": arguments}
        if wrong := wrong_parameters(intent.tool.schema, arguments):
            problem = f"{intent.tool.name} does not take what was given as {_names(wrong)}."
        elif chosen not in refused:
            return chosen
    return {"reason": f"{problem or _NO_OTHER_READING} {NOTICE}"}


def _problem(intents: Sequence[Intent], text: str, today: date) -> str | None:
    """Say why no request can be made of the words."""
    if len(intents) != 1:
        return "Give one request at a time." if intents else _NOTHING_FITS
    intent = intents[0]
    missing = [one.name for one in (*intent.missing, *filter(None, [intent.too_long]))]
    if intent.target and intent.tool.key and len(intent.target.ids) != 1:
        missing.append(intent.tool.key.name)
    if missing:
        return f"{intent.tool.name} needs a value that was not given: {_names(missing)}."
    unused = unused_words(text, intents, today)
    if unused:
        return f"I could not place {' and '.join(f'‘{word}’' for word in unused[:3])} in {intent.tool.name}."
    return None


def _names(parameters: Sequence[str] | set[str]) -> str:
    return " and ".join(label(name) for name in sorted(parameters))


def _forced_call(text: str, offered: tuple[ToolSpec, ...], today: date) -> NamedCall:
    """Fill the tool that fits best; what the text does not give for a required parameter is made up."""
    for intent in plan_message(text, Reader(offered, today)).intents:
        if not (intent.missing or intent.too_long or intent.target):
            return intent.tool.name, dict(intent.arguments)
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
    given = "default" in parameter.schema or parameter.choices
    if depth >= _MAX_DEPTH or given or parameter.kind not in ("object", "array"):
        return made_up_value(parameter, text, today)
    if parameter.kind == "object":
        return _filled(part_of_tool(tool, parameter.name, parameter.schema), text, today, depth + 1)
    items = resolve(parameter.schema.get("items"), tool.schema)
    item = next(iter(read_parameters({"properties": {parameter.name: items}})), None) if items else None
    least = parameter.schema.get("minItems")
    count = least if isinstance(least, int) else int(item is not None and item.kind == "object")
    if item is None or count <= 0:
        return []
    return [_value(item, tool, text, today, depth + 1)] * min(count, _MOST_ITEMS)
