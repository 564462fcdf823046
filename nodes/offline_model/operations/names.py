"""Take names by what stands around them: "by Jules Verne", "to Ada", "from Berlin", "room Aurora", "Maria's issues"."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from toolweave.nodes.offline_model.language.dates import MONTHS, WEEKDAYS
from toolweave.nodes.offline_model.language.literals import HIDDEN
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.units import UNITS
from toolweave.nodes.offline_model.language.vocabulary import VERBS
from toolweave.nodes.offline_model.language.words import IRREGULAR, STOP_WORDS, stem, words
from toolweave.nodes.offline_model.operations.lexicon import lexicon_of
from toolweave.nodes.offline_model.operations.natures import Nature, nature_of
from toolweave.nodes.offline_model.operations.slots import Slots, labels_of
from toolweave.nodes.offline_model.tools.parameters import Parameter

_PART = r"(?:(?:[A-Z]|Dr|Mrs?|Ms|St|Prof)\.(?=\s)|[A-Z][\w'’&-]*(?:\.\w+)*)"
_WITHIN = r"(?: (?:of|of the|de|da|di|du|del|van|von|der|den|la|le|el|ten|al|y|&))?"
CAPITALS = rf"{_PART}(?:{_WITHIN} {_PART}){{0,6}}"
_LINKS = (
    "by|to|for|from|in|at|of|with|near|nearby|around|about|on|into|inside|towards|toward|via|through|called|named"
    "|titled|entitled|is|are|as|between|and|or|against|without|except|over|under|onto"
)
_NAMED = re.compile(rf"(?<![\w{HIDDEN[1:-1]}])(?:{CAPITALS}|{HIDDEN})")
_PLAIN = pattern(
    r"\b(?P<link>by|to|for|from|in|near|around|at) (?:the )?(?P<v>[a-z][a-z-]{1,30}(?: [a-z][a-z-]{1,30}){0,2})"
    rf"(?=\s*(?:[,;.!?\x00]|$|\s(?:{_LINKS})\b))"
)
_BEFORE = re.compile(
    rf"(?:(?<!\w)(?!(?:{_LINKS})\b)(?P<noun>[^\W\d_][\w'’-]*)\s*)?(?:\b(?P<link>{_LINKS})\s+|(?P<sign>[:=])\s*)?(?:(?:the|a|an|our|my|old)\s+)?$",
    re.IGNORECASE,
)
_LABELLED = r"(?:\s+(?:is|are|named|called|should be|=))?\s*[:=]?\s*(?:the\s+)?$"
_AFTER = re.compile(r"^\s+(?P<word>[^\W\d_][\w-]*)")
_POSSESSIVE = re.compile(r"['’]s?$")
# "Peter should take it", "Ada wants to": the first word of a sentence is a name where it does something.
_ACTS = re.compile(r"^\s+(?:wants?|would|should|needs?|has|is|will|must|can|asks?|likes?|shall|takes|gets|lives)\b")
_ASKED_ABOUT = re.compile(r"\b(?:what|which|where|when|who|whom)\b", re.IGNORECASE)
_BEFORE_VERBS = frozenset(
    words("want wants need needs like likes love trying going have has how wish wishes able ready hope plan way time")
)
_DAYS = frozenset({*MONTHS, *WEEKDAYS})
_MOST = 30
_NEVER, _ENOUGH, _LABELLED_FIT = -9.0, 2.0, 5.0

# How well a preposition points to what a parameter holds; what is not listed does not.
_POINTING: dict[Nature, dict[str, float]] = {
    "maker": {"by": 3.5, "of": 2.5, "from": 2.5, "'s": 2.5, "": 2.0},
    "person": {"to": 3.0, "for": 3.0, "of": 2.5, "by": 2.5, "with": 2.2, "'s": 2.5, "on": 0.0, "from": 2.0, "": 2.0},
    "origin": {"from": 4.0, "between": 3.5, "at": 2.0, "in": 2.0},
    "destination": {"to": 4.0, "into": 4.0, "towards": 4.0, "toward": 4.0, "and": 2.2, "in": 2.0, "for": 2.0},
    "place": {
        "in": 3.5,
        "at": 3.0,
        "near": 3.5,
        "nearby": 3.0,
        "around": 3.5,
        "of": 2.5,
        "for": 2.5,
        "from": 2.5,
        "inside": 3.0,
        "on": 2.0,
        "'s": 2.2,
        "": 2.0,
    },
    "named": {"in": 3.0, "to": 2.5, "for": 2.5, "of": 2.5, "on": 2.5, "from": 2.5, "into": 2.5, "at": 2.2, "": 0.0},
}
_CALLED = frozenset({"called", "named", "titled", "entitled"})
# Participles before "by" that any parameter for whom something is by takes, whatever else the operation speaks of.
_MADE_BY = frozenset(
    stem(word) for word in words("made done written wrote created owned held handled given taken worked composed")
)


@dataclass(frozen=True)
class Name:
    """A name of the text with its surroundings: `link` is the preposition before it, `noun` the word before that."""

    said: str
    start: int
    end: int
    before: str
    link: str
    noun: str
    after: str
    plain: bool = False


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


def find_names(slots: Slots) -> Iterator[Name]:
    """Find capitalised and quoted names, and plain words behind a preposition that no operation or rule knows."""
    text = slots.free
    for match in _NAMED.finditer(text):
        start, said = match.start(), match.group().rstrip(".,")
        start, said = _without_known(start, said, slots)
        if said:
            yield _name(text, start, said)
    for match in _PLAIN.finditer(text):
        if match["v"].islower() and all(is_unknown(word, slots) for word in words(match["v"])):
            name = _name(text, match.start("v"), match["v"], plain=True)
            if name.link != "to" or name.noun not in _BEFORE_VERBS:
                yield name


def _name(text: str, start: int, said: str, *, plain: bool = False) -> Name:
    end = start + len(said)
    before = text[max(0, start - 60) : start]
    around = _BEFORE.search(before)
    link = ((around["link"] or around["sign"] or "") if around else "").lower()
    noun = ((around["noun"] or "") if around else "").lower()
    if link in ("is", "are") and _ASKED_ABOUT.search(before):
        link = ""
    owned = _POSSESSIVE.search(said)
    if owned:
        said, link = said[: owned.start()], link or "'s"
    after = _AFTER.match(text[end:])
    return Name(said, start, end, before, link, noun, after["word"].lower() if after else "", plain)


def _without_known(start: int, said: str, slots: Slots) -> tuple[int, str]:
    """Drop words that are large only because they open a sentence, and those of the request: "Invite Johannes"."""
    while said and not re.fullmatch(HIDDEN, said):
        word = said.split(maxsplit=1)[0]
        low = word.lower().rstrip(".,")
        opens = not start or slots.free[:start].rstrip()[-1:] in ".!?:"
        known = low in STOP_WORDS or low in _DAYS or not is_unknown(low, slots)
        acts = opens and bool(_ACTS.match(slots.free[start + len(said) :])) and not known
        if not (opens and not acts) and not (known and len(said) == len(word)) and low not in STOP_WORDS:
            break
        rest = said[len(word) :].lstrip()
        start += len(said) - len(rest)
        said = rest
    return start, said


def is_unknown(word: str, slots: Slots) -> bool:
    """Tell whether neither the operation nor the rules know a word."""
    lexicon = lexicon_of(slots.tool)
    root = stem(word)
    return not (
        word in STOP_WORDS or root in lexicon.weights or root in lexicon.values or word in UNITS or word in _DAYS
    ) and not (word in VERBS or root in VERBS)


def _fit(name: Name, parameter: Parameter, slots: Slots) -> float:
    """Score how well a name fits a parameter; what contradicts it scores below zero."""
    nature = nature_of(parameter)
    labels = labels_of(parameter, short=3)
    if pattern(rf"\b(?:{labels}){_LABELLED}").search(name.before):
        return 6.0
    if name.after and pattern(rf"(?:{labels})").fullmatch(name.after) and name.link not in ("'s", "by"):
        return 5.0
    if _has_digits(name) and nature != "place":
        return _NEVER
    if not name.link and re.fullmatch(HIDDEN, name.said):
        return _NEVER
    others = (labels_of(one, short=3) for one in slots.tool.parameters if one is not parameter)
    if any(pattern(rf"\b(?:{other})\s+$").search(name.before) for other in others):
        return _NEVER
    if name.link in _CALLED or name.link in (":", "=") or _numbers_something_else(name, slots):
        return _NEVER
    if nature == "maker" or (nature == "person" and name.link == "by"):
        related = name.link != "by" or not _is_participle(name.noun) or _speaks_of(name.noun, slots)
        if not related:
            return _NEVER
    score = _POINTING[nature].get(name.link, _NEVER)
    if name.plain:
        sure = parameter.required or name.link in ("by", "in", "near", "around")
        score -= 0.5 if sure else 2.0
    return score + (0.3 if parameter.required else 0.0)


def _numbers_something_else(name: Name, slots: Slots) -> bool:
    """Tell whether a name stands right behind the noun of something else: "project Gemini"."""
    if name.link or not name.noun or name.plain:
        return False
    word = name.noun
    opening = slots.free[: name.start].strip().lower() == word
    if opening or word in STOP_WORDS or word in VERBS or not name.before.rstrip().lower().endswith(word):
        return False
    return stem(word) not in lexicon_of(slots.tool).weights and not _is_participle(word)


def _has_digits(name: Name) -> bool:
    return bool(re.search(r"\d", name.said)) and not re.fullmatch(HIDDEN, name.said)


def _is_participle(word: str) -> bool:
    return word.endswith(("ed", "en")) or word in IRREGULAR


def _speaks_of(participle: str, slots: Slots) -> bool:
    root = stem(participle)
    return root in _MADE_BY or root in lexicon_of(slots.tool).weights
