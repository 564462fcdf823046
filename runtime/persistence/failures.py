"""Say in one paragraph what is wrong with a database file and what to do about it."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from toolweave.errors import PersistenceError

FREE_SPACE = "Free space on that disk; what was not stored is reported as failed."
# Beginnings of SQLite's own messages; the first that fits is taken.
FIXES: tuple[tuple[str, str], ...] = (
    ("file is not a database", "It is damaged or another program's file. Move it away, or restore a backup."),
    ("database disk image is malformed", "It is damaged. Move it away, or restore a backup."),
    ("malformed database schema", "It is damaged. Move it away, or restore a backup."),
    ("database or disk is full", FREE_SPACE),
    ("attempt to write a readonly database", "Make the file and its folder writable for this user."),
    ("unable to open database file", "Make its folder exist and be writable for this user."),
    ("database is locked", "Another program holds it for longer than 5 s; close that program."),
    ("disk i/o error", "Check the disk and its free space."),
)


def explain(path: Path, error: Exception) -> Exception:
    """Turn a failure of the database into a PersistenceError; give any other error back as it is.

    A violated constraint stays what it is: the work that caused it understands it.
    """
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    if not isinstance(cause, sqlite3.DatabaseError) or isinstance(
        cause, sqlite3.IntegrityError | sqlite3.ProgrammingError
    ):
        return error
    reason = str(cause)
    fix = next((fix for start, fix in FIXES if reason.lower().startswith(start)), None)
    told = PersistenceError(f"{path}: {reason}. {fix or 'Check the file, its folder and the disk.'}")
    told.__cause__ = error
    return told


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise database failures inside the block as explain tells them."""
    try:
        yield
    except (sqlite3.Error, DBAPIError) as error:
        told = explain(path, error)
        if told is error:
            raise
        raise told from error
