"""Decode a page by its byte order mark, its header, what it says itself, or by its bytes (A-04)."""

import codecs
import re
from contextlib import suppress

from trafilatura.utils import decode_file

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
