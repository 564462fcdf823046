"""Extract a page's article; `extraction` runs this module as a process (A-04).

The process reads one line of JSON and then the page from standard input. It writes `{"page": …}` or
`{"failed": "reason"}`. No other module imports this one.
"""

import codecs
import ctypes
import json
import logging
import os
import re
import signal
import sys
from contextlib import suppress
from typing import Any

import trafilatura
from lxml.etree import ParserError, SubElement, strip_elements  # type: ignore[import-untyped]
from lxml.html import HtmlElement, HTMLParser, document_fromstring  # type: ignore[import-untyped]
from trafilatura.metadata import extract_metadata
from trafilatura.utils import decode_file

from toolweave.invisible_text import visible_text
from toolweave.nodes.script.page import MIN_LETTERS, ArticlePage, count_letters, markdown_lines, page_from_markdown


class NoArticle(Exception):  # not in the exception tree: extraction raises FetchFailed for it
    """A page has no article; the text continues "The page …" and ends with what to do."""


_HTML_TYPES = ("text/html", "application/xhtml+xml")
_TEXT_TYPES = ("text/plain", "text/markdown", "text/x-markdown")
_GENERIC_TYPES = ("", "application/octet-stream", "binary/octet-stream", "unknown/unknown")
_BINARY_SIGNATURES = (b"%PDF-", b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"PK\x03\x04", b"\x1f\x8b\x08")
_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# A comment ends at its first "-->": otherwise a hostile row of comments causes exponential backtracking.
_HTML_START = re.compile(
    rb"\s*(?:<!--(?:(?!-->).){0,2000}-->\s*)*<(?:!doctype\s+html|html|head|body|article|div|p|h1)\b",
    re.IGNORECASE | re.DOTALL,
)
_SNIFFED_BYTES = 8192


def is_html(body: bytes, content_type: str) -> bool:
    """Return whether a page is HTML; otherwise it is markdown or plain text.

    Raises:
        NoArticle: the page is not text.
    """
    media = content_type.partition(";")[0].strip().lower()
    beginning = body[:_SNIFFED_BYTES].removeprefix(codecs.BOM_UTF8)
    is_known = media in (*_HTML_TYPES, *_TEXT_TYPES, *_GENERIC_TYPES)
    is_markup = media in _HTML_TYPES or bool(_HTML_START.match(beginning))
    has_zeros = b"\x00" in beginning and not beginning.startswith(tuple(_BYTE_ORDER_MARKS))
    if not is_known or beginning.startswith(_BINARY_SIGNATURES) or (has_zeros and not is_markup):
        raise NoArticle(
            f"is {'binary data' if is_known else media}, not a page of text. Use the URL of an HTML, markdown or "
            "text page, or let an agent fetch it with tools that can read it (MCP_CONFIG_PATH)."
        )
    return is_markup


_CHARSET = r"(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]+)"
_CHARSET_IN_PAGE = re.compile(rf"<(?:meta|\?xml)\b[^>]{{0,300}}?\b{_CHARSET}", re.IGNORECASE)


def decode_page(body: bytes, content_type: str) -> str:
    """Decode a page.

    Headers and pages often declare a wrong character set, so bytes that are valid UTF-8 are decoded as UTF-8.
    """
    candidates = [
        *(name for mark, name in _BYTE_ORDER_MARKS.items() if body.startswith(mark)),
        *([] if body.isascii() else ["utf-8"]),
        *re.findall(_CHARSET, content_type, re.IGNORECASE),
        *_CHARSET_IN_PAGE.findall(body[:_SNIFFED_BYTES].decode("latin-1")),
    ]
    for name in candidates:
        with suppress(LookupError, UnicodeError):
            # Browsers decode this label as cp1252, because pages use it so.
            return body.decode("cp1252" if codecs.lookup(name).name == "iso8859-1" else name)
    return decode_file(body, len(body) + 1)


_NO_ARTICLE_TEXT = (
    "has no article, or almost no text. Use the URL of the article itself; if scripts load its text, which are not run "
    "here, let an agent fetch it with tools that run a browser (MCP_CONFIG_PATH)."
)
_INVALID_XML_CHARS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_CHAR_REFERENCE = re.compile(r"&#(?:0*([0-9]{1,7})|[xX]0*([0-9A-Fa-f]{1,6}));?")


