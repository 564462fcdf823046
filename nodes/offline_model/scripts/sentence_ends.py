"""Divide a paragraph into its sentences, as they stand: in languages with spaces between words, and without."""

import re
from collections.abc import Iterator

from toolweave.nodes.offline_model.scripts.abbreviations import ABBREVIATIONS, BEFORE_ORDINALS, MONTHS

_CLOSERS = "\"'”’»«“›‹)\\]"
# There is one way only to read a row of marks or quotes: each begins where no other does.
_END = re.compile(
    rf"(?<![.!?…؟۔।])(?P<mark>[.!?…؟۔।]+)(?:[\u00a0\u202f ]»|[{_CLOSERS}])*(?=\s|\Z)"
    r"|(?P<wide>[。！？｡]+)(?P<closed>[」』”’）】〉》\"]*)"
)
_TOKEN = re.compile(r"[^\s\"'“”„‚‘’«»()\[\]]+\Z")
_PREVIOUS = re.compile(r"(\w+)\W+\Z")
_NEXT = re.compile(r"\s*[\"'“”„‚‘’«»‹›(\[¿¡\-–—\u00a0\u202f ]{0,4}(?P<word>\w*)")
# What goes on after words that were quoted with their full stop.
_GOES_ON = re.compile(r"と|って|という|など|[，,、]|.{0,6}(?:说|說|道|问|問|喊|表示|写道)")
_WHOLE = re.compile(r"[.!?…؟۔।。！？｡](?:[\u00a0\u202f ]»|[\"'”’»«“›‹)\]」』）】〉》])*\Z")
_REACH = 60


def sentences_of(paragraph: str) -> Iterator[str]:
    """Yield the sentences in order, what has no end last; joined, they are the paragraph but for spaces."""
    start = 0
    for found in _END.finditer(paragraph):
        if not _ends(paragraph, found):
            continue
        if sentence := paragraph[start : found.end()].strip():
            yield sentence
        start = found.end()
    if rest := paragraph[start:].strip():
        yield rest


def is_whole(sentence: str) -> bool:
    """Tell whether a text ends as sentences do; one that ends in a colon only leads to something."""
    return bool(_WHOLE.search(sentence[-_REACH:]))


def _ends(paragraph: str, found: re.Match[str]) -> bool:
    end = found.end()
    if end >= len(paragraph):
        return True
    if found["wide"]:
        return not (found["closed"] and _GOES_ON.match(paragraph, end))
    following = _NEXT.match(paragraph, end)
    word = following["word"] if following else ""
    if word[:1].islower():
        return False
    return found["mark"] != "." or not _is_abbreviated(paragraph[max(found.start() - _REACH, 0) : found.start()], word)


def _is_abbreviated(before: str, following: str) -> bool:
    """Tell of a full stop whether it belongs to the word before it: an abbreviation, an initial, an ordinal."""
    found = _TOKEN.search(before)
    token = found[0].lower() if found else ""
    if token in ABBREVIATIONS or "." in token:
        return not token.isdecimal() and not _is_number(token)
    if len(token) == 1 and token.isalpha():
        return True
    if not token.isdecimal() or len(token) > 2 or found is None:
        return False
    previous = _PREVIOUS.search(before[: found.start()])
    return following.lower() in MONTHS or bool(previous and previous[1].lower() in BEFORE_ORDINALS)


def _is_number(token: str) -> bool:
    return all(part.isdecimal() for part in token.replace(",", ".").split(".") if part)
