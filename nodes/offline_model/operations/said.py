"""Hold what a user said in the form that operations are filled from: plain digits, literals hidden, courtesies gone."""

import re
from dataclasses import dataclass

from toolweave.nodes.offline_model.language.literals import Literals, hide_literals
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.politeness import without_courtesy
from toolweave.nodes.offline_model.language.units import UNIT_WORDS

LONGEST = 4_000
LONGEST_HIDDEN = 1_200
"""What is read once the literals are hidden: enough for any instructions, and quadratic patterns stay cheap."""

_ONES = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_NUMBERS = {word: number for number, word in enumerate(_ONES, 1)} | {
    word: number for number, word in zip(range(20, 100, 10), _TENS, strict=True)
}
_SPELLED = pattern(
    rf"\b(?:(?P<tens>{'|'.join(_TENS)})(?:[- ](?P<ones>{'|'.join(_ONES[:9])}))?|(?P<low>{'|'.join(_ONES[1:])})"
    rf"|(?P<one>one)(?=[- ](?:{UNIT_WORDS})(?!\w)))(?P<hundreds>[- ](?:hundred|thousand))?\b"
)
_FOR_ONE = pattern(r"\bfor an? (?=(?:minute|hour|day|week|month|year)\b)")
_THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_DECIMAL_COMMA = re.compile(r"(?<![\w.,])(\d{1,9}),(\d{1,2})(?![\d,])")


@dataclass(frozen=True)
class Said:
    """A message: `text` with its literals hidden."""

    text: str
    literals: Literals


def read_said(message: str) -> Said:
    """Read a message; digits take the form of JSON: "1,200" is 1200, "24,90" is 24.90, "thirty" is 30."""
    hidden, literals = hide_literals(message[:LONGEST])
    text = without_courtesy(hidden[:LONGEST_HIDDEN])
    text = _FOR_ONE.sub("for 1 ", text)
    text = _THOUSANDS.sub(lambda match: match.group().replace(",", ""), text)
    text = _DECIMAL_COMMA.sub(r"\1.\2", text)
    return Said(_SPELLED.sub(_digits, text), literals)


def _digits(match: re.Match[str]) -> str:
    number = sum(_NUMBERS[word.lower()] for word in match.group("tens", "ones", "low", "one") if word)
    many = (match["hundreds"] or "").lower()
    return str(number * (100 if many.endswith("hundred") else 1000 if many else 1))
