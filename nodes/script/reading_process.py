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
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from trafilatura.utils import decode_file

from toolweave.nodes.script.html_page import read_html
from toolweave.nodes.script.page import FEWEST_LETTERS, NoArticle, Page, kind_of, letters, page_of_markdown
from toolweave.visible import visible

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
