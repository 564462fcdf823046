"""Read from a prompt what a script or notes are to be like: the length, and the number of sections."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolweave.nodes.offline_model.scripts.spoken_words import SpokenLength

_NUMBER = r"(\d{1,7})"
_WORDS = (re.compile(rf"\bwhich is {_NUMBER} words"), re.compile(rf"\b{_NUMBER} words"))
_CHARACTERS = re.compile(rf"\b{_NUMBER} characters")
_SECTIONS = re.compile(rf"\b{_NUMBER}(?: to {_NUMBER})? sections?\b")
_LANGUAGE = re.compile(r"\bin this language\b")
_DEFAULT_WORDS, _DEFAULT_SECTIONS = 450, (3, 8)
_CHARACTERS_PER_WORD = 2.2


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is asked for; `translated` says that a language is named, which may be another than the article's."""

    length: SpokenLength
    least: int
    most: int
    translated: bool


def read_wishes(prompt: str, schema: Mapping[str, Any]) -> Wishes:
    """Read the system prompt; the schema of the sections, or usual numbers, stand in for what it does not say."""
    words = wished_words(prompt) or _DEFAULT_WORDS
    characters = _CHARACTERS.search(prompt)
    found = _SECTIONS.search(prompt)
    if found:
        least, most = int(found[1]), int(found[2] or found[1])
    else:
        least, most = (
            value if isinstance(value := schema.get(key), int) else usual
            for key, usual in zip(("minItems", "maxItems"), _DEFAULT_SECTIONS, strict=True)
        )
    spoken = SpokenLength(words, max(int(characters[1]) if characters else words * _CHARACTERS_PER_WORD, 1))
    return Wishes(spoken, max(least, 1), max(most, least, 1), bool(_LANGUAGE.search(prompt)))


def wished_words(prompt: str) -> int:
    """Read how many words are asked for; 0 where the prompt does not say."""
    found = next((match for form in _WORDS if (match := form.search(prompt))), None)
    return int(found[1]) if found else 0
