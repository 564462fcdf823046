"""Hold the data folder for one process, and say who holds it."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolweave.errors import DataFolderLocked, PersistenceError
from toolweave.private_files import FILE_MODE

LOCK_FILE = "toolweave.lock"


@contextmanager
def data_folder_lock(data_dir: Path, address: str | None = None) -> Iterator[None]:
    """Lock the folder; the operating system lets go when the process ends, however it ends.

    The file stays: removing it would let a third process lock a file that nobody else sees.

    Raises:
        DataFolderLocked: another process holds it.
        PersistenceError: the lock file cannot be written.
    """
    path = data_dir / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise PersistenceError(f"{path}: {error.strerror}. Make the data folder writable for this user.") from error
    try:
        _take(descriptor, data_dir)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "address": address}).encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _take(descriptor: int, data_dir: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DataFolderLocked(
            f"The data folder {data_dir} is in use by {_holder(descriptor)}. Stop that process, or give this one "
            "another folder with --data-dir or TOOLWEAVE_DATA_DIR."
        ) from error
    except OSError as error:
        raise PersistenceError(
            f"The data folder {data_dir} cannot be locked: {error.strerror}. Put it on a local disk."
        ) from error


def _holder(descriptor: int) -> str:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        serving = f" (serving on {holder['address']})" if holder["address"] else ""
        return f"process {holder['pid']}{serving}"
    except (ValueError, KeyError, TypeError):
        return "another process"
