"""Create files and folders with access for their owner only; raise the limit of open files.

In the data folder, folders get mode 0700 and files 0600, independent of the umask (R-02). All rooms use this module.
Windows has no such modes; there the files are only created.
"""

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from loguru import logger

if sys.platform != "win32":
    import fcntl
    import resource

FOLDER_MODE, FILE_MODE = 0o700, 0o600
_OTHERS_MODE = stat.S_IRWXG | stat.S_IRWXO
_HAS_MODES = os.name != "nt"
# SQLite creates these files with the mode of their database.
_SQLITE_SUFFIXES = ("-wal", "-shm", "-journal")
_DATABASES = ("app.db", "checkpoints.db", "store.db", "todo.db", "tools.db")
# The database check writes and removes `.app.db.space`.
_FILES = frozenset(
    {"toolweave.lock", "toolweave.alive", "mcp.jsonc", "memory.jsonl", "chat_history", ".app.db.space"}
).union(name + suffix for name in _DATABASES for suffix in ("", *_SQLITE_SUFFIXES))
_FOLDERS = frozenset({"oauth", "logs"})
# Programs of other projects, which must stay executable and contain no secrets. A temporary data folder has a link.
_PROGRAMS_FOLDER = "servers"
MAX_LISTED = 20


@dataclass(slots=True)
class _ModeChanges:
    """The paths whose mode was corrected, and those that others can still use, each with the reason."""

    changed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def log(self, subject: str, folder: Path) -> None:
        if self.changed or self.failed:
            changed = f" Toolweave changed the modes of: {_join_names(self.changed)}."
            failed = (
                f" It could not change: {_join_names(self.failed)}. Remove the permissions of others (chmod go= PATH), "
                "or choose a folder of its own with --data-dir."
            )
            logger.warning(
                "{} {} could be read by other users of this machine.{}{}",
                subject,
                folder,
                changed if self.changed else "",
                failed if self.failed else "",
            )


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, each with mode 0700; existing folders do not change.

    Raises:
        OSError: it cannot be created.
    """
    try:
        folder.mkdir(FOLDER_MODE)
    except FileNotFoundError:
        make_folder(folder.parent)
        make_folder(folder)
    except OSError:
        if not folder.is_dir():
            raise


def make_file(file: Path) -> None:
    """Create an empty file with mode 0600, or correct the mode of an existing one and of its SQLite side files.

    Call it before another library opens the file.
    An existing SQLite database is not opened: closing it would release this process's locks on it.

    Raises:
        OSError: it cannot be created.
    """
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
    except OSError:
        if not file.exists():
            raise
        changes = _ModeChanges()
        for path in (file, *(file.with_name(file.name + suffix) for suffix in _SQLITE_SUFFIXES)):
            _restrict_mode(path, changes)
        changes.log("The file", file)


def write_file(file: Path, content: bytes, mode: int = FILE_MODE) -> None:
    """Write a file and sync it to the disk; a symbolic link is not followed."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as written:
        written.write(content)
        written.flush()
        os.fsync(descriptor)


@contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """Open a folder and yield its descriptor, for example to sync its entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def replace_file(
    path: Path, content: bytes, *, mode: int = FILE_MODE, like: os.stat_result | None = None, draft: Path | None = None
) -> None:
    """Replace a file atomically: write a draft beside it, sync it to the disk and rename it.

    Args:
        path: the file, which may be missing.
        content: the new content.
        mode: the mode of the new file, as far as the umask allows.
        like: the file status whose mode and owner the new file gets instead.
        draft: the path of the draft; by default a unique one.

    Raises:
        OSError: the file cannot be written; the old file is unchanged.
    """
    draft = draft or path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        write_file(draft, content, mode)
        if like is not None:
            draft.chmod(stat.S_IMODE(like.st_mode))
            with suppress(PermissionError):  # a file of another user then belongs to this user, as with any editor
                os.chown(draft, like.st_uid, like.st_gid)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    with open_folder(path.parent) as folder:
        os.fsync(folder)


def try_lock(descriptor: int) -> bool:
    """Lock an open file or folder and return whether that succeeded; the lock ends when the descriptor is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def lock_folder(folder: Path, on_wait: Callable[[], object] = lambda: None) -> Iterator[int]:
    """Lock a folder and yield its descriptor; `on_wait` is called if another process holds the lock."""
    with open_folder(folder) as descriptor:
        if not try_lock(descriptor):
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor


