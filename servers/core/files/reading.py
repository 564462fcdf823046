"""Read a text file, or some of its lines, within the budget of one call (C-05).

Text is UTF-8, or UTF-16 that says so with its first two bytes. No more is held than may be answered at once.
"""

import codecs
import contextlib
import io
import os
import threading
import time
from dataclasses import dataclass
from typing import Literal

from toolweave.servers.core.files.opening import Opened
from toolweave.servers.error_codes import INVALID_PARAMETER, NOT_TEXT, TIMEOUT, TOO_LARGE, ToolFailed

Limit = Literal["results", "time", "files", "bytes", "cancelled"]


class CallBudget:
    """The time, files and bytes that are left for a call; shared between its thread and the task that cancels it."""

    def __init__(self, *, seconds: float, files: int, content_bytes: int) -> None:
        self._ends_at = time.monotonic() + seconds
        self._files_left = files
        self._bytes_left = content_bytes
        self._cancelled = threading.Event()
        self.reached: Limit | None = None

    def cancel(self) -> None:
        """Let the call's thread stop at the next file or piece."""
        self._cancelled.set()

    def allows(self, *, files: int = 0, content_bytes: int = 0) -> bool:
        """Take from what is left; no when a limit is reached, which `reached` then names."""
        self._files_left -= files
        self._bytes_left -= content_bytes
        if self._cancelled.is_set():
            self.reached = "cancelled"
        elif time.monotonic() >= self._ends_at:
            self.reached = "time"
        elif self._files_left < 0:
            self.reached = "files"
        elif self._bytes_left < 0:
            self.reached = "bytes"
        return self.reached is None


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
        with contextlib.suppress(UnicodeDecodeError):
            text = self._decoder.decode(piece, final)
            if "\0" not in text:
                return text
        raise ToolFailed(NOT_TEXT, "The file is not text: it is neither UTF-8, nor UTF-16 with a byte order mark.")


def encoding_of(start: bytes) -> tuple[str, int]:
    """Return the encoding that a byte order mark names, else UTF-8, and the length of the mark."""
    return next(((name, len(mark)) for mark, name in _MARKS if start.startswith(mark)), ("utf-8", 0))


_PIECE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class TextPart:
    """Consecutive lines of a file, counted from 1.

    `last_line` is before `first_line` where there is no line; `next_line` is where to go on, None at the end;
    `total_lines` is None where the end was not reached.
    """

    text: str
    encoding: str
    first_line: int
    last_line: int
    total_lines: int | None
    next_line: int | None


def read_part(file: Opened, budget: CallBudget, *, first_line: int, max_lines: int | None, max_bytes: int) -> TextPart:
    """Read from `first_line` on: at most `max_lines` lines, at most `max_bytes` bytes of text (as UTF-8).

    A part ends before the line with which it would be too large; a whole file is given or refused.

    Raises:
        ToolFailed: it is no text, too large, has no such line, or the line is too far from the beginning.
        OSError: it cannot be read.
    """
    pieces = _Pieces(file.descriptor, budget)
    read = [pieces.after_line(first_line - 1)]
    while not pieces.ended and _wants_more(read, max_lines, max_bytes):
        read.append(pieces.next())
    lines = list(io.StringIO("".join(read)))
    if not lines and first_line > 1:
        possible = f"must be a whole number from 1 to {max(pieces.lines, 1)}: the file has {pieces.lines} lines."
        raise ToolFailed(INVALID_PARAMETER, f"Parameter 'start_line' {possible}")
    taken = lines[: _fitting(lines, max_lines, max_bytes)]
    complete = pieces.ended and len(taken) == len(lines)
    if not complete and first_line == 1 and max_lines is None:
        raise _too_large(f"The file has {file.info.st_size} bytes", max_bytes)
    if lines and not taken:
        raise _too_large(f"Line {first_line} has more bytes than can be read", max_bytes)
    while not pieces.ended and pieces.bytes_read <= max_bytes:
        pieces.next()
    last_line = first_line + len(taken) - 1
    return TextPart(
        "".join(taken),
        pieces.encoding,
        first_line,
        last_line,
        pieces.lines if pieces.ended else None,
        None if complete else last_line + 1,
    )


def read_bytes(descriptor: int, size: int) -> bytes:
    """Read `size` bytes, fewer only at the end of the file.

    Raises:
        OSError: the file cannot be read.
    """
    read: list[bytes] = []
    left = size
    while left > 0 and (piece := os.read(descriptor, left)):
        read.append(piece)
        left -= len(piece)
    return b"".join(read)


class _Pieces(TextDecoder):
    """The text of an open file, piece by piece, and how many lines it had so far."""

    def __init__(self, descriptor: int, budget: CallBudget) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._budget = budget
        self._breaks = 0
        self._in_line = False
        self.bytes_read = 0
        self.ended = False

    @property
    def lines(self) -> int:
        return self._breaks + self._in_line

    def next(self) -> str:
        if not self._budget.allows():
            raise ToolFailed(
                TIMEOUT,
                f"The lines were not reached in time; there are {self.lines} before them.",
                "Ask for lines nearer to the beginning of the file.",
            )
        piece = read_bytes(self._descriptor, _PIECE_BYTES)
        self.bytes_read += len(piece)
        self.ended = len(piece) < _PIECE_BYTES
        text = self.decode(piece, final=self.ended)
        self._breaks += text.count("\n")
        if text:
            self._in_line = not text.endswith("\n")
        return text

    def after_line(self, number: int) -> str:
        """Return what follows the first `number` lines in the piece in which they end; nothing if they do not."""
        text = ""
        while not self.ended:
            before = self._breaks
            text = self.next()
            if self._breaks >= number:
                return text.split("\n", number - before)[-1]
        return ""


def _wants_more(read: list[str], max_lines: int | None, max_bytes: int) -> bool:
    if sum(map(len, read)) > max_bytes:
        return False
    return max_lines is None or sum(piece.count("\n") for piece in read) < max_lines


def _fitting(lines: list[str], max_lines: int | None, max_bytes: int) -> int:
    size = 0
    for number, line in enumerate(lines):
        size += len(line.encode())
        if size > max_bytes or number == max_lines:
            return number
    return len(lines)


def _too_large(finding: str, max_bytes: int) -> ToolFailed:
    message = f"{finding}; at most {max_bytes} can be read at once."
    return ToolFailed(TOO_LARGE, message, "Read it in parts, with start_line and max_lines.")
