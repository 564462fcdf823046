"""Read which existing thing a request means: by number, by its words, by "it", by its place in a list."""

import re
from dataclasses import dataclass
from typing import Literal

from toolweave.nodes.offline_model.language.literals import HIDDEN, Literals
from toolweave.nodes.offline_model.language.nouns import CONTAINER, VAGUE
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.words import STOP_WORDS, stem, words
from toolweave.nodes.offline_model.tools.parameters import Parameter

TargetKind = Literal["ids", "phrase", "pronoun", "place", "everything", "nothing"]

_ORDINALS = {
    "first": 0, "1st": 0, "second": 1, "2nd": 1, "third": 2, "3rd": 2, "fourth": 3, "4th": 3, "fifth": 4, "5th": 4,
    "sixth": 5, "6th": 5, "seventh": 6, "7th": 6, "eighth": 7, "8th": 7, "ninth": 8, "9th": 8, "tenth": 9, "10th": 9,
    "last": -1, "final": -1, "latest": -1, "newest": -1,
}  # fmt: skip
_CARDINALS = {word: number for number, word in enumerate(words("one two three four five six seven eight nine ten"), 1)}
_PRONOUNS = frozenset({"it", "that", "this", "them", "those", "these", "him", "same"})
_EVERYTHING = frozenset({"all", "everything", "every", "both"})
_ENDS = " ,;:.!?-–—'’"

_KIND_FIRST = (
    r"^(?:(?:the|my|a|an|that|this|our|your|to) )*(?:{N}|{V}) "
    r"(?:about|called|named|titled|entitled|for|to|of|on|regarding|concerning|with)(?: the| my)? "
)
_FILED = r"(?: on| from| in| off| of)+ (?:my|the|our) (?:[\w-]+ )?(?:{L}|{N})$"
_DETERMINERS = pattern(r"^(?:(?:the|my|a|an|that|this|our|your|for|of|about|to) )+")
_KIND_LAST = (
    r"(?:'s)?(?: (?:{N}|one|thing|entry))?"
    r"(?: (?:is|are|was|to|for|of|as|on|it|from|so|that|and|now|please|has been|been|should be|should|be|by|until))*$"
)


@dataclass(frozen=True)
class Target:
    """What a request acts on: `ids` for numbers, `text` for words (`quoted` when literally so), `place` in a list."""

    kind: TargetKind
    ids: tuple[int | str, ...] = ()
    text: str = ""
    quoted: bool = False
    place: int = 0

    @property
    def stems(self) -> list[str]:
        """Give the stems of the words that carry meaning; all of them when none does."""
        listed = [stem(word) for word in words(self.text) if word not in STOP_WORDS]
        return listed or [stem(word) for word in words(self.text)]


def read_target(text: str, key: Parameter, noun: str, literals: Literals) -> Target:
    """Read the target from what is left of a request once its verb and its new values are gone."""
    text = text.strip(" ,;:.!?-–—")
    ids = _named_ids(text, noun, literals) if key.kind == "string" else _numbers(text, noun)
    if ids:
        return Target("ids", ids=ids)
    quoted = literals.in_text(text, "quoted")
    if quoted:
        return Target("phrase", text=quoted[0][1].value, quoted=True)
    bare = words(_form(r"\b(?:{N}|{L}|{V})\b", noun).sub(" ", text))
    meaningful = [word for word in bare if word not in STOP_WORDS]
    place = next((word for word in bare if word in _ORDINALS), None)
    if place and all(word == place for word in meaningful):
        return Target("place", place=_ORDINALS[place])
    if meaningful or re.search(HIDDEN, text):
        return Target("phrase", text=literals.restore(_phrase(text, noun)))
    said = words(text)
    if any(word in _EVERYTHING for word in said):
        return Target("everything", text=" ".join(said))
    points = any(word in _PRONOUNS for word in said) or _form(r"(?:the|my) (?:{N}|one)", noun).fullmatch(text)
    return Target("pronoun" if points else "nothing")


def _form(source: str, noun: str) -> re.Pattern[str]:
    return pattern(source.replace("{N}", noun).replace("{L}", CONTAINER).replace("{V}", VAGUE))


def _named_ids(text: str, noun: str, literals: Literals) -> tuple[str, ...]:
    """Read an id that is a word: a word with a digit in it, or a literal, behind the noun."""
    form = rf"\b(?:{noun}|id)(?: with)?(?: id)?\s*[#:]?\s*(?P<id>(?=[\w-]*\d)[\w-]{{1,64}}|{HIDDEN})"
    named = pattern(form).search(text)
    return (literals.restore(named["id"]),) if named else ()


def _numbers(text: str, noun: str) -> tuple[int, ...]:
    """Read ids that are numbers: "task 3", "#3 and #5", "number three", or numbers with nothing else around them."""
    spelled = pattern(rf"\b(?P<naming>number|id|{noun}) (?P<number>{'|'.join(_CARDINALS)})\b")
    text = spelled.sub(lambda match: f"{match['naming']} {_CARDINALS[match['number'].lower()]}", text)
    naming = (
        rf"(?:(?:\b(?:{noun}|number|no\.|nr\.?|id|both)|#)(?: with)?(?: the)?(?: numbers?| ids?| no\.)?\s*[#:]?\s*)"
    )
    number = r"\d{1,18}(?![\d.:]\d)"
    more = rf"(?:(?:[\s,&+]|\band\b|\bor\b)+{naming}?{number})"
    listed = pattern(rf"{naming}(?P<ids>{number}\b{more}*)").finditer(text)
    numbers = [int(digits) for match in listed for digits in re.findall(r"\d+", match["ids"])]
    counted = pattern(rf"\d+ (?:\w+ )?{noun}\b").search(text)
    if not numbers and not counted and all(word.isdigit() or word in STOP_WORDS for word in words(text)):
        numbers = [int(digits) for digits in re.findall(r"\d{1,18}", text)]
    return tuple(dict.fromkeys(numbers))


def _phrase(text: str, noun: str) -> str:
    """Drop the words around the name of a thing: "the task about plants" to "plants"."""
    text = _form(_KIND_FIRST, noun).sub("", text)
    text = _form(_FILED, noun).sub("", text)
    text = _DETERMINERS.sub("", text)
    return _form(_KIND_LAST, noun).sub("", text).strip(_ENDS)
