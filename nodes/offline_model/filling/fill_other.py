"""Fill the arguments of any other tool: literals and numbers first, then what is left of the phrase."""

from datetime import date

from toolweave.nodes.offline_model.filling.addresses import take_addresses
from toolweave.nodes.offline_model.filling.completeness import checked
from toolweave.nodes.offline_model.filling.date_arguments import take_dates
from toolweave.nodes.offline_model.filling.directions import take_ends, take_places, take_proper_names
from toolweave.nodes.offline_model.filling.draft import Draft
from toolweave.nodes.offline_model.filling.intents import Intent
from toolweave.nodes.offline_model.filling.named_texts import (
    take_assignments,
    take_named_literals,
    take_named_texts,
    take_named_words,
    take_stated_ids,
)
from toolweave.nodes.offline_model.filling.numbers import take_limit, take_numbers
from toolweave.nodes.offline_model.filling.title_phrase import titles_of
from toolweave.nodes.offline_model.filling.topic import topic_of
from toolweave.nodes.offline_model.filling.values import take_choices, take_switch, take_tags
from toolweave.nodes.offline_model.language.literals import Literals
from toolweave.nodes.offline_model.language.patterns import NEVER, pattern
from toolweave.nodes.offline_model.language.politeness import without_courteous_tail
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

_SPOKEN = pattern(
    r"^[\w-]+(?: (?:after me|back|to me|aloud|out loud|again|that|the following"
    r"|the (?:text|message|words?|phrase|sentence)))*\s*[:,]?\s+(?P<said>.+)$"
)


def fill_other(tool: ToolSpec, text: str, literals: Literals, today: date) -> Intent:
    """Fill whatever the text gives for the tool's parameters."""
    draft = Draft.of(tool, without_courteous_tail(text), literals, today)
    take_named_literals(draft)
    take_assignments(draft)
    take_stated_ids(draft)
    take_addresses(draft)
    take_tags(draft)
    take_dates(draft)
    take_switch(draft)
    take_choices(draft, "anywhere")
    take_ends(draft)
    take_named_words(draft)
    take_limit(draft)
    take_numbers(draft)
    take_named_texts(draft)
    take_places(draft)
    take_proper_names(draft)
    _take_main(draft)
    _take_quoted(draft)
    return checked(Intent(tool, draft.arguments))


def _take_main(draft: Draft) -> None:
    main = draft.tool.main
    if main is None or not main.required or main not in draft.open_texts():
        return
    quoted = draft.rest.literals.in_text(draft.rest.text, "quoted")
    spoken = _SPOKEN.match(draft.rest.text) if main.role in ("text", "description") else None
    if quoted:
        draft.arguments[main.name] = quoted[0][1].value
        draft.rest.text = draft.rest.text.replace(quoted[0][0], " ", 1)
    elif spoken:
        draft.fill(main, spoken["said"])
    elif main.role == "title":
        titles = titles_of(draft.rest.text, NEVER, draft.rest.literals)
        if titles:
            draft.arguments[main.name] = titles[0]
    else:
        topic = topic_of(draft.rest.text, draft.tool, draft.rest.literals)
        if topic:
            draft.arguments[main.name] = topic


def _take_quoted(draft: Draft) -> None:
    """Give the quoted texts that are left to the required parameters that are left, both in order."""
    waiting = [one for one in draft.open_texts() if one.required]
    left = draft.rest.literals.in_text(draft.rest.text, "quoted")
    for parameter, (_, literal) in zip(waiting, left, strict=False):
        draft.arguments[parameter.name] = literal.value
