"""Fill a chosen tool from a clause: something new, a change, a list or search, anything else."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from toolweave.nodes.offline_model import english, extraction
from toolweave.nodes.offline_model.clauses import Cue
from toolweave.nodes.offline_model.dates import find_dates
from toolweave.nodes.offline_model.titles import ORDINALS, Target, find_titles, find_topic, read_target, states_topic
from toolweave.nodes.offline_model.tools import Parameter, ToolSpec, invalid_parameters, schema_limit


@dataclass(frozen=True)
class Intent:
    """One call that the user requests.

    `target` is set if the tool acts on a thing that must be found first. `added` names list arguments that extend the
    thing's own list. `missing` are parameters to request from the user, `too_long` is the one whose text is too long,
    `unused` are words that no argument used although the tool changes something. `after` makes the call wait for those
    before it; `guessed` calls are dropped if the same message has a clearer request.
    """

    tool: ToolSpec
    arguments: Mapping[str, Any] = field(default_factory=dict)
    target: Target | None = None
    added: tuple[str, ...] = ()
    missing: tuple[Parameter, ...] = ()
    too_long: Parameter | None = None
    unused: tuple[str, ...] = ()
    after: bool = False
    guessed: bool = False


def check_intent(intent: Intent) -> Intent:
    """Drop the arguments that the schema refuses, and list the required ones that are missing."""
    tool = intent.tool
    wrong = invalid_parameters(tool.schema, intent.arguments)
    arguments = {name: value for name, value in intent.arguments.items() if name not in wrong}
    refused = [one for one in tool.parameters if one.name in wrong and isinstance(intent.arguments[one.name], str)]
    most = {one.name: schema_limit(one.schema, "maxLength", math.inf) for one in refused}
    too_long = next((one for one in refused if len(intent.arguments[one.name]) > most[one.name]), None)
    found_later = tool.key.name if intent.target and tool.key else None
    missing = tuple(
        one
        for one in tool.parameters
        if one.required and one.name not in arguments and one.name != found_later and "default" not in one.schema
    )
    return replace(intent, arguments=arguments, missing=missing, too_long=too_long)


# Something new

_NOTHING_ELSE = english.pattern(r"(?:(?:it's|it|is|this|that|and|with|also|should|be|please|make|set|mark|as|a)\b\s*)*")


def fill_new(tool: ToolSpec, body: str, literals: english.Literals, today: date) -> list[Intent]:
    """Return a call for each new thing in the text; its other values hold for all of them."""
    draft = extraction.Draft(tool, body, literals, today)
    extraction.extract_values(draft, "described")
    main = tool.main
    named = main is None or main.name in draft.arguments
    quoted = literals.in_text(draft.text, "quoted") if main and main.role in ("description", "text") else []
    titles = [] if named else [one.value for _, one in quoted] or find_titles(draft.text, tool.any_noun, literals)
    if main is None or not titles:
        return [check_intent(Intent(tool, draft.arguments))]
    return [check_intent(Intent(tool, {main.name: title, **draft.arguments})) for title in titles]


def fill_afterthought(intent: Intent, text: str, literals: english.Literals, today: date) -> Intent | None:
    """Add the values of an afterthought ("High priority. Due tomorrow."); None if it has other words, too."""
    draft = extraction.Draft(intent.tool, text, literals, today)
    extraction.extract_values(draft, "anywhere")
    if not draft.arguments or not _NOTHING_ELSE.fullmatch(draft.text.strip(" .,;:!?")):
        return None
    return check_intent(replace(intent, arguments={**intent.arguments, **draft.arguments}, missing=()))


# A change of something that exists

_VERB = english.pattern(
    r"^(?:i(?:'ve|'m)? |we(?:'ve)? )?(?:(?:have|am|already|just|finally) )*"
    rf"(?:{english.ANY_VERB}|need|want|done|finished|completed|make it so that|make sure)"
    r"(?: (?:off|back|up|down|forward|out|with))*\b"
)
_EXTENDING = english.pattern(r"(?:add|attach|append|tag|label|also)\b")
_SEPARATORS = " ,;:.!?-–—"


def fill_change(tool: ToolSpec, cue: Cue, text: str, literals: english.Literals, today: date) -> list[Intent]:
    """Return a call for each thing that is named; several quoted titles are several things."""
    key = tool.key
    if key is None:
        return []
    if tool.action == "update":
        intent = _fill_update(tool, cue, text, literals, today)
    else:
        filled = fill_any_tool(tool, text, literals, today).arguments
        needed = {one.name for one in tool.parameters if one.required and one is not key}
        arguments = {name: value for name, value in filled.items() if name in needed}
        intent = check_intent(Intent(tool, arguments, read_target(cue.body, tool, literals)))
    target = intent.target
    if target is None or target.kind != "phrase":
        return [intent]
    if target.quoted:
        quoted = [literal.value for _, literal in literals.in_text(cue.body, "quoted")]
        titles = [title for title in quoted if title not in intent.arguments.values()] or [target.text]
    else:
        titles = [target.text]
    return [replace(intent, target=replace(target, text=title)) for title in titles]


def _fill_update(tool: ToolSpec, cue: Cue, text: str, literals: english.Literals, today: date) -> Intent:
    """Extract the new values, then the target from the remaining words."""
    text = english.strip_courtesy_tail(text)
    draft = extraction.Draft(tool, text[: english.MAX_CLAUSE_CHARS], literals, today)
    _extract_new_texts(draft)
    extraction.extract_values(draft, "anywhere")
    _extract_implied_values(draft, cue, text)
    target = read_target(_without_frame(draft), tool, literals)
    values = draft.arguments
    # "Change the priority of task 4" names a parameter without its new value.
    named = [
        one
        for one in tool.parameters
        if not one.required and english.pattern(rf"\b(?:{extraction.parameter_names(one)})\b").search(draft.text)
    ]
    if target.kind == "nothing" and values:
        target = Target("pronoun")
    added = tuple(name for name, value in values.items() if isinstance(value, list)) if _EXTENDING.match(text) else ()
    intent = check_intent(Intent(tool, values, target, added))
    return replace(intent, missing=intent.missing or (() if values else tuple(named[:1])))


def _without_frame(draft: extraction.Draft) -> str:
    """Drop the verb, the names of parameters with a value, and the words that link them."""
    text = _VERB.sub("", draft.text.strip(_SEPARATORS))
    changed = [extraction.parameter_names(one) for one in draft.tool.parameters if one.name in draft.arguments]
    if changed:
        names = "|".join(changed)
        form = rf"(?:'s)? ?\b(?:the |a |an |its )?(?:new )?(?:{names})\b(?: (?:of|for|on|to|from))?"
        text = english.pattern(form).sub(" ", f" {text} ")
    return text.strip(_SEPARATORS)


_CHANGE = r"(?:change|set|update|edit|correct|fix|modify|replace|make|put|give|add|attach)"
_TO = r"(?: (?:to|as|into|with|is|be|should be|should read|to be|reads?)(?: now)?(?::)? |\s*[:=]\s*)"
_ITS = r"(?:the |its |a |an )?(?:new )?"
_VALUE = r"(?P<value>.+)$"
# `{P}` stands for the words that name the parameter, `target` is the thing, `value` the new value.
_NEW_TEXT_FORMS = (
    rf"^{_CHANGE} {_ITS}(?:{{P}})(?: (?:of|for|on|in|to|from)(?: the)?(?P<target> .+?))?{_TO}{_VALUE}",
    rf"^{_CHANGE}(?P<target> .+?)(?:'s?)? (?:{{P}}){_TO}{_VALUE}",
    rf"^{_CHANGE} (?:the |a |its )?(?:{{P}})(?:\s*[:=])? (?P<value>.+?) (?:to|for|on)(?P<target> .+)$",
    rf"^{_ITS}(?:{{P}}) (?:of|for)(?P<target> .+?) (?:should be|should read|must be|is now|to|is)(?::)? {_VALUE}",
    rf"^(?P<target>.+?)[,;:]? (?:the )?new (?:{{P}}) {_VALUE}",
    rf"^(?P<target>.+?)[,;:]? (?:and |so |with )?(?:that )?(?:change |set |have |make )?{_ITS}(?:{{P}}){_TO}{_VALUE}",
)
_RENAMING = english.pattern(rf"(?:rename|retitle|call)(?P<target> .+?) (?:to|as|into) {_VALUE}")
_REPLACING = english.pattern(
    rf"{_CHANGE}(?P<target> {english.HIDDEN}) (?:to|into|with|by) (?P<value>{english.HIDDEN})$"
)


def _extract_new_texts(draft: extraction.Draft) -> None:
    """Extract new titles and descriptions; the target stays in the text."""
    texts = draft.unfilled_parameters("title", "description", "text", "other")
    title = next((one for one in texts if one.role == "title"), None)
    renaming = _RENAMING.match(draft.text) or _REPLACING.match(draft.text)
    if title and renaming:
        draft.set_text(title, renaming["value"])
        draft.text = renaming["target"].strip()
        return
    for parameter in texts:
        for form in _NEW_TEXT_FORMS:
            match = english.pattern(form.replace("{P}", extraction.parameter_names(parameter))).match(draft.text)
            value = match["value"].strip(_SEPARATORS).lower() if match else ""
            if match and value and not (parameter.role == "title" and value in ("it", "that")):
                draft.set_text(parameter, match["value"])
                draft.text = (match["target"] or "it").strip()
                break


def _extract_implied_values(draft: extraction.Draft, cue: Cue, text: str) -> None:
    """Set the values that a verb implies: "finish", or a reported deed, sets the state to completed."""
    for parameter in draft.tool.parameters:
        if not parameter.choices:
            continue
        # The verb decides: "unmark it as done".
        value: Any = extraction.value_from_verb(parameter, text)
        if value is None and cue.manner == "deed" and not draft.arguments:
            value = extraction.value_synonyms(parameter).get("completed")
        if value is not None:
            draft.arguments[parameter.name] = value


# A list or a search

# Things that one "still has to do" are unfinished, whatever the verb at the end.
_STILL_TO_DO = english.pattern(
    r"\b(?:should|shall|can|could|must) (?:i|we) (?:do|work(?: on)?|tackle|focus(?: on)?|start with|finish|take on)\b"
    r"|\b(?:have|need|want|supposed|got|left|remain\w*|still|yet)(?: \w+){0,3}? to (?:be |get )?"
    r"(?:do(?:ne)?|finish(?:ed)?|completed?)\b"
)


def fill_listing(
    listing: ToolSpec | None, finding: ToolSpec | None, text: str, body: str, literals: english.Literals, today: date
) -> Intent | None:
    """Fill the listing tool if the request only filters, the search tool if it has a topic.

    `body` is the text without the verb of the request.
    """
    found = fill_any_tool(finding, body, literals, today) if finding else None
    named = any(literal.kind == "quoted" or "*" in literal.value for _, literal in literals.in_text(text))
    topical = named or states_topic(text)
    if listing is None or (found and topical and not found.missing):
        return found
    draft = extraction.Draft(listing, body, literals, today)
    extract_filters(draft)
    topic = find_topic(draft.text, listing, literals)
    if found and found.tool.main and topic:
        return check_intent(replace(found, arguments={**found.arguments, found.tool.main.name: topic}, missing=()))
    return check_intent(Intent(listing, draft.arguments))


def extract_filters(draft: extraction.Draft) -> dict[str, Any]:
    """Extract everything that filters a listing; return the arguments."""
    if draft.cut_match(_STILL_TO_DO) or extraction.OVERDUE.search(draft.text):
        for parameter in draft.tool.parameters:
            active = extraction.value_synonyms(parameter).get("active") if parameter.choices else None
            if active is not None:
                draft.arguments[parameter.name] = active
    extraction.extract_values(draft, "anywhere")
    return draft.arguments


# Any other tool


def fill_any_tool(tool: ToolSpec, text: str, literals: english.Literals, today: date) -> Intent:
    """Return the intent to call a tool with the arguments found in the text."""
    draft = extraction.Draft(tool, english.strip_courtesy_tail(text), literals, today)
    extraction.extract_values(draft, "anywhere")
    extraction.extract_names(draft)
    _extract_main(draft)
    return check_intent(Intent(tool, draft.arguments))


def _extract_main(draft: extraction.Draft) -> None:
    """Set the main parameter to the remaining text."""
    main = draft.tool.main
    if main is None or main not in draft.unfilled_parameters() or not (main.required or draft.tool.action == "search"):
        return
    quoted = draft.literals.in_text(draft.text, "quoted")
    value = ""
    if quoted:
        value = quoted[0][1].value
    elif main.role == "title":
        value = next(iter(find_titles(draft.text, english.NEVER_MATCHES, draft.literals)), "")
    else:
        value = find_topic(draft.text, draft.tool, draft.literals)
    if value and (quoted or draft.tool.action != "send"):
        draft.arguments[main.name] = value


def parse_value(parameter: Parameter, tool: ToolSpec, text: str, literals: english.Literals, today: date) -> Any:
    """Parse a reply as the value of one parameter; None if it is not one."""
    if parameter.kind in extraction.TEXT_KINDS and not parameter.choices and parameter.role != "date":
        return literals.restore(text) or None
    draft = extraction.Draft(tool, f"{parameter.name.replace('_', ' ')} {text.strip()}", literals, today)
    extraction.extract_values(draft, "anywhere")
    return draft.arguments.get(parameter.name)


# Words that occur in any request.
_REQUEST_WORDS = """
want need like love look know tell help try new called says saying current now today
many much cost list number question detail details information info available exist call use using word
another following back sure longer anymore need rid mistake quick quickly small little short simple extra
additional further separate single soon possible asap somehow sometime maybe certainly definitely simply just
note memo entry line job matter go whole entire everything moment nice great good reminder put make sense
"""
_EMPTY = (
    english.STOP_WORDS - english.LIMITING_WORDS
    | english.VERBS
    | {verb + ending for verb in english.VERBS for ending in ("d", "ed")}
)
_HARMLESS = english.pattern(r"\bno\.? ?(?=#?\d)|\bno longer\b|\b(?:titled|named|with (?:the )?(?:title|name))\b")
# A value that was taken out of a text has left these behind it: "milk, but not" of "milk, but not today".
_LIMITED_VALUE = english.pattern(rf"(?:\W*\b(?:{'|'.join(english.LIMITING_WORDS)}))+\W*$")
_WORD = re.compile(rf"{english.HIDDEN}|[^\W_]+(?:[.'’-][^\W_]+)*")


def _stems(texts: Sequence[str]) -> set[str]:
    return {english.stem(word) for text in texts for word in english.words(text.replace("_", " "))}


def unexplained_words(text: str, intents: Sequence[Intent], today: date) -> list[str]:
    """Return the words of a request that are in no argument, target or description of the chosen tools (U-04)."""
    text = english.strip_container(_HARMLESS.sub(" ", text), anywhere=True)
    quoted = [one.value for one in english.hide_literals(text)[1].found.values() if one.kind == "quoted"]
    described, used = [_REQUEST_WORDS, *english.CONTAINERS, *english.VAGUE_NOUNS, str(len(intents))], list[str]()
    for intent in intents:
        tool, target = intent.tool, intent.target
        described += [tool.name, tool.description, *tool.nouns_and_synonyms]
        used += [_LIMITED_VALUE.sub("", str(value)) for value in intent.arguments.values()]
        if target:
            described += ORDINALS
            used += [target.text, *map(str, target.ids)]
        for one in tool.parameters:
            described += [*one.words, one.description, extraction.parameter_names(one), *extraction.value_synonyms(one)]
            used += [
                name
                for name, value in extraction.value_synonyms(one).items()
                if value == intent.arguments.get(one.name)
            ]
        if tool.parameter("date"):
            for found in reversed(find_dates(text, today)):
                text = f"{text[: found.start]} {text[found.end :]}"
    known = (_stems(described) - {*map(english.stem, english.LIMITING_WORDS)}) | _stems(used)
    known |= {english.stem(word) for word, number in english.NUMBER_WORDS.items() if str(number) in known}
    listed = dict.fromkeys(match.group().removesuffix("'s") for match in _WORD.finditer(text))
    literal = {word for one in quoted if not any(one in value for value in used) for word in english.words(one)}
    return [one for one in listed if one.lower() in literal or not (one.lower() in _EMPTY or _stems([one]) <= known)]