def make_data_folder(folder: Path) -> None:
    """Create the data folder, or correct the modes of an existing one; one warning lists all changes.

    The folder itself is changed only if this user owns it and it contains only Toolweave's files: a home, a project or
    /tmp stays accessible. Toolweave's own files are always changed.

    Raises:
        OSError: it cannot be created.
    """
    make_folder(folder)
    if not _HAS_MODES:
        return
    changes = _ModeChanges()
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        return
    foreign = [name for name in names if name not in _FILES | _FOLDERS | {_PROGRAMS_FOLDER}]
    if foreign and stat.S_IMODE(folder.stat().st_mode) & _OTHERS_MODE:
        changes.failed.append(f"{folder} (it also holds {_join_names(foreign[:1])}, which is not Toolweave's)")
    elif not foreign:
        _restrict_mode(folder, changes)
    for path in _own_paths(folder, names):
        _restrict_mode(path, changes)
    changes.log("The data folder", folder)


def _own_paths(folder: Path, names: Iterable[str]) -> Iterator[Path]:
    for name in names:
        path = folder / name
        if name in _FILES:
            yield path
        elif name in _FOLDERS:
            yield path
            if path.is_dir():
                yield from sorted(path.iterdir())


def _restrict_mode(path: Path, changes: _ModeChanges) -> None:
    """Remove the permissions of group and others from a file or folder of this user."""
    if not _HAS_MODES:
        return
    try:
        status = path.stat()
        mode = stat.S_IMODE(status.st_mode)
        if not mode & _OTHERS_MODE or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            return
        if status.st_uid != os.geteuid() or mode & stat.S_ISVTX:
            changes.failed.append(f"{path} ({mode:04o}, it belongs to another user or is shared by all)")
            return
        path.chmod(mode & ~_OTHERS_MODE)
        changes.changed.append(f"{path.name} ({mode:04o} → {mode & ~_OTHERS_MODE:04o})")
    except FileNotFoundError:
        return
    except OSError as error:
        changes.failed.append(f"{path} ({error.strerror})")


def _join_names(names: list[str]) -> str:
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


# Enough for thousands of streams. Child processes inherit the limit, and some of them close, or reserve memory for,
# every possible file: with the 2**30 of some containers they need minutes or gigabytes.
MAX_OPEN_FILES = 65_536
# macOS accepts at most this number, even if the hard limit is "unlimited".
MACOS_OPEN_FILES = 10_240
_MAX_CAUSES = 100


def raise_open_files_limit() -> None:
    """Raise the soft limit of open files to `ENOUGH`, or to the hard limit; child processes inherit it."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES), MACOS_OPEN_FILES):
        if soft == resource.RLIM_INFINITY or soft >= limit:
            return
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return


def open_files_advice(error: BaseException) -> str | None:
    """Return advice for an error caused by a limit of open files; None for other errors."""
    numbers = {each.errno for each in _error_chain(error) if isinstance(each, OSError)}
    if errno.EMFILE in numbers:
        return (
            f"This process may have {_soft_limit()} files and connections open at once (RLIMIT_NOFILE). Raise "
            "the limit, for example with `ulimit -n 65536` or LimitNOFILE= of a systemd service, and start the server "
            "again."
        )
    if errno.ENFILE in numbers:
        return "This machine has as many files open as it allows (fs.file-max). Raise that limit, or close programs."
    return None


def _soft_limit() -> str:
    if sys.platform == "win32":
        return "no more"
    return str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _error_chain(error: BaseException) -> Iterator[BaseException]:
    pending: list[BaseException | None] = [error]
    for _ in range(_MAX_CAUSES):
        if not pending:
            return
        each = pending.pop()
        if each is None:
            continue
        yield each
        pending += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            pending += each.exceptions
