"""Read a request that a model has written: where it goes, what its query holds, what its path says (W-05)."""

import re
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

from toolweave.nodes.http_tools.parameters import query_value, read_query, text_of
from toolweave.nodes.http_tools.specs import HTTPRequestSpec
from toolweave.outbound_urls import OutboundTarget, read_target
from toolweave.tool_config import PLACEHOLDER

_PATH_ONLY = re.compile(r"/(?!/)")


def origin(target: OutboundTarget) -> str:
    """Give the part of a URL before its path."""
    return f"{target.scheme}://{target.authority}"


def written_target(own: OutboundTarget, url: str) -> OutboundTarget:
    """Read a URL, which may begin with its path; raises OutboundRefused."""
    return read_target(origin(own) + url if _PATH_ONLY.match(url) else url)


def written_query(request: HTTPRequestSpec, url: str) -> dict[str, list[Any]]:
    """Give the values of a request's query by name, those within its URL and the others; null is no value."""
    found: dict[str, list[Any]] = {name: list(texts) for name, texts in read_query(url.partition("?")[2]).items()}
    for name, value in request.query.items():
        plain = query_value(value)
        values = plain if isinstance(plain, list) else [] if plain is None else [plain]
        # The same parameter in both places is still one.
        if [text_of(known) for known in found.get(name, [])] != [text_of(given) for given in values]:
            found[name] = [*found.get(name, []), *values]
    return {name: values for name, values in found.items() if values}


def segments(path: str) -> list[str]:
    """Take a path apart and decode each part.

    Whether there is a slash at its end makes no difference: the configuration says it when the request is sent.
    """
    return [unquote(segment) for segment in path.partition("?")[0].removesuffix("/").split("/")]


def placeholder_values(template: str, path: str) -> dict[str, str] | None:
    """Give what a path has in the place of a template's placeholders; None when it has another form."""
    forms, texts = template.removesuffix("/").split("/"), segments(path)
    if len(forms) != len(texts):
        return None
    found: dict[str, str] = {}
    for form, text in zip(forms, texts, strict=True):
        values = _within_segment(form, text)
        if values is None:
            return None
        found |= values
    return found


def _within_segment(form: str, text: str) -> dict[str, str] | None:
    literals, names = [unquote(part) for part in PLACEHOLDER.split(form)[::2]], PLACEHOLDER.findall(form)
    if not names:
        return {} if text == literals[0] else None
    end = len(text) - len(literals[-1])
    if not text.startswith(literals[0]) or not text.endswith(literals[-1]):
        return None
    # No expression: many placeholders in one segment would make it slow. Each value is as short as it can be.
    ends = [len(literals[0])]
    for literal in literals[1:-1]:
        start = text.find(literal, ends[-1] + 1, end) if literal else -1
        if start < 0:
            return None
        ends += [start, start + len(literal)]
    ends.append(end)
    values = [text[start:stop] for start, stop in list(pairwise(ends))[::2]]
    return dict(zip(names, values, strict=True)) if all(values) else None
