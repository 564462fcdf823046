"""Check the data folder without changing what is in it: writable, not locked, of a schema we know (S-05)."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory

from toolweave.cli.doctor import Finding, failure
from toolweave.errors import DataFolderLocked, PersistenceError
from toolweave.runtime.persistence.opening import LOCK_FILE, data_folder_lock
from toolweave.runtime.persistence.schema import MIGRATIONS

ANOTHER = "Name another folder with --data-dir or TOOLWEAVE_DATA_DIR."


def check_data_folder(folder: Path) -> Iterator[Finding]:
    """Say whether a server could open this folder now."""
    if not folder.exists():
        yield _creatable(folder)
        return
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield Finding("fail", "data folder", f"{folder} is not a folder this user may write to.", ANOTHER)
        return
    yield _lock(folder)
    database = folder / "app.db"
    if database.exists():
        yield _schema(database)


def _creatable(folder: Path) -> Finding:
    parent = next(parent for parent in folder.absolute().parents if parent.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return Finding("ok", "data folder", f"{folder} will be made by the first server.")
    return Finding("fail", "data folder", f"{folder} cannot be made: {parent} is not writable.", ANOTHER)


def _lock(folder: Path) -> Finding:
    if not (folder / LOCK_FILE).exists():
        return Finding("ok", "data folder", f"{folder} is writable and not in use.")
    try:
        with data_folder_lock(folder):
            return Finding("ok", "data folder", f"{folder} is writable and not in use.")
    except DataFolderLocked as error:
        return Finding("warn", "data folder", str(error))
    except PersistenceError as error:
        return failure("data folder", error)


def _schema(path: Path) -> Finding:
    settings = Config()
    settings.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(settings)
    try:
        seen = _revision(path)
    except sqlite3.Error as error:
        fix = "Restore a backup, or move the file away."
        return Finding("fail", "database", f"{path} cannot be read: {error}.", fix)
    if seen == scripts.get_current_head():
        return Finding("ok", "database", f"{path} has the current schema.")
    if seen in {script.revision for script in scripts.walk_revisions()}:
        return Finding("ok", "database", f"{path} has an older schema; the next server upgrades it.")
    fix = f"Upgrade Toolweave. {ANOTHER}"
    return Finding("fail", "database", f"{path} was written by a newer Toolweave (schema {seen!r}).", fix)


def _revision(path: Path) -> str | None:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)) as connection:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(row[0]) if row else None
