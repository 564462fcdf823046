"""Append lines to a file so that a kill, a full disk, other processes and whoever moves it away break none of them."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from toolweave.private_files import FILE_MODE, make_folder

LOOK_S = 1.0


class LineFile:
    """A file of lines that begins anew when it is full: `name` is then `name.1`, what was that `name.2`, and so on.

    Every line is one system call, so nothing waits in a buffer, and several processes may write. What may take its
    time is in `look_after`, for a thread of its own: call it first, and again when `is_due`. A sink for loguru.

    Args:
        path: the file, made for its owner alone; its folder is made, too.
        limit: how many bytes it may have, about.
        kept: how many full ones stay.
        clock: seconds that only ever grow.
    """

    def __init__(self, path: Path, *, limit: int, kept: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._limit = limit
        self._kept = kept
        self._clock = clock
        self._file: int | None = None
        self._size = 0
        self._looked = clock()
        self._problem = "it is not open"
        self._is_broken = False

    def write(self, line: str) -> None:
        """Append a line, which ends with a line feed.

        Raises:
            OSError: it could not be written; a later one may be.
        """
        if self._file is None:
            raise OSError(self._problem)
        data = line.encode("utf-8", "backslashreplace")
        # After half a line, the next is one of its own.
        rest = memoryview(b"\n" + data if self._is_broken else data)
        while rest:
            rest = rest[os.write(self._file, rest) :]
            self._is_broken = len(rest) > 0
        self._size += len(data)

    @property
    def is_due(self) -> bool:
        """Say whether the file is full, or nobody has looked for a while whether it is still there."""
        return self._size > self._limit or self._clock() - self._looked >= LOOK_S

    def look_after(self) -> None:
        """Open the file, begin a full one anew, and make it again if it was moved away; keeps what hinders it."""
        self._looked = self._clock()
        try:
            there = self._there()
            if there is not None and there.st_size > self._limit:
                self._make_room()
                there = None
            if self._file is None or there is None or not os.path.samestat(os.fstat(self._file), there):
                self._open()
            self._size = 0 if self._file is None else os.fstat(self._file).st_size
        except OSError as error:
            self._problem = str(error)

    def stop(self) -> None:
        """Close the file."""
        if self._file is not None:
            file, self._file = self._file, None
            os.close(file)

    def _open(self) -> None:
        make_folder(self._path.parent)
        # A file is never waited for; those who look for what blocks an event loop go by the flag.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        file = os.open(self._path, flags, FILE_MODE)
        if self._file is None:
            self._file = file
            return
        # Takes the place of the former one at once, even while a line is being written.
        os.dup2(file, self._file, inheritable=False)
        os.close(file)
        self._is_broken = False

    def _there(self) -> os.stat_result | None:
        with suppress(FileNotFoundError):
            return self._path.stat()
        return None

    def _make_room(self) -> None:
        numbered = [self._path, *(self._path.with_name(f"{self._path.name}.{n}") for n in range(1, self._kept + 1))]
        for newer, older in reversed(list(pairwise(numbered))):
            with suppress(FileNotFoundError):
                newer.replace(older)
