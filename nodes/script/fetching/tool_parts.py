"""Put together what tools gave in several results: a page is often too long for one (A-04)."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from toolweave.nodes.script.fetching.tool_document import Document, documents_in, is_web_address, kind_of_text
from toolweave.nodes.script.fetching.tool_results import ToolResult

# Arguments that say which part of a page is wanted; in those of the first kind characters are counted.
_CHARACTERS = frozenset({"startindex", "startchar", "startposition", "offset", "start"})
_PARTS = frozenset({"page", "pagenumber", "part", "chunk", "cursor"})
_SIZES = frozenset({"maxlength", "maxchars", "maxcharacters", "limit", "length", "size"})
_DEEPEST = 6
_FARTHEST = 1 << 53


@dataclass(frozen=True)
class ToolPage:
    """What one tool gave for the same arguments, parts put together; `addresses` are the URLs among these."""

    addresses: tuple[str, ...]
    documents: tuple[Document, ...]

    def about(self, url: str) -> Document:
        """Give the document of this URL, or else all as one."""
        own = [each for each in self.documents if is_same_address(each.url, url)] or list(self.documents)
        first = own[0]
        return first._replace(body="\n\n".join(dict.fromkeys(each.body for each in own if each.kind == first.kind)))


def tool_pages(results: Sequence[ToolResult]) -> list[ToolPage]:
    """Group results by tool and arguments, and put the parts of each page together."""
    grouped: dict[str, list[ToolResult]] = {}
    for result in results:
        asked = {name: value for name, value in result.arguments.items() if not _is_about_parts(name)}
        grouped.setdefault(json.dumps([result.tool, asked], sort_keys=True, default=str), []).append(result)
    pages = (ToolPage(tuple(addresses_in(group[0].arguments)), tuple(_documents(group))) for group in grouped.values())
    return [page for page in pages if page.documents]


def is_same_address(one: str, other: str) -> bool:
    """Say whether two URLs name the same page, however they are written."""
    return bool(one) and _canonical(one) == _canonical(other)


def _documents(group: Sequence[ToolResult]) -> list[Document]:
    """Join results that hold one document each; of others each is for itself."""
    found = [(result, documents_in(result.text, result.structured)) for result in group]
    address = next(iter(addresses_in(group[0].arguments)), "")
    if any(len(documents) > 1 for _, documents in found):
        return [_placed(document, address) for _, documents in found for document in documents]
    parts = sorted(
        ((_position(result.arguments), documents[0]) for result, documents in found if documents),
        key=lambda part: part[0],
    )
    if not parts:
        return []
    body = _joined(parts, by_characters=_counts_characters(group))
    return [_placed(parts[0][1]._replace(body=body, kind=kind_of_text(body)), address)]


def _joined(parts: Sequence[tuple[float, Document]], *, by_characters: bool) -> str:
    """Put parts one behind the other; where they overlap, nothing is said twice."""
    bodies = list(dict.fromkeys(document.body for _, document in parts))
    if not by_characters:
        return "\n\n".join(bodies)
    whole = ""
    for position, document in parts:
        start = int(position)
        if start > len(whole):
            whole += ("\n\n" if whole else "") + document.body
        elif start + len(document.body) > len(whole):
            whole = whole[:start] + document.body
    return whole


def _placed(document: Document, address: str) -> Document:
    return document if document.url else document._replace(url=address)


def _position(arguments: Mapping[str, Any]) -> float:
    given = (value for name, value in arguments.items() if _plain(name) in _CHARACTERS | _PARTS)
    return next((float(each) for each in given if isinstance(each, int | float) and 0 <= each <= _FARTHEST), 0.0)


def _counts_characters(group: Sequence[ToolResult]) -> bool:
    return any(_plain(name) in _CHARACTERS for result in group for name in result.arguments)


def _is_about_parts(name: str) -> bool:
    return _plain(name) in _CHARACTERS | _PARTS | _SIZES


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def addresses_in(value: Any, depth: int = 0) -> Iterator[str]:
    """Find the URLs among arguments."""
    if isinstance(value, str) and is_web_address(value.strip()):
        yield value.strip()
    elif depth < _DEEPEST and isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from addresses_in(inner, depth + 1)


def _canonical(url: str) -> tuple[str, str, str]:
    parts = urlsplit(url.strip())
    host = (parts.netloc.rpartition("@")[2]).lower().removeprefix("www.")
    return host, parts.path.rstrip("/"), parts.query
