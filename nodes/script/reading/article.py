"""Read a page's bytes into its article, HTML or markdown (A-04); only the process that reads pages imports this."""

from collections.abc import Mapping
from typing import Any, cast

from toolweave.nodes.script.page import Page
from toolweave.nodes.script.reading.decoding import decoded
from toolweave.nodes.script.reading.html_article import read_html
from toolweave.nodes.script.reading.markdown_page import FEWEST_LETTERS, letters, page_of_markdown
from toolweave.nodes.script.reading.no_article import NoArticle
from toolweave.nodes.script.reading.page_kind import kind_of
from toolweave.visible import visible

__all__ = ["NoArticle", "read_article"]


def read_article(
    body: bytes, url: str, final_url: str, content_type: str, facts: Mapping[str, str] | None = None
) -> Page:
    """Give the article of a page; `facts` are what is known of one in markdown: its title, site and language.

    Raises:
        NoArticle: says why there is none.
    """
    kind = kind_of(body, content_type)
    text = decoded(body, content_type)
    known = {name: (facts or {}).get(name, "") for name in ("title", "site", "language")}
    page = read_html(text, final_url) if kind == "html" else page_of_markdown(text, final_url, images=None, **known)
    page["url"] = url
    page = cast("Page", _cleaned(page))
    if letters(page["text"]) < FEWEST_LETTERS:
        raise NoArticle(_empty(text if kind == "html" else ""))
    return page


def _cleaned(value: Any) -> Any:
    """Clean every text of a page: its data may hold what nobody sees, too, not its markup alone."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {name: _cleaned(item) for name, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _empty(html: str) -> str:
    if "<script" in html.lower():
        return (
            "holds no article: it seems that scripts fill it in, which are not run here. "
            "Have it fetched by an agent whose tools run a browser (MCP_CONFIG_PATH), or give another address."
        )
    return "holds no article, or next to no text. Give the address of the article itself."
