"""Take texts that are announced: by the name of their parameter, by "called", "because", "about", or a colon."""

from collections.abc import Iterator

from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.words import words
from toolweave.nodes.offline_model.operations.identifiers import is_identifier
from toolweave.nodes.offline_model.operations.natures import nature_of
from toolweave.nodes.offline_model.operations.slots import Slots, labels_of
from toolweave.nodes.offline_model.tools.parameters import Parameter

CALLED = "called|named|titled|entitled|by the name of"
CAUSE = "because(?: of)?|since|due to|on the grounds that"
_END = r"(?=\s*(?:[,;.!?]|\x00|$|\s(?:and|for|at|in|to|with|by|on|costs?|priced|belongs?|are there|is there)\b))"
_DANGLING = pattern(r"(?:\s+(?:and|with|or|for|to|in|at|of|on|by))+\s*$")
_ABOUT = "about|regarding|concerning|on the subject of"
_ABOUT_WORDS = frozenset(words("about topic subject theme purpose agenda occasion"))
_PHRASE = r"(?P<v>[^,;\x00]+?)"
_CLAUSE = r",\s*(?P<v>(?:the|my|our|his|her|we|i|he|she|it|they|nobody|no one) [^\x00]+)$"


def take_announced(slots: Slots) -> None:
    """Take texts without quotes: "name Harmonica", "reason: ordered twice", "called Telescope", "because it broke"."""
    for parameter in open_texts(slots):
        if is_place(parameter) or parameter.role == "email":
            continue
        for form in _forms(parameter):
            match = slots.take(pattern(form))
            if match:
                slots.arguments[parameter.name] = _DANGLING.sub("", slots.restored(match["v"])).strip(" .!?")
                break


def _forms(parameter: Parameter) -> Iterator[str]:
    """Give the ways to announce a text, the surest first."""
    names = labels_of(parameter)
    yield rf"\b(?:{names})\s*[:=]\s*{_PHRASE}\s*(?=[,;\x00]|$)"
    if parameter.role in ("title", "query"):
        yield rf"\b(?:{CALLED})\s+{_PHRASE}{_END}"
    if parameter.required and parameter.role != "query":
        yield rf"\b(?:{names})(?: is| of)? (?!(?:of|is|to|for|and|in|at|on|from|should)\b){_PHRASE}\s*(?=[,;.\x00]|$)"
    if "reason" in parameter.words:
        yield rf"\b(?:{CAUSE}) (?P<v>[^\x00]+?)\s*$"
        yield _CLAUSE
    if parameter.role != "query" and _ABOUT_WORDS & {*parameter.words, *words(parameter.description)}:
        yield rf"\b(?:{_ABOUT}) {_PHRASE}{_END}"
    if parameter.required and parameter.role in ("text", "description"):
        yield r":\s+(?P<v>[^\x00]+)$"
    if not parameter.required and parameter.role == "other":
        yield rf"\b(?:with|of|in|for|from) (?:the |a |an )?(?:{names}) {_PHRASE}{_END}"


def is_place(parameter: Parameter) -> bool:
    """Tell whether a parameter holds the name of a place, by its own name or by its description."""
    return nature_of(parameter) in ("place", "origin", "destination")


def open_texts(slots: Slots) -> list[Parameter]:
    """List the parameters without a value that take a text as it was said."""
    return [
        one
        for one in slots.open()
        if one.kind in ("string", "any")
        and not one.choices
        and one.role not in ("date", "url", "cursor")
        and not is_identifier(one)
    ]
