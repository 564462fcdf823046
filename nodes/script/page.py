"""Hold a page's article: what both ways of fetching leave, and what the script is written from (A-04)."""

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


class Page(TypedDict):
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
