"""Find the lines of a file that hold a text (C-05)."""

import os
from collections.abc import Iterator

from toolweave.servers.core.files.budget import Budget
from toolweave.servers.core.files.opening import open_entry
from toolweave.servers.core.files.reading import read_bytes
from toolweave.servers.core.files.text_decoding import TextDecoder, encoding_of
from toolweave.servers.core.files.walking import Found
from toolweave.servers.error_codes import ToolFailed

_EXCERPT = 200
_BEFORE_MATCH = 60


class ContentSearch:
    """Look for a text as it is written, not as an expression: no text can make this slow."""

    def __init__(self, text: str, budget: Budget, *, ignore_case: bool, max_bytes: int) -> None:
        self._ignore_case = ignore_case
        self._text = text.lower() if ignore_case else text
        self._budget = budget
        self._max_bytes = max_bytes
        self.skipped = 0

    def lines(self, found: Found) -> Iterator[tuple[int, str]]:
        """Yield number and excerpt of every line with the text; a file that is no text or too large is skipped."""
        content = self._content(found)
        if content is None:
            return
        for number, line in enumerate(content.split("\n"), start=1):
            at = (line.lower() if self._ignore_case else line).find(self._text)
            if at >= 0:
                yield number, _excerpt(line, at)

    def _content(self, found: Found) -> str | None:
        """Return the file's text, None when it cannot be searched or surely does not hold the text."""
        try:
            content = self._bytes(found)
            if content is None:
                return None
            if self._surely_absent(content):
                return None
            return TextDecoder().decode(content, final=True)
        except (OSError, ToolFailed):
            self.skipped += 1
            return None

    def _surely_absent(self, content: bytes) -> bool:
        """Tell from the bytes, which is ten times faster, that a file of plain UTF-8 lacks the text."""
        if self._ignore_case or b"\0" in content or encoding_of(content)[0] != "utf-8":
            return False
        return self._text.encode() not in content

    def _bytes(self, found: Found) -> bytes | None:
        descriptor, info = open_entry(found.parts[-1], found.folder, found.device)
        try:
            if info.st_size > self._max_bytes:
                self.skipped += 1
                return None
            if not self._budget.allows(content_bytes=info.st_size):
                return None
            return read_bytes(descriptor, info.st_size)
        finally:
            os.close(descriptor)


def _excerpt(line: str, at: int) -> str:
    line = line.rstrip("\r")
    start = max(0, at - _BEFORE_MATCH) if len(line) > _EXCERPT else 0
    end = start + _EXCERPT
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")
