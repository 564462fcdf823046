"""Take names by what stands around them: "by Jules Verne", "to Ada", "from Berlin", "room Aurora", "Maria's issues"."""

import re
from itertools import islice

from toolweave.nodes.offline_model.language.literals import HIDDEN
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.vocabulary import VERBS
from toolweave.nodes.offline_model.language.words import IRREGULAR, STOP_WORDS, stem, words
from toolweave.nodes.offline_model.operations.found_names import Name, find_names
from toolweave.nodes.offline_model.operations.lexicon import lexicon_of
from toolweave.nodes.offline_model.operations.natures import Nature, nature_of, serves
from toolweave.nodes.offline_model.operations.slots import Slots, labels_of
from toolweave.nodes.offline_model.tools.parameters import Parameter

_LABELLED = r"(?:\s+(?:is|are|named|called|should be|=))?\s*[:=]?\s*(?:the\s+)?$"
_LETTERS_SHARED = 5
_MOST = 30
_NEVER, _ENOUGH, _LABELLED_FIT = -9.0, 2.0, 5.0

# How well a preposition points to what a parameter holds; what is not listed does not.
_POINTING: dict[Nature, dict[str, float]] = {
    "maker": {"by": 3.5, "of": 2.5, "from": 2.5, "'s": 2.5, "": 2.0},
    "person": {"to": 3.0, "for": 3.0, "of": 2.5, "by": 2.5, "with": 2.2, "'s": 2.5, "on": 0.0, "from": 2.0, "": 2.0},
    "origin": {"from": 4.0, "between": 3.5, "at": 2.0, "in": 2.0},
    "destination": {"to": 4.0, "into": 4.0, "towards": 4.0, "toward": 4.0, "and": 2.2, "in": 2.0, "for": 2.0},
    "place": dict.fromkeys(("in", "near", "around"), 3.5)
    | dict.fromkeys(("at", "nearby", "inside"), 3.0)
    | {"for": 2.5, "from": 2.5, "of": 2.3, "'s": 2.2, "on": 2.0, "": 2.0},
    "named": {"in": 3.0, "to": 2.5, "for": 2.5, "of": 2.5, "on": 2.5, "from": 2.5, "into": 2.5, "at": 2.2, "": 0.0},
}
_SURE_OF_PLAIN = ("by", "in", "near", "around")
_CALLED = frozenset({"called", "named", "titled", "entitled"})
# Participles before "by" that any parameter for whom something is by takes, whatever else the operation speaks of.
_MADE_BY = frozenset(
    stem(word)
    for word in words(
        "made done written wrote created owned held handled given taken worked composed located situated based found "
        "placed set put kept"
    )
)


def take_names(slots: Slots) -> None:
    """Give each name to the parameter that it fits best, the surest first."""
    wanted = [one for one in slots.open() if nature_of(one) not in ("other", "clock")]
    names = list(islice(find_names(slots), _MOST)) if wanted else []
    pairs = [(_fit(name, one, slots), name, one) for name in names for one in wanted]
    used: list[Name] = []
    for score, name, one in sorted(pairs, key=lambda pair: (-pair[0], pair[1].start)):
        overlapping = any(name.start < other.end and other.start < name.end for other in used)
        if score >= _ENOUGH and not overlapping and one.name not in slots.arguments:
            used.append(name)
            slots.arguments[one.name] = slots.restored(name.said).strip(" .,")
            slots.blank(name.start, name.end)
            if score < _LABELLED_FIT:
                slots.pointed.add(one.name)


def _fit(name: Name, parameter: Parameter, slots: Slots) -> float:
    """Score how well a name fits a parameter; what contradicts it scores below zero."""
    labels = labels_of(parameter, short=3)
    if pattern(rf"\b(?:{labels}){_LABELLED}").search(name.before):
        return 6.0
    if name.after and pattern(rf"(?:{labels})").fullmatch(name.after) and name.link not in ("'s", "by"):
        return 5.0
    if _contradicts(name, parameter, slots):
        return _NEVER
    return _pointed(name, parameter, slots) + (0.3 if parameter.required else 0.0)


def _contradicts(name: Name, parameter: Parameter, slots: Slots) -> bool:
    """Tell whether what stands before a name says that it is the name of something else."""
    if re.search(r"\d", name.said) and nature_of(parameter) != "place":
        return True
    if name.link in _CALLED or name.link in (":", "=") or (not name.link and re.fullmatch(HIDDEN, name.said)):
        return True
    others = (labels_of(one, short=3) for one in slots.tool.parameters if one is not parameter)
    if any(pattern(rf"\b(?:{other})\s+$").search(name.before) for other in others):
        return True
    if name.link:
        return _is_participle(name.noun) and not _speaks_of(name.noun, slots)
    return _is_numbered(name, slots)


def _pointed(name: Name, parameter: Parameter, slots: Slots) -> float:
    """Score by the preposition; plain words are less sure than names."""
    nature = nature_of(parameter)
    score = _POINTING[nature].get(name.link, _NEVER)
    if nature == "person" and serves(parameter):
        score += 1.0 if name.link == "with" or name.said.startswith(("Dr.", "Prof.")) else -0.3 if name.link else 0.0
    if not name.plain:
        first = nature == "named" and parameter.required and _is_object(name, slots)
        return _ENOUGH if first else score
    if not name.link:
        return _ENOUGH if nature == "place" and parameter.required else _NEVER
    return score - (0.5 if parameter.required or name.link in _SURE_OF_PLAIN else 2.0)


def _is_numbered(name: Name, slots: Slots) -> bool:
    """Tell whether a name stands right behind the noun of something else: "project Gemini"."""
    word = name.noun
    if not word or name.plain or _is_object(name, slots) or word in STOP_WORDS or word in VERBS:
        return False
    if not name.before.rstrip().lower().endswith(word):
        return False
    return stem(word) not in lexicon_of(slots.tool).weights and not _is_participle(word)


def _is_object(name: Name, slots: Slots) -> bool:
    """Tell whether a name stands right behind the verb that opens an order."""
    return not name.link and bool(name.noun) and slots.free[: name.start].strip().lower() == name.noun


def _is_participle(word: str) -> bool:
    return word.endswith(("ed", "en")) or word in IRREGULAR


def _speaks_of(participle: str, slots: Slots) -> bool:
    root = stem(participle)
    start = root[:_LETTERS_SHARED]
    return root in _MADE_BY or any(known.startswith(start) for known in lexicon_of(slots.tool).weights)