def parse_html(html: str) -> HtmlElement:
    """Parse an HTML document, well-formed or not.

    Raises:
        NoArticle: the document is empty.
    """
    parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, collect_ids=False, huge_tree=True)
    # A numeric reference to such a character would lose the whole article.
    plain = _CHAR_REFERENCE.sub(_drop_invalid_reference, _INVALID_XML_CHARS.sub("", html))
    try:
        return document_fromstring(plain.encode("utf-8", "replace"), parser=parser)
    except (ParserError, ValueError):
        raise NoArticle(_NO_ARTICLE_TEXT) from None


def _drop_invalid_reference(found: re.Match[str]) -> str:
    code = int(found[1]) if found[1] else int(found[2], 16)
    return "" if code <= 0xFFFF and _INVALID_XML_CHARS.match(chr(code)) else found[0]


_CAPTION = (
    "(ancestor::figure[1]//figcaption"
    "|ancestor::div[contains(@class, 'wp-caption')][1]//*[contains(@class, 'wp-caption-text')])[1]"
)
_NUMBERED_IMAGE = re.compile(r"!\[\]\(https://image\.invalid/\d+\.png\)")


def number_images(tree: HtmlElement) -> dict[str, str]:
    """Give each image with a text a URL that trafilatura accepts; return the final markdown of each."""
    addresses: dict[str, str] = {}
    for image in list(tree.iter("img")):
        caption = next((found.text_content() for found in image.xpath(_CAPTION)), image.get("title") or "")
        words = f"![{_one_line(image.get('alt') or '')}]({_one_line(caption)})"
        if words == "![]()":
            image.drop_tree()
            continue
        image.attrib.clear()
        image.set("src", addresses.setdefault(words, f"https://image.invalid/{len(addresses)}.png"))
    for caption in tree.xpath(".//*[contains(@class, 'wp-caption-text')]"):
        caption.drop_tree()
    return {f"![]({address})": words for words, address in addresses.items()}


def _one_line(text: str) -> str:
    return " ".join(text.split())


# Placeholder for empty lines of code, which trafilatura would drop.
_EMPTY_LINE_MARK = "\u2424"
_NEVER_ARTICLE = (
    ".//nav|.//dialog|.//template|.//button|.//select"
    "|.//*[@role='navigation' or @role='dialog' or @role='alertdialog' or @role='search' or @role='menu'"
    " or @role='menubar' or @role='tooltip' or @role='contentinfo' or @aria-modal='true']"
    # Parts that the page itself hides in print, and what wikis put around their articles.
    "|.//*[contains(concat(' ', @class, ' '), ' noprint ') or contains(concat(' ', @class, ' '), ' no-print ')"
    " or contains(concat(' ', @class, ' '), ' d-print-none ') or contains(@class, 'mw-editsection')"
    " or @id='siteNotice' or @id='siteSub']"
    # Line numbers of code, and marks that link to a heading.
    "|.//td[contains(@class, 'lineno') or contains(@class, 'gutter')]|.//*[contains(@class, 'lineno')]"
    "|.//*[self::h1 or self::h2 or self::h3 or self::h4]//a[starts-with(@href, '#')][string-length(.) < 2]"
)
_FOOTNOTE = re.compile(r"\s*\[.{1,12}\]\s*|\s*[*†‡]\s*")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def prepare_tree(tree: HtmlElement) -> None:
    """Change a tree in place so that trafilatura finds the whole article; call `number_images` before."""
    for found in tree.xpath(_NEVER_ARTICLE):
        found.drop_tree()
    # Content for readers without scripts, but not a notice about scripts.
    for noscript in tree.xpath(".//noscript[string-length(.) > 300 or .//img]"):
        noscript.tag = "div"
    # Layout tables of old pages.
    for part in tree.xpath(".//table[.//h1 or .//h2]/descendant-or-self::*[self::table or self::tr or self::td]"):
        part.tag = "article" if part.tag == "td" and part.find(".//h1") is not None else "div"
    for caption in tree.xpath(".//table/caption"):
        caption.tag = "p"
        caption.getparent().addprevious(caption)
    _flatten_code(tree)
    _remove_inline_markup(tree)


