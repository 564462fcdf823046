"""Estimate how long it takes to speak a text."""

import re
from collections.abc import Iterable

WORDS_PER_SECOND = 2.5
CHARACTERS_PER_SECOND = 5.5
"""For languages written in characters or syllables: Chinese, Japanese, Korean."""
_LETTERS_PER_SECOND = 12.0
_CHARACTER = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]")
# Thai, Lao, Burmese and Khmer put no spaces between words.
_LETTER = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_WORD = re.compile(r"\w+(?:['’.,-]\w+)*")


def spoken_seconds(texts: Iterable[str]) -> float:
    """Return the seconds that a calm narrator needs for the texts."""
    return sum(map(_text_seconds, texts))


def _text_seconds(text: str) -> float:
    rest, characters = _CHARACTER.subn(" ", text)
    rest, letters = _LETTER.subn(" ", rest)
    words = sum(1 for _ in _WORD.finditer(rest))
    return words / WORDS_PER_SECOND + characters / CHARACTERS_PER_SECOND + letters / _LETTERS_PER_SECOND
