"""Keep a SQLite file to its owner: it may hold secrets in plain text."""

import os
import stat
from pathlib import Path

from loguru import logger

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def close_to_others(file: Path) -> None:
    """Create the file if it is absent, and let nobody but its owner read or write it.

    What SQLite keeps beside it gets the file's own mode; what an earlier process left there is closed, too.

    Raises:
        OSError: it cannot be created.
    """
    # Reading is enough here: a file that is there may be read-only.
    os.close(os.open(file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for path in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
        _close(path)


def _close(path: Path) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & _OTHERS:
            path.chmod(mode & ~_OTHERS)
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("{} stays open to other users of this machine: {}.", path, error.strerror)
