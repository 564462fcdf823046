"""Rank tools by how well their words fit a request: Okapi BM25 over names, descriptions, parameters; offline (D-2)."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool

from toolweave.tool_config import ToolConfig

K1 = 1.2
B = 0.4
NAME_WEIGHT = 3.0
PARAMETER_WEIGHT = 0.5
SYNONYM_WEIGHT = 0.6
LONGEST_TEXT = 4_000
LONGEST_WORD = 40
MOST_PARAMETERS = 200

Rankable = BaseTool | ToolConfig

_WORD = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_FILLERS = frozenset(
    word
    for line in (
        "a about all also am an and any are as at be by can could do does for from get give had has have",
        "how i if in into is it its just let like me my need of on or our please should so some tell",
        "that the their them then there these they this those to up us use used using want was we what",
        "when where which who will with would you your",
    )
    for word in line.split()
)
# What one tool calls "delete" another calls "remove": words of one group find each other, at a lower weight.
_GROUPS = (
    "create add make new insert",
    "delete remove erase drop",
    "update change edit modify set",
    "list show display view read fetch",
    "search find query look lookup",
    "send post publish",
    "run execute start launch trigger",
    "stop cancel abort kill",
    "mail email message",
    "file document",
    "folder directory",
    "picture image photo screenshot",
    "website webpage page url site web",
    "task todo",
    "meeting event appointment",
    "bug issue ticket",
    "db database sql",
    "time clock hour",
)


def words_of(text: str) -> list[str]:
    """Split a text into lower-case word stems: snake and camel case come apart, scripts without spaces into pairs."""
    found: list[str] = []
    for run in _WORD.findall(text[:LONGEST_TEXT]):
        for part in _HUMP.split(run):
            word = part.casefold()[:LONGEST_WORD]
            if _UNSPACED.search(word):
                found.extend(word[place : place + 2] for place in range(max(1, len(word) - 1)))
            elif word not in _FILLERS:
                found.append(_stem(word))
    return found


def _stem(word: str) -> str:
    """Take off the usual English endings, so that "creating", "creates" and "created" are one word."""
    if len(word) <= 3 or not word.isascii():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


_RELATED: Mapping[str, frozenset[str]] = {
    _stem(word): frozenset(_stem(other) for other in group.split()) - {_stem(word)}
    for group in _GROUPS
    for word in group.split()
}


class ToolIndex:
    """An inverted index over a list of tools; building it takes some 50 µs per tool, a question well under 1 ms."""

    def __init__(self, tools: Sequence[Rankable]) -> None:
        documents = [_weights(tool) for tool in tools]
        lengths = [sum(document.values()) for document in documents]
        average = sum(lengths) / len(lengths) if lengths and any(lengths) else 1.0
        holders = Counter(word for document in documents for word in document)
        self._postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        for place, (document, length) in enumerate(zip(documents, lengths, strict=True)):
            damping = K1 * (1 - B + B * length / average)
            for word, count in document.items():
                rarity = math.log(1 + (len(documents) - holders[word] + 0.5) / (holders[word] + 0.5))
                self._postings[word].append((place, rarity * count * (K1 + 1) / (count + damping)))

    def ranked(self, texts: Iterable[tuple[str, float]]) -> list[int]:
        """Give the places of the tools that fit, best first; equal ones keep their order.

        Args:
            texts: what is wanted, each text with its weight.
        """
        scores: defaultdict[int, float] = defaultdict(float)
        for word, weight in _wanted(texts).items():
            for place, score in self._postings.get(word, ()):
                scores[place] += weight * score
        return sorted(scores, key=lambda place: (-scores[place], place))


def _wanted(texts: Iterable[tuple[str, float]]) -> dict[str, float]:
    wanted: dict[str, float] = {}
    for text, weight in texts:
        for word in words_of(text):
            wanted[word] = max(wanted.get(word, 0.0), weight)
    for word, weight in list(wanted.items()):
        for related in _RELATED.get(word, ()):
            wanted[related] = max(wanted.get(related, 0.0), weight * SYNONYM_WEIGHT)
    return wanted


def _weights(tool: Rankable) -> dict[str, float]:
    weights: defaultdict[str, float] = defaultdict(float)
    for text, weight in _texts(tool):
        for word in words_of(text):
            weights[word] += weight
    return weights


def _texts(tool: Rankable) -> Iterator[tuple[str, float]]:
    yield tool.name, NAME_WEIGHT
    yield tool.description, 1.0
    for name, parameter in list(_parameters(tool).items())[:MOST_PARAMETERS]:
        yield str(name), PARAMETER_WEIGHT
        described = parameter.get("description") if isinstance(parameter, dict) else None
        if isinstance(described, str):
            yield described, PARAMETER_WEIGHT


def _parameters(tool: Rankable) -> dict[str, Any]:
    if isinstance(tool, ToolConfig):
        return tool.input_fields
    schema = tool.args_schema
    return schema.get("properties", {}) if isinstance(schema, dict) else tool.args
