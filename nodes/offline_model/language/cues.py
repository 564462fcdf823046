"""Tell what a clause asks for: the action, how surely, and the part of the clause it is about."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from toolweave.nodes.offline_model.language.idioms import LIKELY, OBLIGATION, ORDERS, REPORTS, SURE, WEAK, Idiom, Manner
from toolweave.nodes.offline_model.language.nouns import CONTAINER, VAGUE
from toolweave.nodes.offline_model.language.patterns import CLAUSE_WINDOW, pattern
from toolweave.nodes.offline_model.language.vocabulary import STRONG_ACTIONS, WEAK_ACTIONS, Action

_LONGEST_NOUN_PHRASE = 80

_QUESTION = pattern(
    r"(?:what(?:'s|s)?|which|where(?:'s)?|when|who(?:'s)?|whose|whats|wheres|how many|how much|how|do i|do we|do you"
    r"|have you|did i|did we|have i|has|have we|am i|is there|are there|was there|were there|is|are|was"
    r"|any(?:thing|one)?|does)\b.*"
)
_FIRST_WORD = pattern(r"([a-z]+)(?:-| |$|[:,])(.*)")
_ANY_VERB = pattern(r"(?<![\w'-])(?<!\bto\s)(?<!\bfor\s)([a-z]{2,12})(?= |:|$)")


@dataclass(frozen=True)
class Cue:
    """What a clause asks for: `body` is what it asks it about; a weak one needs the noun of a tool."""

    action: Action | None
    strength: int
    body: str
    manner: Manner
    verb: str = ""


def find_cue(clause: str, noun: str) -> Cue:
    """Read the cue of one clause that has no courtesies left; `noun` is the alternative of the tools' nouns."""
    text, rest = clause[:CLAUSE_WINDOW], clause[CLAUSE_WINDOW:]
    cue = (
        _idiom(text, _compiled(ORDERS, noun))
        or _leading_verb(text, STRONG_ACTIONS, SURE)
        or _question(text)
        or _leading_verb(text, WEAK_ACTIONS, WEAK)
        or _obligation(text, noun)
        or _idiom(text, _compiled(REPORTS, noun))
        or _later_verb(text, noun)
        or _bare_noun(text, noun)
        or Cue(None, 0, text, "none")
    )
    return replace(cue, body=cue.body + rest)


@lru_cache(maxsize=32)
def _compiled(idioms: tuple[Idiom, ...], noun: str) -> tuple[tuple[re.Pattern[str], Idiom], ...]:
    kept = rf"(?:{CONTAINER}|{noun})"
    return tuple((pattern(idiom.form.replace("{N}", noun).replace("{L}", kept)), idiom) for idiom in idioms)


def _idiom(text: str, idioms: tuple[tuple[re.Pattern[str], Idiom], ...]) -> Cue | None:
    for form, idiom in idioms:
        match = form.fullmatch(text)
        if match:
            body = match["body"] + (match.groupdict().get("tail") or "")
            return Cue(idiom.action, idiom.strength, body.strip(" :,-–"), idiom.manner)
    return None


def _leading_verb(text: str, actions: Mapping[str, tuple[Action, ...]], strength: int) -> Cue | None:
    match = _FIRST_WORD.match(text)
    verb = _verb_form(match[1].lower()) if match else ""
    if match and verb in actions:
        return Cue(actions[verb][0], strength, match[2], "order", verb)
    return None


def _verb_form(word: str) -> str:
    if word in STRONG_ACTIONS or word in WEAK_ACTIONS:
        return word
    for ending, replacement in (("ing", ""), ("ing", "e"), ("ning", "n"), ("ting", "t"), ("pping", "p")):
        form = word.removesuffix(ending) + replacement
        if word.endswith(ending) and (form in STRONG_ACTIONS or form in WEAK_ACTIONS):
            return form
    return word


def _obligation(text: str, noun: str) -> Cue | None:
    """Read "I need to …": an order if what follows is one about the tools' things, else something to remember."""
    match = pattern(rf"{OBLIGATION} (?P<body>.+)").match(text)
    if not match:
        return None
    body = match["body"]
    inner = (
        _idiom(body, _compiled(ORDERS, noun))
        or _leading_verb(body, STRONG_ACTIONS, SURE)
        or _leading_verb(body, WEAK_ACTIONS, WEAK)
    )
    if inner and pattern(rf"\b(?:{noun}|{CONTAINER})\b").search(body):
        return inner
    return Cue("create", LIKELY, body, "obligation")


def _question(text: str) -> Cue | None:
    return Cue("list", WEAK, text, "question") if _QUESTION.match(text) else None


def _later_verb(text: str, noun: str) -> Cue | None:
    about_tools = pattern(rf"\b(?:{noun}|{CONTAINER}|it|that)\b")
    for match in _ANY_VERB.finditer(text):
        verb = _verb_form(match[1].lower())
        if verb in STRONG_ACTIONS and about_tools.search(text, match.end()):
            body = text[: match.start()] + text[match.end() :]
            return Cue(STRONG_ACTIONS[verb][0], LIKELY, body, "order", verb)
    return None


def _bare_noun(text: str, noun: str) -> Cue | None:
    named = pattern(rf"\b(?:{noun}|{VAGUE}|{CONTAINER})\b").search(text)
    return Cue("list", WEAK, text, "noun") if named and len(text) <= _LONGEST_NOUN_PHRASE else None
