"""Take the values of enumerations, yes-or-no parameters and tags."""

import re

from toolweave.nodes.offline_model.filling.choices import Scope, take_choice, value_meaning
from toolweave.nodes.offline_model.filling.draft import Draft
from toolweave.nodes.offline_model.filling.labels import take_labels
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.words import stem
from toolweave.nodes.offline_model.tools.parameters import Parameter

_SWITCH = pattern(r"\b(?:(?:turn|switch|put|set|power)\b.*?)?\b(?P<state>on|off)\b(?! the \w+ (?:of|from))")
_SWITCHED = frozenset({"on", "off", "enabled", "state", "power"})
_WITHOUT = pattern(r"(?:\bno|\bnot|n't|\bwithout|\bexcept)(?: the)? $")
_LABEL_WORDS = frozenset({"tag", "tags", "label", "labels", "category", "categories"})
_SHORTEST_FLAG_NAME = 4


def take_choices(draft: Draft, scope: Scope) -> None:
    """Take the values that the text names for enumerations and yes-or-no parameters."""
    for parameter in draft.tool.parameters:
        if parameter.name in draft.arguments or not (parameter.choices or parameter.kind == "boolean"):
            continue
        value = take_choice(parameter, draft.rest, draft.noun, scope)
        if value is None and parameter.kind == "boolean":
            value = mentioned_flag(parameter, draft.rest.text)
        if value is not None:
            draft.arguments[parameter.name] = value


def take_switch(draft: Draft) -> None:
    """Take "on" and "off" for a parameter that switches something."""
    for parameter in draft.tool.parameters:
        if parameter.kind == "boolean" and set(parameter.words) & _SWITCHED:
            match = _SWITCH.search(draft.rest.text)
            if match:
                draft.arguments[parameter.name] = (match["state"].lower() == "on") != ("off" in parameter.words)
                draft.rest.cut(match.start("state"), match.end("state"))


def mentioned_flag(parameter: Parameter, text: str) -> bool | None:
    """Take a flag that is named: "recursively" sets `recursive`, "without content" unsets `content`."""
    wanted = {stem(word) for word in parameter.words if len(word) >= _SHORTEST_FLAG_NAME}
    for match in re.finditer(r"[^\W_]{4,40}", text):
        if stem(match.group().removesuffix("ly")) in wanted:
            return not _WITHOUT.search(text[: match.start()])
    return None


def take_tags(draft: Draft) -> None:
    """Take tags for a list of strings, or the first one for a single string."""
    parameter = draft.tool.parameter("labels")
    if parameter is None or parameter.name in draft.arguments or not _holds_labels(parameter):
        return
    labels = take_labels(draft.rest, draft.noun)
    if labels:
        draft.arguments[parameter.name] = labels if parameter.kind in ("array", "any") else labels[0]


def _holds_labels(parameter: Parameter) -> bool:
    items = parameter.schema.get("items")
    of_text = not isinstance(items, dict) or items.get("type", "string") == "string"
    return bool(_LABEL_WORDS & set(parameter.words)) and (parameter.kind != "array" or of_text)


def set_active(draft: Draft) -> None:
    """Leave out what is finished, when the tool can tell it apart."""
    for parameter in draft.tool.parameters:
        active = value_meaning(parameter, "active") if parameter.choices else None
        if active is not None:
            draft.arguments.setdefault(parameter.name, active)
