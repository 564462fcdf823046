"""Find names in a text with what stands around them: the preposition or sign before, the words before and after."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from toolweave.nodes.offline_model.language.dates import MONTHS, WEEKDAYS
from toolweave.nodes.offline_model.language.literals import HIDDEN
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.units import UNITS
from toolweave.nodes.offline_model.language.vocabulary import VERBS
from toolweave.nodes.offline_model.language.words import STOP_WORDS, stem, words
from toolweave.nodes.offline_model.operations.lexicon import lexicon_of
from toolweave.nodes.offline_model.operations.slots import TAKEN, Slots

_LARGE = "[A-ZÀ-ÖØ-ÞČĐŁŚŠŽ]"
_PART = rf"(?:(?:{_LARGE}|Dr|Mrs?|Ms|St|Prof)\.(?=\s)|{_LARGE}[\w'’&-]*(?:\.\w+)*)"
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
    rf"(?:(?<!\w)(?!(?:{_LINKS})\b)(?P<noun>[^\W\d_][\w'’-]*)\s*)?(?:\b(?P<link>{_LINKS})\s+|(?P<sign>[:=])\s*)?"
    r"(?:(?:the|a|an|our|my)\s+)?$",
    re.IGNORECASE,
)
_AFTER = re.compile(r"^\s+(?P<word>[^\W\d_][\w-]*)")
_POSSESSIVE = re.compile(r"['’]s?$")
# "Peter should take it", "Ada wants to": the first word of a sentence is a name where it does something.
_ACTS = re.compile(r"^\s+(?:wants?|would|should|needs?|has|is|will|must|can|asks?|likes?|shall|[a-z]{3,12}s)\b")
_ASKED_ABOUT = re.compile(r"\b(?:what|which|where|when|who|whom)\b", re.IGNORECASE)
_BEFORE_VERBS = frozenset(
    words("want wants need needs like likes love trying going have has how wish wishes able ready hope plan way time")
)
_DAYS = frozenset({*MONTHS, *WEEKDAYS})


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


def find_names(slots: Slots) -> Iterator[Name]:
    """Find capitalised and quoted names, and plain words behind a preposition that no operation or rule knows."""
    for match in _NAMED.finditer(slots.free):
        start, said = _without_known(match.start(), match.group().rstrip(".,"), slots)
        if said:
            yield _name(slots.free, start, said)
    yield from _plain_names(slots)


def _plain_names(slots: Slots) -> Iterator[Name]:
    text = slots.free
    for match in _PLAIN.finditer(text):
        listed = words(match["v"])
        if not match["v"].islower() or not all(is_unknown(word, slots, measured=False) for word in listed):
            continue
        name = _name(text, match.start("v"), match["v"], plain=True)
        to_do = name.link == "to" and (name.noun in _BEFORE_VERBS or text[match.end() :].lstrip().startswith(TAKEN))
        if not to_do and not all(word in UNITS for word in listed):
            yield name
    alone = pattern(rf"\b(?:{slots.noun}) (?P<v>[a-z-]{{3,30}}(?: [a-z-]{{3,30}})?)$").search(text)
    if alone and alone["v"].islower() and all(is_unknown(word, slots) for word in words(alone["v"])):
        yield _name(text, alone.start("v"), alone["v"], plain=True)


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
        known = low in STOP_WORDS or not is_unknown(low, slots, measured=False)
        acts = opens and not known and bool(_ACTS.match(slots.free[start + len(said) :]))
        if not (opens and not acts) and not (known and len(said) == len(word)) and low not in STOP_WORDS:
            break
        rest = said[len(word) :].lstrip()
        start += len(said) - len(rest)
        said = rest
    return start, said


def is_unknown(word: str, slots: Slots, *, measured: bool = True) -> bool:
    """Tell whether neither the operation nor the rules know a word; units are known only where things are measured."""
    lexicon = lexicon_of(slots.tool)
    root = stem(word)
    if word in STOP_WORDS or word in _DAYS or (measured and word in UNITS):
        return False
    return not (root in lexicon.weights or root in lexicon.values or word in VERBS or root in VERBS)
