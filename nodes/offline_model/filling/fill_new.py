"""Fill the arguments of a tool that makes something new."""

from dataclasses import replace
from datetime import date

from toolweave.nodes.offline_model.filling.addresses import take_addresses
from toolweave.nodes.offline_model.filling.completeness import checked
from toolweave.nodes.offline_model.filling.date_arguments import take_dates
from toolweave.nodes.offline_model.filling.draft import Draft
from toolweave.nodes.offline_model.filling.intents import Intent
from toolweave.nodes.offline_model.filling.named_texts import (
    parameter_words,
    take_assignments,
    take_named_literals,
    take_named_texts,
    take_named_words,
)
from toolweave.nodes.offline_model.filling.numbers import take_numbers, take_quantity
from toolweave.nodes.offline_model.filling.title_phrase import titles_of
from toolweave.nodes.offline_model.filling.values import take_choices, take_tags
from toolweave.nodes.offline_model.language.literals import Literals
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

_NOTHING_ELSE = pattern(
    r"(?:(?:it's|it|is|this|that|and|with|also|should|be|please|make|set|mark|tag|label|give|as|a)\b\s*)*"
)


def fill_new(tool: ToolSpec, body: str, literals: Literals, today: date) -> list[Intent]:
    """Fill one call for each thing the text asks for; what it says besides the names holds for all of them."""
    draft = Draft.of(tool, body, literals, today)
    take_named_literals(draft)
    take_assignments(draft)
    take_tags(draft)
    take_named_texts(draft)
    take_addresses(draft)
    take_named_words(draft)
    take_quantity(draft)
    take_dates(draft)
    take_choices(draft, "described")
    main = tool.main
    if main is None or not main.required:
        take_numbers(draft)
    named = main is None or main.name in draft.arguments
    titles = [] if named else titles_of(draft.rest.text, draft.noun, literals)
    if main is None or not titles:
        return [checked(Intent(tool, draft.arguments))]
    return [checked(Intent(tool, {main.name: title, **draft.arguments})) for title in titles]


def fill_more(intent: Intent, text: str, literals: Literals, today: date) -> Intent | None:
    """Add what an afterthought says ("High priority. Due tomorrow."); None when it says something else too."""
    draft = Draft.of(intent.tool, text, literals, today)
    take_tags(draft)
    take_dates(draft)
    take_choices(draft, "anywhere")
    take_named_texts(draft)
    _take_missing_name(intent, draft)
    if not draft.arguments or not _NOTHING_ELSE.fullmatch(draft.rest.text.strip(" .,;:!?")):
        return None
    return checked(replace(intent, arguments={**intent.arguments, **draft.arguments}, missing=()))


def _take_missing_name(intent: Intent, draft: Draft) -> None:
    """Take the name of the thing when it comes in a sentence of its own: "The title is Wash curtains."."""
    main = intent.tool.main
    if main is None or main not in intent.missing:
        return
    match = draft.rest.take(
        pattern(
            rf"^(?:the |its |it's |with )?(?:{parameter_words(main)})(?: is| should be| shall be)?:? (?P<value>.+)$"
            r"|^(?:call|name|title) it (?P<name>.+)$"
        )
    )
    if match:
        draft.fill(main, match["value"] or match["name"])
