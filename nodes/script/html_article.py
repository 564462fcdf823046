"""Find the article of an HTML page with trafilatura, and give it as markdown (A-04)."""

import trafilatura

from toolweave.nodes.script.html_images import NumberedImages
from toolweave.nodes.script.html_preparing import EMPTY_CODE_LINE, prepare
from toolweave.nodes.script.html_tree import parsed
from toolweave.nodes.script.no_article import NoArticle
from toolweave.nodes.script.page import Page, sections_of
from toolweave.nodes.script.page_facts import PageFacts, facts_of


def read_html(html: str, url: str) -> Page:
    """Give the article of an HTML document.

    Raises:
        NoArticle: it is not HTML, or for subscribers only.
    """
    tree = parsed(html)
    facts = facts_of(tree, url)
    if not facts.free:
        raise NoArticle(
            "says that its article is for subscribers only (isAccessibleForFree is false). "
            "Give the address of a page that everybody may read."
        )
    images = NumberedImages(tree, facts.base)
    prepare(tree)
    found = trafilatura.extract(
        tree, url=facts.base, output_format="markdown", include_images=True, include_comments=False, include_tables=True
    )
    markdown = images.put_back((found or "").replace(EMPTY_CODE_LINE, ""))
    if _is_more(facts.body, markdown):
        markdown = facts.body
    markdown = _without_title(markdown, facts.title)
    return _page(facts, markdown, images)


def _is_more(body: str, markdown: str) -> bool:
    """Say whether the article that the page's data holds is one that its markup lacks."""
    return len(body) > len(markdown) and body[:60].strip() not in markdown


def _without_title(markdown: str, title: str) -> str:
    first, _, rest = markdown.partition("\n")
    return rest.strip() if first.lstrip("# ").strip() == title and first.startswith("# ") else markdown.strip()


def _page(facts: PageFacts, markdown: str, images: NumberedImages) -> Page:
    return Page(
        url=facts.url,
        final_url=facts.url,
        title=facts.title,
        site=facts.site,
        language=facts.language,
        text=markdown,
        sections=sections_of(markdown),
        images=images.shown,
    )