def _remove_inline_markup(tree: HtmlElement) -> None:
    """Remove emphasis and footnote marks, which a narrator skips, and write raised digits as superscripts."""
    for raised in list(tree.iter("sup", "sub")):
        text = raised.text_content()
        if raised.tag == "sup" and _FOOTNOTE.fullmatch(text):
            raised.drop_tree()
            continue
        if len(raised) == 0 and text.isdecimal():
            raised.text = text.translate(_SUPERSCRIPTS if raised.tag == "sup" else _SUBSCRIPTS)
        raised.drop_tag()
    for emphasis in list(tree.iter("b", "strong", "i", "em", "u", "mark", "small", "font")):
        emphasis.drop_tag()


def _flatten_code(tree: HtmlElement) -> None:
    """Replace the content of each `pre` by plain text that keeps its blank lines and line breaks."""
    for table in tree.xpath(".//table[count(.//pre) = 1]"):
        if _one_line(table.text_content()) == _one_line(table.find(".//pre").text_content()):
            for part in list(table.iter("table", "tbody", "tr", "td", "th")):
                part.tag = "div"
    for pre in list(tree.iter("pre")):
        for line_break in list(pre.iter("br")):
            line_break.tail = "\n" + (line_break.tail or "")
        lines = pre.text_content().strip("\n").split("\n")
        tail = pre.tail
        strip_elements(pre, "*", with_tail=True)
        pre.tail, pre.text = tail, None
        # trafilatura recognises code by an inner element, and a block by a second line.
        code_lines = [line if line.strip() else _EMPTY_LINE_MARK for line in lines]
        SubElement(pre, "span").text = "\n".join([*code_lines, _EMPTY_LINE_MARK])


# A gated page with fewer letters shows only a teaser.
_MAX_TEASER_LETTERS = 1500
_PAYWALL_ELEMENTS = ".//*[{}]".format(
    " or ".join(
        f"contains(@class, '{word}') or contains(@id, '{word}')"
        for word in ("paywall", "regwall", "subscriber-only", "subscribe-wall", "premium-wall", "metered-content-gate")
    )
)
_NOT_FREE = re.compile(r"(?:https?://schema\.org/)?false", re.IGNORECASE)
_ARTICLE_TYPES = re.compile("Article|BlogPosting|WebPage|Report|Recipe|Review|CreativeWork")
_LANGUAGES = "/html/@lang|//body/@lang|//article/@lang|//meta[@property='og:locale']/@content"
_ENDS_SENTENCE = re.compile(r"[.!?…。！？؟।]['\"”»’）)]*\Z")
_FAST_MODE_CHARS = 500_000
_SUBSCRIBERS_FIX = "Use the URL of a page that is public."
_ESCAPED_MARK = re.compile(r"\\([*_`~\[\]<])")
_IMAGE = re.compile(
    r"!\[((?:[^\[\]\\\n]|\\.)*)\]\((?:<[^<>\n]*>|(?:[^()<\s]|\([^()\s]*\))*)"
    r"(?:[ \t]+\"((?:[^\"\\\n]|\\.)*)\")?[ \t]*\)"
)


