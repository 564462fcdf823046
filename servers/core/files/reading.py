"""Read a text file, or some of its lines, within the budget of one call (C-05).

Text is UTF-8, or UTF-16 with a byte order mark. The reader holds no more text than one result may contain.
"""

import codecs
import io
import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO, Literal

from toolweave.servers.core.files.roots import Entry
from toolweave.servers.error_codes import INVALID_PARAMETER, NOT_TEXT, TIMEOUT, TOO_LARGE, ToolFailed

StopReason = Literal["results", "time", "files", "bytes", "cancelled"]


class CallBudget:
    """The time, files and bytes that a call has left; its thread and the task that cancels it share the object."""

    def __init__(self, *, seconds: float, files: int, content_bytes: int) -> None:
        self._ends_at = time.monotonic() + seconds
        self._files_left = files
        self._bytes_left = content_bytes
        self._cancelled = threading.Event()
        self.stop_reason: StopReason | None = None

    def cancel(self) -> None:
        """Stop the call's thread at its next file or piece."""
        self._cancelled.set()

    def consume(self, *, files: int = 0, content_bytes: int = 0) -> bool:
        """Deduct files and bytes; return False if a limit is reached, and set `stop_reason` to its name."""
        self._files_left -= files
        self._bytes_left -= content_bytes
        if self._cancelled.is_set():
            self.stop_reason = "cancelled"
        elif time.monotonic() >= self._ends_at:
            self.stop_reason = "time"
        elif self._files_left < 0:
            self.stop_reason = "files"
        elif self._bytes_left < 0:
            self.stop_reason = "bytes"
        return self.stop_reason is None


_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_LINES_PER_CHECK = 100


def open_text(file: BinaryIO) -> io.TextIOWrapper:
    """Open a binary file as text, in the encoding of its byte order mark, by default UTF-8."""
    start = file.read(3)
    encoding, mark = next(((name, len(mark)) for mark, name in _BOMS if start.startswith(mark)), ("utf-8", 0))
    file.seek(mark)
    return io.TextIOWrapper(file, encoding, newline="\n")


def read_lines(
    file: Entry, budget: CallBudget, *, first_line: int, max_lines: int | None, max_bytes: int
) -> tuple[str, dict[str, Any]]:
    """Read from `first_line` on: at most `max_lines` lines and `max_bytes` bytes of text (as UTF-8).

    A part ends before the line that would make it too large; a request for the whole file is refused if it is. Returns
    the text and its metadata, with lines counted from 1: `last_line` is below `first_line` if there is no line,
    `next_line` is the first unread line or None at the end, and `total_lines` is None if the end was not reached.

    Raises:
        ToolFailed: the file is not text, too large, has no such line, or the line is not reached in time.
        OSError: the file cannot be read.
    """
    lines: list[str] = []
    size, number, is_complete, at_end = 0, 0, True, False
    with os.fdopen(file.descriptor, "rb", closefd=False) as binary, open_text(binary) as text:
        for number, line in _numbered_lines(text, max_bytes + 1, budget):
            if number < first_line:
                continue
            if is_complete:
                size += len(line.encode())
                is_complete = size <= max_bytes and len(lines) != max_lines
            if is_complete:
                lines.append(line)
            elif file.info.st_size > max_bytes:
                break
        else:
            at_end = True
    if number < first_line > 1:
        possible = f"must be a whole number from 1 to {max(number, 1)}: the file has {number} lines."
        raise ToolFailed(INVALID_PARAMETER, f"Parameter 'start_line' {possible}")
    if not is_complete and first_line == 1 and max_lines is None:
        raise _too_large_error(f"The file has {file.info.st_size} bytes", max_bytes)
    if not is_complete and not lines:
        raise _too_large_error(f"Line {first_line} has more bytes than can be read", max_bytes)
    last_line = first_line + len(lines) - 1
    return "".join(lines), {
        "size_bytes": file.info.st_size,
        "encoding": text.encoding,
        "first_line": first_line,
        "last_line": last_line,
        "total_lines": number if at_end else None,
        "next_line": None if is_complete else last_line + 1,
    }


def _numbered_lines(text: io.TextIOWrapper, max_chars: int, budget: CallBudget) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers; a line of more than `max_chars` characters comes in several pieces."""
    number, starts_line = 0, True
    try:
        for count, piece in enumerate(iter(partial(text.readline, max_chars), "")):
            if not count % _LINES_PER_CHECK and not budget.consume():
                raise ToolFailed(
                    TIMEOUT,
                    f"The call timed out before it reached the lines; it read {number} lines before them.",
                    "Ask for lines nearer to the beginning of the file.",
                )
            if "\0" in piece:
                raise not_text_error()
            number += starts_line
            starts_line = piece.endswith("\n")
            yield number, piece
    except UnicodeDecodeError:
        raise not_text_error() from None


def not_text_error() -> ToolFailed:
    """Build the error for a file with a NUL character or with bytes that are invalid in its encoding."""
    return ToolFailed(NOT_TEXT, "The file is not text: it is neither UTF-8, nor UTF-16 with a byte order mark.")


def _too_large_error(finding: str, max_bytes: int) -> ToolFailed:
    message = f"{finding}; at most {max_bytes} can be read at once."
    return ToolFailed(TOO_LARGE, message, "Read it in parts, with start_line and max_lines.")
