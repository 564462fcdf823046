"""Rewrite a configuration file as a whole: whoever reads it meanwhile has the old one or the new one, never a part."""

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from toolweave.config.configuration_text import MAX_BYTES
from toolweave.errors import ConfigError
from toolweave.private_files import make_folder, opened_folder

_BOM = "\ufeff"
Edit = Callable[[str], str]


def edit_file(path: Path, edit: Edit) -> bool:
    """Give the text of a file to `edit` and write what comes back, with the mode of before; say whether it differs.

    A link stays one: what it leads to is edited. Of two processes at once the second one edits what the first has
    written. A byte order mark and the ends of lines are kept; `edit` does not see the mark.

    Raises:
        ConfigError: the file cannot be read or written, or would be too large; it is as before then.
    """
    target = Path(os.path.realpath(path))
    with _explained(path), _locked(target) as before:
        text = before.decode("utf-8")
        mark = _BOM if text.startswith(_BOM) else ""
        after = (mark + edit(text.removeprefix(mark))).encode("utf-8")
        if after == before:
            return False
        if len(after) > MAX_BYTES:
            raise ConfigError("would be larger than 256 KiB.", source=str(path), fix="Remove what is not needed.")
        if not os.access(target, os.W_OK):
            raise PermissionError("it is read-only")
        _replace(target, after)
        return True


def make_file(path: Path, text: str) -> bool:
    """Write a new file, for its owner only, and the folders to it; say whether there was none.

    Raises:
        ConfigError: it cannot be written.
    """
    with _explained(path):
        make_folder(path.parent)
        with opened_folder(path.parent) as folder:
            fcntl.flock(folder, fcntl.LOCK_EX)
            if os.path.lexists(path):
                return False
            with _written_beside(path, text.encode("utf-8")) as written:
                written.rename(path)
            os.fsync(folder)
        return True


@contextmanager
def _locked(target: Path) -> Iterator[bytes]:
    """Hold the lock on a file, which may be replaced while one waits for it; gives its content."""
    while True:
        with target.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_still(file, target):
                yield file.read()
                return


def _is_still(file: IO[bytes], target: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), target.stat())
    return False


def _replace(target: Path, content: bytes) -> None:
    was = target.stat()
    with _written_beside(target, content) as written:
        written.chmod(stat.S_IMODE(was.st_mode))
        with suppress(PermissionError):  # another's file: it becomes ours, as with any editor
            os.chown(written, was.st_uid, was.st_gid)
        written.replace(target)
    with opened_folder(target.parent) as folder:
        os.fsync(folder)


@contextmanager
def _written_beside(path: Path, content: bytes) -> Iterator[Path]:
    """Write a file into the same folder, down to the disk; it is removed if the block fails."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    written = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield written
    except BaseException:
        with suppress(OSError):
            written.unlink()
        raise


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise ConfigError(error.message, source=error.source or str(path), fix=error.fix) from None
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text.", source=str(path), fix="Save it as UTF-8.") from None
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise ConfigError(
            f"cannot be written ({reason}).", source=str(path), fix="Make the file and its folder writable."
        ) from None
