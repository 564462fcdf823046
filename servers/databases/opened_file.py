"""Notice when the SQLite file that is open is deleted, or another one takes its place."""

from pathlib import Path


class OpenedFile:
    """A file as it was when it was opened.

    SQLite goes on with the one that nobody sees any more: what it writes there is lost when it closes.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None

    def remember(self) -> None:
        """Take what is there now for the file that is open."""
        self._identity = self._there()

    def has_gone(self) -> bool:
        """Tell whether what is there now is another file, or none."""
        return self._identity is not None and self._there() != self._identity

    def _there(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat() if self._path else None
        except OSError:
            return None
        return (found.st_dev, found.st_ino) if found else None
