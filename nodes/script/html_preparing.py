"""Take from an HTML tree what is surely no article, and keep what trafilatura would lose (A-04)."""

import re

from toolweave.nodes.script.html_tree import HtmlElement, SubElement, strip_elements

# Stands in empty lines of code, which would be lost otherwise.
EMPTY_CODE_LINE = "\u2424"
_NEVER_ARTICLE = (
    ".//nav|.//dialog|.//template|.//button|.//select"
    "|.//*[@role='navigation' or @role='dialog' or @role='alertdialog' or @role='search' or @role='menu'"
    " or @role='menubar' or @role='tooltip' or @role='contentinfo' or @aria-modal='true']"
)
_LINE_NUMBERS = ".//td[contains(@class, 'lineno') or contains(@class, 'gutter')]|.//*[contains(@class, 'lineno')]"
_PERMALINKS = ".//*[self::h1 or self::h2 or self::h3 or self::h4 or self::h5 or self::h6]//a[starts-with(@href, '#')]"
_MARK_ONLY = re.compile(r"[^\w]*")
# What a notice about scripts never has.
_FEWEST_LETTERS_OF_AN_ARTICLE = 300


def prepare(tree: HtmlElement) -> None:
    """Change a tree in place; images are numbered already."""
    for found in tree.xpath(_NEVER_ARTICLE):
        found.drop_tree()
    _open_noscript(tree)
    for found in tree.xpath(_PERMALINKS):
        if _MARK_ONLY.fullmatch(found.text_content()):
            found.drop_tree()
    for caption in tree.xpath(".//table/caption"):
        _before_its_table(caption)
    for figure in tree.xpath(".//figure[not(.//img)]"):
        figure.tag = "div"
        for caption in figure.iter("figcaption"):
            caption.tag = "p"
    _keep_code(tree)


def _open_noscript(tree: HtmlElement) -> None:
    for noscript in tree.xpath(".//noscript"):
        text = noscript.text_content()
        if len(text.strip()) >= _FEWEST_LETTERS_OF_AN_ARTICLE or noscript.find(".//img") is not None:
            noscript.tag = "div"


def _before_its_table(caption: HtmlElement) -> None:
    table = caption.getparent()
    if table is None:
        return
    caption.drop_tree()
    caption.tag, caption.tail = "p", None
    table.addprevious(caption)


def _keep_code(tree: HtmlElement) -> None:
    """Make every `pre` one plain text, since blank lines, line breaks and markup in it mean something."""
    for found in tree.xpath(_LINE_NUMBERS):
        found.drop_tree()
    for pre in list(tree.iter("pre")):
        for line_break in list(pre.iter("br")):
            line_break.tail = "\n" + (line_break.tail or "")
        lines = pre.text_content().strip("\n").split("\n")
        tail = pre.tail
        strip_elements(pre, "*", with_tail=True)
        pre.tail, pre.text = tail, None
        # One element inside tells that it is code.
        SubElement(pre, "span").text = "\n".join(line if line.strip() else EMPTY_CODE_LINE for line in lines)
