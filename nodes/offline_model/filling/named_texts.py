"""Take texts that the request announces by the name of their parameter."""

import re

from toolweave.nodes.offline_model.filling.draft import Draft
from toolweave.nodes.offline_model.language.literals import HIDDEN
from toolweave.nodes.offline_model.language.patterns import NEVER, pattern
from toolweave.nodes.offline_model.language.vocabulary import PARAMETER_WORDS
from toolweave.nodes.offline_model.language.words import words
from toolweave.nodes.offline_model.tools.parameters import Parameter

_TITLED = "called|named|titled|entitled|saying"
_WORD = rf"{HIDDEN}|(?!(?:for|of|in|to|and|with)\b)[\w][\w.-]*"


def parameter_words(parameter: Parameter) -> str:
    """Give the alternative of the words by which people name a parameter."""
    named = [word for part in parameter.words for word in words(PARAMETER_WORDS.get(part, part))]
    return "|".join(re.escape(word) for word in dict.fromkeys(named)) or NEVER


def take_named_literals(draft: Draft) -> None:
    """Take quoted texts that stand behind a parameter's name: `with subject "Lunch"`."""
    for parameter in draft.open_texts():
        names = f"{_TITLED if parameter.role == 'title' else NEVER}|{parameter_words(parameter)}"
        match = draft.rest.take(
            pattern(
                rf"(?:\b(?:with|and|the|a|an|its|has|having|plus) )*\b(?:{names})"
                rf"(?: (?:is|of|as|to|called|reading))?\s*[:=]?\s*(?P<value>{HIDDEN})"
            )
        )
        if match:
            draft.fill(parameter, match["value"])


def take_assignments(draft: Draft) -> None:
    """Take `name=value` pairs: `title=Deploy and priority=high`."""
    for parameter in draft.open_texts():
        match = draft.rest.take(
            pattern(
                rf"(?:\b(?:with|and) )?(?:\bthe )?\b{re.escape(parameter.name)}\s*="
                r"\s*(?P<value>[^,;=]+?)(?=\s*(?:,|;|$| and [\w-]+\s*=))"
            )
        )
        if match:
            draft.fill(parameter, match["value"])


def take_stated_ids(draft: Draft) -> None:
    """Take words behind the very name of an identifier: `tool_id: weather`."""
    for parameter in draft.open_texts("id"):
        match = draft.rest.take(pattern(rf"\b{re.escape(parameter.name)}\b\s*[:=]\s*(?P<value>{HIDDEN}|[\w.-]+)"))
        if match:
            draft.fill(parameter, match["value"])


def take_named_words(draft: Draft) -> None:
    """Take single words named by a required parameter: `in repo hello`, `owner octocat`, `the table todos`."""
    for parameter in draft.open_texts("other"):
        if parameter.required:
            match = draft.rest.take(
                pattern(
                    rf"(?:\b(?:in|of|from|for|on|with|by) )?(?:\bthe )?\b(?:{parameter_words(parameter)})"
                    rf"(?: (?:is|named|called))?\s*[:=]?\s+(?P<value>{_WORD})"
                )
            )
            if match:
                draft.fill(parameter, match["value"])


def take_named_texts(draft: Draft) -> None:
    """Take unquoted texts announced by a parameter's name and a colon or "with": `description: check first`."""
    for parameter in draft.open_texts():
        if parameter is draft.tool.main:
            continue
        names = parameter_words(parameter)
        match = draft.rest.take(
            pattern(
                rf"(?:[,;.]?\s*\b(?:and |with )?(?:the |a |an )?\b(?:{names})\s*[:=]"
                rf"|[,;]?\s*\b(?:and )?with (?:the |a |an )?(?:{names})\b(?: (?:of|that says|saying))?)"
                r"\s*(?P<value>[^,;]+)$"
            )
        )
        if match:
            draft.fill(parameter, match["value"])
