"""Hold a page's article, and make it of markdown (A-04).

Both ways of fetching leave an ArticlePage, and the script is written from it. The process that reads pages imports
this, so nothing heavy is imported here.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from typing_extensions import TypedDict


class Block(NamedTuple):
    """A part of an article; a heading that is empty goes on with what precedes it."""

    heading: str
    text: str


class ArticlePage(TypedDict):
    """A page's article as JSON values, so that it goes through checkpoints.

    `text` is markdown, the headings included but the title's; an image is written `![alt](caption)`. `language` is the
    page's own word for it, such as "de" or "pt-BR", empty if it has none.
    """

    url: str
    final_url: str
    title: str
    site: str
    language: str
    text: str


MIN_LETTERS = 60
"""Below it is a notice, not an article."""
# Far more than what anybody asks about.
_MAX_COUNTED_CHARS = 20_000
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def page_from_markdown(markdown: str, url: str, *, title: str = "", site: str = "", language: str = "") -> ArticlePage:
    """Make a page of markdown.

    Args:
        markdown: the article.
        url: where it came from.
        title: by default its first heading, else the file's name; the heading that repeats it is left out.
        site: by default the host's name.
        language: as the page says.
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
    """Split markdown at its headings; lines of code are none. Sections without heading and text are left out."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line, is_code in markdown_lines(markdown):
        if not is_code and (found := _HEADING.fullmatch(line)):
            sections.append((found[2].strip(), []))
        else:
            sections[-1][1].append(line)
    blocks = (Block(heading, "\n".join(lines).strip("\n")) for heading, lines in sections)
    return [block for block in blocks if any(block)]


def count_letters(text: str) -> int:
    """Count what a text says at least, in letters; an ideograph says as much as three."""
    return sum(3 if "\u3040" <= letter <= "\u9fff" else 1 for letter in text[:_MAX_COUNTED_CHARS] if letter.isalnum())


def markdown_lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """Give the lines, and whether each is code, the fences included."""
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
    """Say whether a text is the address of a page."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and not re.search(r"\s", text)
