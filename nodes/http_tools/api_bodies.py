"""Read the body of an API's answer: JSON, text, or bytes; always as a value that any store can keep (W-06).

Checkpoints and streams take neither integers of more than 64 bits, nor NaN, nor lone halves of a character, nor very
deep nesting, and millions of values hold up everybody. Here such integers become texts, NaN and infinities null, halves
a question mark, and what is nested too deeply or has too many values stays text.
"""

import json
import math
from base64 import b64encode
from codecs import lookup
from email.message import Message
from typing import Any, NamedTuple

from toolweave.nodes.http_tools.echoes import Echoes

DEEPEST = 64
MOST_VALUES = 200_000
_LONGEST_INTEGER = len("-9223372036854775808")
_LONGEST_TYPE = 200
_CHARSETS = ("ascii", "utf-8", "utf-16", "utf-32", "iso8859", "cp", "koi8", "shift_jis", "euc", "gb", "big5")
_TEXTS = ("application/xml", "application/javascript", "application/x-www-form-urlencoded", "application/yaml")


class Body(NamedTuple):
    """A body; `encoding` is "base64" for bytes, None for JSON and text."""

    value: Any
    encoding: str | None = None


def read_api_body(data: bytes, content_type: str, echoes: Echoes) -> Body:
    """Read a body as what it is: its content counts more than its type. It is without credentials afterwards."""
    if not data:
        return Body(None)
    kind, charset = _kind(content_type)
    if kind.endswith(("/json", "+json")) or data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        try:
            return Body(_json(data, charset, echoes))
        except (ValueError, RecursionError):
            pass  # text, then
    text = _text(data, charset, certain=kind.startswith("text/") or kind.endswith("+xml") or kind in _TEXTS)
    if text is None:
        return Body(b64encode(echoes.hide_bytes(data)).decode(), "base64")
    return Body(echoes.hide(text))


def _kind(content_type: str) -> tuple[str, str | None]:
    header = Message()
    header["content-type"] = content_type[:_LONGEST_TYPE]
    charset = header.get_param("charset")
    return header.get_content_type().lower() if content_type else "", charset if isinstance(charset, str) else None


def _json(data: bytes, charset: str | None, echoes: Echoes) -> Any:
    # Reading millions of values would hold up everybody; texts may have some commas and brackets, too.
    if sum(map(data.count, (b",", b"[", b"{"))) > 2 * MOST_VALUES:
        raise ValueError("it has too many values")
    text = data.decode(_known(charset) or json.detect_encoding(data)).removeprefix("\ufeff")
    value = json.loads(text, parse_int=_integer, parse_float=_float, parse_constant=lambda _name: None)
    _require_storable(value)
    # Without escapes, texts stand in JSON as they are.
    return _clean(value, echoes) if "\\" in text or echoes.heard(text) else value


def _integer(text: str) -> int | str:
    number = int(text) if len(text) <= _LONGEST_INTEGER else None
    return number if number is not None and -(1 << 63) <= number < 1 << 63 else text


def _float(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _require_storable(value: Any) -> None:
    level, values = [value], 0
    for _ in range(DEEPEST):
        values += len(level)
        if values > MOST_VALUES:
            raise ValueError("it has too many values")
        containers = [part for part in level if isinstance(part, dict | list)]
        level = [part for each in containers for part in (each.values() if isinstance(each, dict) else each)]
        if not level:
            return
    raise ValueError("it is nested too deeply")


def _clean(value: Any, echoes: Echoes) -> Any:
    if isinstance(value, str):
        return echoes.hide(_well_formed(value))
    if isinstance(value, dict):
        return {_clean(name, echoes): _clean(part, echoes) for name, part in value.items()}
    if isinstance(value, list):
        return [_clean(part, echoes) for part in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return echoes.hide_number(value)
    return value


def _text(data: bytes, charset: str | None, *, certain: bool) -> str | None:
    """Decode a text; None for what is none. Only what says that it is a text may have errors in it."""
    known = _known(charset)
    try:
        text = data.decode(known or "utf-8-sig", "replace" if certain or known else "strict")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text and not certain else _well_formed(text)


def _well_formed(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _known(charset: str | None) -> str | None:
    """Give a charset's name; None for unknown ones, and for codecs that are no charsets or take quadratic time."""
    try:
        name = lookup(charset).name if charset else ""
    except (LookupError, ValueError):
        return None
    return name if name.startswith(_CHARSETS) else None
