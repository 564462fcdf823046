"""Tell by header and first bytes whether a page can hold an article (A-04)."""

import re
from typing import Literal

from toolweave.nodes.script.reading.no_article import NoArticle

Kind = Literal["html", "text"]
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = ("text/plain", "text/markdown", "text/x-markdown")
_ANYTHING = ("", "application/octet-stream", "binary/octet-stream", "unknown/unknown")
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "a PDF document"),
    (b"\x89PNG\r\n", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"PK\x03\x04", "an archive or an office document"),
    (b"\x1f\x8b\x08", "a packed file"),
)
_NAMES = {
    "application/pdf": "a PDF document",
    "application/json": "JSON data",
    "application/rss+xml": "a feed",
    "application/atom+xml": "a feed",
}
# A comment ends at its first end: otherwise there are as many ways to read a row of them as strangers like.
_MARKUP = re.compile(
    rb"\s*(?:<!--(?:(?!-->).){0,2000}-->\s*)*<(?:!doctype\s+html|html|head|body|article|div|p|h1)\b",
    re.IGNORECASE | re.DOTALL,
)
_FIRST_BYTES = 4096


def kind_of(body: bytes, content_type: str) -> Kind:
    """Say how a page is to be read.

    Raises:
        NoArticle: it is no page of text.
    """
    media = content_type.partition(";")[0].strip().lower()
    begun = body[:_FIRST_BYTES].removeprefix(b"\xef\xbb\xbf")
    found = next((name for magic, name in _MAGIC if begun.startswith(magic)), None) or _NAMES.get(media)
    if found is None and media not in (*_HTML, *_TEXT, *_ANYTHING):
        found = "an image" if media.startswith("image/") else media
    if found is not None:
        raise NoArticle(
            f"is {found}, not a page of text. Give the address of an HTML, markdown or text page, "
            "or have it fetched by an agent whose tools can read it (MCP_CONFIG_PATH)."
        )
    if media in _HTML or _MARKUP.match(begun):
        return "html"
    if b"\x00" in begun and not begun.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise NoArticle("is binary data, not a page of text. Give the address of an HTML, markdown or text page.")
    return "text"
