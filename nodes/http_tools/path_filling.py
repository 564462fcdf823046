"""Fill the placeholders of a path so that no value gets out of its segment (W-05, W-09)."""

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

from toolweave.tool_config import PLACEHOLDER

LONGEST_VALUE = 2_000
_MOST_ENCODINGS = 4
_LITERAL = "/%:@!$&'()*+,;=~"
_ESCAPES = re.compile(r"[/\\\x00-\x1f\x7f-\x9f]")


def filled_path(template: str, values: Mapping[str, str]) -> tuple[str, list[tuple[str, str]]]:
    """Return the path with the values percent-encoded, and what is wrong with values, each with its placeholder.

    Nothing a value says may change which operation is called, whatever decodes it: a value is refused when it is empty
    or holds a slash, a backslash or a control character, written plainly or encoded once or more, because servers and
    what stands before them decode paths before they choose. So is one that makes a segment `.` or `..`.
    """
    names = PLACEHOLDER.findall(template)
    problems = [(name, problem) for name in names if (problem := _no_segment(values.get(name, "")))]
    for segment in template.split("/"):
        # Literal texts and values together make the segment that a server sees.
        filled = PLACEHOLDER.sub(lambda found: values.get(found[1], ""), segment)
        if filled != segment and _is_step(filled):
            problems.append((PLACEHOLDER.findall(segment)[0], f"would make {filled!r} of a part of the path"))
    return "/".join(_encoded(segment, values) for segment in template.split("/")), problems


def _no_segment(value: str) -> str | None:
    if not value:
        return "is required and may not be empty: it is a part of the path"
    if len(value) > LONGEST_VALUE:
        return f"may have {LONGEST_VALUE} characters at most: it is a part of the path"
    if any(_ESCAPES.search(form) for form in _decodings(value)):
        return "may hold no slash, backslash or control character: it is one part of the path"
    return None


def _is_step(segment: str) -> bool:
    return any(form.partition(";")[0].strip() in (".", "..") for form in _decodings(segment))


def _decodings(text: str) -> list[str]:
    """Give a text as it is, and as it is after each decoding that changes it."""
    forms = [text]
    while len(forms) <= _MOST_ENCODINGS and (decoded := unquote(forms[-1])) != forms[-1]:
        forms.append(decoded)
    return forms


def _encoded(segment: str, values: Mapping[str, str]) -> str:
    parts = PLACEHOLDER.split(segment)
    return "".join(
        quote(values.get(part, ""), safe="") if index % 2 else quote(part, safe=_LITERAL)
        for index, part in enumerate(parts)
    )
