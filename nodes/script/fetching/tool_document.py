"""Find a page in what a fetching tool returns: markdown, HTML, or JSON that has one of them in a field (A-04)."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

Kind = Literal["markdown", "html"]

LONGEST_FACT = 500
DEEPEST = 6
MOST_PARTS = 10_000
_FIELDS: tuple[str, ...] = (
    *("markdown", "md", "raw_content", "article", "article_body", "articleBody", "content", "text", "page_content"),
    *("body", "html", "rawHtml", "raw_html"),
)
_TITLES = ("title", "ogTitle", "og:title")
_SITES = ("ogSiteName", "og:site_name", "siteName", "site_name")
_LANGUAGES = ("language", "lang")
_URLS = ("url", "sourceURL", "source_url", "link")
# A comment ends at its first end: otherwise there are as many ways to read a row of them as strangers like.
_MARKUP = re.compile(
    r"\s*(?:<!--(?:(?!-->).){0,2000}-->\s*)*<(?:!doctype\s+html|html|head|body|main|article|section|div|p|h1)\b",
    re.IGNORECASE | re.DOTALL,
)
# As mcp-server-fetch frames the part of a page that it gives.
_FRAME = re.compile(
    r"\A(?:Content type [^\n]{0,300} cannot be simplified to markdown[^\n]{0,100}\n)?Contents of \S{1,8192}:\n"
)
_NOTICE = re.compile(r"(?:\n{1,2}|\A)<error>[^<]{0,500}</error>\s*\Z")


class Document(NamedTuple):
    """A page as a tool gives it; `url` is where it says that it was, and any of the facts may be empty."""

    kind: Kind
    body: str
    title: str = ""
    site: str = ""
    language: str = ""
    url: str = ""


def documents_in(text: str, structured: Any = None) -> list[Document]:
    """Give the pages in a tool's result: those in its text or those in its structured content, whichever say more."""
    data = _data(text)
    body = data if isinstance(data, str) else "" if data is not None else text
    body = _NOTICE.sub("", _FRAME.sub("", body))
    found = [Document(kind_of_text(body), body)] if body.strip() else list(_in_data(data))
    return max((found, list(_in_data(structured))), key=lambda each: sum(len(document.body) for document in each))


def kind_of_text(body: str) -> Kind:
    """Tell HTML from markdown."""
    return "html" if _MARKUP.match(body[:4096]) else "markdown"


def _data(text: str) -> Any:
    """Read a text that is JSON; None for any other."""
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _in_data(data: Any) -> Iterator[Document]:
    """Walk JSON values to the objects that hold a page, from the outside in; what is within one is not looked at."""
    waiting = [(data, 0)]
    for value, depth in _bounded(waiting):
        if isinstance(value, Mapping):
            if document := _in_object(value):
                yield document
                continue
            inner = list(value.values())
        else:
            inner = value if isinstance(value, list) else []
        if depth < DEEPEST:
            waiting.extend((part, depth + 1) for part in inner if isinstance(part, Mapping | list))


def _bounded(waiting: list[tuple[Any, int]]) -> Iterator[tuple[Any, int]]:
    place = 0
    while place < min(len(waiting), MOST_PARTS):
        yield waiting[place]
        place += 1


def _in_object(value: Mapping[str, Any]) -> Document | None:
    bodies = (value[field] for field in _FIELDS if isinstance(value.get(field), str) and value[field].strip())
    body = next(bodies, None)
    if body is None:
        return None
    metadata = value.get("metadata")
    places = [metadata, value] if isinstance(metadata, Mapping) else [value]
    url = _fact(places, _URLS)
    return Document(
        kind_of_text(body),
        body,
        title=_fact(places, _TITLES),
        site=_fact(places, _SITES),
        language=_fact(places, _LANGUAGES),
        url=url if is_web_address(url) else "",
    )


def _fact(places: list[Mapping[str, Any]], names: tuple[str, ...]) -> str:
    given = (place.get(name) for place in places for name in names)
    found = next((fact for fact in given if isinstance(fact, str) and fact.strip()), "")
    return " ".join(found.split())[:LONGEST_FACT]


def is_web_address(text: str) -> bool:
    """Say whether a text is the address of a page."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and not re.search(r"\s", text)
