"""Append lines to a file so that a kill, a full disk, other processes and whoever moves it away break none of them."""

import os
from contextlib import suppress
from itertools import pairwise
from pathlib import Path


class LineFile:
    """A file of lines that begins anew when it is full: `name` is then `name.1`, what was that `name.2`, and so on.

    Every line is one system call, so nothing waits in a buffer and several processes may write. It is made with the
    first line, for its owner alone. A sink for loguru.

    Args:
        path: the file; its folder is made, too.
        limit: how many bytes it may have.
        kept: how many full ones stay.
    """

    def __init__(self, path: Path, *, limit: int, kept: int) -> None:
        self._path = path
        self._limit = limit
        self._kept = kept
        self._open: int | None = None
        self._is_broken = False

    def write(self, line: str) -> None:
        """Append a line, which ends with a line feed.

        Raises:
            OSError: it could not be written; the next one may be.
        """
        data = line.encode("utf-8", "backslashreplace")
        file = self._current(len(data))
        # After half a line, the next is one of its own.
        rest = memoryview(b"\n" + data if self._is_broken else data)
        while rest:
            rest = rest[os.write(file, rest) :]
            self._is_broken = len(rest) > 0

    def stop(self) -> None:
        """Close the file."""
        if self._open is not None:
            file, self._open = self._open, None
            os.close(file)

    def _current(self, more: int) -> int:
        """Give the file that has the path now, with room for `more` bytes."""
        there = self._there()
        if there is not None and there.st_size and there.st_size + more > self._limit:
            self._begin_anew()
            there = None
        if self._open is not None and there is not None and os.path.samestat(os.fstat(self._open), there):
            return self._open
        self.stop()
        self._is_broken = False
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._open = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._open

    def _there(self) -> os.stat_result | None:
        with suppress(FileNotFoundError):
            return self._path.stat()
        return None

    def _begin_anew(self) -> None:
        numbered = [self._path, *(self._path.with_name(f"{self._path.name}.{n}") for n in range(1, self._kept + 1))]
        for newer, older in reversed(list(pairwise(numbered))):
            with suppress(FileNotFoundError):
                newer.replace(older)
