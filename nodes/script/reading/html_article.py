"""Find the article of an HTML page with trafilatura, and give it as markdown (A-04)."""

import re
from itertools import islice

import trafilatura

from toolweave.nodes.script.page import Page
from toolweave.nodes.script.reading.html_images import NumberedImages
from toolweave.nodes.script.reading.html_preparing import EMPTY_CODE_LINE, prepare
from toolweave.nodes.script.reading.html_tree import HtmlElement, parsed
from toolweave.nodes.script.reading.markdown_page import letters, page_of_markdown, unescaped
from toolweave.nodes.script.reading.no_article import NoArticle
from toolweave.nodes.script.reading.page_facts import PageFacts, facts_of
from toolweave.nodes.script.reading.standfirst import standfirst_of

# An article is longer than its first lines, which is all that others get.
_MOST_LETTERS_OF_A_TEASER = 1500
_GATES = ".//*[{}]".format(
    " or ".join(
        f"contains(@class, '{word}') or contains(@id, '{word}')"
        for word in ("paywall", "regwall", "subscriber-only", "subscribe-wall", "premium-wall", "metered-content-gate")
    )
)
_LOOKED_AT = 10_000
_MOST_LINKS = 1_000
_MUCH_TEXT = 500_000
_MANY_TEXTS = 100_000
_FOR_SUBSCRIBERS = "Give the address of a page that everybody may read."
_LINE_ENDS = re.compile(r"[ \t]+$", re.MULTILINE)


def read_html(html: str, url: str) -> Page:
    """Give the article of an HTML document.

    Raises:
        NoArticle: it is empty, or for subscribers only.
    """
    tree = parsed(html)
    facts = facts_of(tree, url)
    if not facts.free:
        raise NoArticle(f"says that it is for subscribers only (isAccessibleForFree is false). {_FOR_SUBSCRIBERS}")
    images = NumberedImages(tree, facts.base)
    gated = _without_gates(tree)
    prepare(tree)
    standfirst = standfirst_of(tree, facts.title)
    links = [" ".join(link.text_content().split()) for link in tree.iter("a")]
    markdown = images.put_back(_article(tree, facts))
    said = _bare(markdown[:_LOOKED_AT])
    markdown = "\n\n".join([*(text for text in standfirst if _bare(text) not in said), markdown])
    if letters(markdown) < _MOST_LETTERS_OF_A_TEASER and gated:
        raise NoArticle(f"shows only the beginning of an article that is for subscribers. {_FOR_SUBSCRIBERS}")
    if _holds_links_only(markdown, links):
        markdown = ""
    return page_of_markdown(
        markdown, url, title=facts.title, site=facts.site, language=facts.language, images=images.shown
    )


def _article(tree: HtmlElement, facts: PageFacts) -> str:
    found = trafilatura.extract(
        tree,
        url=facts.base,
        # Comparing ways of extraction is for pages with little text.
        fast=sum(map(len, islice(tree.itertext(), _MANY_TEXTS))) > _MUCH_TEXT,
        output_format="markdown",
        include_images=True,
        include_comments=False,
        include_tables=True,
    )
    markdown = _LINE_ENDS.sub("", unescaped(found or "").replace(EMPTY_CODE_LINE, ""))
    # The page's data may hold an article that its markup lacks.
    if len(facts.body) > len(markdown) and facts.body[:60].strip() not in markdown:
        return facts.body
    return markdown


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _without_gates(tree: HtmlElement) -> bool:
    """Take out what asks to subscribe; say whether there was such a thing."""
    gates = tree.xpath(_GATES)
    for gate in gates:
        # Some call the article itself so.
        if letters(gate.text_content()) < _MOST_LETTERS_OF_A_TEASER and gate.tag not in ("html", "body", "article"):
            gate.drop_tree()
    return bool(gates)


def _holds_links_only(markdown: str, links: list[str]) -> bool:
    rest = begun = " ".join(markdown[:_LOOKED_AT].split())
    for link in sorted(set(links) - {""}, key=len, reverse=True)[:_MOST_LINKS]:
        if link in rest:
            rest = rest.replace(link, " ")
    return letters(rest) * 4 < letters(begun)
