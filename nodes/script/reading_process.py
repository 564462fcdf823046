"""Read a page's bytes into its article, in the process that `extraction` starts (A-04).

It reads one line of JSON and then the page from standard input. The answer is `{"page": …}` or `{"failed": "why …"}`.
Nothing of the product imports it.
"""

import codecs
import ctypes
import json
import logging
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

import trafilatura
from lxml.etree import ParserError, SubElement, strip_elements  # type: ignore[import-untyped]
from lxml.html import HtmlElement, HTMLParser, document_fromstring  # type: ignore[import-untyped]
from trafilatura.utils import decode_file

from toolweave.nodes.script.page import (
    FEWEST_LETTERS,
    ArticlePage,
    NoArticle,
    PageImage,
    kind_of,
    letters,
    page_of_markdown,
    unescaped,
)
from toolweave.visible import visible

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


_LAZY = ("data-src", "data-lazy-src", "data-original", "data-lazy", "data-url", "src")
_LAZY_SETS = ("data-srcset", "data-lazy-srcset", "srcset")
_NUMBERED = re.compile(r"!\[(?:[^\]\\]|\\.)*\]\(https://image\.invalid/(\d+)\.png\)")
# Pixels that count visitors.
_TINY = ("0", "1", "2")


class NumberedImages:
    """Give every image of a tree a number for its source, since sources of all forms must come through."""

    def __init__(self, tree: HtmlElement, base: str) -> None:
        self._images: list[PageImage] = []
        self._shown: list[int] = []
        self._base = base
        seen: set[str] = set()
        for image in list(tree.iter("img")):
            src = self._source(image)
            doubled = any(ancestor.tag == "noscript" for ancestor in image.iterancestors()) and src in seen
            if not src or doubled or image.get("width") in _TINY or image.get("height") in _TINY:
                image.drop_tree()
                continue
            seen.add(src)
            self._number(image, src)

    @property
    def shown(self) -> list[PageImage]:
        """List the images that are in the article, in its order."""
        return [self._images[number] for number in self._shown]

    def put_back(self, markdown: str) -> str:
        """Write the images of an article as they are."""
        self._shown = []
        return _NUMBERED.sub(self._written, markdown)

    def _written(self, found: re.Match[str]) -> str:
        number = int(found[1])
        self._shown.append(number)
        image = self._images[number]
        alt = image["alt"].replace("[", "(").replace("]", ")")
        caption = image["caption"].replace('"', "'")
        title = f' "{caption}"' if caption else ""
        return f"![{alt}]({image['src']}{title})"

    def _source(self, image: HtmlElement) -> str:
        given = [image.get(name) or "" for name in _LAZY]
        given += [(image.get(name) or "").split(",")[0].strip().split(" ")[0] for name in _LAZY_SETS]
        for source in given:
            try:
                joined = urljoin(self._base, source.strip()) if source.strip() else ""
            except ValueError:
                continue
            if joined.startswith(("http://", "https://")):
                return joined.replace(" ", "%20").replace("(", "%28").replace(")", "%29")
        return ""

    def _number(self, image: HtmlElement, src: str) -> None:
        number = len(self._images)
        self._images.append(PageImage(alt=_plain(image.get("alt")), caption=_caption(image), src=src))
        image.attrib.clear()
        image.set("src", f"https://image.invalid/{number}.png")


def _caption(image: HtmlElement) -> str:
    around = next((ancestor for ancestor in image.iterancestors("figure")), None)
    if around is None:
        around = next((each for each in image.iterancestors("div") if "wp-caption" in (each.get("class") or "")), None)
    if around is None:
        return _plain(image.get("title"))
    for caption in around.xpath(".//figcaption|.//*[contains(@class, 'wp-caption-text')]"):
        text = _plain(caption.text_content())
        if around.tag != "figure":
            caption.drop_tree()
        return text
    return ""


def _plain(text: Any) -> str:
    return " ".join(text.split()) if isinstance(text, str) else ""


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


