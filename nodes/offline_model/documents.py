"""Tell a JSON document that a message brings along, between tags, in a fence or on lines of its own, in plain words."""

import json
import re
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from toolweave.nodes.offline_model.answers import tell_data
from toolweave.nodes.offline_model.plain_words import shortened

_CLOSING = re.compile(r"</(?P<name>[A-Za-z_][\w-]{0,60})>")
# A framed text that is no JSON is told only where its frame says that it is to be told.
_TOLD_FRAMES = re.compile(r"answer|response|result|output|document|json|data", re.IGNORECASE)
_FENCE = re.compile(r"^```[\w-]{0,20}[ \t]*$", re.MULTILINE)
_STARTS = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE)
_MOST_STARTS = 20
_LONGEST_REMARK = 200


@dataclass(frozen=True)
class Document:
    """What a message brings along: parsed JSON, or None and the text; `remark` is what the message says behind it."""

    data: Any
    text: str
    remark: str = ""


def tell_document(message: str) -> str:
    """Tell the document of a message; an empty text when it has none."""
    found = find_document(message)
    if found is None:
        return ""
    try:
        told = tell_data(found.data, found.text)
    except RecursionError:
        told = shortened(found.text)
    return f"{told}\n{found.remark}" if found.remark else told


def find_document(message: str) -> Document | None:
    """Find the last framed document of a message, or else the first JSON that begins on a line of its own."""
    return _framed(message) or _fenced(message) or _bare(message)


def _framed(message: str) -> Document | None:
    closing = _last(_CLOSING, message)
    if closing is None:
        return None
    name = closing["name"]
    opening = _last(re.compile(rf"<{re.escape(name)}(?:\s[^<>]{{0,300}})?>"), message[: closing.start()])
    if opening is None:
        return None
    inside = message[opening.end() : closing.start()].strip()
    data = _parsed(inside)
    if data is None and not (inside and _TOLD_FRAMES.search(name)):
        return None
    return Document(data, inside, message[closing.end() :].strip()[:_LONGEST_REMARK])


def _fenced(message: str) -> Document | None:
    fences = list(_FENCE.finditer(message))
    for opening, closing in reversed(list(pairwise(fences))):
        inside = message[opening.end() : closing.start()].strip()
        data = _parsed(inside)
        if data is not None:
            return Document(data, inside)
    return None


def _bare(message: str) -> Document | None:
    decoder = json.JSONDecoder()
    for start in [match.end() for match in _STARTS.finditer(message)][:_MOST_STARTS]:
        try:
            data, _ = decoder.raw_decode(message, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict) or (isinstance(data, list) and data):
            return Document(data, message[start:])
    return None


def _last(form: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = deque(form.finditer(text), maxlen=1)
    return found[0] if found else None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