def extract_article(html: str, url: str) -> ArticlePage:
    """Extract the article of an HTML document.

    Raises:
        NoArticle: the article is empty, or for subscribers only.
    """
    tree = parse_html(html)
    if _is_for_subscribers(tree):
        raise NoArticle(f"says that it is for subscribers only (isAccessibleForFree is false). {_SUBSCRIBERS_FIX}")
    language = next(iter(tree.xpath(_LANGUAGES)), "")
    is_gated = bool(tree.xpath(_PAYWALL_ELEMENTS))
    images = number_images(tree)
    prepare_tree(tree)
    metadata = extract_metadata(tree, url, extensive=False)
    extracted = trafilatura.extract(
        tree,
        url=url,
        # Only for pages with little text trafilatura compares several algorithms.
        fast=len(tree.text_content()) > _FAST_MODE_CHARS,
        output_format="markdown",
        include_images=True,
        include_comments=False,
        include_tables=True,
    )
    markdown = replace_outside_code(extracted or "", _ESCAPED_MARK, r"\1").replace(_EMPTY_LINE_MARK, "")
    for paragraph in reversed(tree.xpath("(//header[.//h1])[last()]//p")):
        text = _one_line(paragraph.text_content())
        if _ENDS_SENTENCE.search(text) and text not in markdown:
            markdown = f"{text}\n\n{markdown}"
    links = {_one_line(link.text_content()) for link in tree.iter("a")}
    if count_letters("".join(line for line in markdown.splitlines() if line.strip(" -") not in links)) < MIN_LETTERS:
        raise NoArticle(_NO_ARTICLE_TEXT)
    if is_gated and count_letters(markdown) < _MAX_TEASER_LETTERS:
        raise NoArticle(f"shows only the beginning of an article that is for subscribers. {_SUBSCRIBERS_FIX}")
    markdown = _NUMBERED_IMAGE.sub(lambda image: images.pop(image[0], ""), markdown)
    return page_from_markdown(
        visible_text(markdown),
        url,
        title=visible_text(metadata.title or ""),
        site=visible_text(metadata.sitename or ""),
        language=visible_text(language).replace("_", "-"),
    )


def _is_for_subscribers(tree: HtmlElement) -> bool:
    """Return whether the page's linked data declares its article as not free; other nodes describe products."""
    nodes: list[dict[str, Any]] = []
    for data in tree.xpath("//script[@type='application/ld+json']"):
        with suppress(ValueError, RecursionError):
            json.loads(data.text_content(), strict=False, object_hook=nodes.append)
    articles = (node for node in nodes if _ARTICLE_TYPES.search(str(node.get("@type"))))
    return any(_NOT_FREE.fullmatch(str(node.get("isAccessibleForFree"))) for node in articles)


def replace_outside_code(markdown: str, pattern: re.Pattern[str], replacement: str) -> str:
    """Replace matches of a pattern outside of code blocks."""
    return "\n".join(line if is_code else pattern.sub(replacement, line) for line, is_code in markdown_lines(markdown))


def read_article(
    body: bytes, url: str, final_url: str, content_type: str, title: str = "", language: str = ""
) -> ArticlePage:
    """Extract the article of a page; `title` and `language` describe a markdown page, if known.

    Raises:
        NoArticle: the page has no article; the text has the reason.
    """
    text = decode_page(body, content_type)
    if is_html(body, content_type):
        page = extract_article(text, final_url)
    else:
        markdown = replace_outside_code(visible_text(text), _IMAGE, r"![\1](\2)")
        page = page_from_markdown(markdown, final_url, title=visible_text(title), language=visible_text(language))
    page["url"] = url
    page["title"], page["final_url"] = visible_text(page["title"]), visible_text(page["final_url"])
    if count_letters(page["text"]) < MIN_LETTERS:
        raise NoArticle(_NO_ARTICLE_TEXT)
    return page


try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]
_PR_SET_PDEATHSIG = 1
_CPU_MARGIN_S = 2
_NICENESS = 10


def main() -> None:
    """Read one request from standard input and write the answer to standard output."""
    logging.disable(logging.CRITICAL)
    _exit_with_parent()
    request = json.loads(sys.stdin.buffer.readline())
    seconds, memory = request.pop("seconds"), request.pop("memory")
    if resource is not None:
        _lower_limit(resource.RLIMIT_CPU, int(seconds) + _CPU_MARGIN_S)
        _lower_limit(resource.RLIMIT_AS, memory)
        # Concurrent page readers must not slow down the server.
        os.nice(_NICENESS)
    answer: dict[str, Any]
    try:
        answer = {"page": read_article(sys.stdin.buffer.read(), **request)}
    except NoArticle as error:
        answer = {"failed": str(error)}
    sys.stdout.buffer.write(json.dumps(answer).encode())


def _lower_limit(kind: int, limit: int) -> None:
    """Lower a resource limit, unless it is already lower."""
    hard_limit = resource.getrlimit(kind)[1]
    lowest = limit if hard_limit == resource.RLIM_INFINITY else min(limit, hard_limit)
    resource.setrlimit(kind, (lowest, lowest))


def _exit_with_parent() -> None:
    """On Linux, exit when the parent process is killed; elsewhere the CPU limit ends this process."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
