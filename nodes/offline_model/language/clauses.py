"""Split a message into clauses, each of which asks for one thing or says something about another clause."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from toolweave.nodes.offline_model.language.literals import HIDDEN
from toolweave.nodes.offline_model.language.nouns import CONTAINER
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.politeness import is_courtesy, without_courtesy
from toolweave.nodes.offline_model.language.vocabulary import VERBS

ITEM_MARK = "\u2029"
"""What stands before each item of a bulleted list."""

_BULLET = re.compile(r"[:;,.]?[ \t]*\n[ \t]*(?:[-*•–]|\d{1,2}[.)])[ \t]+")
_NOT_AFTER = r"(?<!\b[a-zA-Z])(?<!\b(?:Dr|Mr|Ms|St|vs|No|no|nr))(?<!\b(?:Mrs|e\.g|i\.e|etc))"
_SENTENCE_END = re.compile(rf"{_NOT_AFTER}[.!?;](?=\s)\s*|\n+")
_VERB = "|".join(sorted(VERBS, key=lambda verb: (-len(verb), verb)))
_COURTESY = r"(?:please |then |also |can you |could you |you can |you may |would you |just |now |to )*"
_THEN = pattern(
    r"\s*,?\s*(?:\band )?(?:\bthen|\bafterwards|\bafter that|\bonce done|\bfinally)\b,?\s+"
    rf"(?={_COURTESY}(?:{_VERB})\b)"
)
_ANOTHER = pattern(
    r"\s*,?\s*(?:\band|,) (?:also )?"
    r"(?=(?:another|one more|a second|one)(?: one| \w+)? (?:to|for|about|called|named)\b)"
)
# "and", a comma or a dash before an order that speaks of the tools' things, or "and" before a question.
_ORDER = (
    r"\s*(?:,\s*(?:and |but |so )?|\s(?:and|but|so) |\s[–—-]\s)(?:also )?"
    rf"(?={_COURTESY}(?:{_VERB})\b(?:(?! and ).){{0,80}}?(?:\b{{T}}))"
    rf"|\s*,\s*(?:and |so )?(?={_COURTESY}(?:mark|tick|check|cross|set|rename)\b.{{1,80}}?\b(?:as|off|to)\b)"
    r"|\s*,?\s+(?P<question>and )(?=(?:what(?:'s)?|which|how many|where|when|who)\b)"
)
_ASKS = pattern(r"(?:what|which|how|where|when|who|tell|show)\b")


@dataclass(frozen=True)
class Clause:
    """One piece of a message, courtesies dropped; `after` tells that it must wait for the piece before."""

    text: str
    after: bool = False


def split_clauses(text: str, noun: str) -> Iterator[Clause]:
    """List the clauses of a message whose literals are hidden; courtesies alone make no clause."""
    for sentence in _sentences(_BULLET.sub(ITEM_MARK, text)):
        if is_courtesy(sentence):
            continue
        for number, part in enumerate(_THEN.split(sentence)):
            for place, piece in enumerate(_orders(part, noun)):
                stripped = without_courtesy(piece)
                if stripped:
                    question = "?" if piece.rstrip().endswith("?") else ""
                    yield Clause(stripped + question, after=number > 0 and place == 0)


def _sentences(text: str) -> Iterator[str]:
    """Cut at the ends of sentences; a question keeps its mark."""
    start = 0
    for match in _SENTENCE_END.finditer(text):
        yield text[start : match.start() + match.group().startswith("?")].strip()
        start = match.end()
    yield text[start:].strip()


def _orders(text: str, noun: str) -> Iterator[str]:
    things = rf"(?:{noun}|{CONTAINER}|it|that|this|them|those|these|one|ones|#?\d+|everything)\b|{HIDDEN}"
    order = pattern(_ORDER.replace("{T}", things))
    for part in _ANOTHER.split(text):
        start = 0
        for match in order.finditer(part):
            if match.start() > start and (not match["question"] or _ASKS.match(part, start)):
                yield part[start : match.start()]
                start = match.end()
        yield part[start:]
