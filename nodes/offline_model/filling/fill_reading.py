"""Fill the arguments of a tool that lists or finds things, and choose between the two."""

import re
from dataclasses import replace
from datetime import date
from typing import Any

from toolweave.nodes.offline_model.filling.addresses import take_addresses
from toolweave.nodes.offline_model.filling.completeness import checked
from toolweave.nodes.offline_model.filling.date_arguments import is_overdue, take_dates
from toolweave.nodes.offline_model.filling.draft import Draft
from toolweave.nodes.offline_model.filling.intents import Intent
from toolweave.nodes.offline_model.filling.named_texts import take_named_words
from toolweave.nodes.offline_model.filling.numbers import take_limit, take_numbers
from toolweave.nodes.offline_model.filling.topic import topic_of
from toolweave.nodes.offline_model.filling.values import set_active, take_choices, take_tags
from toolweave.nodes.offline_model.language.literals import Literals
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

_STATES_TOPIC = pattern(
    r"\b(?:about|regarding|concerning|relat(?:ed|ing) to|to do with|mention(?:s|ing|ed)?|mentions? of|contain(?:s|ing)?"
    r"|match(?:es|ing)?|(?:search|look|looking|hunt|searching)(?: \w+){0,4} for|search on"
    r"|(?:word|term|phrase|text|keyword)s?)\b|^search(?: [^:]{0,40}):"
)
_DUE = re.compile(r"\b(?:due|deadline|scheduled)\b", re.IGNORECASE)
# What one "still has to do" is what is not finished, whatever verb the phrase ends in.
_STILL_TO_DO = pattern(
    r"\b(?:should|shall|can|could|must) (?:i|we) "
    r"(?:do|work(?: on)?|tackle|focus(?: on)?|start with|finish|get done|take on)\b"
    r"|\b(?:have|need|want|supposed|got|left|remains?|remaining|still|yet)(?: \w+){0,3}? to (?:be |get )?"
    r"(?:do|done|finish|finished|complete|completed)\b"
)


def states_topic(text: str) -> bool:
    """Tell whether a request says what it is about: "about", "mentioning", "search … for"."""
    return bool(_STATES_TOPIC.search(text))


def fill_reading(
    listing: ToolSpec | None, finding: ToolSpec | None, text: str, body: str, literals: Literals, today: date
) -> Intent | None:
    """Fill the listing tool when the request only filters, the finding tool when it is about something.

    `body` is the text without the verb that asked for it.
    """
    found = _fill_finding(finding, body, literals, today) if finding else None
    topical = bool(literals.in_text(text, "quoted")) or states_topic(text)
    if listing is None or (found and topical and not found.missing):
        return found
    draft = Draft.of(listing, body, literals, today)
    take_filters(draft)
    take_addresses(draft)
    take_numbers(draft)
    take_named_words(draft)
    topic = topic_of(_DUE.sub(" ", draft.rest.text), listing, literals)
    if found and found.tool.main and topic:
        return checked(replace(found, arguments={**found.arguments, found.tool.main.name: topic}, missing=()))
    return checked(Intent(listing, draft.arguments))


def take_filters(draft: Draft) -> dict[str, Any]:
    """Take everything by which a listing can be narrowed down; give the arguments."""
    said = draft.rest.text
    take_tags(draft)
    take_limit(draft)
    still_to_do = draft.rest.take(_STILL_TO_DO)
    take_dates(draft)
    if still_to_do or is_overdue(said):
        set_active(draft)
    take_choices(draft, "anywhere")
    return draft.arguments


def _fill_finding(tool: ToolSpec, text: str, literals: Literals, today: date) -> Intent:
    draft = Draft.of(tool, text, literals, today)
    take_limit(draft)
    take_addresses(draft)
    take_named_words(draft)
    main = tool.main
    if main and main.name not in draft.arguments:
        topic = topic_of(draft.rest.text, tool, literals)
        if topic:
            draft.arguments[main.name] = topic
    else:
        take_choices(draft, "anywhere")
        take_dates(draft)
    return checked(Intent(tool, draft.arguments))
