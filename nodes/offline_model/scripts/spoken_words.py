"""Measure how much of a wished length a text takes when it is spoken, and list its words."""

import re
from dataclasses import dataclass

_CHARACTER = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]")
# Thai, Lao, Burmese and Khmer put no spaces between words; about two letters are said in the time of one character.
_LETTER = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_LETTERS_PER_CHARACTER = 2.2
_CHARACTERS_PER_WORD = 2.2
_WORD = re.compile(r"\w+(?:['’.,-]\w+)*")
_TELLING_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_RUN = re.compile(_CHARACTER.pattern + "{2,}")


@dataclass(frozen=True, slots=True)
class SpokenLength:
    """A length in words, and in characters where the language is written in such."""

    words: float
    characters: float

    def share_of(self, text: str) -> float:
        """Say which part of the length a text takes; 1.0 is all of it."""
        rest, characters = _CHARACTER.subn(" ", text)
        rest, letters = _LETTER.subn(" ", rest)
        words = sum(1 for _ in _WORD.finditer(rest))
        return words / self.words + (characters + letters / _LETTERS_PER_CHARACTER) / self.characters


_IN_WORDS = SpokenLength(1.0, _CHARACTERS_PER_WORD)


def words_spoken(text: str) -> float:
    """Count words; characters of languages that are written without spaces count less."""
    return _IN_WORDS.share_of(text)


def telling_words(text: str) -> list[str]:
    """List the words of a text in lower case; of Chinese and Japanese, every two neighbouring characters."""
    pairs = [run[0][start : start + 2] for run in _RUN.finditer(text) for start in range(len(run[0]) - 1)]
    return [*pairs, *(found[0].lower() for found in _TELLING_WORD.finditer(_CHARACTER.sub(" ", text)))]