_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
_ARTICLES = ("Article", "BlogPosting", "WebPage", "Report", "Recipe", "Review", "CreativeWork")
_NO = (False, "false", "False", "http://schema.org/False", "https://schema.org/False")
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What a page says of itself; `base` is what its relative addresses refer to, `body` an article in its data."""

    base: str
    title: str
    site: str
    language: str
    free: bool
    body: str


def facts_of(tree: HtmlElement, url: str) -> PageFacts:
    """Read the head and the linked data of a page."""
    articles = [node for node in _linked_data(tree) if _is_article(node)]
    bodies = [text for node in articles if isinstance(text := node.get("articleBody"), str)]
    languages = [text for node in articles if isinstance(text := node.get("inLanguage"), str)]
    return PageFacts(
        base=_base(tree, url),
        title=_title(tree, articles) or urlsplit(url).netloc,
        site=_meta(tree, "og:site_name") or urlsplit(url).hostname or "",
        language=_language(tree, languages),
        free=not any(node.get("isAccessibleForFree") in _NO for node in articles),
        body=max(bodies, key=len, default="").strip(),
    )


def _base(tree: HtmlElement, url: str) -> str:
    given = next(iter(tree.xpath("//base/@href")), "")
    try:
        joined = urljoin(url, given)
    except ValueError:
        return url
    return joined if joined.startswith(("http://", "https://")) else url


def _title(tree: HtmlElement, articles: list[dict[str, Any]]) -> str:
    headings = [text for h1 in tree.iter("h1") if (text := _plain(h1.text_content()).strip(" ¶#"))]
    written = _plain(tree.findtext(".//title"))
    named = [text for text in (_meta(tree, "og:title"), *(_plain(node.get("headline")) for node in articles)) if text]
    for heading in headings:
        # A heading may hold a kicker besides, the other names the site's.
        inside = next((name for name in named if name in heading), None)
        if inside or heading in written or any(heading in name for name in named):
            return inside or heading
    return next(iter(named), "") or (headings[0] if len(headings) == 1 else written)


def _language(tree: HtmlElement, languages: list[str]) -> str:
    told = [
        tree.get("lang"),
        next(iter(tree.xpath("//*[@http-equiv='content-language' or @http-equiv='Content-Language']/@content")), ""),
        _meta(tree, "og:locale"),
        *languages,
        next(iter(tree.xpath("(//article|//main|//body)/@lang")), ""),
    ]
    for language in told:
        if language and _LANGUAGE.fullmatch(language.strip()):
            return str(language).strip().replace("_", "-")
    return ""


def _meta(tree: HtmlElement, name: str) -> str:
    found = tree.xpath("//meta[@property=$name or @name=$name]/@content", name=name)
    return _plain(found[0]) if found else ""


def _linked_data(tree: HtmlElement) -> Iterator[dict[str, Any]]:
    for script in tree.xpath("//script[@type='application/ld+json']"):
        try:
            yield from _nodes(json.loads(script.text_content(), strict=False), 0)
        except (ValueError, RecursionError):
            continue


def _nodes(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(inner, dict | list):
            yield from _nodes(inner, depth + 1)


def _is_article(node: dict[str, Any]) -> bool:
    return any(name in str(node.get("@type", "")) for name in _ARTICLES)


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


def read_html(html: str, url: str) -> ArticlePage:
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


_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_IN_HEADER = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_IN_PAGE = re.compile(rb"<(?:meta|\?xml)\b[^>]{0,300}?\b(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_HEAD_BYTES = 8192
# Browsers read these labels as the larger set, since pages use them so.
_READ_AS = {
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "iso8859-9": "cp1254",
    "big5": "big5hkscs",
}
# Text in these is plain ASCII for whoever does not know.
_SEVEN_BIT = ("iso2022", "hz", "utf-16")
# No browser reads them: some hide markup, others are no character sets but ways to write texts in programs or names.
_NEVER = ("utf-7", "unicode-escape", "raw-unicode-escape", "idna", "punycode", "undefined")


def decoded(body: bytes, content_type: str) -> str:
    """Give a page's text.

    A header or a page that names the wrong character set is common: bytes that are UTF-8 are read as that.
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body.decode(name, errors="replace")
    in_header, in_page = _IN_HEADER.search(content_type), _IN_PAGE.search(body[:_HEAD_BYTES])
    named = [found[1] for found in (in_header,) if found] + [found[1].decode() for found in (in_page,) if found]
    known = [name for name in map(_codec, named) if name]
    if body.isascii():
        known = [name for name in known if name.startswith(_SEVEN_BIT)]
    for name in known if body.isascii() else ["utf-8", *known]:
        try:
            return body.decode(name)
        except UnicodeError:
            continue
    return body.decode(known[0], errors="replace") if known else decode_file(body, len(body) + 1)


def _codec(name: str) -> str | None:
    try:
        found = codecs.lookup(name).name
        with suppress(UnicodeError):
            b" ".decode(found)  # a LookupError where it is no text that is encoded
    except LookupError:
        found = {"x-sjis": "shift_jis", "windows-31j": "cp932", "x-euc-jp": "euc_jp"}.get(name.lower(), "")
    return None if not found or found in _NEVER else _READ_AS.get(found, found)


def read_article(
    body: bytes, url: str, final_url: str, content_type: str, facts: Mapping[str, str] | None = None
) -> ArticlePage:
    """Give the article of a page; `facts` are what is known of one in markdown: its title, site and language.

    Raises:
        NoArticle: says why there is none.
    """
    kind = kind_of(body, content_type)
    text = decoded(body, content_type)
    known = {name: (facts or {}).get(name, "") for name in ("title", "site", "language")}
    page = read_html(text, final_url) if kind == "html" else page_of_markdown(text, final_url, images=None, **known)
    page["url"] = url
    page = cast("ArticlePage", _cleaned(page))
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


try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]
_PR_SET_PDEATHSIG = 1
_SPARE_S = 2
_NICENESS = 10


def main() -> None:
    """Answer the one request on standard input."""
    logging.disable(logging.CRITICAL)
    _die_with_parent()
    asked = json.loads(sys.stdin.buffer.readline())
    if resource is not None:
        _bound(resource.RLIMIT_CPU, int(asked["seconds"]) + _SPARE_S)
        _bound(resource.RLIMIT_AS, asked["memory"])
        # Pages that are read side by side must not keep the server, which started them, from answering.
        os.nice(_NICENESS)
    body = sys.stdin.buffer.read()
    answer: dict[str, Any]
    try:
        answer = {"page": read_article(body, asked["url"], asked["final_url"], asked["content_type"], asked["facts"])}
    except NoArticle as error:
        answer = {"failed": str(error)}
    sys.stdout.buffer.write(json.dumps(answer).encode())


def _bound(kind: int, most: int) -> None:
    """Lower a limit, unless it is lower already: it cannot be raised."""
    allowed = resource.getrlimit(kind)[1]
    least = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
    resource.setrlimit(kind, (least, least))


def _die_with_parent() -> None:
    """End when the parent is killed, where Linux can tell; elsewhere the bound of processor time ends this."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
