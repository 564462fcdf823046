"""Hold a page's article, and make it of markdown (A-04).

Both ways of fetching leave an ArticlePage, and the script is written from it. The process that reads pages imports
this, so nothing heavy is imported here.
"""

import re
from collections.abc import Iterator
from typing import Literal
from urllib.parse import unquote, urlsplit

from typing_extensions import TypedDict


class PageSection(TypedDict):
    """A part of the article under a heading of its own; what precedes the first heading has an empty one."""

    heading: str
    level: int
    text: str


class PageImage(TypedDict):
    """An image of the article: `alt` and `caption` may be empty, `src` is absolute."""

    alt: str
    caption: str
    src: str


class ArticlePage(TypedDict):
    """A page's article as JSON values, so that it goes through checkpoints.

    `text` is markdown, the headings included but the title's; the sections hold the same in order. An image is written
    `![alt](src "caption")`. `language` is the page's own word for it, such as "de" or "pt-BR", empty if it has none.
    """

    url: str
    final_url: str
    title: str
    site: str
    language: str
    text: str
    sections: list[PageSection]
    images: list[PageImage]


FEWEST_LETTERS = 60
"""Below it is a notice, not an article."""
# Far more than what anybody asks about.
_COUNTED = 20_000
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_IMAGE = re.compile(r"!\[([^\]]{0,2000})\]\(([^()\s]{1,8192})(?:[ \t]+\"([^\"]{0,2000})\")?\)")
# Inline code, which has no escapes, or an escape that neither begins a line nor keeps a cell together.
_ESCAPE = re.compile(r"(`[^`]*`)|(?<!^)\\([!-/:-@\[-`{}~])")


def page_of_markdown(
    markdown: str,
    url: str,
    *,
    title: str = "",
    site: str = "",
    language: str = "",
    images: list[PageImage] | None = None,
) -> ArticlePage:
    """Make a page of markdown.

    Args:
        markdown: the article.
        url: where it came from.
        title: by default its first heading, else the file's name; the heading that repeats it is left out.
        site: by default the host's name.
        language: as the page says.
        images: by default those that the markdown shows.
    """
    parts = urlsplit(url)
    first = next((section["heading"] for section in sections_of(markdown) if section["heading"]), "")
    title = title or first or unquote(parts.path.rpartition("/")[2].rpartition(".")[0]) or parts.netloc
    text = _tidy(markdown, title)
    return ArticlePage(
        url=url,
        final_url=url,
        title=title,
        site=site or parts.hostname or "",
        language=language,
        text=text,
        sections=sections_of(text),
        images=images_in(text) if images is None else images,
    )


def sections_of(markdown: str) -> list[PageSection]:
    """Split markdown at its headings; lines of code are none. Sections without heading and text are left out."""
    sections = [PageSection(heading="", level=0, text="")]
    lines: list[str] = []
    for line, is_code in _lines(markdown):
        found = None if is_code else _HEADING.fullmatch(line)
        if found is None:
            lines.append(line)
            continue
        sections[-1]["text"] = "\n".join(lines).strip("\n")
        sections.append(PageSection(heading=found[2].strip(), level=len(found[1]), text=""))
        lines = []
    sections[-1]["text"] = "\n".join(lines).strip("\n")
    return [section for section in sections if section["heading"] or section["text"]]


def images_in(markdown: str) -> list[PageImage]:
    """List the images of a markdown text; lines of code show none."""
    return [
        PageImage(alt=found[1], caption=found[3] or "", src=found[2])
        for line, is_code in _lines(markdown)
        if not is_code
        for found in _IMAGE.finditer(line)
    ]


def unescaped(markdown: str) -> str:
    """Leave out the backslashes before characters that would mean nothing without them; code has none."""
    return "\n".join(
        line if is_code else _ESCAPE.sub(lambda found: found[1] or found[2], line) for line, is_code in _lines(markdown)
    )


def letters(text: str) -> int:
    """Count what a text says at least, in letters; an ideograph says as much as three."""
    return sum(3 if "\u3040" <= letter <= "\u9fff" else 1 for letter in text[:_COUNTED] if letter.isalnum())


def _tidy(markdown: str, title: str) -> str:
    """Leave no blank line twice, one around code, code as it is, and no heading that repeats the title."""
    kept: list[tuple[str, bool]] = [("", False)]
    untitled = True
    for line, is_code in _lines(markdown):
        heading = None if is_code else _HEADING.fullmatch(line)
        if heading is not None and untitled and heading[2].strip() == title:
            untitled = False
            continue
        if is_code and kept[-1] == ("", True) and _FENCE.match(line):
            kept.pop()
        if is_code != kept[-1][1] and line.strip() and kept[-1][0]:
            kept.append(("", False))
        if is_code or line.strip():
            kept.append((line if is_code else line.rstrip(), is_code))
        elif kept[-1][0]:
            kept.append(("", False))
    return "\n".join(line for line, _ in kept).strip("\n")


def _lines(markdown: str) -> Iterator[tuple[str, bool]]:
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


class NoArticle(Exception):  # not of the tree: extraction makes a FetchFailed of it
    """A page gives no article; the text goes on after "The page …" and ends with what to do."""


Kind = Literal["html", "text"]
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = ("text/plain", "text/markdown", "text/x-markdown")
_ANYTHING = ("", "application/octet-stream", "binary/octet-stream", "unknown/unknown")
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "a PDF document"),
    (b"\x89PNG\r\n", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"PK\x03\x04", "an archive or an office document"),
    (b"\x1f\x8b\x08", "a packed file"),
)
_NAMES = {
    "application/pdf": "a PDF document",
    "application/json": "JSON data",
    "application/rss+xml": "a feed",
    "application/atom+xml": "a feed",
}
# A comment ends at its first end: otherwise there are as many ways to read a row of them as strangers like.
_MARKUP = re.compile(
    rb"\s*(?:<!--(?:(?!-->).){0,2000}-->\s*)*<(?:!doctype\s+html|html|head|body|article|div|p|h1)\b",
    re.IGNORECASE | re.DOTALL,
)
_FIRST_BYTES = 4096


def kind_of(body: bytes, content_type: str) -> Kind:
    """Say how a page is to be read.

    Raises:
        NoArticle: it is no page of text.
    """
    media = content_type.partition(";")[0].strip().lower()
    begun = body[:_FIRST_BYTES].removeprefix(b"\xef\xbb\xbf")
    found = next((name for magic, name in _MAGIC if begun.startswith(magic)), None) or _NAMES.get(media)
    if found is None and media not in (*_HTML, *_TEXT, *_ANYTHING):
        found = "an image" if media.startswith("image/") else media
    if found is not None:
        raise NoArticle(
            f"is {found}, not a page of text. Give the address of an HTML, markdown or text page, "
            "or have it fetched by an agent whose tools can read it (MCP_CONFIG_PATH)."
        )
    if media in _HTML or _MARKUP.match(begun):
        return "html"
    if b"\x00" in begun and not begun.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise NoArticle("is binary data, not a page of text. Give the address of an HTML, markdown or text page.")
    return "text"


def is_web_address(text: str) -> bool:
    """Say whether a text is the address of a page."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and not re.search(r"\s", text)
