"""Take what stands behind a preposition: a place, a language, the two ends of a conversion."""

import re

from toolweave.nodes.offline_model.filling.draft import Draft
from toolweave.nodes.offline_model.language.literals import HIDDEN
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.tools.parameters import Parameter

_NAME = r"[^\W\d]\w*"
_TO = (pattern(rf"\b(?:to|into) (?P<value>{_NAME})"),)
_FROM = (pattern(rf"\bfrom (?P<value>{_NAME})"), pattern(rf"(?<=\d) (?P<value>{_NAME})"))
# Case matters: "in New York in fahrenheit" ends where the capitals end.
_PLACE = re.compile(
    rf"\b(?i:in|at|for|of|near|around)\s+(?i:the\s+|my\s+)?(?P<value>{HIDDEN}|[^\W\d_][\w.'’/-]*(?: [A-Z][\w.'’/-]*)*)"
)
_PROPER_NAME = re.compile(
    r"(?<![\w'’])(?!(?i:i|the|a|an|my|this|please|create|extract|name|her|his|their|it|we)\b)"
    r"(?P<value>[A-Z][\w'’-]*(?: [A-Z][\w'’-]*)*)"
)
_LANGUAGE = re.compile(rf"\b(?i:to|into|in)\s+(?i:the\s+)?(?P<value>{HIDDEN}|[A-Za-z]+)")


def take_ends(draft: Draft) -> None:
    """Take what is converted from one thing to another: `100 USD to EUR`."""
    for parameter in draft.open_texts("other", "language"):
        here = set(parameter.words)
        forms = _TO if here & {"to", "target"} else _FROM if here & {"from", "source"} else ()
        _take_first(draft, parameter, forms)


def take_places(draft: Draft) -> None:
    """Take places and languages by the preposition before them: "in Tokyo", "to French"."""
    for parameter in draft.open_texts("place", "language"):
        _take_first(draft, parameter, (_LANGUAGE,) if parameter.role == "language" else (_PLACE,))


def take_proper_names(draft: Draft) -> None:
    """Take the first capitalised words for a required name: "Anna Meier is 31" names Anna Meier."""
    for parameter in draft.open_texts("title"):
        if parameter.required and "name" in parameter.words:
            _take_first(draft, parameter, (_PROPER_NAME,))


def _take_first(draft: Draft, parameter: Parameter, forms: tuple[re.Pattern[str], ...]) -> None:
    for form in forms:
        match = draft.rest.take(form)
        if match:
            draft.fill(parameter, match["value"])
            return
