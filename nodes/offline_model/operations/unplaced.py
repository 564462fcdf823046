"""List what no argument took of a request: phrases that would change what is asked for, and words that say nothing."""

import re

from toolweave.nodes.offline_model.language.dates import MONTHS, WEEKDAYS, find_dates
from toolweave.nodes.offline_model.language.literals import HIDDEN
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.words import stem, words
from toolweave.nodes.offline_model.operations.found_names import find_names, is_unknown
from toolweave.nodes.offline_model.operations.slots import TAKEN, Slots

_FILTERING = ("list", "search")
_LIMITING = re.compile(
    r"\b(?:have|has|having|had|offer|offers|contain|contains|include|includes|with|without|about|in|from|for|by|near|of|at|on|that|which|who|whose|than|since|before)"
    r" (?:(?:the|a|an|any|some|their|its|have|has|had|are|is|was|were) )*(?P<v>[a-z][\w-]{2,30})"
)
_SPAN = pattern(
    r"\b(?:last|past|previous) (?:night|week|weekend|month|quarter|year|spring|summer|autumn|fall|winter|"
    + "|".join((*WEEKDAYS, *MONTHS))
    + r")\b"
)
# Words of requests themselves, whatever they ask for.
_OF_REQUESTS = frozenset(
    stem(word)
    for word in words(
        """
        want need like love look search browse see know tell help wonder try detail information info overview summary
        list number total count full whole complete available existing current moment now today currently exist next
        coming different various several new old best nice good great exact exactly right way order case question
        answer result entry name word title call match mention contain include cost price worth buy sell cheap
        expensive first last most least money offer carry say between above below under over within near around until
        through during less more fewer
        """
    )
)


def unplaced_phrases(slots: Slots) -> tuple[str, ...]:
    """Give names and quoted texts that are left; of an operation that filters, also what would have limited it."""
    found = [slots.restored(name.said) for name in find_names(slots) if not name.plain]
    if not any(one.role == "date" and one.name in slots.arguments for one in slots.tool.parameters):
        found += [slots.free[one.start : one.end].strip() for one in find_dates(slots.free, slots.today)]
        found += [match.group() for match in _SPAN.finditer(slots.free)]
    if slots.tool.action in _FILTERING:
        for match in _LIMITING.finditer(slots.free):
            said = match["v"]
            if TAKEN not in said and not re.search(HIDDEN, said) and all(_says_more(one, slots) for one in words(said)):
                found.append(said)
    return tuple(dict.fromkeys(found))


def unknown_words(slots: Slots) -> int:
    """Count the words in what is left that neither the operation nor the rules know."""
    left = pattern(r"[^\w'\s-]+").sub(" ", re.sub(HIDDEN, " ", slots.free))
    return len({stem(word) for word in words(left) if word.isalpha() and _says_more(word, slots)})


def _says_more(word: str, slots: Slots) -> bool:
    return is_unknown(word, slots) and stem(word) not in _OF_REQUESTS
