"""A page's article, and how to build it from markdown (A-04).

Both fetch methods return an ArticlePage, from which the script is written. The process that reads pages imports this
module, so it imports only small modules.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from typing_extensions import TypedDict


class Block(NamedTuple):
    """A part of an article; an empty heading means that it continues the previous block."""

    heading: str
    text: str


class ArticlePage(TypedDict):
    """A page's article as JSON values for checkpoints.

    `text` is markdown with all headings but the title; an image is `![alt](caption)`. `language` is the language that
    the page declares, such as "de" or "pt-BR", or empty.
    """

    url: str
    final_url: str
    title: str
    site: str
    language: str
    text: str


MIN_LETTERS = 60
"""A text with fewer letters is a notice, not an article."""
# Enough for every threshold that the count is compared with.
_MAX_COUNTED_CHARS = 20_000
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def page_from_markdown(markdown: str, url: str, *, title: str = "", site: str = "", language: str = "") -> ArticlePage:
    """Build a page from markdown.

    Args:
        markdown: the article.
        url: its URL.
        title: default: the first heading, or else the file name; a heading that repeats the title is removed.
        site: default: the host name.
        language: the language that the page declares.
    """
    parts = urlsplit(url)
    first = next((block.heading for block in split_sections(markdown) if block.heading), "")
    title = title or first or unquote(parts.path.rpartition("/")[2].rpartition(".")[0]) or parts.netloc
    heading = rf"^ {{0,3}}#{{1,6}}[ \t]+{re.escape(title)}[ \t#]*$"
    return ArticlePage(
        url=url,
        final_url=url,
        title=title,
        site=site or parts.hostname or "",
        language=language,
        text=re.sub(heading, "", markdown, count=1, flags=re.MULTILINE).strip("\n"),
    )


def split_sections(markdown: str) -> list[Block]:
    """Split markdown at its headings, not inside code blocks; empty sections are left out."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line, is_code in markdown_lines(markdown):
        if not is_code and (found := _HEADING.fullmatch(line)):
            sections.append((found[2].strip(), []))
        else:
            sections[-1][1].append(line)
    blocks = (Block(heading, "\n".join(lines).strip("\n")) for heading, lines in sections)
    return [block for block in blocks if any(block)]


def count_letters(text: str) -> int:
    """Count the letters of a text, an ideograph as three; only the first _MAX_COUNTED_CHARS count."""
    return sum(3 if "\u3040" <= letter <= "\u9fff" else 1 for letter in text[:_MAX_COUNTED_CHARS] if letter.isalnum())


def markdown_lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it belongs to a code block or its fences."""
    fence = ""
    for line in re.split(r"\r\n|\r|\n", markdown):
        found = _FENCE.match(line)
        if not fence:
            fence = found[1] if found else ""
            yield line, bool(fence)
            continue
        yield line, True
        if found and found[1].startswith(fence) and not line[found.end() :].strip():
            fence = ""


def is_web_url(text: str) -> bool:
    """Return whether a text is an http or https URL."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and not re.search(r"\s", text)
