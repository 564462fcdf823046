"""Hold a page's article: what both ways of fetching leave, and what the script is written from (A-04)."""

import re

from typing_extensions import TypedDict

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


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


class Page(TypedDict):
    """A page's article as JSON values, so that it goes through checkpoints.

    `text` is markdown, the headings included; the sections hold the same in order. An image is a line
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


def sections_of(markdown: str) -> list[PageSection]:
    """Split markdown at its headings; lines of code are none. Sections without heading and text are left out."""
    sections = [PageSection(heading="", level=0, text="")]
    lines: list[str] = []
    fence = ""
    for line in markdown.splitlines():
        fence = _fence_after(line, fence)
        found = None if fence else _HEADING.fullmatch(line)
        if found is None:
            lines.append(line)
            continue
        sections[-1]["text"] = "\n".join(lines).strip()
        sections.append(PageSection(heading=found[2].strip(), level=len(found[1]), text=""))
        lines = []
    sections[-1]["text"] = "\n".join(lines).strip()
    return [section for section in sections if section["heading"] or section["text"]]


def _fence_after(line: str, fence: str) -> str:
    """Give the fence of the code that goes on after a line, or nothing."""
    found = _FENCE.match(line)
    if found is None:
        return fence
    if not fence:
        return found[1]
    closes = found[1].startswith(fence) and not line[found.end() :].strip()
    return "" if closes else fence
