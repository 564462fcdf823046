"""Correct slips of the finger in the verb of an order and the noun after it, and nowhere else.

A title must stay as it was typed, so only the opening of a sentence is looked at, and only there are words replaced.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from toolweave.nodes.offline_model.language.politeness import without_courtesy
from toolweave.nodes.offline_model.language.vocabulary import STRONG_ACTIONS, VERBS
from toolweave.nodes.offline_model.language.words import STOP_WORDS, is_swapped, stem

_LONGEST_OPENING = 60
# In shorter words one letter makes another word too easily: there only vowels and doubled letters may be missing.
_SHORTEST_FREE = 4
_ARTICLES = frozenset({"a", "an", "the", "my", "new", "another", "me", "all", "some"})
_TOKEN = re.compile(r"[A-Za-z]+")


def correct_slips(text: str, nouns: frozenset[str]) -> str:
    """Replace a mistyped first verb, and a mistyped noun within the words that follow it."""
    start = text.find(without_courtesy(text)[:40]) if text.strip() else -1
    opening = text[max(start, 0) : max(start, 0) + _LONGEST_OPENING]
    tokens = list(_TOKEN.finditer(opening))
    if start < 0 or not tokens:
        return text
    verb = tokens[0].group().lower()
    pieces, corrected = [text[:start]], opening
    meant = None if _is_known(verb, nouns) else _meant(verb, STRONG_ACTIONS)
    if meant is None and verb not in VERBS:
        return text
    fixes = [(tokens[0], meant)] if meant else []
    for token in tokens[1:6]:
        word = token.group().lower()
        if word in ("to", "for", "that", "about", "called", "named"):
            break
        noun = None if _is_known(word, nouns) or word in _ARTICLES else _meant(word, nouns)
        if noun:
            fixes.append((token, noun))
            break
    for token, right in reversed(fixes):
        corrected = corrected[: token.start()] + right + corrected[token.end() :]
    return "".join([*pieces, corrected, text[start + _LONGEST_OPENING :]])


def _is_known(word: str, nouns: frozenset[str]) -> bool:
    return word in VERBS or word in STOP_WORDS or stem(word) in {stem(noun) for noun in nouns}


def _meant(word: str, known: Iterable[str]) -> str | None:
    return _nearest(word, tuple(sorted(known)))


@lru_cache(maxsize=1024)
def _nearest(word: str, known: tuple[str, ...]) -> str | None:
    """Find the one word from which a letter was left out, doubled or swapped; a wrong letter could be another word."""
    singular = word.removesuffix("s")
    for candidate in known:
        if len(candidate) >= 3 and candidate.isalpha() and word[:1] == candidate[:1]:
            for form in dict.fromkeys((word, singular)):
                if _is_slip(form, candidate):
                    return candidate + ("s" if form is not word else "")
    return None


def _consonants(word: str) -> str:
    return re.sub(r"[aeiouy]|(.)(?=\1)", "", word)


def _is_slip(word: str, right: str) -> bool:
    if word == right or len(word) < 2:
        return False
    if len(word) == len(right):
        return len(right) >= 4 and is_swapped(word, right)
    if min(len(word), len(right)) < _SHORTEST_FREE and _consonants(word) != _consonants(right):
        return False
    longer, shorter = (word, right) if len(word) > len(right) else (right, word)
    if len(longer) - len(shorter) != 1 or (len(word) > len(right) and len(right) < 4):
        return False
    return any(longer[:place] + longer[place + 1 :] == shorter for place in range(len(longer)))
