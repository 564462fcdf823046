"""Fill the arguments of a tool that changes, removes or opens one existing thing, and read which one it is."""

import re
from dataclasses import replace
from datetime import date

from toolweave.nodes.offline_model.filling.completeness import checked
from toolweave.nodes.offline_model.filling.date_arguments import take_dates
from toolweave.nodes.offline_model.filling.draft import Draft
from toolweave.nodes.offline_model.filling.fill_other import fill_other
from toolweave.nodes.offline_model.filling.intents import Intent
from toolweave.nodes.offline_model.filling.named_texts import parameter_words, take_named_literals
from toolweave.nodes.offline_model.filling.new_values import take_done, take_implied_values, take_new_texts
from toolweave.nodes.offline_model.filling.targets import Target, read_target
from toolweave.nodes.offline_model.filling.values import take_choices, take_tags
from toolweave.nodes.offline_model.language.cues import Cue
from toolweave.nodes.offline_model.language.literals import Literals
from toolweave.nodes.offline_model.language.patterns import CLAUSE_WINDOW, pattern
from toolweave.nodes.offline_model.language.politeness import without_courteous_tail
from toolweave.nodes.offline_model.language.vocabulary import STRONG_VERBS, WEAK_VERBS
from toolweave.nodes.offline_model.language.words import words
from toolweave.nodes.offline_model.tools.parameters import Parameter
from toolweave.nodes.offline_model.tools.tool_nouns import tool_nouns
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

_CHANGING_VERBS = "|".join(
    sorted(
        {*words(STRONG_VERBS["update"]), *words(WEAK_VERBS["update"]), "add", "attach", "need", "want"},
        key=lambda verb: (-len(verb), verb),
    )
)
_VERB = pattern(
    r"^(?:i(?:'ve|'m)? |we(?:'ve)? )?(?:(?:have|am|already|just|finally) )*"
    rf"(?:{_CHANGING_VERBS}|done|finished|completed|make it so that|make sure)"
    r"(?: (?:off|back|up|down|forward|out|with))*\b"
)
_LINKS = (
    r"\b(?:so|it's|its|is|are|has been|have been|was|were|isn't|now|back|after all|being|both|off|to be)"
    r"(?= |$)(?! (?:{N}))"
)
_FILED = pattern(r" (?:off|from|on) (?:my|the|our) (?:list|to-?do list)\b")
_DANGLING = pattern(r"(?:^| )(?:and|to|as|for|until|by|with|on|at|should|be|from|the)(?= *$)")
_EXTENDING = pattern(r"(?:add|attach|append|tag|label|also)\b")
_POINTS_BACK = pattern(r"\b(?:its|it|their|them|this|that)\b")
_AND_ANOTHER = re.compile(r"\s*(?:,|\band\b)\s+(?:the|my)\s+")
_SEPARATORS = " ,;:.!?-–—"


def fill_change(tool: ToolSpec, cue: Cue, text: str, literals: Literals, today: date) -> list[Intent]:
    """Fill one call for each thing that is named; several quoted titles are several things."""
    key = tool.key
    if key is None:
        return []
    if tool.action == "update":
        intent = _fill_values(tool, key, cue, text, literals, today)
    else:
        filled = fill_other(tool, text, literals, today).arguments
        needed = {one.name for one in tool.parameters if one.required and one is not key}
        arguments = {name: value for name, value in filled.items() if name in needed}
        intent = checked(Intent(tool, arguments, read_target(cue.body, key, tool_nouns(tool), literals)))
    return _for_each_thing(intent, cue, literals)


def _for_each_thing(intent: Intent, cue: Cue, literals: Literals) -> list[Intent]:
    target = intent.target
    if target is None or target.kind != "phrase":
        return [intent]
    if target.quoted:
        quoted = [literal.value for _, literal in literals.in_text(cue.body, "quoted")]
        titles = [title for title in quoted if title not in intent.arguments.values()] or [target.text]
    else:
        titles = _AND_ANOTHER.split(target.text)
    return [replace(intent, target=replace(target, text=title)) for title in titles]


def _fill_values(tool: ToolSpec, key: Parameter, cue: Cue, text: str, literals: Literals, today: date) -> Intent:
    """Read the new values and then, from the words that are left, the thing they are for."""
    text = without_courteous_tail(text)
    draft = Draft.of(tool, text[:CLAUSE_WINDOW], literals, today)
    take_new_texts(draft)
    take_tags(draft)
    take_dates(draft)
    take_choices(draft, "anywhere")
    take_done(draft, cue)
    take_implied_values(draft, cue, text)
    if len(literals.in_text(draft.rest.text, "quoted")) > 1:
        take_named_literals(draft)
    target = read_target(_without_frame(draft), key, draft.noun, literals)
    values = draft.arguments
    asked = () if values else _mentioned(tool, draft.rest.text)
    if target.kind == "nothing" and (values or _POINTS_BACK.search(text)):
        target = Target("pronoun")
    added = tuple(name for name, value in values.items() if isinstance(value, list)) if _EXTENDING.match(text) else ()
    intent = checked(Intent(tool, values, target, added))
    return replace(intent, missing=intent.missing or asked)


def _mentioned(tool: ToolSpec, text: str) -> tuple[Parameter, ...]:
    """Give the parameter that is to change when its new value is not said: "change the priority of task 4"."""
    named = [
        one for one in tool.parameters if not one.required and pattern(rf"\b(?:{parameter_words(one)})\b").search(text)
    ]
    return tuple(named[:1])


def _without_frame(draft: Draft) -> str:
    """Drop the verb, the names of the parameters that got a value, and the words that tied them together."""
    text = _VERB.sub("", draft.rest.text.strip(_SEPARATORS))
    changed = [parameter_words(one) for one in draft.tool.parameters if one.name in draft.arguments]
    if changed:
        names = "|".join(changed)
        form = rf"(?:'s)? ?\b(?:the |a |an |its )?(?:new )?(?:{names})\b(?: (?:of|for|on|to|from))?"
        text = pattern(form).sub(" ", f" {text} ")
    text = pattern(_LINKS.replace("{N}", draft.noun)).sub(" ", text)
    text = _FILED.sub(" ", text)
    return _DANGLING.sub("", text.strip(_SEPARATORS))
