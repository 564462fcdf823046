"""Read pages of the folder in the process of the test, and compare them with their recorded article."""

import re
import warnings

from tests.fixtures.web_pages import PAGES, page_type, truth_of
from toolweave.nodes.script.page import ArticlePage

with warnings.catch_warnings():
    # trafilatura opens its own settings without naming the encoding.
    warnings.simplefilter("ignore", EncodingWarning)
    from toolweave.nodes.script.page_reader import NoArticle, read_article

__all__ = ["NoArticle", "articles", "html_page", "left_out", "page_of", "plain", "read_article", "standing_around"]

_MARKS = re.compile(r"[*`]")


def articles() -> list[str]:
    """List the pages that hold an article."""
    named = [path.name.removesuffix(".truth.json") for path in PAGES.glob("*.truth.json")]
    return sorted(path.name for path in PAGES.iterdir() if path.suffix != ".json" and path.stem in named)


def page_of(name: str) -> ArticlePage:
    """Read a page of the folder as it is served."""
    address = f"https://site.example/pages/{name}"
    return read_article((PAGES / name).read_bytes(), address, address, page_type(name))


def html_page(html: str | bytes, content_type: str = "text/html; charset=utf-8") -> ArticlePage:
    """Read what a test writes."""
    body = html.encode() if isinstance(html, str) else html
    return read_article(body, "https://site.example/a/b", "https://site.example/a/b", content_type)


def left_out(page: ArticlePage, name: str) -> list[str]:
    """List the sentences of the article that are not in the page; those of several lines are code, which is exact."""
    whole = plain(page["text"])
    return [
        text
        for text in truth_of(name)["article"]
        if (text not in page["text"] if "\n" in text else plain(text) not in whole)
    ]


def standing_around(page: ArticlePage, name: str) -> list[str]:
    """List what is in the page and belongs to the navigation, to advertisements or to other articles."""
    text = f"{page['title']} {plain(page['text'])}"
    return [link for link in truth_of(name)["navigation"] if plain(link) in text]


def plain(text: str) -> str:
    """Return a text without marks, on one line."""
    return " ".join(_MARKS.sub("", text).split())
