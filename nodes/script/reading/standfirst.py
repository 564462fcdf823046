"""Find the sentences under an article's title that say what it is about: many pages keep them out of the article."""

import re
from itertools import islice, takewhile

from toolweave.nodes.script.reading.html_tree import HtmlElement

FEWEST_CHARACTERS = 20
MOST_PARAGRAPHS = 3
_ABOUT_THE_ARTICLE = re.compile(
    r"meta|byline|author|date|time|share|social|caption|credit|tag|kicker|categor", re.IGNORECASE
)
_ENDS_SENTENCE = re.compile(r"[.!?…。！？؟।]['\"”»’）)]*\Z")


def standfirst_of(tree: HtmlElement, title: str) -> list[str]:
    """Give the paragraphs that stand with the heading of the title, in the same header or right after it."""
    heading = next((h1 for h1 in tree.iter("h1") if title in " ".join(h1.text_content().split())), None)
    if heading is None:
        return []
    header = next(heading.iterancestors("header"), None)
    near = list(islice(header.iter("p"), MOST_PARAGRAPHS)) if header is not None else []
    near += takewhile(lambda element: element.tag == "p", islice(heading.itersiblings(), MOST_PARAGRAPHS))
    paragraphs = []
    for paragraph in dict.fromkeys(near):
        text = " ".join(paragraph.text_content().split())
        named = f"{paragraph.get('class') or ''} {paragraph.get('id') or ''}"
        if len(text) >= FEWEST_CHARACTERS and _ENDS_SENTENCE.search(text) and not _ABOUT_THE_ARTICLE.search(named):
            paragraphs.append(text)
    return paragraphs
