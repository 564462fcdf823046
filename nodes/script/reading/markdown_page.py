"""Make a page of markdown, which is what the fetching tools of agents give, and what articles become here (A-04)."""

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from toolweave.nodes.script.page import Page, PageImage, PageSection

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
) -> Page:
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
    return Page(
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
