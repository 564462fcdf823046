"""Read a page's bytes into its article, HTML or markdown (A-04); only the process that reads pages imports this."""

from urllib.parse import urlsplit

from toolweave.nodes.script.decoding import decoded
from toolweave.nodes.script.html_article import read_html
from toolweave.nodes.script.no_article import NoArticle
from toolweave.nodes.script.page import Page, sections_of
from toolweave.nodes.script.page_kind import kind_of

__all__ = ["NoArticle", "read_article"]

# Letters; below it is a notice, not an article. Ideographs say more each.
FEWEST_LETTERS = 60
_IDEOGRAPHS_COUNT = 3


def read_article(body: bytes, url: str, final_url: str, content_type: str) -> Page:
    """Give the article of a page.

    Raises:
        NoArticle: says why there is none.
    """
    kind = kind_of(body, content_type)
    text = decoded(body, content_type)
    page = read_html(text, final_url) if kind == "html" else _of_text(text, final_url)
    page["url"], page["final_url"] = url, final_url
    if letters(page["text"]) < FEWEST_LETTERS:
        raise NoArticle(_empty(text if kind == "html" else ""))
    return page


def letters(text: str) -> int:
    """Count what a text says, in letters."""
    return sum(_IDEOGRAPHS_COUNT if "\u3040" <= letter <= "\u9fff" else 1 for letter in text if letter.isalnum())


def _empty(html: str) -> str:
    if "<script" in html.lower():
        return (
            "holds no article: it seems that scripts fill it in, which are not run here. "
            "Have it fetched by an agent whose tools run a browser (MCP_CONFIG_PATH), or give another address."
        )
    return "holds no article, or next to no text. Give the address of the article itself."


def _of_text(text: str, url: str) -> Page:
    markdown = text.replace("\r\n", "\n").strip()
    sections = sections_of(markdown)
    heading = next((section["heading"] for section in sections if section["heading"]), "")
    name = urlsplit(url).path.rpartition("/")[2].rpartition(".")[0]
    return Page(
        url=url,
        final_url=url,
        title=heading or name or urlsplit(url).netloc,
        site=urlsplit(url).hostname or "",
        language="",
        text=markdown,
        sections=sections,
        images=[],
    )
