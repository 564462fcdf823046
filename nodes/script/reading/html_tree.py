"""Parse HTML as it comes, with lxml (A-04)."""

import re

from lxml.etree import ParserError, SubElement, strip_elements  # type: ignore[import-untyped]
from lxml.html import HtmlElement, HTMLParser, document_fromstring  # type: ignore[import-untyped]

from toolweave.nodes.script.reading.no_article import NoArticle

__all__ = ["HtmlElement", "SubElement", "parsed", "strip_elements"]

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_REFERENCE = re.compile(r"&#(?:0*([0-9]{1,7})|[xX]0*([0-9A-Fa-f]{1,6}));?")


def parsed(html: str) -> HtmlElement:
    """Parse a document, well-formed or not.

    Raises:
        NoArticle: there is nothing in it.
    """
    parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, collect_ids=False, huge_tree=True)
    # One that is written as a number would lose the whole article.
    plain = _REFERENCE.sub(_without_not_xml, _NOT_XML.sub("", html))
    try:
        return document_fromstring(plain.encode("utf-8", "replace"), parser=parser)
    except (ParserError, ValueError):
        raise NoArticle("is empty. Give the address of the article itself.") from None


def _without_not_xml(found: re.Match[str]) -> str:
    code = int(found[1]) if found[1] else int(found[2], 16)
    return "" if code <= 0xFFFF and _NOT_XML.match(chr(code)) else found[0]
