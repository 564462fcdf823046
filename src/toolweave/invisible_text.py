"""Remove invisible characters from untrusted texts: users do not see them, but models and terminals process them.

This covers tool descriptions, results and errors, API responses and pages (T-12, D-2). It removes terminal sequences,
control characters, direction overrides and Unicode tags. It retains what scripts and emoji need: joiners, ideographic
variants, the three flags that are written with tags, line breaks and tabs.
"""

import re
from collections.abc import Iterator

# A text is cleaned in parts of this length, a few milliseconds each, so that other tasks can run in between.
PART_CHARS = 200_000
# A sequence that continues after a part's end starts at most this far before it.
MAX_SEQUENCE_CHARS = 4_200
_TERMINAL_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_LINE_ENDS = ("\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029")
_ASCII_CONTROLS = dict.fromkeys((*range(9), *range(14, 32), 127))
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\ud800-\udfff]+"
)
_TAG_PLANE = re.compile("[\U000e0000-\U000e0fff]")
# England, Scotland and Wales: a black flag, the letters in tags, and the tag that ends them.
_FLAG = re.compile(
    "(\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f)"
)
# A variation selector after an ideograph is retained: it selects the ideograph's form.
_INVISIBLE_TAG = re.compile(
    "(?<![\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]"
    "|[\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)


def visible_text(text: str) -> str:
    """Return a text without invisible characters; every kind of line break becomes a newline, tabs stay."""
    return "".join(cleaned_parts(text))


def cleaned_parts(text: str) -> Iterator[str]:
    """Yield the cleaned parts of a text; joined they equal the result of `visible_text`."""
    start = 0
    while start < len(text):
        end = _part_end(text, start)
        yield _clean_part(text[start:end])
        start = end


def _part_end(text: str, start: int) -> int:
    end = start + PART_CHARS
    if end >= len(text):
        return len(text)
    sequence_start = max(text.rfind(mark, end - MAX_SEQUENCE_CHARS, end) for mark in ("\x1b", "\x9b", "\U0001f3f4"))
    end = end if sequence_start < 0 else sequence_start
    return end - 1 if text[end - 1] == "\r" else end


def _clean_part(text: str) -> str:
    if "\x1b" in text or "\x9b" in text:
        text = _TERMINAL_SEQUENCE.sub("", text)
    for line_end in _LINE_ENDS:
        text = text.replace(line_end, "\n")
    if text.isascii():
        return text.translate(_ASCII_CONTROLS)
    text = _INVISIBLE.sub("", text)
    if not _TAG_PLANE.search(text):
        return text
    # Every second piece is a flag.
    return "".join(part if place % 2 else _INVISIBLE_TAG.sub("", part) for place, part in enumerate(_FLAG.split(text)))
