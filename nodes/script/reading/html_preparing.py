"""Take from an HTML tree what is surely no article, and keep what trafilatura would lose (A-04)."""

import re

from toolweave.nodes.script.reading.html_tree import HtmlElement, SubElement, strip_elements

# Stands in empty lines of code, which would be lost otherwise.
EMPTY_CODE_LINE = "\u2424"
_NEVER_ARTICLE = (
    ".//nav|.//dialog|.//template|.//button|.//select"
    "|.//*[@role='navigation' or @role='dialog' or @role='alertdialog' or @role='search' or @role='menu'"
    " or @role='menubar' or @role='tooltip' or @role='contentinfo' or @aria-modal='true']"
    # What the page itself leaves out on paper, and what wikis put around their articles.
    "|.//*[contains(concat(' ', @class, ' '), ' noprint ') or contains(concat(' ', @class, ' '), ' no-print ')"
    " or contains(concat(' ', @class, ' '), ' d-print-none ') or contains(@class, 'mw-editsection')"
    " or @id='siteNotice' or @id='siteSub']"
)
_LINE_NUMBERS = ".//td[contains(@class, 'lineno') or contains(@class, 'gutter')]|.//*[contains(@class, 'lineno')]"
_PERMALINKS = ".//*[self::h1 or self::h2 or self::h3 or self::h4 or self::h5 or self::h6]//a[starts-with(@href, '#')]"
_MARK_ONLY = re.compile(r"[^\w]*")
# What a notice about scripts never has.
_FEWEST_LETTERS_OF_AN_ARTICLE = 300
_MENU_SHARE = 0.8
_FOOTNOTE = re.compile(r"\s*\[.{1,12}\]\s*|\s*[*†‡]\s*")
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def prepare(tree: HtmlElement) -> None:
    """Change a tree in place; images are numbered already."""
    for found in tree.xpath(_NEVER_ARTICLE):
        found.drop_tree()
    _open_noscript(tree)
    _flatten_layout(tree)
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
    _plain_words(tree)


def _plain_words(tree: HtmlElement) -> None:
    """Leave out emphasis and footnote marks, which nobody reads aloud, and write raised digits as such."""
    for raised in list(tree.iter("sup", "sub")):
        text = raised.text_content()
        if raised.tag == "sup" and _FOOTNOTE.fullmatch(text):
            raised.drop_tree()
            continue
        if len(raised) == 0 and text.isdecimal():
            raised.text = text.translate(_RAISED if raised.tag == "sup" else _LOWERED)
        raised.drop_tag()
    for emphasis in list(tree.iter("b", "strong", "i", "em", "u", "mark", "small", "font")):
        if "schema-faq-question" not in (emphasis.get("class") or ""):
            emphasis.drop_tag()


def _open_noscript(tree: HtmlElement) -> None:
    """Keep articles and images that are for whoever runs no scripts, but no notice that one should."""
    for noscript in list(tree.iter("noscript")):
        is_long = len(noscript.text_content().strip()) >= _FEWEST_LETTERS_OF_AN_ARTICLE
        if is_long or noscript.find(".//img") is not None:
            noscript.tag = "div"
        else:
            noscript.drop_tree()


def _flatten_layout(tree: HtmlElement) -> None:
    """Make tables that lay a page out, as old ones do, plain blocks, without cells that hold links only."""
    for table in tree.xpath(".//table[.//h1 or .//h2 or .//td[count(.//p) > 2]]"):
        parts = [part for part in table.iter("tbody", "tr", "td", "th") if next(part.iterancestors("table")) is table]
        for part in [table, *parts]:
            if part.tag in ("td", "th") and _linked_share(part) > _MENU_SHARE:
                part.drop_tree()
            else:
                is_article = part.tag == "td" and part.find(".//h1") is not None
                part.tag = "article" if is_article else "div"


def _linked_share(element: HtmlElement) -> float:
    """Say how much of an element's text is links, from 0 to 1."""
    said = len(_squeezed(element))
    linked = sum(len(_squeezed(link)) for link in element.xpath(".//a[not(ancestor::a)]"))
    return linked / said if said else 0.0


def _squeezed(element: HtmlElement) -> str:
    return "".join(element.text_content().split())


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
    for table in tree.xpath(".//table[count(.//pre) = 1]"):
        if _squeezed(table) == _squeezed(table.find(".//pre")):
            for part in list(table.iter("table", "tbody", "tr", "td", "th")):
                part.tag = "div"
    for pre in list(tree.iter("pre")):
        for line_break in list(pre.iter("br")):
            line_break.tail = "\n" + (line_break.tail or "")
        lines = pre.text_content().strip("\n").split("\n")
        tail = pre.tail
        strip_elements(pre, "*", with_tail=True)
        pre.tail, pre.text = tail, None
        # One element inside tells that it is code, and a second line that it is a block.
        kept = [line if line.strip() else EMPTY_CODE_LINE for line in lines]
        SubElement(pre, "span").text = "\n".join([*kept, EMPTY_CODE_LINE])
