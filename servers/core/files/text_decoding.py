"""Take bytes for text, or find that they are none: UTF-8, and UTF-16 that says so with its first two bytes (C-05)."""

import codecs

from toolweave.servers.core.files.refusals import not_text

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class TextDecoder:
    """Turn the bytes of a file into text, piece by piece."""

    def __init__(self) -> None:
        self.encoding = "utf-8"
        self._decoder: codecs.IncrementalDecoder | None = None

    def decode(self, piece: bytes, *, final: bool = False) -> str:
        """Decode the next piece; the first holds at least three bytes, unless it is the last.

        Raises:
            ToolFailed: there is a NUL character, or a byte that the encoding does not know.
        """
        if self._decoder is None:
            self.encoding, mark = encoding_of(piece)
            self._decoder = codecs.getincrementaldecoder(self.encoding)()
            piece = piece[mark:]
        try:
            text = self._decoder.decode(piece, final)
        except UnicodeDecodeError:
            raise not_text() from None
        if "\0" in text:
            raise not_text()
        return text


def encoding_of(start: bytes) -> tuple[str, int]:
    """Return the encoding that the first bytes of a file tell, and how many of them do only that."""
    return next(((name, len(mark)) for mark, name in _MARKS if start.startswith(mark)), ("utf-8", 0))
