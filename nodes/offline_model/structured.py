"""Answer a call that must be made: a choice among tools as structured output, or a function filled from the text."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    part_of_tool,
    read_parameters,
    read_tools,
    resolve,
    wrong_parameters,
)

_REASON_NAMES = ("reason", "explanation", "message")
_NOTHING_FITS = "None of the offered tools does what these words ask for."
_NO_OTHER_READING = "I can read these words in no other way, and what I chose was refused."
_MAX_DEPTH = 8
_MOST_ITEMS = 20
_LONGEST_TITLE = 80
_FORMATS = {
    "time": "00:00:00Z",
    "uri": "https://example.invalid/",
    "url": "https://example.invalid/",
    "email": "nobody@example.invalid",
    "uuid": "00000000-0000-0000-0000-000000000000",
}

NamedCall = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class ChoiceForm:
    """A function that chooses among `operations`: its fields for the chosen one, the arguments, and a refusal."""

    which: str
    arguments: str
    reason: str | None
    fields: frozenset[str]
    operations: tuple[ToolSpec, ...]


def structured_call(
    turns: Sequence[Turn], tools: Sequence[ToolSpec], name: str | None, today: date
) -> NamedCall | None:
    """Return the call of the named tool, or of the one that fits best; None when it was made already."""
    offered = tuple(tool for tool in tools if name in (None, tool.name))
    form = read_choice_form(offered[0]) if len(offered) == 1 else None
    if form is not None:
        return offered[0].name, _choose(turns, offered[0], form, today)
    call = _forced_call(turns[-1].text, offered, today) if offered else None
    return call if call and call_key(*call) not in turns[-1].results else None


def read_choice_form(tool: ToolSpec) -> ChoiceForm | None:
    """Read a tool as a choice among tools (an enumeration, and forms with these titles); None for an ordinary tool."""
    properties = tool.schema.get("properties")
    if not isinstance(properties, Mapping):
        return None
    for which, chosen in properties.items():
        schema = resolve(chosen, tool.schema)
        listed = schema.get("enum", [schema.get("const")])
        names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
        for arguments, form in properties.items():
            operations = _operations(form, tool.schema, names) if names and arguments != which else ()
            if operations:
                reason = next((name for name in _REASON_NAMES if name in properties), None)
                return ChoiceForm(which, arguments, reason, frozenset(properties), operations)
    return None


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
    functions = (
        # The workflow's descriptions begin with the tool's title: "Get product: Get one product …".
        {"name": one["title"], "description": about.partition(": ")[2] or about, "parameters": {**shared, **one}}
        for one in titled
        if isinstance(about := one.get("description", ""), str)
    )
    return read_tools([{"function": function} for function in functions])


def _choose(turns: Sequence[Turn], tool: ToolSpec, form: ChoiceForm, today: date) -> dict[str, Any]:
    """Choose for the words that the conversation began with: what follows a choice only says what is wrong with it."""
    text, refused = turns[-1].text, _choices_of(turns[-1], tool, form)
    for turn in reversed(turns[:-1]):
        made = _choices_of(turn, tool, form)
        if not made:
            break
        refused += made
        text = turn.text
    intents = plan_message(text, Reader(form.operations, today)).intents
    problem = _problem(intents, text, today)
    if problem is None:
        intent = intents[0]
        key = {intent.tool.key.name: intent.target.ids[0]} if intent.tool.key and intent.target else {}
        arguments = {**key, **intent.arguments}
        chosen = {form.which: intent.tool.name, form.arguments: arguments}
        if wrong := wrong_parameters(intent.tool.schema, arguments):
            problem = f"{intent.tool.name} does not take what was given as {_names(wrong)}."
        elif chosen not in refused:
            return chosen
    return {form.reason: f"{problem or _NO_OTHER_READING} {NOTICE}"} if form.reason else {}


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


def _choices_of(turn: Turn, tool: ToolSpec, form: ChoiceForm) -> list[dict[str, Any]]:
    made = [dict(result.arguments) for result in turn.results.values() if result.name == tool.name]
    try:
        answered = json.loads(turn.answer)
    except (ValueError, RecursionError):
        return made
    if isinstance(answered, dict) and answered and answered.keys() <= form.fields:
        made.append(answered)
    return made


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
    if depth >= _MAX_DEPTH or "default" in parameter.schema or parameter.choices:
        return made_up_value(parameter, text, today)
    if parameter.kind == "object":
        return _filled(part_of_tool(tool, parameter.name, parameter.schema), text, today, depth + 1)
    if parameter.kind != "array":
        return made_up_value(parameter, text, today)
    items = resolve(parameter.schema.get("items"), tool.schema)
    item = next(iter(read_parameters({"properties": {parameter.name: items}})), None) if items else None
    least = parameter.schema.get("minItems")
    count = least if isinstance(least, int) else int(item is not None and item.kind == "object")
    if item is None or count <= 0:
        return []
    return [_value(item, tool, text, today, depth + 1)] * min(count, _MOST_ITEMS)


def made_up_value(parameter: Parameter, text: str, today: date) -> Any:
    """Return the least value that a schema allows: a default, a first choice, zero, no, nothing, or the text itself."""
    if "default" in parameter.schema:
        return parameter.schema["default"]
    if parameter.choices:
        return parameter.choices[0]
    if parameter.kind in ("integer", "number"):
        return _least_number(parameter.schema, whole=parameter.kind == "integer")
    plain: dict[str, Any] = {"boolean": False, "null": None, "array": [], "object": {}}
    return plain[parameter.kind] if parameter.kind in plain else _least_text(parameter, text, today)


def _number(schema: Mapping[str, Any], keyword: str) -> float | None:
    value = schema.get(keyword)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def _least_number(schema: Mapping[str, Any], *, whole: bool) -> int | float:
    least, above, most = (_number(schema, keyword) for keyword in ("minimum", "exclusiveMinimum", "maximum"))
    value: float = least if least is not None else above + 1 if above is not None else min(0, most or 0)
    step = _number(schema, "multipleOf") or (1 if whole else 0)
    if step > 0:
        value = math.ceil(value / step) * step
    return int(value) if whole or value == int(value) else value


def _least_text(parameter: Parameter, text: str, today: date) -> str:
    stated = parameter.schema.get("format")
    if parameter.role == "date":
        return f"{today.isoformat()}T00:00:00Z" if stated == "date-time" else today.isoformat()
    if isinstance(stated, str) and stated in _FORMATS:
        return _FORMATS[stated]
    value = " ".join(text.split()) or parameter.name
    if parameter.role == "title":
        value = text.strip().split("\n", 1)[0].split(". ", 1)[0].strip()[:_LONGEST_TITLE] or value[:_LONGEST_TITLE]
    most, least = _number(parameter.schema, "maxLength"), _number(parameter.schema, "minLength")
    value = value if most is None else value[: int(most)]
    return value if least is None else value.ljust(min(int(least), 10_000), ".")
